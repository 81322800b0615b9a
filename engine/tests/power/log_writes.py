"""The log that the kernel's dm-log-writes keeps of all writes to a device (Documentation/admin-guide/device-mapper).

A superblock, then entries: a block that says where and how much, followed by the bytes.  A write that completed is logged at
the end of the first flush that began after it, so the entries before a flush are what a disk must have that lost everything not
flushed.  That holds only where flushes come one at a time.  Of two at once the later one may end first, and then older bytes of
a block are logged after newer ones: a file system's flush before a write with FUA takes two flushes of a disk without FUA, any
other takes one.  So the guest puts a loop device over the log: it has one flush at a time, and passes no FUA on.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
MAGIC, VERSION = 0x6A736677736872, 1
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
SECTOR = 512


class LogError(Exception):
    """It is not a log, one of another version, or not in the order of the disk."""


@dataclass(frozen=True)
class Entry:
    """One write, flush, discard or mark."""

    flags: int
    offset: int  # bytes, on the device
    length: int
    data_at: int  # bytes, in the log
    name: str  # of a mark


def entries(log: Path) -> Iterator[Entry]:
    """All entries that the superblock counts."""
    with log.open("rb") as file:
        magic, version, count, sector = SUPER.unpack(file.read(SUPER.size))
        if (magic, version) != (MAGIC, VERSION):
            raise LogError(f"{log}: no log of version {VERSION}")
        at = sector
        for _ in range(count):
            file.seek(at)
            block = file.read(sector)
            where, n_sectors, flags, data_length = ENTRY.unpack_from(block)
            if flags & FUA:
                raise LogError(
                    f"{log}: byte {at}: FUA, so no loop device was over the log: its order may not be the disk's"
                )
            name = block[ENTRY.size : ENTRY.size + data_length].decode() if flags & MARK else ""
            yield Entry(flags, where * SECTOR, n_sectors * SECTOR, at + sector, name)
            at += sector + (0 if flags & (MARK | DISCARD) else n_sectors * SECTOR)


def replay(log: Path, some: list[Entry], disk: Path) -> None:
    """Do the writes of some entries on an image, in their order."""
    with log.open("rb") as source, disk.open("r+b") as to:
        for entry in some:
            if entry.flags & DISCARD:
                os.pwrite(to.fileno(), bytes(entry.length), entry.offset)
            elif not entry.flags & MARK:
                os.pwrite(to.fileno(), os.pread(source.fileno(), entry.length, entry.data_at), entry.offset)
