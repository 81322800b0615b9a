"""Lines and words of a driver's output: strict numbers, and refusals that name file and line."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NoReturn

from tierbench.base import files
from tierbench.base.errors import RunError

_NOTICE = re.compile(r"^(?:WARNING|ERROR):? ?.*")


class OutputError(Exception):
    """An output that cannot be trusted: `path`, 1-based `line` (0: the file as a whole) and what is wrong."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


def read_text(path: Path | str) -> str:
    """The text of a file."""
    try:
        return files.read_text(Path(path), strict=False)
    except RunError as e:
        raise OutputError(str(path), 0, str(e).removeprefix(f"{path}: ")) from e


def refuse(text: str, path: str, problem: str) -> NoReturn:
    """Raise for a text as a whole: at the program's own error where it printed one, else at the last line."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("ERROR") or ": FAILED in " in line:
            raise OutputError(path, number, f"{problem}; the program said: {line.strip()}")
    raise OutputError(path, len(lines), problem)


def real(word: str, path: str, line: int, column: str) -> float:
    """A finite, plain decimal number; anything else is damage, not data."""
    if not re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", word):
        raise OutputError(path, line, f"{column} is {word!r}, expected a number")
    value = float(word)
    if not math.isfinite(value):
        raise OutputError(path, line, f"{column} is {word!r}, expected a finite number")
    return value


def optional(word: str, path: str, line: int, column: str) -> float | None:
    """A number, or None where the program prints that it has none."""
    return None if word in ("-", "NA") else real(word, path, line, column)


def natural(word: str, path: str, line: int, column: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"\d+", word):
        raise OutputError(path, line, f"{column} is {word!r}, expected a whole number")
    return int(word)


def notices(text: str) -> tuple[str, ...]:
    """The program's warnings and errors among its output."""
    return tuple(line.strip() for line in text.splitlines() if _NOTICE.match(line))
