"""What a trace costs: the same calls in two instances that take turns, one of them traced on both sides.

    trace.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Writes OUT_DIR/trace-<time>.json and prints a table, as bench.py does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench import Bench, Pairs, Row, chosen, finish, measuring, parse, provenance, run, serving

SMALL_OPERATIONS = 20000  # of a repetition of tb-bench's cases at 4 KiB
BUDGET_NS = 60


def pairs(bench: Bench, case: str, *options: str) -> Pairs:
    """Seconds of a case traced and untraced, in turn after one unmeasured repetition of both."""
    config, folder = bench.ram_config(), bench.root / "pfs"
    plain = bench.tiered(config, case, folder / "plain", *options)
    traced = bench.tiered(config, case, folder / "traced", *options)
    at = traced.index("run") + 1
    traced[at:at] = ["--trace", str(bench.root / "out.darshan")]
    with serving(traced) as ours, serving(plain) as theirs:
        ours.repeat(), theirs.repeat()
        return [(ours.repeat(), theirs.repeat()) for _ in range(bench.repetitions)]


def ratio(case: str) -> Callable[[Bench], Pairs]:
    """Time traced over time untraced."""
    return lambda bench: pairs(bench, case, "-s", "128")


def more_ns(case: str) -> Callable[[Bench], Pairs]:
    """Nanoseconds that an operation takes longer, over the budget."""

    def measure(bench: Bench) -> Pairs:
        return [((ours - theirs) / SMALL_OPERATIONS * 1e9, BUDGET_NS) for ours, theirs in pairs(bench, case)]

    return measure


def main() -> int:
    """Measure all of it."""
    args = parse()
    same, budget = "the same untraced", f"{BUDGET_NS} ns"
    rows = [
        Row(f"{call} 1 MiB, RAM tier, traced", same, "at most", 1.03, ratio(f"{call}-1m"))
        for call in ("write", "read")
    ]
    rows += [
        Row(f"what tracing adds to a {call} of 4 KiB", budget, "at most", 1.0, more_ns(f"{call}-4k"))
        for call in ("pwrite", "pread")
    ]
    wanted = chosen(rows, args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "trace-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
