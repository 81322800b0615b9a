"""The CSV files in which IOR and mdtest save what each rank did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tierbench.outputs.strict_numbers import OutputError, natural, read_text, real, refuse

_IOR_HEADING = [
    "access",
    "rank",
    "runtime-with-openclose",
    "runtime",
    "throughput-withopenclose",
    "throughput",
]


@dataclass(frozen=True)
class IorRank:
    """One operation of one rank: its own seconds from open to close, of the transfers, and bytes a second."""

    access: str
    rank: int
    iteration: int
    total_s: float
    transfer_s: float
    total_bytes_s: float
    transfer_bytes_s: float


@dataclass(frozen=True)
class MdtestRank:
    """One phase of one rank (None: all ranks together) in one iteration: operations a second and seconds."""

    operation: str
    rank: int | None
    iteration: int
    rate: float
    seconds: float


def read_ior_ranks(path: Path | str) -> tuple[IorRank, ...]:
    """Read the file of `-O saveRankPerformanceDetailsCSV`."""
    return parse_ior_ranks(read_text(path), str(path))


def parse_ior_ranks(text: str, path: str = "<text>") -> tuple[IorRank, ...]:
    """Read IOR's ranks from a string; `path` is only for messages."""
    seen: dict[tuple[str, int], int] = {}
    rows: list[IorRank] = []
    order = _Order(path)
    for number, words in _rows(text, path, _IOR_HEADING):
        if words[0] not in ("write", "read"):
            raise OutputError(path, number, f"access is {words[0]!r}, expected write or read")
        key = words[0], natural(words[1], path, number, "rank")
        order.take(key[1], number)
        values = [real(w, path, number, c) for w, c in zip(words[2:], _IOR_HEADING[2:], strict=True)]
        rows.append(IorRank(*key, seen.get(key, 0), *values))
        seen[key] = seen.get(key, 0) + 1
    order.end(len(text.splitlines()))
    return tuple(rows)


def read_mdtest_ranks(path: Path | str) -> tuple[MdtestRank, ...]:
    """Read the file of `--saveRankPerformanceDetails`."""
    return parse_mdtest_ranks(read_text(path), str(path))


def parse_mdtest_ranks(text: str, path: str = "<text>") -> tuple[MdtestRank, ...]:
    """Read mdtest's ranks from a string; `path` is only for messages."""
    lines = text.splitlines()
    heading = lines[0].split(",") if lines else []
    operations = [c.removeprefix("rate-") for c in heading[2::2]]
    if heading != ["rank", "items", *(f"{kind}-{op}" for op in operations for kind in ("rate", "time"))]:
        refuse(text, path, "is not a file of mdtest's ranks (rank,items,rate-...,time-...)")
    seen: dict[str, int] = {}
    rows: list[MdtestRank] = []
    order = _Order(path)
    for number, words in _rows(text, path, heading, may_lack=4):  # ranks have no columns of the tree
        rank = None if words[0] == "all" else natural(words[0], path, number, "rank")
        order.take(rank, number)
        for operation, rate, seconds in zip(operations, words[2::2], words[3::2], strict=False):
            if (not rate and not seconds) or rate == "inf":  # not run, or no time at all
                continue
            values = (real(w, path, number, operation) for w in (rate, seconds))
            rows.append(MdtestRank(operation, rank, seen.get(words[0], 0), *values))
        seen[words[0]] = seen.get(words[0], 0) + 1
    order.end(len(text.splitlines()))
    return tuple(rows)


class _Order:
    """Ranks follow each other from 0 on, once an operation or iteration, so that a lost row is noticed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.next = self.before = 0  # the rank that is due; how many the last complete round had

    def take(self, rank: int | None, number: int) -> None:
        """The rank of a row; None is a row of all ranks, after which their number may be another."""
        if rank == 0 or rank is None:
            self.before, self.next = (self.next if rank == 0 else 0), 0
        if rank is not None and rank != self.next:
            raise OutputError(self.path, number, f"rank {rank} where rank {self.next} is due")
        self.next += rank is not None

    def end(self, number: int) -> None:
        """After the last row, which is line `number`."""
        if self.next < self.before:
            raise OutputError(self.path, number, f"is cut off: rank {self.next} is due")


def _rows(text: str, path: str, heading: list[str], may_lack: int = 0) -> Iterator[tuple[int, list[str]]]:
    """The rows below the heading with their line numbers; a file without any, or cut off, is refused."""
    lines = text.splitlines()
    if not lines or lines[0].split(",") != heading:
        refuse(text, path, f"does not begin with {','.join(heading[:3])}...")
    if len(lines) == 1:
        refuse(text, path, "holds no result")
    if not text.endswith("\n"):
        raise OutputError(path, len(lines), "is cut off: the last line does not end")
    for number, line in enumerate(lines[1:], 2):
        if line == lines[number - 2]:
            raise OutputError(path, number, "the same row comes twice")
        words = line.split(",")
        if len(words) not in (len(heading), len(heading) - may_lack):
            problem = f"has {len(words)} columns under a heading of {len(heading)} (cut off, or mixed?)"
            raise OutputError(path, number, problem)
        yield number, words
