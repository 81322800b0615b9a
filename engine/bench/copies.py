"""What ways to copy a block cost on this processor, over libc's memcpy of the same block (tb-copy).

    copies.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Random blocks of 4 KiB are the rows; the table has all that tb-copy measures, in ns a block.  The program's
side of a copy begins at four places of its page.  Prints as bench.py does, writes OUT_DIR/copies-<time>.json.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

from rows import CannotMeasureError, Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
from setting import Bench

LIMIT_S = 120
LIBC = "memcpy"
BYTES = 4096
"""Of the rows: what budgets are about."""


class Copy(NamedTuple):
    """What is copied from where to where."""

    block: str
    copied: str
    program: str
    bytes: int


Times = dict[tuple[str, Copy], float]


def measured(bench: Bench) -> Times:
    """Run tb-copy once: nanoseconds of each way and copy."""
    command = [str(bench.build / "bin/tb-copy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)  # noqa: S603
    if done.returncode != 0:
        raise CannotMeasureError(f"{command[0]}: {done.stderr.strip()}")
    cells: list[dict[str, Any]] = json.loads(done.stdout)
    return {
        (cell["way"], Copy(cell["block"], cell["copied"], cell["program"], cell["bytes"])): cell["ns"]
        for cell in cells
    }


def row(runs: list[Times], way: str, copy: Copy) -> Row:
    """One way and copy, of runs that are made already."""

    def measure(_: Bench) -> Pairs:
        return [(times[way, copy], times[LIBC, copy]) for times in runs]

    side = "into shared memory" if copy.copied == "in" else "out of shared memory"
    path = f"copy of a {copy.block} 4 KiB block {side}, {copy.program}, by {way}"
    return Row(path, "libc's memcpy of the same", "at most", None, measure)


def rows_of(runs: list[Times]) -> list[Row]:
    """Each way but libc's, for each copy of a random block of 4 KiB."""
    wanted = [c for c in runs[0] if c[1].bytes == BYTES and c[1].block == "random" and c[0] != LIBC]
    return [row(runs, way, copy) for way, copy in wanted]


def table(runs: list[Times]) -> list[dict[str, object]]:
    """Medians of all that was measured, in ns."""
    return [
        {"way": way, **copy._asdict(), "ns": statistics.median(times[way, copy] for times in runs)}
        for way, copy in runs[0]
    ]


def print_table(runs: list[Times]) -> None:
    """One line a copy, one column a way: medians."""
    ways = list(dict.fromkeys(way for way, _ in runs[0]))
    print("ns a block:" + "".join(f"{way:>21}" for way in ways))
    for copy in sorted({copy for _, copy in runs[0]}):
        ns = (statistics.median(times[way, copy] for times in runs) for way in ways)
        print(" " * 11 + "".join(f"{each:21.0f}" for each in ns) + "  " + ", ".join(map(str, copy)))


def main() -> int:
    """Measure all of it."""
    args = parse()
    with measuring(args) as bench:
        about = provenance(bench)
        runs = [measured(bench) for _ in range(bench.repetitions)]
        wanted = chosen(rows_of(runs), args)
        run(bench, wanted)
    print_table(runs)
    return finish(args, "copies-", about, wanted, copies=table(runs))


if __name__ == "__main__":
    sys.exit(main())
