"""What the preload library costs programs: start, unmanaged paths, unpacking a tree.

    costs.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

One instance runs for all of it; each side is repeated in turn, on the build folder's file system.  Prints as
bench.py does and what each side took, writes OUT_DIR/costs-<time>.json.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rows import Pairs, Row
from server import serving
from session import chosen, finish, measuring, parse, provenance, run
from setting import Bench

STARTS = 40
"""Of `true`, in one repetition."""
START_BUDGET_S = 0.005
"""By which a preloaded program may start later."""
FILES = 1000
"""Of the archive, in 20 folders, 1 to 32 KiB each."""


@dataclass
class Place:
    """An instance, and folders of one file system beside each other."""

    bench: Bench
    name: str
    config: Path

    def under(self, command: list[str]) -> list[str]:
        """Put a command under the adapter."""
        preload = self.bench.build / "lib/libtierbench_preload.so"
        return ["/usr/bin/env", f"TIERBENCH_INSTANCE={self.name}", f"LD_PRELOAD={preload}", *command]

    def drain(self) -> None:
        """Wait until nothing is left to do in the background."""
        drain = [str(self.bench.build / "bin/tierctl"), "drain", "-i", self.name]
        subprocess.run(drain, capture_output=True, check=True)  # noqa: S603


def configuration(bench: Bench) -> Path:
    """Write a configuration of 256 MiB of RAM over `pfs`, flushed in the background; returns its path."""
    path = bench.root / "costs.yaml"
    (bench.disk / "pfs").mkdir()
    path.write_text(
        f"version: 1\nmax_files: 16384\npfs: {{path: {bench.disk / 'pfs'}}}\nfsync: pfs\n"
        "flush: {policy: on-close, background: true}\ntiers:\n"
        "  - {name: ram, medium: memory, capacity: 256MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, "
        "{units: 16, share: 0.5}]}\n"
    )
    return path


@contextlib.contextmanager
def instance(bench: Bench) -> Iterator[Place]:
    """Start an instance, and end it."""
    place = Place(bench, f"costs-{os.getpid()}", configuration(bench))
    tierctl = str(bench.build / "bin/tierctl")
    start = [tierctl, "start", "-c", str(place.config), "-i", place.name]
    subprocess.run(start, capture_output=True, check=True)  # noqa: S603
    try:
        yield place
    finally:
        stop = [tierctl, "stop", "-i", place.name]
        subprocess.run(stop, capture_output=True, check=True)  # noqa: S603


def unmanaged(place: Place, case: str, *, relative: bool = False) -> Callable[[Bench], Pairs]:
    """Time of a case of tb-bench under the adapter over that without it."""

    def measure(bench: Bench) -> Pairs:
        base = Path() if relative else bench.disk
        with contextlib.chdir(bench.disk):
            ours, theirs = (bench.plain(case, base / name) for name in ("unmanaged", "plain"))
            with serving(place.under(ours)) as path, serving(theirs) as yardstick:
                path.repeat(), yardstick.repeat()
                return [(path.repeat(), yardstick.repeat()) for _ in range(bench.repetitions)]

    return measure


def seconds_of(command: list[str]) -> float:
    """Wall time of a command."""
    start = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)  # noqa: S603
    return time.monotonic() - start


def start(place: Place) -> Callable[[Bench], Pairs]:
    """Seconds until `true` has run, over those without the adapter and what it may add."""

    def once(command: list[str]) -> float:
        return statistics.median(seconds_of(command) for _ in range(STARTS))

    def measure(bench: Bench) -> Pairs:
        plain = ["/usr/bin/env", "A=1", "B=2", "/bin/true"]
        ours = place.under(["/bin/true"])
        return [(once(ours), once(plain) + START_BUDGET_S) for _ in range(bench.repetitions)]

    return measure


def archive(bench: Bench) -> Path:
    """Make a tar file of FILES files; returns its path."""
    path, tree = bench.root / "tree.tar", bench.root / "tree"
    sizes = random.Random(1)  # noqa: S311 - the same sizes every time
    for number in range(FILES):
        folder = tree / f"folder-{number % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file-{number}").write_bytes(sizes.randbytes(sizes.randrange(1 << 10, 32 << 10)))
    with tarfile.open(path, "w") as tar:
        tar.add(tree, arcname="tree")
    return path


def unpack(place: Place, folder: str) -> Callable[[Bench], Pairs]:
    """Seconds of `tar x` under the adapter over those without it; each into a folder of its own."""

    def measure(bench: Bench) -> Pairs:
        tar, pairs = archive(bench), []
        for number in range(bench.repetitions + 1):
            where = [bench.disk / folder / f"tar-{number}", bench.disk / "plain" / f"tar-{number}"]
            for path in where:
                path.mkdir(parents=True)
            ours, theirs = (["tar", "xf", str(tar), "-C", str(path)] for path in where)
            first = seconds_of(place.under(ours))
            place.drain()
            os.sync()
            second = seconds_of(theirs)
            os.sync()
            check = ["diff", "-r", *map(str, where)]
            subprocess.run(check, check=True)  # noqa: S603
            if number:  # the first one warms up
                pairs.append((first, second))
            for path in where:
                shutil.rmtree(path)
        return pairs

    return measure


def rows(place: Place) -> list[Row]:
    """List what is measured."""
    without, plain = "the same without the library", "plain file system"
    return [
        Row("open + close, unmanaged", without, "at most", 1.4, unmanaged(place, "open-close")),
        Row(
            "open + close, unmanaged, relative",
            without,
            "at most",
            1.4,
            unmanaged(place, "open-close", relative=True),
        ),
        *(
            Row(f"{call} 4 KiB, unmanaged", without, "at most", 1.03, unmanaged(place, case))
            for call, case in [
                ("pwrite", "pwrite-4k"),
                ("pread", "pread-4k"),
                ("lseek+write", "lseek-write-4k"),
                ("lseek+read", "lseek-read-4k"),
            ]
        ),
        Row("start of `true`", "without the library, and 5 ms", "at most", 1.0, start(place)),
        Row(f"tar x of {FILES} files, unmanaged", plain, "at most", 1.2, unpack(place, "unmanaged")),
        Row(f"tar x of {FILES} files, managed", plain, "at most", 1.5, unpack(place, "pfs")),
    ]


def print_times(measured: list[Row]) -> None:
    """Print what each side took, in ms: medians."""
    for row in measured:
        ours, theirs = (statistics.median(side) * 1e3 for side in zip(*row.pairs, strict=True))
        print(f"{ours:10.3f} ms against {theirs:10.3f} ms  {row.path}")


def main() -> int:
    """Measure all of it."""
    args = parse()
    with measuring(args) as bench:
        about = provenance(bench)
        with instance(bench) as place:
            wanted = chosen(rows(place), args)
            run(bench, wanted)
    print_times([row for row in wanted if row.pairs])
    return finish(args, "costs-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
