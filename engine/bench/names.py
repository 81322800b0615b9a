"""What names cost in scratch mode: tb-mdtest and tb-metadata there over the same without it, in turn.

    names.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

On memory, where a name costs least and every system call counts most, and on the disk of the build folder.
Prints as bench.py does, writes OUT_DIR/names-<time>.json.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from rows import CannotMeasureError, Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
from setting import Bench

FILES = 5000
"""Files and directories of each run."""
BUDGET = 0.8
"""Of the shadow's own rate."""
METRICS = [f"{kind} {what}" for kind in ("File", "Directory") for what in ("creation", "stat", "removal")]
METRICS += ["File read", "Directory rename"]
UNBOUND = ("Directory rename",)
"""Measured without a budget: a rename looks first at what it moves, which may have bytes in tiers."""
OPENS = 20000
"""Of tb-metadata, each with a write of four bytes and a close."""
OPENS_BUDGET = 1.0


def rates(command: list[str], where: Path) -> dict[str, float]:
    """Operations a second of one run in a fresh folder below `where`, by tb-mdtest's words."""
    command = [*command, "-u", "-n", str(FILES), "-d", str(where / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
    found = {m: re.search(rf"^ *{m} +([0-9.]+)", done.stdout, re.MULTILINE) for m in METRICS}
    if done.returncode or not all(found.values()):
        raise CannotMeasureError(f"{command}: {done.stderr[-600:]}")
    return {m: float(match[1]) for m, match in found.items() if match}


def opens(command: list[str], where: Path) -> float:
    """Opens a second of one run of tb-metadata in `where`."""
    command = [*command, str(OPENS)]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
    found = re.search(r"Duration: +([0-9.]+)", done.stdout)
    if done.returncode or not found or not float(found[1]):
        raise CannotMeasureError(f"{command}: {done.stdout[-200:]} {done.stderr[-600:]}")
    return OPENS / float(found[1])


def in_scratch(build: Path, root: Path) -> list[str]:
    """The start of a command that runs a program in scratch mode with the shadow in `root`."""
    for folder in ("pfs", "tier", "bare"):
        (root / folder).mkdir(exist_ok=True)
    tier, slab = root / "tier", "slabs: [{units: 1, share: 1.0}]"
    config = root / "names.yaml"
    config.write_text(
        f"version: 1\nmode: scratch\npfs: {{path: {root / 'pfs'}}}\ntiers:\n"
        f"  - {{name: ram, medium: memory, capacity: 256MiB, block: 4KiB, {slab}}}\n"
        f"  - {{name: tier, medium: directory, path: {tier}, capacity: 64MiB, block: 64KiB, {slab}}}\n"
    )
    return [str(build / "bin/tierctl"), "run", "-c", str(config), "--"]


@cache
def all_pairs(build: Path, root: Path, repetitions: int) -> dict[str, Pairs]:
    """Rates of scratch mode with the shadow in `root`, and of `root` itself, run in turn."""
    mdtest = str(build / "bin/tb-mdtest")
    scratch = [*in_scratch(build, root), mdtest]
    pairs: dict[str, Pairs] = {m: [] for m in METRICS}
    for _ in range(repetitions):
        ours, theirs = rates(scratch, root / "pfs"), rates([mdtest], root / "bare")
        for m in METRICS:
            pairs[m].append((ours[m], theirs[m]))
    return pairs


def row(metric: str, where: str) -> Row:
    """One metric, with the shadow on memory or on disk."""

    def measure(bench: Bench) -> Pairs:
        root = bench.root if where == "memory" else bench.disk
        return all_pairs(bench.build, root, bench.repetitions)[metric]

    path = f"{metric} by tb-mdtest in scratch mode"
    budget = None if metric in UNBOUND else BUDGET
    return Row(path, f"the same on the shadow's file system, {where}", "at least", budget, measure)


def open_row(where: str) -> Row:
    """An open, a small write and a close, a million times in Summit's tutorial."""

    def measure(bench: Bench) -> Pairs:
        root = bench.root if where == "memory" else bench.disk
        metadata = str(bench.build / "bin/tb-metadata")
        scratch = [*in_scratch(bench.build, root), metadata]
        return [
            (opens(scratch, root / "pfs"), opens([metadata], root / "bare")) for _ in range(bench.repetitions)
        ]

    path = "open, write of 4 bytes, close by tb-metadata in scratch mode"
    return Row(path, f"the same on the shadow's file system, {where}", "at least", OPENS_BUDGET, measure)


def main() -> int:
    """Measure all of it."""
    args = parse()
    rows = [
        made for where in ("disk", "memory") for made in [*(row(m, where) for m in METRICS), open_row(where)]
    ]
    wanted = chosen(rows, args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "names-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
