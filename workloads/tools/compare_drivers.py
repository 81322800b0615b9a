"""Run tb-ior and tb-mdtest against IOR and mdtest and say where they differ.

usage: compare_drivers.py --ior IOR --mdtest MDTEST [--repetitions 5] [--only WORD] --out TABLE.md

Every option set runs on a tmpfs and on a modelled PFS (the same device model slows both programs). Runs of
the two programs alternate, and the one that goes first alternates too. Per option set must hold: the ratio
of the medians is within 3 %, or 1 is in its bootstrap interval; the bytes moved are equal; the files are
equal byte for byte (of HDF5 the data; its headers hold times). A difference is an exit status of 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tierbench.judge.stats import Interval, ratio
from tierbench.outputs import read_ior, read_mdtest

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 0.03
LIMIT_S = 300  # a run that takes longer hangs
HDF5_HEADERS = 2048  # bytes before the data

# Numbers in braces are scaled to the place, so that a run lasts long enough to measure and not longer.
IOR_SETS = [
    "-w -r -F -t 1m -b {64}m",
    "-w -r -t 1m -b {64}m",
    "-w -r -F -e -t 4m -b {64}m",
    "-w -F -e -Y -t 1m -b {8}m",
    "-w -r -e -C -F -t 1m -b {64}m",
    "-w -r -e -g -C -F -t 64k -b 64k -s {200}",
    "-w -r -t 64k -b 64k -s {200}",
    "-w -r -z -F -t 4k -b {2}m --random-offset-seed=3",
    "-w -r -z -t 4k -b {2}m --random-offset-seed=3",
    "-w -r -Z -X 7 -F -t 1m -b {32}m",
    "-w -r -W -R -F -t 256k -b {16}m",
    "-w -r -R -l o -t 256k -b {16}m",
    "-w -r -a MPIIO -t 1m -b {32}m",
    "-w -r -a MPIIO -c -t 1m -b {32}m",
    "-w -r -a MPIIO -c -t 64k -b 64k -s {200} --mpiio.useFileView",
    "-w -r -a MPIIO -F -t 1m -b {32}m",
    "-w -r -a HDF5 -t 1m -b {32}m",
    "-w -r -a HDF5 -c -t 1m -b {32}m",
    "-w -r -a MMAP -F -t 1m -b {16}m",
    "-w -r -F -m -u -i 3 -t 1m -b {16}m",
]
MDTEST_SETS = [
    "-n {100}",
    "-n {100} -F -w 3901 -e 3901",
    "-n {100} -u -F",
    "-n {100} -D -u",
    "-n {100} -F -N 1 -w 8 -e 8",
    "-I {10} -z 2 -b 3 -u",
    "-n {96} -F -z 2 -b 2 -L",
    "-n {100} -F -S",
    "-n {50} -c -F -w 100",
    "-n {50} -i 3 -P -y -F -w 1k -e 1k",
]
# Slow enough that the processors idle: what else the machine does then matters little.
MODEL = """name: compare-drivers
source: made up for this comparison, not a measured device
write_bandwidth: 100MiB/s
read_bandwidth: 120MiB/s
sync_time: 5ms
open_time: 2ms
metadata_time: 1ms
channels: 1
"""
CONFIG = """version: 1
pfs: {{path: {pfs}, model: {model}}}
mode: bypass
fsync: pfs
tiers:
  - {{name: ram, medium: memory, capacity: 64MiB, block: 4KiB, slabs: [{{units: 1, share: 1.0}}]}}
"""


@dataclass
class Run:
    """What one run of one program gave: a value per metric (bandwidth or rate), bytes per access, digests."""

    values: dict[str, float]
    moved: dict[str, float | None]
    digests: dict[str, str]


@dataclass
class Row:
    """One option set on one file system."""

    place: str
    program: str
    options: str
    ratios: dict[str, Interval] = field(default_factory=dict)
    moved_equal: bool = True
    files_equal: bool = True

    def good(self, metric: str) -> bool:
        """Within the tolerance, or the interval holds 1."""
        r = self.ratios[metric]
        return abs(r.value - 1) <= TOLERANCE or r.low <= 1 <= r.high

    @property
    def verdict(self) -> str:
        """Empty where nothing differs."""
        bad = [m for m in self.ratios if not self.good(m)]
        bad += [] if self.moved_equal else ["bytes moved"]
        bad += [] if self.files_equal else ["files"]
        return ", ".join(bad)


def scaled(options: str, factor: float) -> str:
    """The option set with its numbers in braces multiplied, at least 1."""
    parts = options.replace("}", "{").split("{")
    return "".join(p if i % 2 == 0 else str(max(1, round(int(p) * factor))) for i, p in enumerate(parts))


def digests(folder: Path, hdf5: bool) -> dict[str, str]:
    """Digest of each file that a run left."""
    skip = HDF5_HEADERS if hdf5 else 0
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()[skip:]).hexdigest() for p in files}


class Bench:
    """A folder on a tmpfs, in which every run finds an empty place."""

    def __init__(self, folder: Path, modelled: bool, ranks: int) -> None:
        self.folder, self.ranks = folder, ranks
        self.place = "modelled PFS" if modelled else "tmpfs"
        self.data = folder / "pfs"
        self.start: list[str] = []
        if modelled:
            config = folder / "pfs.yaml"
            model = folder / "model.yaml"
            model.write_text(MODEL)
            config.write_text(CONFIG.format(pfs=self.data, model=model))
            self.start = [str(ROOT / "build/bin/tierctl"), "run", "-c", str(config), "--"]

    def call(self, program: str, options: list[str], clean: bool = True) -> str:
        """Run a program on the ranks; its standard output."""
        if clean:
            shutil.rmtree(self.data, ignore_errors=True)
            self.data.mkdir()
        command = [*self.start, "mpirun", "-n", str(self.ranks), program, *options]
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment = os.environ | allowed | {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
        done = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=environment,
            check=False,
            cwd=self.folder,
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def ior(self, program: str, options: str, first: bool) -> Run:
        """One run of an IOR, its files kept for comparison."""
        del first  # they cost nothing
        report = self.folder / "report.json"
        words = [*options.split(), "-k", "-G", "7", "-o", str(self.data / "file")]
        self.call(program, [*words, "-O", f"summaryFormat=JSON,summaryFile={report}"])
        output = read_ior(report)
        values = {s.operation: s.mean_mib_s for s in output.summaries}
        moved = {s.operation: s.moved_mib for s in output.summaries}
        return Run(values, moved, digests(self.data, "HDF5" in options))

    def mdtest(self, program: str, options: str, first: bool) -> Run:
        """One run of an mdtest and, the first time, another that only creates, for the files."""
        words = [*options.split(), "-G", "7", "-d", str(self.data)]
        text = self.call(program, words)
        report = self.folder / "report.txt"
        report.write_text(text)
        values = {r.operation: r.mean for r in read_mdtest(report).rows if r.unit == "ops/s" and r.mean}
        values = {name: value for name, value in values.items() if not name.startswith("Tree")}
        if first:
            self.call(program, [*words, "-C"])
        return Run(values, {}, digests(self.data, False) if first else {})


def compare(bench: Bench, kind: str, programs: tuple[str, str], options: str, repetitions: int) -> Row:
    """Alternate the real program (first of `programs`) and ours."""
    run = bench.ior if kind == "ior" else bench.mdtest
    runs: tuple[list[Run], list[Run]] = ([], [])
    for i in range(repetitions):
        for which in (0, 1) if i % 2 else (1, 0):
            runs[which].append(run(programs[which], options, i == 0))
    theirs, ours = runs
    row = Row(bench.place, kind, options)
    for metric in theirs[0].values:
        row.ratios[metric] = ratio([r.values[metric] for r in ours], [r.values[metric] for r in theirs])
    row.moved_equal = all(o.moved == t.moved for o, t in zip(ours, theirs, strict=True))
    row.files_equal = all(o.digests == t.digests for o, t in zip(ours, theirs, strict=True))
    row.files_equal &= bool(theirs[0].digests) or "-D" in options
    return row


def ratios_of(row: Row) -> str:
    """The ratios in words short enough for a table."""
    short = {m: m.replace("Directory", "Dir").replace("creation", "create") for m in row.ratios}
    return ", ".join(f"{short[m]} {r.value:.3f} ({r.low:.2f}-{r.high:.2f})" for m, r in row.ratios.items())


def table(rows: list[Row], repetitions: int, ranks: int) -> Iterator[str]:
    """The rows as Markdown."""
    yield f"Ratios of the medians, ours by theirs, of {repetitions} interleaved runs with {ranks} ranks and"
    yield "their bootstrap intervals (95 % from 5 runs on). `same`: bytes moved and files are equal, each"
    yield "ratio is within 3 % or its interval holds 1."
    yield ""
    yield "| on | program | options | ratios | verdict |"
    yield "|---|---|---|---|---|"
    for row in rows:
        verdict = row.verdict or "same"
        yield f"| {row.place} | {row.program} | `{row.options}` | {ratios_of(row)} | {verdict} |"


def main() -> int:
    """Compare and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ior", help="the real IOR; without it its sets are left out")
    parser.add_argument("--mdtest", help="the real mdtest; without it its sets are left out")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--place", choices=["tmpfs", "pfs"], help="only there")
    parser.add_argument("--only", default="", help="only option sets that contain this")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    work = [(("ior", s), (args.ior, str(ROOT / "build/bin/tb-ior"))) for s in IOR_SETS if args.ior]
    work += [
        (("mdtest", s), (args.mdtest, str(ROOT / "build/bin/tb-mdtest"))) for s in MDTEST_SETS if args.mdtest
    ]
    if not work:
        sys.exit("compare-drivers: neither IOR nor mdtest is given (make compare-drivers IOR=... MDTEST=...)")
    work = [w for w in work if args.only in w[0][1]]
    places = [modelled for modelled in (False, True) if args.place != ("tmpfs" if modelled else "pfs")]
    rows: list[Row] = []
    begin = time.monotonic()
    for modelled in places:
        with tempfile.TemporaryDirectory(prefix="tb-compare-", dir="/dev/shm") as folder:
            bench = Bench(Path(folder), modelled, args.ranks)
            for (kind, options), programs in work:
                factor = {"ior": (1, 0.25), "mdtest": (100, 0.5)}[kind][modelled]
                line = scaled(options, factor)
                so_far = f"{time.monotonic() - begin:.0f} s, {len(rows) + 1} of {len(work) * len(places)}"
                print(f"{so_far}: {kind} {line} on {bench.place}", file=sys.stderr, flush=True)
                rows.append(compare(bench, kind, programs, line, args.repetitions))
                print(list(table(rows[-1:], args.repetitions, args.ranks))[-1], flush=True)
    args.out.write_text("\n".join(table(rows, args.repetitions, args.ranks)) + "\n")
    return 1 if any(row.verdict for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
