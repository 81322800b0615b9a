"""What the organizer buys, measured on modelled tiers: re-reads, and I/O between computations.

    organizer.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

A working set that only a slow PFS has is read again and again: each pass's rate over that of a RAM tier.
Phases of I/O alternate with phases of computing: the I/O time a program sees over that of the same program
on a RAM tier that holds everything.  Prints as bench.py does, writes OUT_DIR/organizer-<time>.json.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from rows import Pairs, Row
from server import serving
from session import chosen, finish, measuring, parse, provenance, run
from setting import MIB, Bench

RATES = {"ram": 400, "nvme": 200, "pfs": 50}
"""MiB/s of the modelled places."""
SET_MIB = 32
"""Of the working set, and of a phase's file; the top tier holds a little more."""
RAM_MIB = 48
PHASES = 6
MARGIN = 1.25
"""A computation lasts as much longer than what it hides."""


def config(bench: Bench, name: str, *lines: str, ram_mib: int = RAM_MIB) -> Path:
    """Write a configuration of three modelled places with more lines; returns its path."""
    path = bench.root / f"{name}.yaml"
    device = {place: bench.device(place, rate) for place, rate in RATES.items()}
    for folder in ("pfs", "nvme"):
        (bench.root / folder).mkdir(exist_ok=True)
    slabs = "block: 64KiB, slabs: [{units: 1, share: 1.0}]"
    nvme = f"path: {bench.root / 'nvme'}, capacity: 512MiB, {slabs}, model: {device['nvme']}"
    extra = "".join(f"{line}\n" for line in lines).replace("PFS", str(bench.root / "pfs"))
    path.write_text(
        "version: 1\nmax_files: 1024\nfsync: pfs\n"
        f"pfs: {{path: {bench.root / 'pfs'}, model: {device['pfs']}}}\n{extra}tiers:\n"
        f"  - {{name: ram, medium: memory, capacity: {ram_mib}MiB, {slabs}, model: {device['ram']}}}\n"
        f"  - {{name: nvme, medium: directory, {nvme}}}\n"
    )
    return path


def clear(bench: Bench) -> None:
    """Remove what the last run left on the PFS."""
    for path in (bench.root / "pfs").glob("tb-bench.*"):
        path.unlink()


def reread(passes: int, first: int, *lines: str) -> Callable[[Bench], Pairs]:
    """Rate of each pass from `first` on over one in turn on RAM alone; a fresh instance each repetition."""

    def measure(bench: Bench) -> Pairs:
        pairs: Pairs = []
        for _ in range(bench.repetitions):
            where, pfs = config(bench, "reread", "flush: {policy: manual}", *lines), bench.root / "pfs"
            alone = config(bench, "alone", "flush: {policy: manual}")
            (pfs / "tb-bench.reread.0").write_bytes(bytes(SET_MIB * MIB))
            with (
                serving(bench.tiered(where, "reread", pfs, "-s", str(SET_MIB))) as ours,
                serving(bench.tiered(alone, "read-1m", pfs, "-s", str(SET_MIB))) as yardstick,
            ):
                rates = [(SET_MIB / ours.repeat(), SET_MIB / yardstick.repeat()) for _ in range(passes)]
            clear(bench)
            print("         passes, MiB/s:", *(f"{rate:.0f}" for rate, _ in rates), flush=True)
            pairs += rates[first - 1 :]
        return pairs

    return measure


def phases(bench: Bench, where: Path, compute_s: float) -> float:
    """Seconds of I/O that the program sees in all phases."""
    with serving(bench.tiered(where, "phase", bench.root / "pfs", "-s", str(SET_MIB))) as server:
        seen = 0.0
        for _ in range(PHASES):
            seen += server.repeat()
            time.sleep(compute_s)
    clear(bench)
    return seen


def alternating(through: str, *lines: str) -> Callable[[Bench], Pairs]:
    """Time of I/O that is seen over that on RAM alone, where computing is long enough to drain a phase."""
    compute_s = SET_MIB * (1 / RATES["ram"] + 1 / RATES[through]) * MARGIN

    def measure(bench: Bench) -> Pairs:
        pairs = []
        for _ in range(bench.repetitions):
            ours = phases(bench, config(bench, "tiers", *lines), compute_s)
            alone = config(bench, "alone", "flush: {policy: manual}", ram_mib=SET_MIB * PHASES + 32)
            pairs.append((ours, phases(bench, alone, 0)))
        return pairs

    return measure


def rows() -> list[Row]:
    """List what is measured."""
    top, alone = "the same on a RAM tier alone", "the same on a RAM tier that holds all"
    keep, calm = "hints: [{prefix: PFS, hint: keep}]", "organizer: {prefetch: 0B}"
    hidden = "flush: {policy: on-close, background: true}"
    moved = ("flush: {policy: manual}", "organizer: {high: 0.3, low: 0.0}")
    return [
        Row("re-read 4 times, from the third pass on", top, "at least", 0.9, reread(4, 3)),
        Row("re-read 4 times without prefetch, from the third on", top, "at least", 0.9, reread(4, 3, calm)),
        Row("re-read 16 times, from the third pass on", top, "at least", 0.9, reread(16, 3)),
        Row("re-read 4 times with keep, from the second on", top, "at least", 0.9, reread(4, 2, keep, calm)),
        Row("I/O between computations, flushes hidden", alone, "at most", 1.1, alternating("pfs", hidden)),
        Row("I/O between computations, moves hidden", alone, "at most", 1.1, alternating("nvme", *moved)),
    ]


def main() -> int:
    """Measure all of it."""
    args = parse()
    wanted = chosen(rows(), args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "organizer-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
