"""Processes that go on after their program has ended.

They would write into a folder that is removed, and disturb the next run. So a run adopts what loses its
parent below it, in whatever session, and ends that before it looks at the outputs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Container, Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_OURS = ("tierctl", "tierd", "tb-mover")  # of a tierctl that was killed: they end when all bytes are written
_OF_MPI = (
    "orted",
    "prted",
    "hydra_pmi_proxy",
)  # servers of an MPI library: end soon by themselves, write nothing
_PATIENCE_S = 5.0  # from SIGTERM to SIGKILL


def adopt() -> frozenset[int]:
    """From now on a process below this one that loses its parent becomes a child of this one.

    Returns the children that are there already: they are not the program's.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return frozenset(number for number, _ in children(os.getpid()))


def end(others: Container[int]) -> list[str]:
    """End all processes below this one, but `others` and what is below them; returns the program's names."""
    names = [name for _, name in _below(others) if name not in _OF_MPI]
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _PATIENCE_S
        for process, _ in _below(others):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        while _below(others) and time.monotonic() < deadline:
            time.sleep(0.01)
    return sorted(names)


def children(process: int) -> list[tuple[int, str]]:
    """Number and name of each that lives."""
    return [
        (number, name) for number, name, state, parent in _all() if parent == process and state not in "ZX"
    ]


def _below(others: Container[int]) -> list[tuple[int, str]]:
    """Of one look at all processes; a child of this one that has ended is reaped."""
    by_parent: dict[int, list[tuple[int, str, str]]] = {}
    for number, name, state, parent in _all():
        if number not in others and name not in _OURS:
            by_parent.setdefault(parent, []).append((number, name, state))
    found, parents = [], [os.getpid()]
    while parents:
        for number, name, state in by_parent.get(parent := parents.pop(), []):
            parents.append(number)
            if state not in "ZX":
                found.append((number, name))
            elif parent == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(number, os.WNOHANG)
    return found


def _all() -> Iterator[tuple[int, str, str, int]]:
    """Number, name, state and parent. A name may have any sign in it, parentheses too."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, _, after = stat.read_text().rpartition(")")
            number, _, name = head.partition(" (")
            state, parent = after.split()[:2]
            yield int(number), name, state, int(parent)
