"""What a trace costs a call: batches of calls by several ways take turns in a process, on a RAM tier's file.

    trace.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Writes OUT_DIR/trace-<time>.json and prints a table, as bench.py does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from enum import IntEnum

from rows import CannotMeasureError, Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
from setting import MIB, Bench

BUDGET_NS = 60
ROUNDS = 5
"""Repetitions of tb-trace-cost in one of ours: 7 times as many keep all their segments."""


class Way(IntEnum):
    """Columns of tb-trace-cost: nanoseconds of a call, each measured by turns with the others."""

    TRACED = 0
    PLAIN = 1
    TIMED = 2
    """Untraced between two looks at the clock: the least that a trace with times can take."""


def pairs(bench: Bench, call: str, size: int, way: Way) -> Pairs:
    """Nanoseconds of a call in this way and untraced."""
    tools = bench.build / "bin"
    command = [str(tools / "tierctl"), "run", "-c", str(bench.ram_config())]
    command += ["--trace", str(bench.root / "out.darshan"), "--"]
    command += [str(tools / "tb-trace-cost"), call, str(size), str(bench.root / "pfs")]
    command += [str(bench.repetitions * ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)  # noqa: S603
    if done.returncode != 0:
        raise CannotMeasureError(f"{' '.join(command)}: {done.stderr.strip()[-600:]}")
    lines = done.stdout.split("\n")[: bench.repetitions * ROUNDS]
    columns = [line.split() for line in lines]
    return [(float(took[way]), float(took[Way.PLAIN])) for took in columns]


def ratio(call: str) -> Callable[[Bench], Pairs]:
    """Time traced over time untraced."""
    return lambda bench: pairs(bench, call, MIB, Way.TRACED)


def more_ns(call: str, way: Way) -> Callable[[Bench], Pairs]:
    """Nanoseconds that an operation takes longer, over the budget."""
    return lambda bench: [(took - plain, BUDGET_NS) for took, plain in pairs(bench, call, 4096, way)]


def main() -> int:
    """Measure all of it."""
    args = parse()
    calls = ("pwrite", "pread")
    rows = [
        Row(f"{call} of 1 MiB, RAM tier, traced", "the same untraced", "at most", 1.03, ratio(call))
        for call in calls
    ]
    for call in calls:
        name = f"{call} of 4 KiB"
        traced, timed = more_ns(call, Way.TRACED), more_ns(call, Way.TIMED)
        rows.append(Row(f"what tracing adds to a {name}", f"{BUDGET_NS} ns", "at most", 1.0, traced))
        rows.append(
            Row(f"what two looks at the clock add to a {name}", f"{BUDGET_NS} ns", "at most", None, timed)
        )
    wanted = chosen(rows, args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "trace-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
