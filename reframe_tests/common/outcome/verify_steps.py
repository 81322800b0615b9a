"""Are the bytes of the HPDC'18 workloads on the PFS? Read as files, after the drain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..scales.hpdc18_scale import HACC_RECORD, PHASES, VPIC_RECORD, Steps

_VPIC = ("x", "y", "z", "id1", "id2", "px", "py", "pz")
_HACC = ("<f4",) * 7 + ("<i8", "<u2")
_META = 16  # words of HACC's header before the ranks' counts


def right(steps: Steps, folder: Path) -> bool:
    """Every byte of every file; a file more or less is wrong, too."""
    look = {"alternating": _files, "repetitive": _files, "vpic": _vpic, "hacc": _hacc}[steps.workload.kind]
    try:
        return look(steps, folder)
    except (OSError, KeyError):
        return False


def _same(found: Any, expected: np.ndarray) -> bool:
    """To the bit: what an array says of equality is not true of NaN."""
    return np.ascontiguousarray(found).tobytes() == expected.tobytes()


# --- tb-alternate, tb-reread -------------------------------------------------------------------------------


def words(rank: int, count: int) -> np.ndarray:
    """Of a rank's file: the finisher of splitmix64 over rank and word."""
    with np.errstate(over="ignore"):
        x = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(rank << 40)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    made: np.ndarray = x ^ (x >> np.uint64(31))
    return made


def _files(steps: Steps, folder: Path) -> bool:
    prefix = "temporary" if steps.workload.temporary else "checkpoint"
    names = [f"{prefix}.{rank:08d}" for rank in range(steps.ranks)]
    if sorted(p.name for p in folder.iterdir()) != names:
        return False
    count = steps.bytes * steps.phases // 8
    return all(
        _same(np.fromfile(folder / name, np.uint64), words(rank, count)) for rank, name in enumerate(names)
    )


# --- tb-vpic -----------------------------------------------------------------------------------------------


def numbers(step: int, variable: int, count: int) -> np.ndarray:
    """Of all ranks: 24 bits of a hash of step, variable and place."""
    key = (step * len(_VPIC) + variable) * 0x9E3779B1 + np.arange(count, dtype=np.uint64)
    made: np.ndarray = ((key & 0xFFFFFFFF) * 2654435761 & 0xFFFFFFFF) >> 8
    return made


def _vpic(steps: Steps, folder: Path) -> bool:
    count = steps.bytes // VPIC_RECORD * steps.ranks
    with h5py.File(folder / "vpic.h5") as file:
        if sorted(file) != sorted(f"Step#{step}" for step in range(PHASES)):
            return False
        return all(
            _same(file[f"Step#{step}"][name][:], numbers(step, v, count).astype(_vpic_type(name)))
            for step in range(PHASES)
            for v, name in enumerate(_VPIC)
        )


def _vpic_type(name: str) -> str:
    return "<i4" if name.startswith("id") else "<f4"


# --- tb-hacc -----------------------------------------------------------------------------------------------


def _hacc(steps: Steps, folder: Path) -> bool:
    count = steps.bytes // HACC_RECORD
    for step in range(PHASES):
        of_step = f"-Step{step:08d}" if step else ""
        data = (folder / f"hacc{of_step}-Part00000000-of-00000001.data").read_bytes()
        if data != header(steps, count) + b"".join(particles(r, count, step) for r in range(steps.ranks)):
            return False
    return True


def header(steps: Steps, count: int) -> bytes:
    """Where each variable is, in 64-bit words, and for each rank its particles and its number."""
    n = steps.ranks
    made = [0, _META, steps.header, HACC_RECORD, count * n, count * n, n, 1, 0]
    made += [0] * (_META - len(made)) + [count] * n + list(range(n))
    return np.array(made, "<i8").tobytes().ljust(steps.header, b"\0")


def particles(rank: int, count: int, step: int) -> bytes:
    """A rank's nine variables, one after the other."""
    made = b""
    for v, kind in enumerate(_HACC):
        values = np.full(count, rank) if kind == "<u2" else np.arange(count) + step * (16 * rank + v)
        made += values.astype(kind).tobytes()
    return made
