"""How many operations a component's program makes: all, or as many as fit into a few seconds."""

from __future__ import annotations

from collections.abc import Sequence

FIRST = 2000  # operations, that say how long one takes
MOST_S = 5.0  # of all operations of a program: a server that is asked one by one would take minutes
PARTS = 10  # in which a program makes its operations
STEP = 1000  # operations; a multiple of ten parts for each number of processes


def fitting(operations: int, rates: Sequence[Sequence[float]]) -> int:
    """Of each kind; `rates` are operations a second in the parts of each kind that `FIRST` were made of."""
    seconds = sum(1 / rate for parts in rates for rate in parts) / PARTS
    fit = int(MOST_S / seconds) // STEP * STEP
    return min(operations, max(STEP, fit))
