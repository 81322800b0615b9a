"""Did two programs leave the same files? HACC's byte for byte; of HDF5 the steps and each dataset's bytes.

The particles of `vpicio_uni` and h5bench are random numbers, and their groups have names of their own.
"""

from __future__ import annotations

import filecmp
from pathlib import Path

import h5py


def differences(original: Path, embedded: Path) -> list[str]:
    """What is in one of the folders alone, or differs; nothing where no file is left is a difference, too."""
    theirs, ours = (sorted(p.name for p in folder.iterdir()) for folder in (original, embedded))
    if theirs != ours or not theirs:
        return [f"files: the original left {theirs}, ours {ours}"]
    return [told for name in theirs if (told := _difference(original / name, embedded / name))]


def _difference(theirs: Path, ours: Path) -> str:
    if theirs.suffix != ".h5":
        sizes = [path.stat().st_size for path in (theirs, ours)]
        told = f"{theirs.name}: the original has {sizes[0]} bytes, ours {sizes[1]}"
        return "" if filecmp.cmp(theirs, ours, shallow=False) else f"{told}: not the same"
    layouts = [_layout(path) for path in (theirs, ours)]
    return (
        "" if layouts[0] == layouts[1] else f"{theirs.name}: the original has {layouts[0]}, ours {layouts[1]}"
    )


def _layout(path: Path) -> list[list[tuple[tuple[int, ...], int]]]:
    """Of each step the shape of its datasets and the bytes of a number in them."""
    steps: dict[str, list[tuple[tuple[int, ...], int]]] = {}

    def look(name: str, found: object) -> None:
        if isinstance(found, h5py.Dataset):
            steps.setdefault(name.rpartition("/")[0], []).append((found.shape, found.dtype.itemsize))

    with h5py.File(path) as file:
        file.visititems(look)
    return sorted(sorted(datasets) for datasets in steps.values())
