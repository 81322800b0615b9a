"""Many runs of one test over time, and where its level changed.

A series is one test on one configuration under one set of conditions (`compare.CONDITIONS`), a point its
median in one run. A step is looked for where the ranks before and after differ most; whether chance would
have made as clear a step is asked of 2,000 random orders of the same points (seeded). When a step is shown,
each side is searched again. Nothing is assumed on distributions, and single outliers are no steps.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from tierbench import stats
from tierbench.compare import CONDITIONS
from tierbench.runs import RunError

LEAST_SIDE = 3  # points on each side of a step
ORDERS = 2_000
_KEYS = ["test", "system", "site", "tiers", "mode", "policy", "metric", "unit", "direction", *CONDITIONS]


@dataclass(frozen=True)
class Point:
    """One run of a series."""

    run: str
    when: float
    commit: str
    value: float
    n: int


@dataclass(frozen=True)
class Step:
    """From point `at` on the level is another: `ratio` times the one before."""

    at: int
    ratio: float
    p: float


@dataclass(frozen=True)
class Series:
    """A test over time, oldest first; `needs_n`: points with which a step could be shown, where too few."""

    key: dict[str, Any]
    points: list[Point]
    steps: list[Step]
    needs_n: int | None

    def is_better(self, step: Step) -> bool:
        """The direction decides."""
        higher: bool = self.key["direction"] == "higher"
        return (step.ratio > 1) == higher

    def words(self, step: Step) -> str:
        """A step in words: better or worse, how much, and since when."""
        first, last = self.points[step.at], self.points[step.at - 1]
        commits = f", commit {last.commit[:10]} to {first.commit[:10]}" if first.commit else ""
        told = "better" if self.is_better(step) else "WORSE"
        return f"{told} by a factor of {step.ratio:.3g} since {first.run} (p = {step.p:.3g}{commits})"


def history(samples: pd.DataFrame, test: str, threshold: float) -> list[Series]:
    """The series of every configuration of the tests that match `test` (`*` and `?` allowed)."""
    mine = samples[[fnmatch.fnmatchcase(name, test) for name in samples["test"]]]
    if not len(mine):
        known = ", ".join(sorted(set(samples["test"])))
        raise RunError(f"no measurements of a test {test!r}; there are: {known}")
    grouped = mine.groupby(_KEYS, sort=False, dropna=False)
    return [_series(dict(zip(_KEYS, key, strict=True)), lines, threshold) for key, lines in grouped]


def _series(key: dict[str, Any], lines: pd.DataFrame, threshold: float) -> Series:
    points = []
    for (_, run), some in lines.groupby(["source", "run"], sort=False):
        first, value = some.iloc[0], float(some["value"].median())
        points.append(Point(str(run), float(first["when"]), str(first["commit"]), value, len(some)))
    points.sort(key=lambda p: (p.when, p.run))
    values = [p.value for p in points]
    needed = least_points()
    return Series(key, points, find_steps(values, threshold), needed if len(points) < needed else None)


def find_steps(values: Sequence[float], threshold: float) -> list[Step]:
    """Steps in order, as ratios of neighbouring levels; levels within `threshold` are one level."""
    found = sorted(_split(values, threshold, 0))
    ends = [0, *(at for at, _ in found), len(values)]
    levels = [float(np.median(values[a:b])) for a, b in itertools.pairwise(ends)]
    return [Step(at, levels[i + 1] / levels[i], p) for i, (at, p) in enumerate(found)]


def _split(values: Sequence[float], threshold: float, first: int) -> list[tuple[int, float]]:
    """Where the level changes, and p; `first` is the index of the first value."""
    if len(values) < 2 * LEAST_SIDE:
        return []
    ranks = scipy_stats.rankdata(values)
    at, clearness = _clearest(ranks)
    p = _chance(ranks, clearness)
    ratio = float(np.median(values[at:]) / np.median(values[:at]))
    if p >= stats.ALPHA or max(ratio, 1 / ratio) - 1 < threshold:
        return []
    before, after = _split(values[:at], threshold, first), _split(values[at:], threshold, first + at)
    return [*before, (first + at, p), *after]


def _clearest(ranks: NDArray[np.float64]) -> tuple[int, float]:
    clear = _clearness(ranks[np.newaxis])[0]
    at = int(np.argmax(clear))
    return at + LEAST_SIDE, float(clear[at])


def _clearness(orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every order (line) and place of a step: the standardised rank sum before it."""
    n = orders.shape[1]
    before = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    sums = np.cumsum(orders, axis=1)[:, before - 1]
    spread = np.sqrt(before * (n - before) * (n + 1) / 12)
    clear: NDArray[np.float64] = np.abs(sums - before * (n + 1) / 2) / spread
    return clear


def _chance(ranks: NDArray[np.float64], clearness: float) -> float:
    """How often a random order of the same points has as clear a step anywhere."""
    rng = np.random.default_rng([stats.SEED, len(ranks)])
    orders = rng.permuted(np.tile(ranks, (ORDERS, 1)), axis=1)
    found = int((_clearness(orders).max(axis=1) >= clearness - 1e-9).sum())
    return (found + 1) / (ORDERS + 1)


def least_points() -> int:
    """The least number of runs in which a step in the middle, larger than all noise, is shown."""
    n = 2 * LEAST_SIDE
    while _chance(np.arange(1.0, n + 1), _clearest(np.arange(1.0, n + 1))[1]) >= stats.ALPHA:
        n += 1
    return n
