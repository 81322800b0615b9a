"""Are the bytes that IOR wrote on the PFS? Read as files, after the drain, without any driver.

A transfer of rank r holds 64-bit words: r above, the run's signature plus the word's index below (IOR's
default packet). The signature is in the first word, so a command line without `-G` can be checked too.
A stonewall leaves holes; how many transfers must be there the driver says (`moved`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_CHUNK = 32 << 20


@dataclass(frozen=True)
class Content:
    """Bytes of transfers that are right, that are not, and the first place of those."""

    right: int
    wrong: int
    problem: str | None


def check(base: Path, ranks: int, transfer: int, block: int, *, shared: bool) -> Content:
    """All files (or the shared file) of a run; whole transfers of noughts are holes.

    A link leads to bytes that are elsewhere: they are wrong.
    """
    right = wrong = 0
    problem: str | None = None
    links = [file for file in files_of(base, ranks, shared=shared) if file.is_symlink()]
    if links:
        return Content(0, links[0].stat().st_size, f"{links[0]}: is a link to {links[0].readlink()}")
    signature: int | None = None
    for file, offset, owner, rows in _transfers(base, ranks, transfer, block, shared=shared):
        full = rows[rows.any(axis=1)]
        if signature is None and len(full):
            signature = int(full[0, 0]) & 0xFFFFFFFF
        if not len(full):
            continue
        same = (full == _expected(owner, signature or 0, transfer)).all(axis=1)
        right += int(same.sum()) * transfer
        wrong += int((~same).sum()) * transfer
        if problem is None and not same.all():
            problem = f"{file}: not what rank {owner} wrote, in the {len(rows) * transfer} bytes at {offset}"
    return Content(right, wrong, problem)


def _expected(owner: int, signature: int, transfer: int) -> np.ndarray:
    low = np.arange(transfer // 8, dtype=np.int64) + signature
    return (owner << 32) | low.astype(np.int32).astype(np.int64).astype(np.uint64)


def files_of(base: Path, ranks: int, *, shared: bool) -> list[Path]:
    """Where IOR puts the data of `-o base`."""
    return [base] if shared else [base.with_name(f"{base.name}.{rank:08d}") for rank in range(ranks)]


def _transfers(
    base: Path, ranks: int, transfer: int, block: int, *, shared: bool
) -> Iterator[tuple[Path, int, int, np.ndarray]]:
    """Pieces of files that one rank owns, as rows of a transfer each."""
    step = max(_CHUNK // transfer, 1) * transfer
    for number, file in enumerate(files_of(base, ranks, shared=shared)):
        size = file.stat().st_size // transfer * transfer
        for start in range(0, size, block):
            end = min(start + block, size)
            owner = start // block % ranks if shared else number
            for offset in range(start, end, step):
                words = np.fromfile(file, np.uint64, count=min(step, end - offset) // 8, offset=offset)
                yield file, offset, owner, words.reshape(-1, transfer // 8)
