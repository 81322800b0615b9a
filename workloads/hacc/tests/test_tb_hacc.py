"""tb-hacc: header, offsets and content of its files by each interface, and what it says of a wrong one."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from steps import Steps, refused, through_tiers

VARIABLES = ("<f4",) * 7 + ("<i8", "<u2")
HEADER = 25165824


class Hacc(Steps):
    name = "tb-hacc"


@pytest.fixture
def hacc(folder: Path) -> Hacc:
    return Hacc(folder)


def particles(rank: int, count: int, step: int = 0) -> bytes:
    """A rank's nine variables one after the other; of the first step as HACC-IO fills them."""
    made = b""
    for v, kind in enumerate(VARIABLES):
        number = np.arange(count) + step * (16 * rank + v)
        made += (np.full(count, rank) if kind == "<u2" else number).astype(kind).tobytes()
    return made


def header(size: int, counts: list[int], ranks: list[int], everywhere: int, part: int, parts: int) -> bytes:
    words = [0, 16, size, 38, sum(counts), everywhere, len(ranks), parts, part, *[0] * 7, *counts, *ranks]
    return struct.pack(f"<{len(words)}q", *words).ljust(size, b"\0")


@pytest.mark.parametrize("interface", ["", "--mpiio"])
def test_a_shared_file_as_hacc_io_writes_it(hacc: Hacc, interface: str) -> None:
    found = hacc.result(f"101 f {interface}", ranks=3)
    file = hacc.folder / "f-Part00000000-of-00000001.data"
    data = file.read_bytes()
    assert data[:HEADER] == header(HEADER, [101] * 3, [0, 1, 2], 303, 0, 1)
    assert data[HEADER:] == b"".join(particles(rank, 101) for rank in range(3))
    assert found["bytes_written"] == found["bytes_read"] == len(data) == HEADER + 3 * 38 * 101
    assert (found["as_written"], found["files"]) == (True, 1)


def test_a_file_for_each_rank(hacc: Hacc) -> None:
    hacc.result("50 f -F --header 512")
    for rank in range(2):
        data = (hacc.folder / f"f-Part{rank:08d}-of-00000002.data").read_bytes()
        assert data == header(512, [50], [rank], 100, rank, 2) + particles(rank, 50)


def test_each_step_is_a_checkpoint_of_its_own(hacc: Hacc) -> None:
    found = hacc.result("50 f --header 512 --steps 3 --compute-us 20000")
    names = [f"f{step}-Part00000000-of-00000001.data" for step in ("", "-Step00000001", "-Step00000002")]
    assert hacc.names() == sorted([*names, "result.json"])
    for step, name in enumerate(names):
        data = (hacc.folder / name).read_bytes()[512:]
        assert data == particles(0, 50, step) + particles(1, 50, step)
    assert (found["files"], found["bytes_read"]) == (3, 3 * (512 + 2 * 50 * 38))
    assert found["compute_s"] >= 0.06


def test_without_reading(hacc: Hacc) -> None:
    found = hacc.result("50 f --header 512 --no-read", ranks=1)
    assert (found["bytes_read"], found["as_written"]) == (0, None)


def test_a_file_that_cannot_be_made(hacc: Hacc) -> None:
    (hacc.folder / "f-Part00000000-of-00000001.data").symlink_to(hacc.folder / "nowhere" / "f")
    assert "open" in hacc.run("50 f --header 512", ranks=1, status=3).stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("f", "two words are expected, PARTICLES and PREFIX"),
        ("0 f", "PARTICLES: '0' is not allowed"),
        ("5x f", "PARTICLES: '5x' is not allowed"),
        ("5 f --header 260", "--header must be a multiple of 8"),
    ],
)
def test_wrong_lines_are_refused(hacc: Hacc, line: str, words: str) -> None:
    refused(hacc, line, words)


@pytest.mark.parametrize("interface", ["", "--mpiio"])
def test_through_tiers_the_pfs_has_the_same_bytes(hacc: Hacc, interface: str) -> None:
    text = through_tiers(hacc, f"20000 pfs/f --header 4k --steps 2 --flush {interface}")
    assert "Contents: as written" in text
    for step, name in enumerate(("f", "f-Step00000001")):
        data = (hacc.folder / "pfs" / f"{name}-Part00000000-of-00000001.data").read_bytes()
        assert data[:4096] == header(4096, [20000] * 2, [0, 1], 40000, 0, 1)
        assert data[4096:] == particles(0, 20000, step) + particles(1, 20000, step)
