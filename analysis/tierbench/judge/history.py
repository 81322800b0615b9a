"""Many runs of one test over time, and where its level changed.

A series is one test on one configuration under one set of conditions (`compare.CONDITIONS`), a point its
median in one run. What is looked for is the stretch of points whose ranks differ most from the rest: up to
the first or last point it is one step, between them a level that came and went. Whether chance would have
made as clear a stretch is asked of 2,000 random orders of the same points (seeded). When one is shown, it and
what lies before and behind it are searched again. Nothing is assumed on distributions, and single outliers
are no steps. Ranks know whether, not exactly where: a step stands where the levels fit best.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from tierbench.base.errors import RunError
from tierbench.judge import stats
from tierbench.judge.compare import CONDITIONS

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
    found = dict(_split(values, threshold, 0))
    while found:
        ends = [0, *sorted(found), len(values)]
        levels = [float(np.median(values[a:b])) for a, b in itertools.pairwise(ends)]
        ratios = {at: levels[i + 1] / levels[i] for i, at in enumerate(sorted(found))}
        least = min(ratios, key=lambda at: _size(ratios[at]))
        if _size(ratios[least]) >= threshold:
            return _placed(values, ends, list(ratios.values()), list(map(found.__getitem__, ratios)))
        del found[least]
    return []


def _placed(values: Sequence[float], ends: list[int], ratios: list[float], p: list[float]) -> list[Step]:
    """Each step where the points lie nearest the medians before and behind it."""
    for i in range(1, len(ends) - 1):
        first, behind = ends[i - 1], ends[i + 1]
        places = range(first + LEAST_SIDE, behind - LEAST_SIDE + 1)
        ends[i] = min(places, key=lambda at: _misfit(values[first:at]) + _misfit(values[at:behind]))
    return [Step(at, ratio, chance) for at, ratio, chance in zip(ends[1:-1], ratios, p, strict=True)]


def _misfit(values: Sequence[float]) -> float:
    return float(np.abs(np.asarray(values) - np.median(values)).sum())


def _size(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1


def _split(values: Sequence[float], threshold: float, first: int) -> list[tuple[int, float]]:
    """Where the level changes, and p; `first` is the index of the first value."""
    if len(values) < 2 * LEAST_SIDE:
        return []
    ranks = scipy_stats.rankdata(values)
    start, end, clearness = _clearest(ranks)
    p = _chance(ranks, clearness)
    inside, outside = values[start:end], [*values[:start], *values[end:]]
    if p >= stats.ALPHA or _size(float(np.median(inside) / np.median(outside))) < threshold:
        return []
    ends = sorted({0, start, end, len(values)})
    found = [(first + at, p) for at in ends[1:-1]]
    for a, b in itertools.pairwise(ends):
        found += _split(values[a:b], threshold, first + a)
    return found


def _clearest(ranks: NDArray[np.float64]) -> tuple[int, int, float]:
    """The stretch of points that stands apart most."""
    n = len(ranks)
    clear = [(float(c), start, end) for start, ends in _stretches(n)
             for c, end in zip(_clearness(ranks[np.newaxis], start, ends)[0], ends, strict=True)]  # fmt: skip
    best, start, end = max(clear, key=lambda found: found[0])
    return start, int(end), best


def _stretches(n: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Starts and ends of all stretches that leave no piece of fewer than `LEAST_SIDE` points."""
    for start in (0, *range(LEAST_SIDE, n - LEAST_SIDE + 1)):
        ends = np.arange(start + LEAST_SIDE, n + 1)
        ends = ends[(ends == n) | (ends <= n - LEAST_SIDE)]
        yield start, ends[ends - start < n]


def _clearness(orders: NDArray[np.float64], start: int, ends: NDArray[np.intp]) -> NDArray[np.float64]:
    """For every order (line) and end of a stretch: its standardised rank sum."""
    n, m = orders.shape[1], ends - start
    sums = np.cumsum(orders[:, start:], axis=1)[:, m - 1]
    spread = np.sqrt(m * (n - m) * (n + 1) / 12)
    clear: NDArray[np.float64] = np.abs(sums - m * (n + 1) / 2) / spread
    return clear


def _chance(ranks: NDArray[np.float64], clearness: float) -> float:
    """How often a random order of the same points has as clear a stretch anywhere."""
    rng = np.random.default_rng([stats.SEED, len(ranks)])
    orders = rng.permuted(np.tile(ranks, (ORDERS, 1)), axis=1)
    clear = np.zeros(ORDERS)
    for start, ends in _stretches(len(ranks)):
        np.maximum(clear, _clearness(orders, start, ends).max(axis=1), out=clear)
    return (int((clear >= clearness - 1e-9).sum()) + 1) / (ORDERS + 1)


def least_points() -> int:
    """The least number of runs in which a step in the middle, larger than all noise, is shown."""
    n = 2 * LEAST_SIDE
    while _chance(np.arange(1.0, n + 1), _clearest(np.arange(1.0, n + 1))[2]) >= stats.ALPHA:
        n += 1
    return n
