"""What a trace costs a call: traced and untraced batches take turns in one process, on a file in a RAM tier.

    trace.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Writes OUT_DIR/trace-<time>.json and prints a table, as bench.py does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from rows import CannotMeasureError, Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
from setting import MIB, Bench

BUDGET_NS = 60
ROUNDS = 5
"""Repetitions of tb-trace-cost in one of ours: 7 times as many keep all their segments."""


def pairs(bench: Bench, call: str, size: int) -> Pairs:
    """Nanoseconds of a call traced and untraced."""
    tools = bench.build / "bin"
    command = [str(tools / "tierctl"), "run", "-c", str(bench.ram_config())]
    command += ["--trace", str(bench.root / "out.darshan"), "--"]
    command += [str(tools / "tb-trace-cost"), call, str(size), str(bench.root / "pfs")]
    command += [str(bench.repetitions * ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)  # noqa: S603
    if done.returncode != 0:
        raise CannotMeasureError(f"{' '.join(command)}: {done.stderr.strip()[-600:]}")
    lines = done.stdout.split("\n")[: bench.repetitions * ROUNDS]
    return [(float(traced), float(plain)) for traced, plain in (line.split() for line in lines)]


def ratio(call: str) -> Callable[[Bench], Pairs]:
    """Time traced over time untraced."""
    return lambda bench: pairs(bench, call, MIB)


def more_ns(call: str) -> Callable[[Bench], Pairs]:
    """Nanoseconds that an operation takes longer, over the budget."""
    return lambda bench: [(traced - plain, BUDGET_NS) for traced, plain in pairs(bench, call, 4096)]


def main() -> int:
    """Measure all of it."""
    args = parse()
    calls = ("pwrite", "pread")
    rows = [
        Row(f"{call} of 1 MiB, RAM tier, traced", "the same untraced", "at most", 1.03, ratio(call))
        for call in calls
    ]
    rows += [
        Row(f"what tracing adds to a {call} of 4 KiB", f"{BUDGET_NS} ns", "at most", 1.0, more_ns(call))
        for call in calls
    ]
    wanted = chosen(rows, args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "trace-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
