"""What is told of a program's own words."""

from __future__ import annotations

import pytest

from tierbench.base.text import last_words

RULE = "-" * 74
ROOT = f"""{RULE}
mpirun has detected an attempt to run
as root.

We reiterate our advice against doing so.
{RULE}
"""


@pytest.mark.parametrize(("printed", "told"), [
    ("", "nothing was printed"),
    ("one\ntwo\n----\n\n", "two"),
    (f"one\n{RULE}\n", "one"),
    (ROOT, "mpirun has detected an attempt to run as root."),
    (f"no such model\n{ROOT}\n{ROOT}", "no such model"),
])  # fmt: skip
def test_last_words(printed: str, told: str) -> None:
    assert last_words(printed) == told
