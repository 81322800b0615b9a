"""Many runs of one test over time, and where its level changed.

A series is one test on one configuration under one set of conditions (`compare.CONDITIONS`), a point its
median in one run. The search is for the stretch of points with the mean that differs most from the rest. Up
to the first or last point it is one step, between them a level that came and went. Whether chance would have
made as clear a stretch is asked of random orders of the same points (seeded), so nothing is assumed on
distributions; points far out are drawn in first, so that a single outlier is no step. When a stretch is
shown, it and what is before and after it are searched again. All series of a command, and all pieces of a
series, share the 5 % of false alarms; every p is adjusted for that. A step is where the levels fit best.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tierbench.base.errors import RunError
from tierbench.judge import independence, stats
from tierbench.judge.compare import CONDITIONS

LEAST_SIDE = 3  # points on each side of a step
ORDERS = 2_000  # at least
FARTHEST = 3.0  # a point from the median, in robust standard deviations
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
    """From point `at` on the level is another: `ratio` times the one before; `p` is adjusted."""

    at: int
    ratio: float
    p: float


@dataclass(frozen=True)
class Series:
    """A test over time, oldest first; `needs_n`: points with which a step could be shown, where too few.

    `dependence` says in words that the runs drift or correlate, where no step explains it.
    """

    key: dict[str, Any]
    points: list[Point]
    steps: list[Step]
    needs_n: int | None
    dependence: str | None = None

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
    of_all = [(dict(zip(_KEYS, key, strict=True)), _points(lines)) for key, lines in grouped]
    return [_series(key, points, threshold, stats.ALPHA / len(of_all)) for key, points in of_all]


def _points(lines: pd.DataFrame) -> list[Point]:
    points = []
    for (_, run), some in lines.groupby(["source", "run"], sort=False):
        first, value = some.iloc[0], float(some["value"].median())
        points.append(Point(str(run), float(first["when"]), str(first["commit"]), value, len(some)))
    return sorted(points, key=lambda p: (p.when, p.run))


def _series(key: dict[str, Any], points: list[Point], threshold: float, alpha: float) -> Series:
    values = [p.value for p in points]
    needed, steps = least_points(alpha), find_steps(values, threshold, alpha)
    dependence = None if steps else independence.look(values).words("runs")
    return Series(key, points, steps, needed if len(points) < needed else None, dependence)


def find_steps(values: Sequence[float], threshold: float, alpha: float = stats.ALPHA) -> list[Step]:
    """Steps in order, as ratios of neighbouring levels; levels within `threshold` are one level.

    A series of one level shows a step in at most `alpha` of all cases, and one with steps no more false ones.
    """
    found = dict(_split(values, threshold, 0, alpha))
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
    """Each step where the points are nearest the medians before and after it."""
    for i in range(1, len(ends) - 1):
        first, last = ends[i - 1], ends[i + 1]
        places = range(first + LEAST_SIDE, last - LEAST_SIDE + 1)
        ends[i] = min(places, key=lambda at: _misfit(values[first:at]) + _misfit(values[at:last]))
    return [Step(at, ratio, chance) for at, ratio, chance in zip(ends[1:-1], ratios, p, strict=True)]


def _misfit(values: Sequence[float]) -> float:
    return float(np.abs(np.asarray(values) - np.median(values)).sum())


def _size(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1


def _split(values: Sequence[float], threshold: float, first: int, alpha: float) -> list[tuple[int, float]]:
    """Where the level changes, and p; `first` is the index of the first value. Pieces share `alpha`."""
    if len(values) < 2 * LEAST_SIDE:
        return []
    scores = _scores(values)
    start, end, clearness = _clearest(scores)
    p = _chance(scores, clearness, alpha)
    inside, outside = values[start:end], [*values[:start], *values[end:]]
    if p >= alpha or _size(float(np.median(inside) / np.median(outside))) < threshold:
        return []
    ends = sorted({0, start, end, len(values)})
    found = [(first + at, p * stats.ALPHA / alpha) for at in ends[1:-1]]
    for a, b in itertools.pairwise(ends):
        found += _split(values[a:b], threshold, first + a, alpha * (b - a) / len(values))
    return found


def _scores(values: Sequence[float]) -> NDArray[np.float64]:
    """The values with mean 0 and standard deviation 1, after those far out were drawn in."""
    plain = np.asarray(values, dtype=np.float64)
    off = plain - np.median(plain)
    farthest = (
        FARTHEST * 1.4826 * float(np.median(np.abs(off)))
    )  # of a normal distribution, 1.4826 MAD are 1 SD
    drawn = np.clip(off, -farthest, farthest) if farthest > 0 else off
    centred = drawn - drawn.mean()
    spread = float(centred.std(ddof=1))
    scores: NDArray[np.float64] = centred / spread if spread > 0 else centred
    return scores


def _clearest(scores: NDArray[np.float64]) -> tuple[int, int, float]:
    """The stretch of points that differs most from the rest."""
    n = len(scores)
    clear = [
        (float(c), start, end)
        for start, ends in _stretches(n)
        for c, end in zip(_clearness(scores[np.newaxis], start, ends)[0], ends, strict=True)
    ]
    best, start, end = max(clear, key=lambda found: found[0])
    return start, int(end), best


def _stretches(n: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Starts and ends of all stretches that leave no piece of fewer than `LEAST_SIDE` points."""
    for start in (0, *range(LEAST_SIDE, n - LEAST_SIDE + 1)):
        ends = np.arange(start + LEAST_SIDE, n + 1)
        ends = ends[(ends == n) | (ends <= n - LEAST_SIDE)]
        yield start, ends[ends - start < n]


def _clearness(orders: NDArray[np.float64], start: int, ends: NDArray[np.intp]) -> NDArray[np.float64]:
    """For every order (line) and end of a stretch: its standardised sum of scores."""
    n, m = orders.shape[1], ends - start
    sums = np.cumsum(orders[:, start:], axis=1)[:, m - 1]
    clear: NDArray[np.float64] = np.abs(sums) / np.sqrt(m * (n - m) / n)
    return clear


def _chance(scores: NDArray[np.float64], clearness: float, alpha: float) -> float:
    """How often a random order of the same points has as clear a stretch anywhere.

    Of so many orders that ten of them are `alpha`.
    """
    count = max(ORDERS, math.ceil(10 / alpha))
    rng = np.random.default_rng([stats.SEED, len(scores)])
    orders = rng.permuted(np.tile(scores, (count, 1)), axis=1)
    clear = np.zeros(count)
    for start, ends in _stretches(len(scores)):
        np.maximum(clear, _clearness(orders, start, ends).max(axis=1), out=clear)
    return (int((clear >= clearness - 1e-9).sum()) + 1) / (count + 1)


def least_points(alpha: float = stats.ALPHA) -> int:
    """The least number of runs in which a step in the middle, larger than all noise, is shown."""
    n = 2 * LEAST_SIDE
    while not _split([float(i + 10 * n * (2 * i >= n)) + 1 for i in range(n)], 0.0, 0, alpha):
        n += 1
    return n
