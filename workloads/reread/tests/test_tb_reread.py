"""tb-reread: its files, how often they are read, and what it says of bytes that are not as written."""

from __future__ import annotations

from pathlib import Path

import pytest
from steps import Steps, content, of_rank, refused, through_tiers


class Reread(Steps):
    name = "tb-reread"


@pytest.fixture
def reread(folder: Path) -> Reread:
    return Reread(folder)


def test_what_is_written_once_is_read_that_often(reread: Reread) -> None:
    found = reread.result("f -b 64k -t 16k --times 4")
    assert (found["bytes_written"], found["bytes_read"], found["as_written"]) == (2 * 65536, 8 * 65536, True)
    assert found["files"] == 2
    for rank in range(2):
        assert of_rank(reread.folder / "f", rank) == content(rank, 65536)


def test_other_bytes_are_an_error(reread: Reread) -> None:
    """A link to a device of noughts in the place of a file: what is written there is gone."""
    (reread.folder / "f.00000000").symlink_to("/dev/zero")
    done = reread.run("f -b 64k -t 16k --json j", ranks=1, status=1)
    assert "Contents: NOT as written" in done.stdout
    assert '"as_written": false' in (reread.folder / "j").read_text()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--times 2", "one word is expected, PREFIX"),
        ("f --times 0", "a whole number from 1"),
        ("f -b 24k -t 16k", "--bytes must be a multiple of --transfer"),
    ],
)
def test_wrong_lines_are_refused(reread: Reread, line: str, words: str) -> None:
    refused(reread, line, words)


def test_reads_of_buffered_bytes_are_right(reread: Reread) -> None:
    assert "Contents: as written" in through_tiers(reread, "pfs/f -b 512k -t 64k --times 2")
    assert of_rank(reread.folder / "pfs" / "f", 1) == content(1, 524288)
