"""Has a run room? Memory for what occupies it and disk for its data, asked before anything is launched."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .tiers import ScaleError, parse_bytes


def memory_bytes() -> int:
    """Memory that could cache files: of this machine, or of the control group that holds us to less."""
    return min([_meminfo("MemAvailable"), *_group_limits()])


def _group_limits() -> list[int]:
    """Bytes that control groups (version 1 or 2) allow this process; none where they don't limit it."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = Path("/sys/fs/cgroup", "memory" if controllers else "", path.lstrip("/"))
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        if controllers in ("", "memory") and (folder / name).exists():
            text = (folder / name).read_text().strip()
            found += [int(text)] if text.isdigit() else []
    return found


def _meminfo(name: str) -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields[name].split()[0]) * 1024


def hog_bytes(text: str) -> int:
    """Bytes a node that IOR's `-M text` occupies; nothing for an empty text."""
    if not text:
        return 0
    percent = re.fullmatch(r"([1-9]\d?)%", text)
    if percent:
        return _meminfo("MemTotal") * int(percent[1]) // 100
    try:
        return parse_bytes(text)
    except ScaleError:
        raise ScaleError(f"memory_hog={text!r}; allowed: 1% to 99%, or a size such as 2g") from None


def memory_place(wanted: str | None, bytes_needed: int) -> str | None:
    """`wanted`, a directory in memory, where a twin's places have room there; else None."""
    if not wanted or not os.access(wanted, os.W_OK):
        return None
    return wanted if min(shutil.disk_usage(wanted).free, memory_bytes()) > bytes_needed else None


def short_of_memory(needs: dict[str, int], there: int) -> str | None:
    """What lacks, where the needs (bytes, by what they are for) exceed the memory that is there."""
    if sum(needs.values()) <= there:
        return None
    parts = ", ".join(f"{what} {size}" for what, size in needs.items() if size)
    return f"needs {sum(needs.values())} bytes of memory ({parts}); {there} are there"


def short_of_disk(place: Path, needed: int) -> str | None:
    """What lacks, where `place` (or what will hold it) has too little room."""
    there = next(p for p in (place, *place.parents) if p.exists())
    free = shutil.disk_usage(there).free
    return f"needs {needed} bytes in {there}; {free} are free" if needed > free else None


def full_percent(df: Path) -> float | None:
    """How full the file system was, by the first lines of `df -P -k` in a file."""
    try:
        words = df.read_text().splitlines()[1].split()
        return round(100 * int(words[2]) / (int(words[2]) + int(words[3])), 1)
    except (OSError, IndexError, ValueError, ZeroDivisionError):
        return None
