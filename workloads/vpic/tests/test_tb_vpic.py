"""tb-vpic: groups, datasets, types and values of its file, read by h5py; its command line."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from steps import Steps, refused, through_tiers

NAMES = ("x", "y", "z", "id1", "id2", "px", "py", "pz")


class Vpic(Steps):
    name = "tb-vpic"


@pytest.fixture
def vpic(folder: Path) -> Vpic:
    return Vpic(folder)


def values(step: int, variable: int, count: int) -> np.ndarray:
    """Numbers of 24 bits, by step, variable and place among the particles of all ranks."""
    key = (step * len(NAMES) + variable) * 0x9E3779B1 + np.arange(count, dtype=np.uint64)
    return ((key & 0xFFFFFFFF) * 2654435761 & 0xFFFFFFFF) >> 8


def check(path: Path, steps: int, count: int) -> None:
    """All of a file: groups, datasets in the kernel's order, types, values."""
    with h5py.File(path) as file:
        assert list(file.attrs) == ["Origin"]
        assert sorted(file) == [f"Step#{step}" for step in range(steps)]
        for step in range(steps):
            group = file[f"Step#{step}"]
            assert sorted(group) == sorted(NAMES)
            places = [group[name].id.get_offset() for name in NAMES]
            assert places == sorted(places)
            for v, name in enumerate(NAMES):
                assert group[name].dtype == ("<i4" if name.startswith("id") else "<f4")
                assert group[name].chunks is None
                assert np.array_equal(group[name][:], values(step, v, count))


@pytest.mark.parametrize("transfers", ["", "--independent"])
def test_a_group_a_step_and_a_dataset_a_variable(vpic: Vpic, transfers: str) -> None:
    found = vpic.result(f"f.h5 --particles 1001 --steps 3 {transfers}", ranks=3)
    assert (found["steps"], found["files"], found["bytes_written"]) == (3, 1, 3 * 3 * 1001 * 32)
    check(vpic.folder / "f.h5", 3, 3 * 1001)


def test_through_tiers_the_pfs_has_the_same_file(vpic: Vpic) -> None:
    through_tiers(vpic, "pfs/f.h5 --particles 5000 --steps 3 --flush")
    check(vpic.folder / "pfs" / "f.h5", 3, 2 * 5000)


def test_n_is_in_mi_particles(vpic: Vpic) -> None:
    found = vpic.result("f.h5 1", ranks=1)
    assert found["bytes_written"] == 32 << 20


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "one or two words are expected, FILE and N"),
        ("f.h5 0", "N: '0' is not allowed"),
        ("f.h5 1 2", "one or two words are expected"),
        ("f.h5 --steps 0", "a whole number from 1"),
    ],
)
def test_wrong_lines_are_refused(vpic: Vpic, line: str, words: str) -> None:
    refused(vpic, line, words)


def test_a_file_that_cannot_be_made(vpic: Vpic) -> None:
    done = vpic.run("nowhere/f.h5 1", ranks=1, status=3)
    assert "tb-vpic: nowhere/f.h5: open: HDF5 failed" in done.stderr
