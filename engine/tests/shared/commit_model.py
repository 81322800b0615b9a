"""Is what several nodes read of one file what commit consistency allows (docs/nodes.md)?

A history is the operations of all nodes on one file, each with when it began and ended by one clock. Every write has a
value of its own, so a read tells for each range which write it saw. Three relations follow from the model:

- *committed*: a write is, when an fsync, close or drain of its node has returned that began after the write had ended;
- *must see*: a read must see a write of its own node that ended before it began, and a write of another node that was
  committed before an open or fsync began on the reader's node which ended before the read began;
- *replaced by*: a write is, by a later one of its node, and by one of another node that began after it was committed.

A read must not return a write that is replaced by one which it must see; nor zeros or the end of the file where it must
see a write; nor bytes that were never written, or not yet. Bytes that no operation orders may be seen early: before their commit,
or without a look. Where no operation orders two commits, one of them wins as a whole.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COMMITS = ("fsync", "close", "drain")
LOOKS = ("open", "fsync")
KINDS = ("open", "write", "read", "fsync", "close", "drain")
ZEROS = 0  # the value of bytes that were never written
END = -1  # and of those after the end of the file


@dataclass(frozen=True)
class Operation:
    """Times are nanoseconds; `at` and `length` are bytes; `got` is (begin, end, value) of each range that was read."""

    node: str
    worker: int
    kind: str
    begin: int
    end: int
    at: int = 0
    length: int = 0
    value: int = ZEROS
    got: tuple[tuple[int, int, int], ...] = ()

    @property
    def after(self) -> int:
        return self.at + self.length

    def __str__(self) -> str:
        where = f" of [{self.at}, {self.after})" if self.kind in ("read", "write") else ""
        return f"{self.kind}{where} by worker {self.worker} of {self.node}, {self.begin / 1e9:.6f} to {self.end / 1e9:.6f} s"


@dataclass(frozen=True)
class Violation:
    """A read that the model does not allow, and the operation that forbids it, if it is one."""

    read: Operation
    begin: int
    end: int
    why: str
    got: Operation | None = None
    other: Operation | None = None

    def __str__(self) -> str:
        lines = [f"{self.read}: at [{self.begin}, {self.end}) {self.why}"]
        lines += [f"    got {self.got}"] if self.got else []
        lines += [f"    for {self.other}"] if self.other else []
        return "\n".join(lines)


class _Times:
    """Of the commits and looks of each node, and by when a write was committed."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._commits = _by_node(o for o in operations if o.kind in COMMITS)
        self._first_end = {node: _least_from_here(found) for node, found in self._commits.items()}
        self._looks = _by_node(o for o in operations if o.kind in LOOKS)
        self._committed: dict[int, float] = {}

    def committed(self, write: Operation) -> float:
        if write.value not in self._committed:
            commits = self._commits.get(write.node, [])
            first = bisect_left(commits, write.end, key=lambda c: c.begin)
            ends = self._first_end.get(write.node, [])
            self._committed[write.value] = ends[first] if first < len(ends) else math.inf
        return self._committed[write.value]

    def looked(self, read: Operation) -> float:
        """What was committed before that, the reader's node knows."""
        return max(
            (o.begin for o in self._looks.get(read.node, []) if o.end <= read.begin), default=-math.inf
        )


def _by_node(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for operation in sorted(operations, key=lambda o: o.begin):
        found.setdefault(operation.node, []).append(operation)
    return found


def _least_from_here(operations: Sequence[Operation]) -> list[float]:
    """Of each place the earliest end of all from there on."""
    ends: list[float] = []
    for operation in reversed(operations):
        ends.append(min(operation.end, ends[-1] if ends else math.inf))
    return ends[::-1]


class _Checker:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self._times = _Times(operations)
        self._writes = [o for o in operations if o.kind == "write"]
        self._by_value = {w.value: w for w in self._writes}
        assert len(self._by_value) == len(self._writes), "two writes have one value"
        self._reads = [o for o in operations if o.kind == "read"]

    def violations(self) -> list[Violation]:
        return [v for read in self._reads for v in self._of_read(read)]

    def _of_read(self, read: Operation) -> list[Violation]:
        looked = self._times.looked(read)
        must = [w for w in self._writes if self._must_see(w, read, looked)]
        found = [self._of_range(read, must, *part) for part in read.got]
        return [v for v in found if v] + self._mixed(read, must)

    def _must_see(self, write: Operation, read: Operation, looked: float) -> bool:
        if write.node == read.node:
            return write.end <= read.begin
        return self._times.committed(write) <= looked

    def _of_range(
        self, read: Operation, must: Sequence[Operation], begin: int, end: int, value: int
    ) -> Violation | None:
        if value in (ZEROS, END):
            return self._of_nothing(read, must, begin, end, value)
        got = self._by_value.get(value)
        if not got or begin < got.at or end > got.after:
            return Violation(read, begin, end, f"has {value:#x}, which no node wrote there", got)
        if got.begin > read.end:
            return Violation(read, begin, end, "has what was written later", got)
        newer = [
            w for w in must if w is not got and w.at < end and w.after > begin and self._replaced(got, w)
        ]
        return Violation(read, begin, end, "is old", got, newer[0]) if newer else None

    def _of_nothing(
        self, read: Operation, must: Sequence[Operation], begin: int, end: int, value: int
    ) -> Violation | None:
        there = [w for w in must if w.after > begin and (value == END or w.at < end)]
        if there:
            return Violation(
                read, begin, end, "the file ends" if value == END else "is zeros", None, there[0]
            )
        if value == ZEROS and not any(w.after >= end and w.begin <= read.end for w in self._writes):
            return Violation(read, begin, end, "is zeros after the end of all that was written")
        return None

    def _replaced(self, old: Operation, new: Operation) -> bool:
        if old.node == new.node:
            return old.end <= new.begin
        return self._times.committed(old) <= new.begin

    def _mixed(self, read: Operation, must: Sequence[Operation]) -> list[Violation]:
        """Two writes that no commit orders, and a part of each where both wrote."""
        parts: dict[int, list[tuple[int, int]]] = {}
        seen = {w.value for w in must}
        for begin, end, value in read.got:
            if value in seen:
                parts.setdefault(value, []).append((begin, end))
        found = []
        for a in parts:
            for b in parts:
                one, two = self._by_value[a], self._by_value[b]
                if one.node >= two.node or self._replaced(one, two) or self._replaced(two, one):
                    continue
                begin, end = max(one.at, two.at), min(one.after, two.after)
                if all(any(x < end and y > begin for x, y in parts[v]) for v in (a, b)):
                    found.append(Violation(read, begin, end, "has parts of two commits", one, two))
        return found


def check(operations: Iterable[Operation]) -> list[Violation]:
    return _Checker(list(operations)).violations()
