"""Compare the PFS with a manifest: which bytes may be there, given what returned before the kill.

A write is *promised* when a process was killed and it had returned, or when the node crashed and an fsync of its file
that began later had returned.  A byte may be of any operation on it that was begun, except those that had ended before
a promised one on it began; it may be missing only where none on it is promised.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from client import content
from manifest import NEVER, Act

WHOLE = 1 << 40


@dataclass
class Change:
    """A write or a cut of bytes [lo, hi) between two times; a cut leaves holes."""

    operation: str
    lo: int
    hi: int
    began: int
    ended: int = NEVER
    is_cut: bool = False
    promised: bool = False
    _bytes: bytes | None = None

    def piece(self, lo: int, hi: int) -> bytes:
        if self.is_cut:
            return bytes(hi - lo)
        if self._bytes is None:
            self._bytes = content(self.operation, self.hi - self.lo)
        return self._bytes[lo - self.lo : hi - self.lo]


@dataclass
class File:
    names: list[str]  # the last one; and those before, while renames had begun and not ended
    older: list[str] = field(default_factory=list)  # all names before: a crash may take renames back
    changes: list[Change] = field(default_factory=list)
    syncs: list[list[int]] = field(default_factory=list)  # began, ended
    gone: str = "no"  # "perhaps", where its removal had begun


def files_of(acts: list[Act]) -> dict[str, File]:
    files: dict[str, File] = {}
    for act in acts:
        if act.kind == "open":
            files.setdefault(act.words["file"], File([act.words["name"]]))
        elif act.kind in ("write", "cut", "fsync", "rename", "unlink"):
            note(files, files[act.words["file"]], act)
    return files


def note(files: dict[str, File], file: File, act: Act) -> None:
    words = act.words
    if act.kind == "write":
        file.changes.append(
            Change(act.op, words["offset"], words["offset"] + words["length"], act.began, act.ended)
        )
    elif act.kind == "cut":
        file.changes.append(Change(act.op, words["length"], WHOLE, act.began, act.ended, is_cut=True))
    elif act.kind == "fsync":
        file.syncs.append([act.began, act.ended])
    elif act.kind == "rename":
        file.older += file.names
        file.names = [words["to"]] if act.acknowledged else [words["to"], *file.names]
        if words["over"]:
            files[words["over"]].gone = "yes" if act.acknowledged else "perhaps"
    elif act.kind == "unlink":
        file.gone = "yes" if act.acknowledged else "perhaps"


def mark_promised(file: File, crash: bool) -> int:
    for change in file.changes:
        change.promised = change.ended != NEVER and (
            not crash or any(t0 >= change.ended and t1 != NEVER for t0, t1 in file.syncs)
        )
    return sum(change.promised for change in file.changes)


def allowed(changes: list[Change]) -> tuple[list[Change], bool]:
    """Of the changes on one byte, those that it may be of; and whether it may be missing."""
    promised = [change for change in changes if change.promised]
    latest_begin = max((change.began for change in promised), default=-1)
    return [change for change in changes if change.ended >= latest_begin], not promised


def is_right(found: bytes, lo: int, candidates: list[Change], may_miss: bool) -> bool:
    hi = lo + len(found)
    pieces = [change.piece(lo, hi) for change in candidates] + ([bytes(hi - lo)] if may_miss else [])
    if found in pieces:
        return True
    return all(any(piece[i] == byte for piece in pieces) for i, byte in enumerate(found))


def check_file(name: str, file: File, data: bytes) -> list[str]:
    end = max([len(data), *(c.hi for c in file.changes if not c.is_cut)])
    data = data.ljust(end, b"\0")
    edges = sorted({0, end} | {min(edge, end) for c in file.changes for edge in (c.lo, c.hi)})
    wrong = []
    for lo, hi in pairwise(edges):
        candidates, may_miss = allowed([c for c in file.changes if c.lo <= lo and c.hi >= hi])
        if not is_right(data[lo:hi], lo, candidates, may_miss):
            wrong.append(f"{name}: bytes {lo} to {hi} are of none of {[c.operation for c in candidates]}")
    return wrong


def check(acts: list[Act], folder: Path, crash: bool) -> tuple[int, list[str]]:
    """How many changes were promised, and what is wrong."""
    promised, wrong = 0, []
    for name, file in files_of(acts).items():
        n = mark_promised(file, crash)
        if file.gone == "yes":
            continue
        names = [*file.names, *reversed(file.older)] if crash else file.names
        there = [folder / candidate for candidate in dict.fromkeys(names) if (folder / candidate).exists()]
        if there:
            promised += n
            found = [check_file(name, file, path.read_bytes()) for path in there]
            elsewhere = (
                crash and not n and file.older
            )  # its name may be lost, and another file have the names
            if file.gone == "no" and all(found) and not elsewhere:
                wrong += found[0]
        elif file.gone == "no" and n:
            wrong.append(f"{name}: the file is gone")
    return promised, wrong
