"""What the command prints beside its answers: complaints, what is going on, tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def complain(lines: Iterable[str]) -> None:
    """On stderr, in the name of the command."""
    for line in lines:
        print(f"tierbench: {line}", file=sys.stderr)


def say(text: str) -> None:
    """What is going on, for a user that waits."""
    print(f"tierbench: {text}", file=sys.stderr, flush=True)


def console() -> Console:
    """As wide as the terminal; wide where the output is a file, so that nothing is wrapped."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)
