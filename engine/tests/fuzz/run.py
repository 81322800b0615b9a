"""Run the fuzz targets: run.py PROGRAMS [--seconds N] [--keep DIRECTORY] [NAME ...]

Each target, fuzz_NAME in PROGRAMS, begins with its corpus, corpus/NAME beside its source, two at a time.  Without
--keep the corpus stays as it is; with it, what is new goes to DIRECTORY/NAME.  One line a target: seconds, executions,
findings.  An input that ended the target stays beside the line, in PROGRAMS/findings.  Exit status 1: there is one; 77:
no target was built.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = [ROOT / folder for folder in ("engine/tests/fuzz", "workloads/fuzz")]
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=1024", "-max_len=16384", "-close_fd_mask=3"]


def name_of(source: Path) -> str:
    """NAME of fuzz_NAME."""
    return source.stem.removeprefix("fuzz_")


def run(source: Path, programs: Path, seconds: int, kept: Path) -> tuple[str, bool]:
    """Fuzz one target; its line, and whether it held."""
    name, findings = name_of(source), programs / "findings"
    new, corpus = kept / name, source.parent / "corpus" / name
    for directory in (new, findings):
        directory.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    command = [programs / source.stem, new, corpus, f"-max_total_time={seconds}", f"-artifact_prefix={findings}/{name}-", *LIMITS]
    log = subprocess.run([str(word) for word in command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace")
    done = re.search(r"Done (\d+) runs in", log.stderr)
    held = log.returncode == 0 and done is not None
    line = f"{name}: {time.monotonic() - start:.0f} s, {done[1] if done else 'unknown'} executions, {'no finding' if held else 'FINDING'}"
    return (line if held else line + "\n" + log.stderr[-4000:]), held


def targets(programs: Path) -> list[Path]:
    """The sources of all that can be run here."""
    sources = [source for folder in FOLDERS for source in folder.glob("fuzz_*.c")]
    return sorted((source for source in sources if (programs / source.stem).exists()), key=name_of)


def main() -> int:
    """Run the targets that were asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    programs = given.programs.resolve()
    asked = [t for t in targets(programs) if not given.names or name_of(t) in given.names]
    if not asked:
        print("fuzz: skipped: no target was built (clang with its fuzzer is needed)")
        return 77
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        kept = (given.keep or Path(scratch)).resolve()
        results = list(pool.map(lambda source: run(source, programs, given.seconds, kept), asked))
    print("\n".join(line for line, _ in results))
    return 0 if all(held for _, held in results) else 1


if __name__ == "__main__":
    sys.exit(main())
