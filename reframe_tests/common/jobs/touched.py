"""Touches memory right before a launch, where idle memory is taken back. Runs in the job, with python3 alone.

usage: touched.py WHEN BYTES FILE

Some virtual machines report free memory to their host, which takes it back. Memory that was idle then comes
at 0.4 to 1.5 GB/s when it is used first, below what a twin models of RAM, and a launch would measure that.
Touched and given back it is the memory that the kernel gives out next. WHEN is `auto` (only where free memory
is reported) or `always`; FILE says how much was touched and how long it took, and is not written where none
was.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import sys
import time
from pathlib import Path

PIECE = 1 << 20
PAGE = 4096
SPARED = 4  # a part of what is free, one of so many, stays so: other programs go on
LONGEST_S = 10  # a machine that gives its memory more slowly has measured nothing, with or without this
REPORTING = 5  # the bit of virtio's balloon that free pages are reported
DEVICES = "sys/bus/virtio/drivers/virtio_balloon/*/features"
HYPER_V = "sys/bus/vmbus/drivers/hv_balloon/*/device_id"


def is_taken_back(root: Path = Path("/")) -> bool:
    """Whether this machine tells its host which memory is free."""
    features = [file.read_text() for file in root.glob(DEVICES)]
    return any(bits[REPORTING : REPORTING + 1] == "1" for bits in features) or any(root.glob(HYPER_V))


def free_bytes(root: Path = Path("/")) -> int:
    """Memory that nothing uses, not for caches either; of a control group what it still may have."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    found = [int(fields["MemFree"].split()[0]) * 1024]
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        group = root / "sys/fs/cgroup" / line.split(":", 2)[2].lstrip("/")
        most, used = group / "memory.max", group / "memory.current"
        if most.exists() and used.exists() and (limit := most.read_text().strip()).isdigit():
            found.append(int(limit) - int(used.read_text()))
    return max(0, min(found))


def touch(size: int) -> tuple[int, float]:
    """Use so many bytes for a moment: how many it were, and the seconds that took.

    In huge pages where there are any: they are what is reported, and they are given out whole.
    """
    began = time.monotonic()
    done = 0
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without them
                memory.madvise(mmap.MADV_HUGEPAGE)
        while done < size and time.monotonic() - began < LONGEST_S:
            end = min(size, done + PIECE)
            for at in range(done, end, PAGE):
                memory[at] = 1
            done = end
    return done, time.monotonic() - began


def main(arguments: list[str]) -> int:
    """A launch goes on whatever happens here."""
    when, wanted, file = arguments
    try:
        if when == "auto" and not is_taken_back():
            return 0
        size = min(int(wanted), free_bytes() // SPARED * (SPARED - 1)) // PIECE * PIECE
        if size:
            done, seconds = touch(size)
            Path(file).write_text(json.dumps({"bytes": done, "seconds": round(seconds, 3)}))
    except (OSError, ValueError, KeyError) as e:
        print(f"{Path(__file__).name}: no memory was touched: {e}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
