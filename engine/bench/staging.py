"""What moving files with a promise costs: tierctl stage over cp, and over cp with a sync, in turn.

    staging.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Two large files and 100,000 small ones, with one stream and with two: as many copies at once are the
yardstick. The mover fsyncs, compares, and renames each file, and keeps its attributes; cp does none of it.
So it is held against cp alone, which promises nothing: its bytes may be in memory only; against dd with
conv=fsync, and for small files cp and an fsync of each, which promise that the bytes are on the device, and
not that they are right or that a name is never partial; against cp and a sync of the file system; and
against what a careful user writes: cp -a, diff -r and a sync. On memory, where a promise costs most, and on
the disk of the build folder. Prints as bench.py does, writes OUT_DIR/staging-<time>.json.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rows import CannotMeasureError, Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
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
YARDSTICKS = {
    "bare": ("cp -r", 'cp -r "$1" "$2"'),
    "fsynced": ("dd conv=fsync", DD),
    "each": ("cp -r and an fsync of each", EACH),
    "synced": ("cp -r and sync -f", 'cp -r "$1" "$2"'),
    "careful": ("cp -a, diff -r and sync -f", 'cp -a "$1" "$2" && diff -r "$1" "$2/${1##*/}"'),
}


def pairs(bench: Bench, root: Path, make: Callable[[Path], None], streams: int, how: str) -> Pairs:
    """Rates, as one over seconds."""
    work = root / "staging"
    source, config, found = work / "source", work / "stage.yaml", []
    shutil.rmtree(work, ignore_errors=True)
    make(source)
    (work / "pfs").mkdir()
    slab = "slabs: [{units: 1, share: 1.0}]"
    config.write_text(
        f"version: 1\nmode: scratch\npfs: {{path: {work / 'pfs'}}}\n"
        f"stage_out: {{from: {source}, to: {work / 'pfs'}, streams: {streams}}}\n"
        f"tiers:\n  - {{name: ram, medium: memory, capacity: 8MiB, block: 4KiB, {slab}}}\n"
    )
    for _ in range(bench.repetitions):
        ours, theirs = work / "ours", work / "theirs"
        for folder in (ours, theirs):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        os.sync()
        halves = [[str(source)]] if streams == 1 else [[str(source / "0")], [str(source / "1")]]
        script = YARDSTICKS[how][1]
        copies = [["sh", "-c", script, "sh", *half, str(theirs)] for half in halves]
        cp = seconds(copies, theirs if how in ("synced", "careful") else None)
        os.sync()
        manifest = work / "manifest"
        manifest.write_text(f"{source} {ours / 'all'}\n")
        tierctl = str(bench.build / "bin/tierctl")
        shutil.rmtree(work / "log", ignore_errors=True)
        (work / "log").mkdir()
        words = ["--manifest", str(manifest), "-c", str(config), "--log", str(work / "log")]
        found.append((1 / seconds([[tierctl, "stage", *words]]), 1 / cp))
    shutil.rmtree(work)
    return found


def row(what: str, streams: int, how: str, where: str) -> Row:
    """One amount, on memory or on disk."""
    make = make_small if what == "small" else make_large

    def measure(bench: Bench) -> Pairs:
        return pairs(bench, bench.root if where == "memory" else bench.disk, make, streams, how)

    amount = "100,000 files of 4 KiB" if what == "small" else "1 GiB in two files"
    path = f"tierctl stage of {amount}, streams: {streams}, {where}"
    cp = f"{'' if streams == 1 else 'two times '}{YARDSTICKS[how][0]}"
    return Row(path, cp, "at least", BUDGET, measure)


def main() -> int:
    """Measure all of it."""
    args = parse()
    rows = [
        row(what, streams, how, where)
        for where in ("disk", "memory")
        for what in ("large", "small")
        for how in YARDSTICKS
        for streams in (1, 2)
        if not (how == "synced" and where == "memory")
        if not (how == "fsynced" and what == "small")  # a process for each file would be what is measured
        if not (how == "each" and what == "large")
    ]
    wanted = chosen(rows, args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "staging-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
