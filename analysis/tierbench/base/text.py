"""Numbers and strangers' texts as words: the same digits on a terminal, on a page and in Markdown."""

from __future__ import annotations

import contextlib
import re
import signal
from typing import Protocol


class Ends(Protocol):
    """The ends of an interval."""

    @property
    def low(self) -> float:
        """The lower one."""

    @property
    def high(self) -> float:
        """The upper one."""

    @property
    def level(self) -> float | None:
        """How often it holds the true value of independent ones; 0 of a single value, None: not known."""

    @property
    def dependent(self) -> str | None:
        """Why the level is not known, where values are not independent."""


def number(value: float | None) -> str:
    """Four significant digits or the whole number, with thousands apart."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def last_words(printed: str) -> str:
    """The last line with a word in it; a program may draw a line under its message.

    What mpirun says between two drawn lines comes after the words of the program that it tells of, so it
    counts only where there are no others, and then its first sentences do.
    """
    parts = re.split(r"^\s*-{20,}\s*$", printed, flags=re.MULTILINE)
    boxes = parts[1::2] if len(parts) % 2 else []
    outside = "\n".join(parts[::2]) if boxes else printed
    lines = [line.strip() for line in outside.split("\n")]
    if said := next((line for line in reversed(lines) if any(map(str.isalnum, line))), ""):
        return said
    return " ".join(boxes[0].strip().split("\n\n")[0].split()) if boxes else "nothing was printed"


def times(value: float | None) -> str:
    """A ratio."""
    return "–" if value is None else f"{_three_digits(value)}x"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def seconds(value: float | None) -> str:
    """A time with three significant digits."""
    return "–" if value is None else "0" if value == 0 else _three_digits(value)


def duration(value: float | None) -> str:
    """A time from nanoseconds to hours with its unit; a dash where there is none."""
    if value is None:
        return "–"
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{_three_digits(value * factor)} {unit}"
    return f"{value * 1e9:.0f} ns"


def percent(value: float | None) -> str:
    """A signed difference."""
    return "–" if value is None else f"{value:+.1%}".replace("-", "−")


def span(interval: Ends | None) -> str:
    """The ends of an interval of a measured value, and its level."""
    return "" if interval is None else _span(number(interval.low), number(interval.high), interval)


def ratio_span(interval: Ends | None) -> str:
    """The ends of an interval of a ratio, and its level."""
    if interval is None:
        return ""
    return _span(_three_digits(interval.low), _three_digits(interval.high), interval)


def _span(low: str, high: str, interval: Ends) -> str:
    """Without a level the interval is the range, or of dependent values."""
    if interval.level == 0:
        return "one run"
    if interval.level is not None:
        return f"{low} – {high} ({level(interval.level)})"
    return f"{low} – {high} ({f'no level: {interval.dependent}' if interval.dependent else 'range'})"


def level(share: float) -> str:
    """In whole per cent, with the condition that every level has."""
    return f"{100 * share:.0f} % if independent"


def size(count: float) -> str:
    """Bytes with three digits and the unit that fits."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.3g} {unit}"


def sizes(*values: int) -> tuple[str, ...]:
    """Bytes that differ look different: where units hide that, they are plain numbers."""
    found = tuple(map(size, values))
    same = len(set(found)) < len(set(values))
    return tuple(f"{value:,} B" for value in values) if same else found


def shown(text: object) -> str:
    """Text of a stranger on one line of a message: control characters are spelled out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def plain(text: str) -> str:
    """A stranger's text as text of Markdown: neither markup nor HTML nor the end of a line.

    `>` is markup only where a line begins.
    """
    shown = "".join(c if c.isprintable() else "?" for c in text)
    for c in "\\`*_[]|#<":
        shown = shown.replace(c, "&lt;" if c == "<" else "\\" + c)
    return "&gt;" + shown[1:] if shown.startswith(">") else shown


def ended(status: int) -> str:
    """How a process ended, by the status that a shell gives it."""
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(status - 128).name} ({status})"
    return f"ended with {status}"


def counted(count: int, one: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def lacks(error: Exception) -> str:
    """What a document lacks, by the error that its reading raised."""
    if isinstance(error, KeyError):
        return f"it has no {shown(error.args[0])}"
    return (
        "a value in it is of another kind than there"
        if isinstance(error, TypeError | AttributeError)
        else shown(error)
    )
