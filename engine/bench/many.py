"""What an operation costs when many processes make it at once, on files of their own and on one file.

    many.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Each process writes or reads random blocks of 4 KiB of its 4 MiB.  In one file the blocks of all processes are
by turns, so they share buffers, locks and cache lines.  The cost of an operation is time on a processor: with
more processes than processors they take turns on these.  It is held against the cost with one process, and
what became of it against what became of bare memcpy, measured by turns.  Prints as bench.py does, writes
OUT_DIR/many-<time>.json.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from rows import Pairs, Row
from server import serving
from session import chosen, finish, measuring, parse, provenance, run
from setting import Bench

PROCESSES = (2, 4, 8, 16, 32, 64)
PART_MIB = "4"
"""Of each process: 64 of them fit the tier twice."""
COPIES = {"pwrite": "memcpy-4k-in", "pread": "memcpy-4k-out"}
COST_BUDGET = 1.3
SCALING_BUDGET = 0.9


class Point:
    """One call, number of processes and kind of file: a run gives a value to each of two rows."""

    def __init__(self, call: str, processes: int, one_file: bool) -> None:
        self.call, self.processes, self.one_file = call, processes, one_file
        self.found: dict[tuple[Path, str], Pairs] = {}

    def rows(self) -> list[Row]:
        """The cost itself, and what became of it beside what became of memcpy's."""
        file = "one file" if self.one_file else "a file each"
        path = f"{self.call} 4 KiB, random, {self.processes} processes, {file}"
        alone, memcpy = "one process", "the scaling of bare memcpy"
        return [
            Row(f"{path}: cost", alone, "at most", COST_BUDGET, lambda bench: self.pairs(bench, "cost")),
            Row(
                f"{path}: scaling",
                memcpy,
                "at least",
                SCALING_BUDGET,
                lambda bench: self.pairs(bench, "scaling"),
            ),
        ]

    def pairs(self, bench: Bench, what: str) -> Pairs:
        """Costs with many processes and one, or what became of ours and of memcpy's: one run gives both."""
        if (bench.build, what) not in self.found:
            costs = self.costs(bench)
            self.found[bench.build, "cost"] = [(many, one) for one, many, _, _ in costs]
            self.found[bench.build, "scaling"] = [
                (one / many, copy / copies) for one, many, copy, copies in costs
            ]
        return self.found.pop((bench.build, what))

    def costs(self, bench: Bench) -> list[tuple[float, float, float, float]]:
        """Seconds on a processor of one process's operations: alone, with the others, and memcpy likewise."""
        busy = min(self.processes, len(os.sched_getaffinity(0))) / self.processes
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(serving(command)) for command in self.commands(bench)]
            [server.repeat() for server in servers]
            rounds = [[server.repeat() for server in servers] for _ in range(bench.repetitions)]
        return [(one, many * busy, copy, copies * busy) for one, many, copy, copies in rounds]

    def commands(self, bench: Bench) -> list[list[str]]:
        """One process and all of them, under an instance each and as bare memcpy."""
        config, pfs = bench.ram_config(), bench.root / "pfs"
        alone, all_of_them = ["-s", PART_MIB], ["-s", PART_MIB, "-n", str(self.processes)]
        all_of_them += ["-o"] * self.one_file
        ours, theirs = f"{self.call}-4k", COPIES[self.call]
        return [
            bench.tiered(config, ours, pfs / "one", *alone),
            bench.tiered(config, ours, pfs / "many", *all_of_them),
            bench.plain(theirs, bench.root / "one", *alone),
            bench.plain(theirs, bench.root / "many", *all_of_them),
        ]


def many_rows() -> list[Row]:
    """All rows."""
    return [
        row
        for one_file in (False, True)
        for call in COPIES
        for processes in PROCESSES
        for row in Point(call, processes, one_file).rows()
    ]


def main() -> int:
    """Measure all of it."""
    args = parse()
    wanted = chosen(many_rows(), args)
    with measuring(args) as bench:
        about = provenance(bench) | {"load_before": os.getloadavg()[0]}
        run(bench, wanted)
        about["load_after"] = os.getloadavg()[0]
    return finish(args, "many-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
