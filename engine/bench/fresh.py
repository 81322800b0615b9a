"""New files through an unmodified IOR, over the same on tmpfs: users write new files in new processes.

    fresh.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD] [--ior PROGRAM] [--every]

One run of IOR writes files and reads them (`-w -r`): in scratch in a RAM tier with buffers of 4 KiB and
1 MiB, in an instance of its own, and on tmpfs, by turns.  Memory is touched right before each of the
two, because some machines take idle memory back.  IOR is PROGRAM, else `ior` where it is found,
else tb-ior.  --every measures all combinations of interface, file, transfer size, order and processes.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rows import CannotMeasureError, Pairs, Row
from session import arguments, chosen, finish, measuring, provenance, refuse, run
from setting import HUGE_ROWS, MIB, NO_HUGE_PAGES, Bench, huge_pages, small_pages

KIB = 1024
TOTAL_MIB = 64
"""Of all processes together: more than caches hold."""
SIZES = {
    "1 KiB": KIB,
    "4 KiB": 4 * KIB,
    "47,008 bytes": 47008,
    "64 KiB": 64 * KIB,
    "1 MiB": MIB,
    "16 MiB": 16 * MIB,
}
PROCESSES = (1, 2, 4)
BUDGETS = {False: {"write": 1.2, "read": 1.5}, True: {"write": 1.5, "read": 2.0}}
"""With and without huge pages."""
SECONDS = 300
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


@dataclass(frozen=True)
class Shape:
    """What IOR is asked to do."""

    size: str
    processes: int = 2
    api: str = "POSIX"
    shared: bool = False
    random: bool = False

    @property
    def path(self) -> str:
        """In words, as the rows say it."""
        order = "random" if self.random else "in order"
        file = "one file" if self.shared else "a file each"
        return f"{self.size}, {order}, {self.processes} processes, {self.api}, {file}"

    def command(self, ior: str, file: Path) -> list[str]:
        """Return the command of IOR, which makes, reads and removes the files."""
        size = SIZES[self.size]
        block = max(1, TOTAL_MIB * MIB // self.processes // size) * size
        words = ["mpirun", "-n", str(self.processes), ior, "-a", self.api, "-w", "-r", "-t", str(size)]
        return [*words, "-b", str(block), "-o", str(file), *["-F"] * (not self.shared), *["-z"] * self.random]


def shapes(every: bool) -> Iterator[Shape]:
    """List what is measured: each size and order, and of 47,008 bytes and 1 MiB the other choices too."""
    if every:
        for random, api, shared in itertools.product((False, True), ("POSIX", "MPIIO"), (False, True)):
            for size, processes in itertools.product(SIZES, PROCESSES):
                yield Shape(size, processes, api, shared, random)
        return
    for random, size in itertools.product((False, True), SIZES):
        yield Shape(size, random=random)
    for size in ("47,008 bytes", "1 MiB"):
        yield from (Shape(size, processes) for processes in PROCESSES if processes != 2)
        yield Shape(size, shared=True)
        yield Shape(size, api="MPIIO")
        yield Shape(size, api="MPIIO", shared=True)


class Point:
    """One shape: each run gives a value to the row of its writes and one to the row of its reads."""

    def __init__(self, shape: Shape, ior: str, huge: bool) -> None:
        self.shape, self.ior, self.huge = shape, ior, huge
        self.found: dict[tuple[Path, str], Pairs] = {}

    def rows(self) -> list[Row]:
        """The two rows."""
        pages = ", huge pages" if self.huge else ""
        yardstick, budgets = "the same on tmpfs", BUDGETS[self.huge]
        return [
            Row(
                f"{kind} {self.shape.path}{pages}",
                yardstick,
                "at least",
                budgets[kind],
                lambda bench, kind=kind: self.pairs(bench, kind),  # type: ignore[misc]
            )
            for kind in ("write", "read")
        ]

    def pairs(self, bench: Bench, kind: str) -> Pairs:
        """Rates in MiB/s of the path and of the yardstick; what the other row left is taken first."""
        if (bench.build, kind) not in self.found:
            rates = [(self.tiered(bench), self.plain(bench)) for _ in range(bench.repetitions)]
            for each in ("write", "read"):
                self.found[bench.build, each] = [(ours[each], theirs[each]) for ours, theirs in rates]
        return self.found.pop((bench.build, kind))

    def tiered(self, bench: Bench) -> dict[str, float]:
        """Through an instance of its own: its daemon touches the region before IOR starts."""
        config = scratch_config(bench, self.huge)
        start = [str(bench.build / "bin/tierctl"), "run", "-c", str(config), "--"]
        return rates_of([*start, *self.shape.command(self.ior, bench.root / "pfs/f")])

    def plain(self, bench: Bench) -> dict[str, float]:
        """On tmpfs, after as many bytes as it takes were written there and removed."""
        folder = bench.root / "tmpfs"
        folder.mkdir(exist_ok=True)
        warm = folder / "warm"
        with warm.open("wb") as file:
            for _ in range(TOTAL_MIB + 8):
                file.write(b"x" * MIB)
        warm.unlink()
        return rates_of(self.shape.command(self.ior, folder / "f"))


def scratch_config(bench: Bench, huge: bool) -> Path:
    """Write the configuration of a RAM tier with small and large buffers, in scratch."""
    (bench.root / "pfs").mkdir(exist_ok=True)
    path = bench.root / "fresh.yaml"
    region = "" if huge else small_pages()
    path.write_text(
        f"version: 1\n{region}pfs: {{path: {bench.root}/pfs}}\nmode: scratch\n"
        "flush: {policy: manual, threads: 2}\n"
        "tiers:\n"
        "  - {name: ram, medium: memory, capacity: 512MiB, block: 4KiB, "
        "slabs: [{units: 1, share: 0.7}, {units: 256, share: 0.3}]}\n"
    )
    return path


def rates_of(command: list[str]) -> dict[str, float]:
    """Run IOR and read its two rates, in MiB/s."""
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, timeout=SECONDS, env=os.environ | ENVIRONMENT
    )
    found = re.findall(r"^(write|read)\s+([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or {kind for kind, _ in found} != {"write", "read"}:
        told = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise CannotMeasureError(f"{' '.join(command)}: exit status {done.returncode}: {' '.join(told)}")
    return {kind: float(rate) for kind, rate in found}


def fresh_rows(ior: str, every: bool, huge: bool) -> list[Row]:
    """All rows; also on huge pages where there are some."""
    pages = [False, True] if huge else [False]
    return [row for p in pages for shape in shapes(every) for row in Point(shape, ior, p).rows()]


def main() -> int:
    """Measure all of it."""
    parser = arguments("New files through IOR, over the same on tmpfs.")
    parser.add_argument("--ior", help="the program (ior where it is found, else tb-ior)")
    parser.add_argument("--every", action="store_true", help="all combinations")
    args = parser.parse_args()
    ior = args.ior or shutil.which("ior") or str(args.build.resolve() / "bin/tb-ior")
    for program in (ior, args.build / "bin/tierctl", "mpirun"):
        if not shutil.which(program):
            refuse(f"{program}: no such program")
    rows = chosen(fresh_rows(ior, args.every, huge_pages(args.build) != NO_HUGE_PAGES), args)
    with measuring(args) as bench:
        about = provenance(bench) | {"ior": ior, "load_before": os.getloadavg()[0]}
        run(bench, rows)
        if about["huge_pages"] == NO_HUGE_PAGES:
            print(HUGE_ROWS)
        about["load_after"] = os.getloadavg()[0]
    return finish(args, "fresh-", about, rows)


if __name__ == "__main__":
    sys.exit(main())
