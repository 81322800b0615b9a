"""What moving files with a promise costs: tierctl stage over cp, and over cp with a sync, by turns.

    staging.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD] [--within SECONDS]

Two large files and 100,000 small ones, with one stream and with two: as many copies at once are the
yardstick. The mover fsyncs, compares, and renames each file, and keeps its attributes; cp does none of it.
So it is held against cp alone, which promises nothing: its bytes may be in memory only; against dd with
conv=fsync, and for small files cp and an fsync of each, which promise that the bytes are on the device, and
not that they are right or that a name is never partial; against cp and a sync of the file system; and
against what a careful user writes: cp -a, diff -r and a sync. On memory, where a promise costs most, and on
the disk of the build folder.

All ways of a setting are taken in each of its repetitions, and each begins with another one: so a machine
that is slow for a while is slow for all of them. A setting has its share of --within. A repetition that
would go beyond it is left out; the result says how many there were. Prints as bench.py does, writes
OUT_DIR/staging-<time>.json.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rows import CannotMeasureError, Pairs, Row
from session import arguments, chosen, finish, measuring, provenance, run
from setting import MIB, Bench

BUDGET = 0.9
SMALL_FILES = 100_000
LARGE = 1024 * MIB


def make_small(folder: Path) -> None:
    """Half of the files in each of two folders, a page each."""
    for half in ("0", "1"):
        (folder / half).mkdir(parents=True)
        for i in range(SMALL_FILES // 2):
            (folder / half / f"{i:06}").write_bytes(b"%06d" % i * 680)


def make_large(folder: Path) -> None:
    """Half of the bytes in each of two folders."""
    for half in ("0", "1"):
        (folder / half).mkdir(parents=True)
        with (folder / half / "file").open("wb") as out:
            for i in range(LARGE // MIB // 2):
                out.write(i.to_bytes(4, "little") * (MIB // 4))


def seconds(commands: list[list[str]], then_sync: Path | None = None) -> float:
    """All at once, to the end of the last one."""
    start = time.monotonic()
    started = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for c in commands]  # noqa: S603
    for process in started:
        _, err = process.communicate(timeout=600)
        if process.returncode:
            raise CannotMeasureError(f"{process.args!r}: {err[-600:]!r}")
    if then_sync:
        subprocess.run(["sync", "-f", str(then_sync)], check=True)  # noqa: S603, S607
    return time.monotonic() - start


DD = """cd "$1" && find . -type f | while read -r file; do
    to="$2/${1##*/}/$file" && mkdir -p "${to%/*}" &&
    dd bs=1M conv=fsync status=none if="$file" of="$to" || exit 1
done"""
EACH = """cp -r "$1" "$2" && find "$2/${1##*/}" -print0 | xargs -0 sync"""
WITHIN_S = 450.0
OURS = "ours"
YARDSTICKS = {
    "bare": ("cp -r", 'cp -r "$1" "$2"'),
    "fsynced": ("dd conv=fsync", DD),
    "each": ("cp -r and an fsync of each", EACH),
    "synced": ("cp -r and sync -f", 'cp -r "$1" "$2"'),
    "careful": ("cp -a, diff -r and sync -f", 'cp -a "$1" "$2" && diff -r "$1" "$2/${1##*/}"'),
}


@dataclass(frozen=True)
class Setting:
    """What is copied, where, and how many at once."""

    what: str
    where: str
    streams: int

    @property
    def ways(self) -> list[str]:
        """What the mover is held against here."""
        left_out = {
            ("small", "fsynced"),  # a process for each file would be what is measured
            ("large", "each"),
            ("memory", "synced"),
        }
        return [way for way in YARDSTICKS if not {(self.what, way), (self.where, way)} & left_out]

    def row(self, how: str, turns: Turns) -> Row:
        """The mover over one of the ways."""
        amount = "100,000 files of 4 KiB" if self.what == "small" else "1 GiB in two files"
        path = f"tierctl stage of {amount}, streams: {self.streams}, {self.where}"
        cp = f"{'' if self.streams == 1 else 'two times '}{YARDSTICKS[how][0]}"
        return Row(path, cp, "at least", BUDGET, lambda bench: turns.pairs(bench, self, how))


class Folders:
    """Where one setting works."""

    def __init__(self, bench: Bench, setting: Setting) -> None:
        """All of its files, made again."""
        self.work = (bench.root if setting.where == "memory" else bench.disk) / "staging"
        self.source, self.config, self.to = self.work / "source", self.work / "stage.yaml", self.work / "to"
        self.tierctl, self.streams = str(bench.build / "bin/tierctl"), setting.streams
        self.remove()
        (make_small if setting.what == "small" else make_large)(self.source)
        slab = "slabs: [{units: 1, share: 1.0}]"
        self.config.write_text(
            f"version: 1\nmode: scratch\npfs: {{path: {self.work / 'pfs'}}}\n"
            f"stage_out: {{from: {self.source}, to: {self.work / 'pfs'}, streams: {setting.streams}}}\n"
            f"tiers:\n  - {{name: ram, medium: memory, capacity: 8MiB, block: 4KiB, {slab}}}\n"
        )
        (self.work / "manifest").write_text(f"{self.source} {self.to / 'all'}\n")

    def remove(self) -> None:
        """Whatever is there."""
        subprocess.run(["rm", "-rf", str(self.work)], check=True)  # noqa: S603, S607 - rmtree takes twice as long

    def seconds_of(self, how: str) -> float:
        """One turn, from a file system without dirty bytes."""
        subprocess.run(["rm", "-rf", str(self.to)], check=True)  # noqa: S603, S607
        for folder in (self.to, self.work / "pfs"):
            folder.mkdir(exist_ok=True)
        os.sync()
        if how == OURS:
            log = self.to / "log"
            log.mkdir()
            words = ["--manifest", str(self.work / "manifest"), "-c", str(self.config), "--log", str(log)]
            return seconds([[self.tierctl, "stage", *words]])
        halves = [[self.source]] if self.streams == 1 else [[self.source / "0"], [self.source / "1"]]
        copies = [["sh", "-c", YARDSTICKS[how][1], "sh", *map(str, half), str(self.to)] for half in halves]
        return seconds(copies, self.to if how in ("synced", "careful") else None)


class Turns:
    """The seconds of all ways of a setting, measured when its first row asks."""

    def __init__(self, within: float) -> None:
        """Nothing is wanted yet."""
        self.end = time.monotonic() + within
        self.wanted: dict[Setting, list[str]] = {}
        self.found: dict[Setting, list[dict[str, float]]] = {}

    def pairs(self, bench: Bench, setting: Setting, how: str) -> Pairs:
        """Rates, as one over seconds."""
        if setting not in self.found:
            self.measure(bench, setting)
        if not self.found[setting]:
            raise CannotMeasureError("not measured, as another way of its repetition failed")
        return [(1 / turn[OURS], 1 / turn[how]) for turn in self.found[setting]]

    def measure(self, bench: Bench, setting: Setting) -> None:
        """At least one repetition, and as many as fit into the share of the setting."""
        now = time.monotonic()
        end = now + (self.end - now) / (len(self.wanted) - len(self.found))
        found = self.found[setting] = []
        ways = [OURS, *self.wanted[setting]]
        folders = Folders(bench, setting)
        longest = 0.0
        for i in range(bench.repetitions):
            start = time.monotonic()
            if i and start + longest > end:
                break
            at = i % len(ways)
            found.append({how: folders.seconds_of(how) for how in ways[at:] + ways[:at]})
            longest = max(longest, time.monotonic() - start)
        folders.remove()


def main() -> int:
    """Measure all of it."""
    parser = arguments("Measure what moving files with a promise costs.")
    parser.add_argument(
        "--within", type=float, default=WITHIN_S, help=f"seconds for all of it ({WITHIN_S:.0f})"
    )
    args = parser.parse_args()
    settings = [
        Setting(what, where, streams)
        for where in ("disk", "memory")
        for what in ("large", "small")
        for streams in (1, 2)
    ]
    turns = Turns(args.within)
    every = [(setting, how, setting.row(how, turns)) for setting in settings for how in setting.ways]
    wanted = chosen([row for _, _, row in every], args)
    for setting, how, row in every:
        if row in wanted:
            turns.wanted.setdefault(setting, []).append(how)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "staging-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
