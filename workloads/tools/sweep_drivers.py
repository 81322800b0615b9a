"""Run generated option sets with IOR and mdtest and with ours: the same files, status and columns?

usage: sweep_drivers.py [--ior IOR] [--mdtest MDTEST] [--sets 50] [--seed 1]

Each set runs with both programs in an empty folder on a tmpfs, with one to four ranks and small sizes.
Compared are the names, permissions and every byte of what is left, whether the exit status is 0, and the
report without what is measured: words and columns of text and CSV, keys and options of JSON. The sets hold
what both programs do alike; docs/testing/drivers.md lists the rest. A difference is printed with its set, and
the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60  # a run that takes longer hangs
HDF5_HEADERS = 2048  # bytes before the data: they hold times
MEASURED = {"Version", "Began", "Command line", "Machine", "StartTime", "Finished"}
MEASURED |= {"Capacity", "Used Capacity", "Inodes", "Used Inodes"}
MEASURED |= {"bwMiB", "iops", "latency", "openTime", "wrRdTime", "closeTime", "totalTime", "MeanTime"}
MEASURED |= {f"bw{kind}MIB" for kind in ("Max", "Min", "Mean", "Std")}
MEASURED |= {"StoneWallTime", "StoneWallbwMeanMIB"}
MEASURED |= {f"OPs{kind}" for kind in ("Max", "Min", "Mean", "SD")}
Draw = Callable[[float, str], str]  # an option with a probability, else nothing


def ior_set(r: random.Random, maybe: Draw) -> str:
    """Options of one IOR run."""
    api = r.choice(["POSIX", "POSIX", "POSIX", "MPIIO", "HDF5", "MMAP"])
    transfer, each = r.choice([8, 24, 512, 1000, 4096, 65536]), r.choice([1, 2, 3, 8, 16])
    words = [f"-a {api} -t {transfer} -b {transfer * each} -G 5 -k"]
    words += [r.choice(["-w", "-w -r", "-w -r -R", "-w -W"])]
    words += [maybe(0.5, "-F"), maybe(0.2, "-e"), maybe(0.2, "-g"), maybe(0.15, "-m"), maybe(0.15, "-E")]
    order = maybe(0.2, f"-C -Q {r.choice([0, 1, 2, 3])}") or maybe(0.1, f"-Z -X {r.choice([-2, -1, 0, 3])}")
    words += [order]
    words += [maybe(0.1, "-x"), maybe(0.1, "-A 3"), maybe(0.1, "-O memoryPerTask=1m")]
    words += [maybe(0.15, "-i 2")]
    words += [
        maybe(0.3, f"-l {r.choice(['o', 'i', 't'])}"),
        maybe(0.15, f"-N {r.choice([1, 2, 9])}"),
        maybe(0.1, "-T 1"),
    ]
    words += [r.choice(["", "", "", "-D 9", "" if "-w -W" in words else "-D 9 -O stoneWallingWearOut=1"])]
    words += [maybe(0.1, f"-O stoneWallingWearOutIterations={r.choice([1, 3, 99])}")]
    words += [maybe(0.2, f"-O summaryFormat={r.choice(['CSV', 'JSON'])},summaryFile=../report")]
    if api != "HDF5":
        words += [maybe(0.3, f"-s {r.choice([2, 3, 5])}")]
    if api == "POSIX":
        words += [maybe(0.2, "-u"), maybe(0.1, "-Y"), maybe(0.1, "--posix.rangelocks")]
    if api == "POSIX" and each > 1 and not order:
        words += [maybe(0.4, f"-z --random-offset-seed={r.choice([0, 1, 5])}")]
    if api == "MPIIO":
        words += [maybe(0.4, "--mpiio.useFileView"), maybe(0.4, "-c"), maybe(0.2, "--mpiio.preallocate")]
    if api == "HDF5":
        words += [maybe(0.4, "-c"), maybe(0.3, "--hdf5.setAlignment=4k"), maybe(0.3, "--hdf5.noFill")]
    several = "" if "-u" in words else maybe(0.15, "@./other")
    return " ".join([*words, f"-o ./file{several}", maybe(0.2, f"-f {script(r)}")])


def script(r: random.Random) -> str:
    """A script of IOR in one word: settings of the run, RUN, its end in all of its ways."""
    lines = ["IOR START"]
    for _ in range(r.randint(0, 4)):
        settings = [
            "segmentCount=2",
            "-s=3",
            " fsync = 1",
            "filePerProc=1 # all",
            "setTimeStampSignature=6",
            "--posix.rangelocks=1",
        ]
        lines += [r.choice([*settings, "segmentCount=2,fsync=1", "RUN", "run", "", "# RUN"])]
    return "|".join([*lines, *r.choice([[], ["RUN"], ["IOR STOP"], ["RUN", "IOR STOP", ""]])]).replace(
        " ", "~"
    )


def mdtest_set(r: random.Random, maybe: Draw) -> str:
    """Options of one mdtest run; most leave their files."""
    size = r.choice([1, 8, 9, 100, 4096])
    words = ["-G 7 -d ./tree", maybe(0.7, "-C"), maybe(0.4, "-F") or maybe(0.2, "-D")]
    words += [r.choice([f"-n {r.choice([1, 2, 5, 12, 30])}", f"-I {r.choice([1, 2, 5])}"])]
    words += [maybe(0.4, f"-z {r.choice([1, 2, 3])} -b {r.choice([1, 2, 3])}"), maybe(0.3, "-L")]
    words += [maybe(0.2, "-P")]
    words += [maybe(0.4, f"-w {size} -e {size}"), maybe(0.1, "-y"), maybe(0.2, "-i 2"), maybe(0.1, "-Z")]
    words += [maybe(0.1, "-a posix")]
    if {"-C", "-F"} & set(words):  # else mdtest has rates of a directory read, which does nothing
        words += [maybe(0.1, "--saveRankPerformanceDetails=../report")]
        words += [maybe(0.1, "--print-all-procs" if "-F" in words else "")]
    words += [maybe(0.3, f"--dataPacketType={r.choice(['t', 'o', 'i'])}"), maybe(0.1, "--posix.rangelocks")]
    # Of a shared file the bytes of the rank that wrote last are left, and there are no shared directories.
    shared = maybe(0.1, "-S -F") if not {"-D", f"-w {size} -e {size}"} & set(words) else ""
    words += [maybe(0.3, "-u") or maybe(0.1, "-c") or shared]
    return " ".join(words)


def contents(folder: Path) -> dict[str, str]:
    """Name of each file and directory, with its permissions and the digest of its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        data = data[HDF5_HEADERS:] if data.startswith(b"\x89HDF") else data
        digest = hashlib.sha256(data).hexdigest()[:12]
        found[str(path.relative_to(folder))] = f"{path.stat().st_mode:o} {digest}"
    return found


def outline(report: str) -> Any:
    """What two reports of the same options have in common."""
    if report.startswith("{"):
        return json.loads(report, object_pairs_hook=without_measured)
    text = re.sub(r"(?m)^(WARNING|random seed|-- |IOR-|tb-|mdtest-|Command line used).*\n", "", report)
    text = re.sub(r"(?m)^(Began|Command line|Machine|StartTime|FS|Finished) +:.*\n", "", text)
    rows = [re.sub(r"(?<=[\s,])\d+\.\d+(e[+-]\d+|s)?", "#", line).split() for line in text.splitlines()]
    return [[w for w in row if w not in ("#", "-") and not re.fullmatch(r"\d{4,}", w)] for row in rows if row]


def without_measured(members: list[tuple[str, Any]]) -> Any:
    """The members of a JSON object in their order."""
    return [(name, "#" if name in MEASURED else value) for name, value in members]


def run(program: str, options: str, ranks: int, folder: Path) -> tuple[bool, dict[str, str], Any]:
    """Whether it succeeded, what it left, and its report."""
    shutil.rmtree(folder, ignore_errors=True)
    report = folder.parent / "report"  # IOR's warnings are on standard output
    report.unlink(missing_ok=True)
    folder.mkdir()
    words = options.split()
    for at, word in enumerate(words):
        if word.startswith("IOR~"):
            (folder.parent / "script").write_text(word.replace("~", " ").replace("|", "\n"))
            words[at] = "../script"
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = os.environ | allowed | {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    start = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(  # noqa: S603
        [*start, program, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    good = done.returncode == 0
    text = report.read_text() if report.exists() else done.stdout
    return good, contents(folder), outline(text) if good else None


def parts_apart(theirs: Any, ours: Any) -> list[tuple[Any, Any]]:
    """Where two reports differ, row by row."""
    if not (isinstance(theirs, list) and isinstance(ours, list)):
        return [(theirs, ours)]
    return [pair for pair in zip_longest(theirs, ours) if pair[0] != pair[1]]


def main() -> int:
    """Run the sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ior", help="the real IOR; without it its sets are left out")
    parser.add_argument("--mdtest", help="the real mdtest; without it its sets are left out")
    parser.add_argument("--sets", type=int, default=50, help="of each")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    r = random.Random(args.seed)  # noqa: S311

    def maybe(chance: float, option: str) -> str:
        return option if r.random() < chance else ""

    programs = [(args.ior, "tb-ior", ior_set), (args.mdtest, "tb-mdtest", mdtest_set)]
    differences = count = 0
    with tempfile.TemporaryDirectory(prefix="tb-sweep-", dir="/dev/shm") as folder:
        for real, ours, draw in programs:
            for _ in range(args.sets if real else 0):
                options, ranks = draw(r, maybe), r.randint(1, 4)
                theirs = run(real, options, ranks, Path(folder) / "run")
                found = run(str(ROOT / "build/bin" / ours), options, ranks, Path(folder) / "run")
                count += 1
                for what, a, b in zip(("success", "files", "report"), theirs, found, strict=True):
                    if a != b:
                        differences += 1
                        print(f"{ours}, {ranks} ranks, {options}: {what}")
                        for one, other in parts_apart(a, b):
                            print(f"  {one!s:.1000}\n  {other!s:.1000}", flush=True)
                print(f"{count}: {ours} {options}", file=sys.stderr, flush=True)
    print(f"{count} sets, {differences} differences")
    return 1 if differences or not count else 0


if __name__ == "__main__":
    sys.exit(main())
