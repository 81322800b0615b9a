"""Run the fuzz targets: run.py PROGRAMS [--seconds N] [--keep DIRECTORY] [NAME ...]

A target is a program fuzz_NAME in PROGRAMS, or fuzz_NAME.py in one of the folders FOLDERS, for which the packages of
ci/setup/requirements-fuzz.txt are in PROGRAMS/../python.  Each begins with its corpus, corpus/NAME beside its source, two at a
time.  Without --keep the corpus stays as it is; with it, what is new goes to DIRECTORY/NAME.  One line a target:
seconds, executions, edges, findings.  An input that ended the target stays beside the line, in PROGRAMS/findings.  A
target that reached fewer than LEAST_EDGES edges fails too: a reader that refuses every input at its door reaches 10 to
20 of them, and has been tested by none.  Exit status 1: a target failed; 77: no target is there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = [ROOT / folder for folder in ("engine/tests/fuzz", "workloads/fuzz", "analysis/tests/fuzz")]
LIMITS = ["-timeout=30", "-rss_limit_mb=2048", "-malloc_limit_mb=1024", "-max_len=16384", "-close_fd_mask=3"]
LEAST_EDGES = 40


def name_of(source: Path) -> str:
    """NAME of fuzz_NAME."""
    return source.stem.removeprefix("fuzz_")


def sweep(pid: int) -> None:
    """What a target that ended at a finding left in /dev/shm."""
    for left in Path("/dev/shm").glob("*fuzz-*"):
        if re.search(rf"-{pid}(\.|$)", left.name):
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def verdict(status: int, said: str) -> tuple[str, bool]:
    """Executions, edges and what to think of them, and whether the target held, by the last words of the fuzzer."""
    done, edges = re.search(r"Done (\d+) runs in", said), re.findall(r"\bcov: (\d+)", said)
    reached = int(edges[-1]) if edges else 0
    if status or not done:
        think = "FINDING"
    elif reached < LEAST_EDGES:
        think = f"REACHES TOO LITTLE (at least {LEAST_EDGES} edges)"
    else:
        think = "no finding"
    return f"{done[1] if done else 'unknown'} executions, {reached} edges, {think}", think == "no finding"


def run(source: Path, programs: Path, seconds: int, kept: Path) -> tuple[str, bool]:
    """Fuzz one target; its line, and whether it held."""
    name, findings = name_of(source), programs / "findings"
    new, corpus = kept / name, source.parent / "corpus" / name
    for directory in (new, findings):
        directory.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    program = [sys.executable, source] if source.suffix == ".py" else [programs / source.stem]
    command = [
        *program,
        new,
        corpus,
        f"-max_total_time={seconds}",
        f"-artifact_prefix={findings}/{name}-",
        *LIMITS,
    ]
    target = subprocess.Popen(
        [str(word) for word in command],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": str(programs.parent / "python")},
    )
    _, said = target.communicate()
    sweep(target.pid)
    words, held = verdict(target.returncode, said)
    line = f"{name}: {time.monotonic() - start:.0f} s, {words}"
    return (line if held else line + "\n" + said[-4000:]), held


def is_there(source: Path, programs: Path) -> bool:
    """It was built, or what it needs is installed."""
    return (programs.parent / "python" if source.suffix == ".py" else programs / source.stem).exists()


def main() -> int:
    """Run the targets that were asked for, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", type=Path)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    programs = given.programs.resolve()
    sources = sorted(
        (s for folder in FOLDERS for s in folder.glob("fuzz_*.*") if s.suffix in (".c", ".py")), key=name_of
    )
    asked = [s for s in sources if not given.names or name_of(s) in given.names]
    there = [s for s in asked if is_there(s, programs)]
    for source in asked:
        if source not in there:
            print(
                f"{name_of(source)}: skipped: needs {'ci/setup/requirements-fuzz.txt' if source.suffix == '.py' else 'clang with its fuzzer'}"
            )
    if not there:
        return 77
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        kept = (given.keep or Path(scratch)).resolve()
        results = list(pool.map(lambda source: run(source, programs, given.seconds, kept), there))
    print("\n".join(line for line, _ in results))
    return 0 if all(held for _, held in results) else 1


if __name__ == "__main__":
    sys.exit(main())
