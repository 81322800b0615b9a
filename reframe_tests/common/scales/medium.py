"""What this machine's own medium does below a twin.

A model can only slow things down: a twin is right where the medium does at least twice the share that it
models. What the medium does is measured once a session, by one process in a few tenths of a second, and
kept in the run's folder.
"""

from __future__ import annotations

import json
import math
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tierbench.base.sizes import MIB
from tierbench.recipes.published import Recipe

from .scale import Sizes, size_of

LEAST_HEADROOM = 2.0
_BYTES = 32 << 20  # of a pass; more where a transfer is larger
_FILES = 2000
_PASSES = 5  # the best counts: the question is what the medium can do


def media_of(recipe: Recipe, sizes: Sizes, place: Path, record: Path) -> dict[str, float]:
    """What the medium of `place` does for each measured access, in its unit; remembered in `record`."""
    found = {}
    for launch, arguments in zip(recipe.launches, sizes.arguments, strict=True):
        for access in launch.measures:
            if recipe.number(access).metric == "time":
                each = remembered(place, "metadata", 0, record, scattered=False)
                found[access] = sizes.ranks * (sizes.operations or 0) / each
                continue
            transfer = size_of(arguments, "-t")
            each = sizes.nodes * remembered(place, access, transfer, record, scattered="-z" in arguments)
            found[access] = each if recipe.number(access).metric == "iops" else each * transfer / MIB
    return found


def too_slow(recipe: Recipe, media: dict[str, float], shares: dict[str, float], factor: int) -> str | None:
    """What is needed where a medium does less than twice what the twin is to show."""
    for access, medium in media.items():
        n, share = recipe.number(access), shares[access]
        times = medium / share if n.direction == "higher" else share / medium
        if times < LEAST_HEADROOM:
            needed = math.ceil(factor * LEAST_HEADROOM / times)
            does = f"the medium does {medium:.4g} {n.unit}, less than twice the twin's {share:.4g}"
            return f"{access}: {does} (the published share, K = {factor}); needs -S twin_factor={needed}"
    return None


def in_a_second(place: Path, nodes: int, record: Path) -> dict[str, float]:
    """What the medium does on all nodes in a second: files (`metadata`), MiB written and read."""
    sizes = {"metadata": 0, "write": 2 * MIB, "read": 2 * MIB}
    return {
        access: nodes * max(1, size // MIB) * remembered(place, access, size, record, scattered=False)
        for access, size in sizes.items()
    }


def too_slow_for(media: dict[str, float], expected: dict[str, float], factor: int) -> str | None:
    """The same of rates that the twin is to show, by metric."""
    for metric, right in expected.items():
        times = media[metric] / right
        if times < LEAST_HEADROOM:
            needed = math.ceil(factor * LEAST_HEADROOM / times)
            does = f"the medium does {media[metric]:.4g}, less than twice the twin's {right:.4g}"
            return f"{metric}: {does} (K = {factor}); needs -S twin_factor={needed}"
    return None


def remembered(place: Path, access: str, transfer: int, record: Path, *, scattered: bool) -> float:
    """Transfers a second of that size, or files a second (`metadata`)."""
    known: dict[str, float] = json.loads(record.read_text()) if record.exists() else {}
    there = next(p for p in (place, *place.parents) if p.exists())
    name = f"{access} {transfer}{' scattered' if scattered else ''}, device {there.stat().st_dev}"
    if name not in known:
        known[name] = _measured(there, access, transfer, scattered=scattered)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(known, indent=1))
    return known[name]


def _measured(place: Path, access: str, transfer: int, *, scattered: bool) -> float:
    with tempfile.TemporaryDirectory(prefix="tierbench-medium-", dir=place) as folder:
        if access == "metadata":
            return _FILES / _best(lambda: _make_files(Path(folder)))
        count = max(1, _BYTES // transfer)
        offsets = [i * transfer for i in range(count)]
        if scattered:
            random.Random(1).shuffle(offsets)  # noqa: S311
        file, buffer = Path(folder, "data"), bytearray(random.Random(2).randbytes(4096)) * (transfer // 4096)  # noqa: S311
        write = _best(lambda: _write(file, buffer, offsets))
        return count / (write if access == "write" else _best(lambda: _read(file, buffer, offsets)))


def _best(one_pass: Callable[[], float]) -> float:
    return min(one_pass() for _ in range(_PASSES))


def _write(file: Path, buffer: bytearray, offsets: list[int]) -> float:
    """Seconds for a new file, synced as the recipes' are."""
    file.unlink(missing_ok=True)
    started = time.perf_counter()
    fd = os.open(file, os.O_WRONLY | os.O_CREAT)
    for offset in offsets:
        os.pwrite(fd, buffer, offset)
    os.fsync(fd)
    os.close(fd)
    return time.perf_counter() - started


def _read(file: Path, buffer: bytearray, offsets: list[int]) -> float:
    """Seconds to read the file from its medium, not from a cache in front of it."""
    fd = os.open(file, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    started = time.perf_counter()
    for offset in offsets:
        os.preadv(fd, [buffer], offset)
    os.close(fd)
    return time.perf_counter() - started


def _make_files(folder: Path) -> float:
    """Seconds to open, write a value to and close a file that often."""
    started = time.perf_counter()
    for _ in range(_FILES):
        fd = os.open(folder / "value", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"1234")
        os.close(fd)
    return time.perf_counter() - started
