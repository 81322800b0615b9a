"""Darshan logs made up for tests, in the format of version 3.41; nothing here was measured.

A log is: header (1328 bytes), then one zlib stream each for job with command line and mounts, for names, and
for every module.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = 6567223
HEADER_BYTES = 1328
IDS = {
    "POSIX": (1, 4),
    "MPI-IO": (2, 3),
    "STDIO": (9, 2),
    "DXT_POSIX": (10, 1),
    "DXT_MPIIO": (11, 2),
    "HEATMAP": (15, 1),
}
SIZES = {"POSIX": (69, 17), "STDIO": (14, 15)}
SEGMENT = np.dtype([("offset", "<i8"), ("length", "<i8"), ("start_s", "<f8"), ("end_s", "<f8")])


@dataclass
class Made:
    """A log in the making."""

    nprocs: int = 4
    run_s: float = 10.0
    began: int = 1_700_000_000
    metadata: str = "lib_ver=3.5.0\n"
    executable: str = "./program -w"
    mounts: Sequence[tuple[str, str]] = (("/", "ext4"), ("/scratch", "lustre"))
    names: dict[int, bytes] = field(default_factory=dict)
    modules: dict[str, list[bytes]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def name(self, file: str | bytes) -> int:
        """The id of a file name."""
        raw = file if isinstance(file, bytes) else file.encode()
        number = zlib.crc32(raw) + 1
        self.names[number] = raw
        return number

    def counters(self, module: str, file: str | bytes, rank: int, **values: float) -> None:
        """A record; counters by their name without the module (`BYTES_READ`, `F_READ_TIME`), others 0."""
        from darshan.backend import cffi_backend

        names = [*cffi_backend.counter_names(module), *cffi_backend.fcounter_names(module)]
        found = {n.split("_", 1)[1]: values.get(n.split("_", 1)[1], 0) for n in names}
        assert values.keys() <= found.keys(), values.keys() - found.keys()
        ints, floats = SIZES[module]
        record = struct.pack(f"<Qq{ints}q{floats}d", self.name(file), rank, *found.values())
        self.modules.setdefault(module, []).append(record)

    def dxt(self, file: str, rank: int, writes: NDArray[Any], reads: NDArray[Any], host: str = "n1") -> None:
        """A DXT_POSIX record; both arrays are of `SEGMENT`."""
        head = struct.pack("<Qqq64sqq", self.name(file), rank, 0, host.encode(), len(writes), len(reads))
        self.modules.setdefault("DXT_POSIX", []).append(head + writes.tobytes() + reads.tobytes())

    def heat(self, rank: int, bin_s: float, written: Sequence[int], read: Sequence[int]) -> None:
        """A HEATMAP record of the POSIX layer."""
        head = struct.pack("<Qqdqqq", self.name("heatmap:POSIX"), rank, bin_s, len(written), 0, 0)
        bins = np.array([*written, *read], dtype="<i8").tobytes()
        self.modules.setdefault("HEATMAP", []).append(head + bins)

    def write(self, path: Path) -> Path:
        """Write the log."""
        start, whole = self.began, int(self.run_s)
        end = (start + whole, int((self.run_s - whole) * 1e9))
        job = struct.pack("<7q1024s", 1000, start, 0, *end, self.nprocs, 77, self.metadata.encode())
        mounts = "".join(f"\n{kind}\t{where}" for where, kind in self.mounts)
        job += (self.executable + mounts).encode("utf-8", "surrogateescape") + b"\0"
        names = b"".join(struct.pack("<Q", i) + name + b"\0" for i, name in self.names.items())
        regions, maps, versions = [zlib.compress(job)], [(0, 0)] * 64, [0] * 64
        name_map = self._place(regions, zlib.compress(names))
        for module, records in sorted(self.modules.items(), key=lambda m: IDS[m[0]][0]):
            number, version = IDS[module]
            maps[number] = self._place(regions, zlib.compress(b"".join(records), 1))
            versions[number] = self.versions.get(module, version)
        flat = [n for pair in maps for n in pair]
        head = struct.pack("<8sqB7x131Q64I", b"3.41", MAGIC, 0, 0, *name_map, *flat, *versions)
        path.write_bytes(head.ljust(HEADER_BYTES, b"\0") + b"".join(regions))
        return path

    @staticmethod
    def _place(regions: list[bytes], region: bytes) -> tuple[int, int]:
        offset = HEADER_BYTES + sum(map(len, regions))
        regions.append(region)
        return offset, len(region)


def words_changed(log: bytes, change: Callable[[int, bytearray], None]) -> bytes:
    """A log: its regions are unpacked, given to `change` by their place in the header, and packed again."""
    maps = list(struct.iter_unpack("<QQ", log[32 : 32 + 65 * 16]))
    used = [(i, offset, length) for i, (offset, length) in enumerate(maps) if length]
    job = log[HEADER_BYTES : min(offset for _, offset, _ in used)]
    out, found = bytearray(log[:HEADER_BYTES]) + job, [(0, 0)] * 65
    for index, offset, length in used:
        region = bytearray(zlib.decompress(log[offset : offset + length]))
        change(index, region)
        packed = zlib.compress(region)
        found[index] = len(out), len(packed)
        out += packed
    out[32 : 32 + 65 * 16] = b"".join(struct.pack("<QQ", *place) for place in found)
    return bytes(out)


def accesses(offsets: Any, length: int, starts: Any, lasting: float) -> NDArray[Any]:
    """DXT segments of one length; offsets and start times one each."""
    made = np.zeros(len(offsets), dtype=SEGMENT)
    made["offset"], made["length"] = offsets, length
    made["start_s"] = starts
    made["end_s"] = made["start_s"] + lasting
    return made


def strided(ranks: int = 4, each: int = 64, length: int = 1 << 20, slow: int = 3) -> Made:
    """Ranks that write interleaved pieces of one shared file; rank `slow` takes five times as long."""
    made, file = Made(nprocs=ranks), "/scratch/shared.dat"
    for rank in range(ranks):
        lasting = 0.05 if rank == slow else 0.01
        offsets = (np.arange(each) * ranks + rank) * length
        made.dxt(
            file, rank, accesses(offsets, length, np.arange(each) * lasting, lasting), accesses([], 0, [], 0)
        )
    total = ranks * each
    made.counters(
        "POSIX",
        file,
        -1,
        OPENS=ranks,
        WRITES=total,
        BYTES_WRITTEN=total * length,
        MAX_BYTE_WRITTEN=total * length - 1,
        SIZE_WRITE_100K_1M=total,
        SEQ_WRITES=total - ranks,
        FILE_ALIGNMENT=4096,
        ACCESS1_ACCESS=length,
        ACCESS1_COUNT=total,
        FASTEST_RANK=0,
        FASTEST_RANK_BYTES=each * length,
        SLOWEST_RANK=slow,
        SLOWEST_RANK_BYTES=each * length,
        F_WRITE_TIME=each * (0.05 + 0.01 * (ranks - 1)),
        F_META_TIME=0.02,
        F_FASTEST_RANK_TIME=each * 0.01,
        F_SLOWEST_RANK_TIME=each * 0.05,
        F_OPEN_START_TIMESTAMP=0.001,
        F_OPEN_END_TIMESTAMP=0.004,
        F_CLOSE_START_TIMESTAMP=3.3,
        F_CLOSE_END_TIMESTAMP=3.31,
    )
    return made
