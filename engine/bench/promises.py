"""What an fsync costs where tiers keep the promise, beside the tier's own file system.

    promises.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Writes of 4 KiB at random places of 4 MiB, each with an fsync, with `fsync: tier`: by one process, and by
eight at once; their fsyncs share syncs.  The directory tier and the yardstick are on the disk of the build
folder.
Prints as bench.py does, writes OUT_DIR/promises-<time>.json.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from budget import in_turn
from rows import Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
from setting import Bench

CASE = "pwrite-4k-fsync"
PART_MIB = "4"
TOGETHER = 8
BUDGET = 0.9
SMALL, BOTH = "[{units: 1, share: 1.0}]", "[{units: 1, share: 0.5}, {units: 256, share: 0.5}]"
LARGE = "[{units: 256, share: 1.0}]"
HIERARCHIES = {"4 KiB over 4 KiB": (SMALL, SMALL), "4 KiB and 1 MiB over 1 MiB": (BOTH, LARGE)}
"""Buffers in memory, over those of the directory tier."""


def config(bench: Bench, slabs: tuple[str, str]) -> Path:
    """Write the configuration of memory over a directory tier that keeps what an fsync promised."""
    path, memory, below = bench.root / "promises.yaml", *slabs
    pfs, tier = bench.disk / "pfs", bench.disk / "tier"
    for folder in (pfs, tier):
        folder.mkdir(exist_ok=True)
    path.write_text(
        f"version: 1\nmax_files: 64\npfs: {{path: {pfs}}}\nfsync: tier\n"
        "flush: {policy: manual, threads: 2}\ntiers:\n"
        f"  - {{name: ram, medium: memory, capacity: 256MiB, slabs: {memory}}}\n"
        f"  - {{name: nvme, medium: directory, path: {tier}, capacity: 512MiB, slabs: {below}}}\n"
    )
    return path


def ours(bench: Bench, slabs: tuple[str, str], processes: int) -> list[str]:
    """Through an instance of its own."""
    options = ("-s", PART_MIB, "-n", str(processes))
    return bench.tiered(config(bench, slabs), CASE, bench.disk / "pfs" / str(processes), *options)


def against_file_system(slabs: tuple[str, str], processes: int) -> Callable[[Bench], Pairs]:
    """Rates of write and fsync, and of the same on the file system that the tier is on."""

    def measure(bench: Bench) -> Pairs:
        plain = bench.plain(CASE, bench.disk / "plain", "-s", PART_MIB, "-n", str(processes))
        return [(1 / a, 1 / b) for a, b in in_turn(bench, ours(bench, slabs, processes), plain)]

    return measure


def group_commit(slabs: tuple[str, str]) -> Callable[[Bench], Pairs]:
    """Rates of all processes together, and of one alone."""

    def measure(bench: Bench) -> Pairs:
        seconds = in_turn(bench, ours(bench, slabs, TOGETHER), ours(bench, slabs, 1))
        return [(TOGETHER / a, 1 / b) for a, b in seconds]

    return measure


def promise_rows() -> list[Row]:
    """All rows."""
    rows = []
    for sizes, slabs in HIERARCHIES.items():
        path = f"4 KiB write + fsync, fsync: tier, {sizes}"
        for processes, who in ((1, "one process"), (TOGETHER, f"{TOGETHER} processes")):
            measure = against_file_system(slabs, processes)
            rows.append(
                Row(f"{path}, {who}", "the same on the tier's file system", "at least", BUDGET, measure)
            )
        group = f"{path}, {TOGETHER} processes together"
        rows.append(Row(group, "one process", "at least", None, group_commit(slabs)))
    return rows


def main() -> int:
    """Measure all of it."""
    args = parse()
    wanted = chosen(promise_rows(), args)
    with measuring(args) as bench:
        about = provenance(bench) | {"load_before": os.getloadavg()[0]}
        run(bench, wanted)
    return finish(args, "promises-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
