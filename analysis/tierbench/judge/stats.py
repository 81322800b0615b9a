"""Intervals and tests for small samples.

Everything is about medians and makes no assumption on distributions. Random resampling is seeded, so that the
same run gives the same report. A sample too small to show anything says so and names the size that could:
`needs n >= X`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

CONFIDENCE = 0.95
ALPHA = 0.05
RESAMPLES = 10_000
SEED = 20211201
EXACT_UP_TO = 100  # values of both samples together


@dataclass(frozen=True)
class Interval:
    """A point estimate with its bootstrap interval; `n` is the size of the smallest sample behind it."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """Two samples by exact Mann-Whitney; `p` is adjusted for all comparisons of its family.

    `needs_n` is the least size of both samples with which any difference could have been shown, where theirs
    is smaller; else None.
    """

    p: float
    needs_n: int | None

    @property
    def significant(self) -> bool:
        """A difference is shown."""
        return self.needs_n is None and self.p < ALPHA


def _medians(values: Sequence[float], stream: int) -> NDArray[np.float64]:
    """Medians of resamples; `stream` separates the random numbers of samples that are compared."""
    sample = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng([SEED, stream])
    return np.median(sample[rng.integers(0, len(sample), (RESAMPLES, len(sample)))], axis=1)


def _percentiles(estimates: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(estimates, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def median(values: Sequence[float]) -> Interval:
    """The median with its percentile bootstrap interval; a single value has an interval without width."""
    if not values:
        raise ValueError("no values")
    return Interval(float(np.median(values)), *_percentiles(_medians(values, 0)), n=len(values))


def ratio(values: Sequence[float], baseline: Sequence[float]) -> Interval:
    """The ratio of the medians of two independent samples of positive numbers, with its interval."""
    if not values or not baseline:
        raise ValueError("no values")
    estimates = _medians(values, 0) / _medians(baseline, 1)
    return Interval(
        float(np.median(values) / np.median(baseline)),
        *_percentiles(estimates),
        n=min(len(values), len(baseline)),
    )


def compare(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[Comparison]:
    """Exact two-sided Mann-Whitney of every pair of a family; p adjusted by Holm."""
    adjusted = _holm([mann_whitney(a, b) for a, b in pairs])
    return [
        Comparison(p, None if can_show(len(a), len(b), len(pairs)) else least_n(len(pairs)))
        for p, (a, b) in zip(adjusted, pairs, strict=True)
    ]


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Exact two-sided p, with ties too: of all ways to deal out the ranks, how many are as extreme.

    Beyond 100 values, where counting them takes long, scipy's normal approximation with its tie correction.
    """
    n, total = len(a), len(a) + len(b)
    if total > EXACT_UP_TO:
        return float(scipy_stats.mannwhitneyu(a, b, method="asymptotic").pvalue)
    ranks = np.rint(2 * scipy_stats.rankdata([*a, *b])).astype(int)  # doubled: tied ranks are halves
    ways = np.zeros((n + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    distance = np.abs(np.arange(ways.shape[1]) - n * (total + 1))
    extreme = distance >= abs(int(ranks[:n].sum()) - n * (total + 1))
    return float(ways[n, extreme].sum() / ways[n].sum())


def _holm(raw: list[float]) -> list[float]:
    adjusted, largest = [1.0] * len(raw), 0.0
    for rank, i in enumerate(sorted(range(len(raw)), key=raw.__getitem__)):
        largest = max(largest, min(1.0, raw[i] * (len(raw) - rank)))
        adjusted[i] = largest
    return adjusted


def can_show(n: int, m: int, comparisons: int, alpha: float = ALPHA) -> bool:
    """Complete separation would reach significance after Bonferroni for all comparisons."""
    return comparisons * 2 / math.comb(n + m, n) < alpha


def least_n(comparisons: int, alpha: float = ALPHA) -> int:
    """The least size of equal samples whose complete separation is significant in a family this large."""
    n = 1
    while not can_show(n, n, max(comparisons, 1), alpha):
        n += 1
    return n


def least_n_one_sample() -> int:
    """The least number of values that, all on one side of a limit, show by a sign test that the median is."""
    return math.ceil(math.log(ALPHA) / math.log(0.5))
