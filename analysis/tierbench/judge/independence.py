"""Whether the repetitions of a measurement are independent, which every interval and test takes for granted.

Two things are looked for in the order in which the values were taken: drift (values go up or down with time;
Spearman's rank correlation with the order) and serial correlation (neighbours are more alike, or less, than
values apart; Bartels' rank version of von Neumann's ratio). Both are asked of random orders of the same
values, of all orders where there are few. Each may err in half of `stats.ALPHA`: of 100 measurements without
either at most 5 are said to have one. Fewer than `LEAST` values can show nothing, and fewer than `TESTABLE`
too little: then it means nothing that nothing was found, and the report says so (`assumed`). So every level
is given under the condition that repetitions are independent, and never without it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tierbench.judge import stats

LEAST = 5  # of the 120 orders of five values, two are in order: 1.7 %
TESTABLE = 32  # from here on 0.6 in common with the value before is found in 80 % (docs/testing/analysis.md)
ORDERS = 9_999


@dataclass(frozen=True)
class Independence:
    """What the order of `n` values shows: p of drift and of serial correlation, None where n is too small.

    `change` is the median change from a value to the next, as a fraction; `alike` says that neighbours are.
    """

    n: int
    drift_p: float | None
    serial_p: float | None
    change: float
    alike: bool

    @property
    def drifts(self) -> bool:
        """Drift is shown."""
        return self.drift_p is not None and self.drift_p < stats.ALPHA / 2

    @property
    def correlates(self) -> bool:
        """Serial correlation is shown."""
        return self.serial_p is not None and self.serial_p < stats.ALPHA / 2

    @property
    def testable(self) -> bool:
        """There are enough values that a clear dependence would mostly have been found."""
        return self.n >= TESTABLE

    def words(self, values: str = "repetitions") -> str | None:
        """What is shown, and what it means for the interval; None where nothing is."""
        if self.drifts:
            by = f"{self.change:+.1%}".replace("-", "−")
            told = f"the {values} drift, by about {by} from each to the next (p = {self.drift_p:.2g})"
            return f"{told}: the interval is of the time measured, not of another time"
        if self.correlates and self.alike:
            told = f"neighbouring {values} are alike (p = {self.serial_p:.2g})"
            return f"{told}: they tell less than {self.n} independent ones, and the interval is too narrow"
        if self.correlates:
            told = f"{values} take turns between high and low (p = {self.serial_p:.2g})"
            return f"{told}: they are not independent"
        return None


def assumed(sizes: Iterable[int], values: str = "repetitions") -> str | None:
    """What intervals and p of samples of these sizes take for granted, and whether that could be looked at.

    None where there are only single values: nothing is claimed of them.
    """
    several = [n for n in sizes if n > 1]
    if not several:
        return None
    few = sorted({n for n in several if n < TESTABLE})
    told = f"intervals and p hold if {values} are independent"
    if not few:
        return f"{told}; with n = {min(several)} or more a clear dependence is mostly found"
    count = f"{few[0]}" if len(few) == 1 else f"{few[0]} to {few[-1]}"
    return f"{told}; that was not testable with n = {count} (needs {TESTABLE})"


def claimed(interval: stats.Interval, *samples: Independence) -> stats.Interval:
    """The interval of samples, without its level where one of them is shown not to be independent."""
    shown = [s for s in samples if s.words()]
    if not shown:
        return interval
    return replace(interval, level=None, dependent="drift" if any(s.drifts for s in shown) else "correlated")


def look(values: Sequence[float]) -> Independence:
    """Drift and serial correlation of values in the order in which they were taken."""
    n = len(values)
    if n < LEAST:
        return Independence(n, None, None, 0.0, False)
    ranks = stats.ranks_of(values)
    alike = float(_roughness(ranks)) < float(((ranks - ranks.mean()) ** 2).sum()) * 2
    change = float(_slope(values) / np.median(values))
    return Independence(n, _chance(ranks, _trend), _chance(ranks, _roughness), change, alike)


def _trend(ranks: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    total: NDArray[np.float64] = (ranks * np.arange(ranks.shape[axis])).sum(axis=axis)
    return total


def _roughness(ranks: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    total: NDArray[np.float64] = (np.diff(ranks, axis=axis) ** 2).sum(axis=axis)
    return total


def _slope(values: Sequence[float]) -> float:
    """Theil and Sen's: the median of the slopes of all pairs."""
    before, after = np.triu_indices(len(values), 1)
    of = np.asarray(values, dtype=np.float64)
    return float(np.median((of[after] - of[before]) / (after - before)))


def _chance(ranks: NDArray[np.float64], statistic: Callable[..., NDArray[np.float64]]) -> float:
    """Two-sided p among orders of the same ranks: the rarer side of the order that was found, doubled."""
    found = float(statistic(ranks))
    others = statistic(ranks[_orders(len(ranks))])
    sides = int((others <= found).sum()), int((others >= found).sum())
    drawn = len(others) == ORDERS  # of those the order that was found is one more
    return min(1.0, 2 * (min(sides) + drawn) / (len(others) + drawn))


@functools.lru_cache(maxsize=8)
def _orders(n: int) -> NDArray[np.intp]:
    """All orders of n things; where they are more than `ORDERS`, that many random ones, always the same."""
    if math.factorial(n) < ORDERS:
        return np.array(list(itertools.permutations(range(n))))
    rng = np.random.default_rng([stats.SEED, n])
    return rng.permuted(np.tile(np.arange(n), (ORDERS, 1)), axis=1)
