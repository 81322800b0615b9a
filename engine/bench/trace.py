"""What a trace costs: the same calls in two instances that take turns, one of them traced on both sides.

    trace.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Writes OUT_DIR/trace-<time>.json and prints a table, as bench.py does.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import SHM, Bench, Pairs, Row, parse, provenance, run, serving

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
    rows = [row for row in rows if args.only in row.path]
    if not rows:
        print(f"trace.py: --only {args.only}: no path contains that", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tb-bench.", dir=SHM) as root:
        bench = Bench(args.build.resolve(), Path(root), Path(root), args.repetitions)
        about = provenance(bench)
        run(bench, rows)
    result = args.out / f"trace-{time.strftime('%Y%m%d-%H%M%S')}.json"
    result.write_text(json.dumps({"run": about, "rows": [row.as_json() for row in rows]}, indent=1) + "\n")
    over = sum(row.within is False for row in rows)
    print(f"{over} of {len(rows)} over budget; {result}")
    return 1 if any(row.error for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
