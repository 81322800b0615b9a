"""tb-alternate: its files, its time, its refusals, and the same bytes through tiers."""

from __future__ import annotations

from pathlib import Path

import pytest
from steps import Steps, content, of_rank, refused, through_tiers


class Alternate(Steps):
    name = "tb-alternate"


@pytest.fixture
def alternate(folder: Path) -> Alternate:
    return Alternate(folder)


def test_each_rank_appends_a_piece_in_each_phase(alternate: Alternate) -> None:
    found = alternate.result("f --phases 3 -b 24k -t 8k --compute-us 30000")
    assert (found["ranks"], found["steps"], found["files"]) == (2, 3, 2)
    assert (found["bytes_written"], found["bytes_read"], found["as_written"]) == (2 * 3 * 24576, 0, None)
    for rank in range(2):
        assert of_rank(alternate.folder / "f", rank) == content(rank, 3 * 24576)
    assert alternate.names() == ["f.00000000", "f.00000001", "result.json"]
    assert found["compute_s"] >= 0.09  # and is no part of the I/O time
    assert found["io_s"] < found["compute_s"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "one word is expected, PREFIX"),
        ("f g", "one word is expected, PREFIX"),
        ("f --phases 0", "a whole number from 1"),
        ("f -b 20 -t 8", "--bytes and --transfer must be multiples of 8"),
        ("f -b 24k -t 16k", "--bytes must be a multiple of --transfer"),
        ("f --phase 3", "unknown option --phase"),
        ("f --json", "a value is missing after --json"),
    ],
)
def test_wrong_lines_are_refused(alternate: Alternate, line: str, words: str) -> None:
    refused(alternate, line, words)


def test_an_end_before_the_result_is_an_error(alternate: Alternate) -> None:
    assert "nowhere/f.00000000: open" in alternate.run("nowhere/f", ranks=1, status=3).stderr
    done = alternate.run("f --phases 1 -b 8 -t 8 --json nowhere/j", ranks=1, status=3)
    assert "nowhere/j: open" in done.stderr


def test_help_lists_the_options(alternate: Alternate) -> None:
    done = alternate.run("--help", ranks=1)
    assert done.stdout.startswith("usage: tb-alternate PREFIX [options]\n")
    assert "--compute-us=VALUE" in done.stdout


def test_through_tiers_the_pfs_has_the_same_bytes(alternate: Alternate) -> None:
    through_tiers(alternate, "pfs/f --phases 4 -b 320k -t 64k --flush")
    for rank in range(2):
        assert of_rank(alternate.folder / "pfs" / "f", rank) == content(rank, 4 * 327680)
