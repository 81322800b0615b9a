"""What is told of a program's own words."""

from __future__ import annotations

import pytest

from tierbench.base.text import ended, last_words

RULE = "-" * 74
ROOT = f"""{RULE}
mpirun has detected an attempt to run
as root.

We reiterate our advice against doing so.
{RULE}
"""


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("", "nothing was printed"),
        ("one\ntwo\n----\n\n", "two"),
        (f"one\n{RULE}\n", "one"),
        (ROOT, "mpirun has detected an attempt to run as root."),
        (f"no such model\n{ROOT}\n{ROOT}", "no such model"),
    ],
)
def test_last_words(printed: str, told: str) -> None:
    assert last_words(printed) == told


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (7, "ended with 7"),
        (137, "was ended by SIGKILL (137)"),
        (255, "ended with 255"),
    ],
)
def test_how_a_program_ended(status: int, told: str) -> None:
    assert ended(status) == told
