"""What names cost in scratch mode: tb-mdtest there over tb-mdtest on the shadow's own file system, in turn.

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


def rates(command: list[str], where: Path) -> dict[str, float]:
    """Operations a second of one run in a fresh folder below `where`, by tb-mdtest's words."""
    command = [*command, "-n", str(FILES), "-d", str(where / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
    found = {m: re.search(rf"^ *{m} +([0-9.]+)", done.stdout, re.MULTILINE) for m in METRICS}
    if done.returncode or not all(found.values()):
        raise CannotMeasureError(f"{command}: {done.stderr[-600:]}")
    return {m: float(match[1]) for m, match in found.items() if match}


@cache
def all_pairs(build: Path, root: Path, repetitions: int) -> dict[str, Pairs]:
    """Rates of scratch mode with the shadow in `root`, and of `root` itself, run in turn."""
    for folder in ("pfs", "tier", "bare"):
        (root / folder).mkdir(exist_ok=True)
    tier, slab = root / "tier", "slabs: [{units: 1, share: 1.0}]"
    config = root / "names.yaml"
    config.write_text(
        f"version: 1\nmode: scratch\npfs: {{path: {root / 'pfs'}}}\ntiers:\n"
        f"  - {{name: ram, medium: memory, capacity: 256MiB, block: 4KiB, {slab}}}\n"
        f"  - {{name: tier, medium: directory, path: {tier}, capacity: 64MiB, block: 64KiB, {slab}}}\n"
    )
    mdtest = str(build / "bin/tb-mdtest")
    scratch = [str(build / "bin/tierctl"), "run", "-c", str(config), "--", mdtest]
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
    return Row(path, f"the same on the shadow's file system, {where}", "at least", BUDGET, measure)


def main() -> int:
    """Measure all of it."""
    args = parse()
    wanted = chosen([row(m, where) for where in ("disk", "memory") for m in METRICS], args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "names-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
