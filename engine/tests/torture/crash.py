"""Play a crash of the node: take back from files what was written and not synced (engine/src/chain/undo/undo.h)."""

import ctypes
import os
import random
import struct
from dataclasses import dataclass
from pathlib import Path

HEADER = struct.Struct("<8Q")
MAGIC = (0x6B6361627473614C).to_bytes(8, "little")
LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, STATX_BTIME = -100, 0x800
WRITE, CUT, SYNC_BEGIN, SYNC_END = 1, 2, 3, 4


@dataclass(frozen=True)
class Record:
    kind: int
    file: tuple[int, int]  # inode number and birth time in ns; numbers are used again
    offset: int
    old: bytes  # what was there
    size: int  # of the file before; of a sync, the number that its two records share
    written: int  # bytes


def identity(path: Path) -> tuple[int, int]:
    """As the engine tells files apart; a birth of 0: the file system keeps none."""
    answer = ctypes.create_string_buffer(256)
    if LIBC.statx(AT_FDCWD, os.fsencode(path), 0, STATX_BTIME, answer):
        raise OSError(ctypes.get_errno(), "statx", str(path))
    mask, seconds, nanoseconds = (
        struct.unpack_from(kind, answer, at)[0] for kind, at in (("<I", 0), ("<q", 80), ("<I", 88))
    )
    return path.stat().st_ino, seconds * 10**9 + nanoseconds if mask & STATX_BTIME else 0


def read_log(log: bytes) -> list[Record]:
    """Of a record that its writer's end cut short nothing was done."""
    records, at = [], log.find(MAGIC)
    while 0 <= at <= len(log) - HEADER.size:
        _, kind, inode, birth, offset, length, size, written = HEADER.unpack_from(log, at)
        end = at + HEADER.size + length
        if log[end : end + 8] == MAGIC or end == len(log):
            records.append(Record(kind, (inode, birth), offset, log[end - length : end], size, written))
        at = log.find(MAGIC, end if log[end : end + 8] == MAGIC else at + 8)
    return records


def synced_until(records: list[Record]) -> dict[tuple[int, int], int]:
    """By file, the number of the record before which everything is synced. An end belongs to the last begin of its file and number."""
    begins: dict[tuple[tuple[int, int], int], int] = {}
    synced: dict[tuple[int, int], int] = {}
    for i, r in enumerate(records):
        if r.kind == SYNC_BEGIN:
            begins[r.file, r.size] = i
        elif r.kind == SYNC_END:
            synced[r.file] = max(synced.get(r.file, 0), begins[r.file, r.size])
    return synced


def take_back(path: Path, r: Record, kept: int) -> None:
    """All of the change but the first `kept` bytes."""
    with path.open("r+b") as file:
        end = os.fstat(file.fileno()).st_size
        if r.kind == CUT:
            file.truncate(max(r.size, end))
            file.seek(r.offset)
            file.write(r.old)
        elif kept < r.written:
            file.seek(r.offset + kept)
            file.write(r.old.ljust(r.written, b"\0")[kept:])
            if r.size < end == r.offset + r.written:
                file.truncate(max(r.size, r.offset + kept))


def crash(log: Path, places: list[Path], chance: random.Random) -> int:
    """Returns how many changes were lost, wholly or from some 512-byte sector on."""
    records = read_log(log.read_bytes()) if log.exists() else []
    synced = synced_until(records)
    paths = {identity(p): p for place in places for p in place.rglob("*") if p.is_file()}
    how_much, lost = chance.choice([0.2, 0.5, 1.0]), 0
    for i in range(len(records) - 1, -1, -1):
        r = records[i]
        if r.kind > CUT or i < synced.get(r.file, 0) or r.file not in paths or chance.random() > how_much:
            continue
        take_back(paths[r.file], r, 512 * chance.randint(0, r.written // 512) if chance.random() < 0.3 else 0)
        lost += 1
    return lost
