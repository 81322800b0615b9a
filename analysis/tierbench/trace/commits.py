"""Accesses of several nodes to the same bytes that commit consistency does not order (docs/nodes.md).

Two accesses of different nodes to one range, of which one is a write, are ordered where the first has ended,
then its node commits the file (fsync, close), then the other node looks (open, fsync), and then the other
begins. A log has the times of every access, but of opens and closes only when the first began and the last
ended, and of fsyncs only how many. So a pair is *not ordered* where no commit, or no look, can have been
between the two; where there is room for both the log cannot tell more, and the pair is *possible*. Only the
application side says what a program asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tierbench.trace.frames import Traces

MOST_NAMED = 20


@dataclass(frozen=True)
class Access:
    """One segment."""

    host: str
    rank: int
    access: str
    begin: int
    end: int
    start_s: float
    end_s: float

    def __str__(self) -> str:
        return (
            f"{self.access} by rank {self.rank} of {self.host} from {self.start_s:.6f} to {self.end_s:.6f} s"
        )


@dataclass(frozen=True)
class Unordered:
    """A pair that the model does not order."""

    file: str
    first: Access
    second: Access
    why: str

    def __str__(self) -> str:
        begin, end = max(self.first.begin, self.second.begin), min(self.first.end, self.second.end)
        return f"{self.file} [{begin}, {end}): {self.first}; {self.second}: {self.why}"


@dataclass(frozen=True)
class Verdict:
    """`pairs` are all that were looked at; `possible` of them are ordered as far as the log can tell."""

    pairs: int
    possible: int
    unordered: tuple[Unordered, ...]


@dataclass(frozen=True)
class _Moments:
    """Of a file and rank, or of all ranks where the log has merged them."""

    opens: tuple[float, float]
    closes: tuple[float, float]
    flushes: bool

    def may_commit(self, after: float, before: float) -> bool:
        return self.flushes or _meets(self.closes, after, before)

    def may_look(self, after: float, before: float) -> bool:
        return self.flushes or _meets(self.opens, after, before)


def _meets(span: tuple[float, float], after: float, before: float) -> bool:
    """A time that is not told may be any."""
    return not (span[1] <= after or span[0] >= before)


def check(traces: Traces) -> Verdict:
    """Of all logs of the application side, each by itself."""
    pairs, unordered = 0, []
    for label in traces.job["log"][traces.job["side"] == "application"]:
        mine = traces.of(str(label))
        moments = _moments(mine.files)
        segments = mine.segments[mine.segments["module"] == "DXT_POSIX"]
        for file, lines in segments.groupby("file", observed=True):
            for first, second in _conflicts(_accesses(lines)):
                pairs += 1
                why = _why(moments, str(file), first, second)
                unordered += [Unordered(str(file), first, second, why)] if why else []
    return Verdict(pairs, pairs - len(unordered), tuple(unordered))


def _accesses(lines: pd.DataFrame) -> list[Access]:
    """In the order of their offsets."""
    ordered = lines[lines["length"] > 0].sort_values("offset", kind="stable")
    columns = [
        ordered[c].tolist() for c in ("host", "rank", "access", "offset", "length", "start_s", "end_s")
    ]
    return [Access(h, r, a, o, o + n, s, e) for h, r, a, o, n, s, e in zip(*columns, strict=True)]


def _conflicts(accesses: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Pairs of two nodes that share bytes, one of them a write; the one that began first comes first."""
    near: dict[str, list[Access]] = {"read": [], "write": []}
    for one in accesses:
        for kind, open_ in near.items():
            near[kind] = open_ = [a for a in open_ if a.end > one.begin]
            if "write" in (kind, one.access):
                yield from (
                    (a, one) if a.start_s <= one.start_s else (one, a) for a in open_ if a.host != one.host
                )
        near[one.access].append(one)


def _moments(files: pd.DataFrame) -> dict[tuple[str, int], _Moments]:
    found = {}
    for line in files[files["module"] == "POSIX"].to_dict("records"):
        opens = _span(line["open_start_s"], line["open_end_s"])
        closes = _span(line["close_start_s"], line["close_end_s"])
        flushes = bool(pd.isna(line["flushes"]) or line["flushes"] > 0)
        found[str(line["file"]), int(line["rank"])] = _Moments(opens, closes, flushes)
    return found


def _span(start: Any, end: Any) -> tuple[float, float]:
    """What is not told may be at any time."""
    return (-float("inf") if pd.isna(start) else float(start), float("inf") if pd.isna(end) else float(end))


_ANY = _Moments((-float("inf"), float("inf")), (-float("inf"), float("inf")), flushes=True)


def _why(moments: dict[tuple[str, int], _Moments], file: str, first: Access, second: Access) -> str:
    if second.start_s < first.end_s:
        return "at the same time"
    writer, reader = (moments.get((file, a.rank), moments.get((file, -1), _ANY)) for a in (first, second))
    between = (first.end_s, second.start_s)
    if first.access == "write" and not writer.may_commit(*between):
        return f"no fsync or close on {first.host} between them"
    if first.access == "write" and not reader.may_look(*between):
        return f"no open or fsync on {second.host} between them"
    return ""
