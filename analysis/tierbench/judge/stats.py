"""Intervals and tests for small samples.

Everything is about medians and makes no assumption on distributions; what it takes for granted is that the
values are independent (`independence` looks whether they are). Every interval says by its `level` how often
it holds the true value if they are: 95 % cannot be had from fewer than five values, so there it is the range
of the values, and called by what a range covers. `analysis/bench/simulate.py` measures that they keep their
word.
Random resampling is seeded, so that the same run gives the same report. A sample too small to show anything
says so and names the size that could: `needs n >= X`. scipy.stats takes a second to load: only what is
not done in a few lines of numpy imports it, where it is needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

CONFIDENCE = 0.95
ALPHA = 0.05
RESAMPLES = 10_000
SEED = 20211201
EXACT_UP_TO = 100  # values of both samples together
LEAST_FOR_RATIO = 5  # values on each side from which the interval of a ratio has a level
# Medians of resamples spread a little wider than medians: these cover 93 to 97 % (docs/testing/analysis.md).
RATIO_PERCENTILES = (3, 97)


@dataclass(frozen=True)
class Interval:
    """A point estimate with its interval; `n` is the size of the smallest sample that it is made of.

    `level` is the share of samples of independent values of which the interval holds the true value, or more
    where the values drift; 0 for a single value, None
    where it is not known: of a ratio of samples so small that the interval is the range of the ratios, and of
    values that are `dependent`, which says how in a few words.
    """

    value: float
    low: float
    high: float
    n: int
    level: float | None
    dependent: str | None = None


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


def median(values: Sequence[float]) -> Interval:
    """The median with the interval of the sign test: between its k-th least and k-th largest values.

    Their levels are far apart. So ends of 95 % are between two neighbours, as Hettmansperger and Sheather
    (1986) interpolate them; where even the range has less, it is the range with its own level.
    """
    if not values:
        raise ValueError("no values")
    ordered, k = np.sort(np.asarray(values, dtype=np.float64)), 1
    n, least = len(ordered), (len(ordered) + 1) // 2
    while k < least and _level(n, k + 1) >= CONFIDENCE:
        k += 1
    outer, inward = _level(n, k), 0.0
    if outer > CONFIDENCE and k < least:
        step = (outer - CONFIDENCE) / (outer - _level(n, k + 1))
        inward = (n - k) * step / (k + (n - 2 * k) * step)
    low, high = (
        float(end + inward * (next_one - end))
        for end, next_one in ((ordered[k - 1], ordered[min(k, n - 1)]), (ordered[n - k], ordered[n - k - 1]))
    )
    return Interval(float(np.median(ordered)), low, high, n, min(outer, CONFIDENCE))


@functools.cache
def _level(n: int, k: int) -> float:
    """How often the median is between the k-th least and the k-th largest of n values."""
    beyond: int = sum(math.comb(n, i) for i in range(k))
    return 1 - float(beyond / 2 ** (n - 1))


def ratio(values: Sequence[float], baseline: Sequence[float]) -> Interval:
    """The ratio of the medians of two independent samples of positive numbers, with its bootstrap interval.

    With fewer than `LEAST_FOR_RATIO` values on a side: from the least to the largest ratio of two values.
    """
    if not values or not baseline:
        raise ValueError("no values")
    value, n = float(np.median(values) / np.median(baseline)), min(len(values), len(baseline))
    if n < LEAST_FOR_RATIO:
        low, high = min(values) / max(baseline), max(values) / min(baseline)
        return Interval(value, float(low), float(high), n, 0 if len(values) == len(baseline) == 1 else None)
    low, high = np.percentile(_medians(values, 0) / _medians(baseline, 1), RATIO_PERCENTILES)
    return Interval(value, float(low), float(high), n, CONFIDENCE)


def mean_ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Interval:
    """The mean of the ratios of medians of several pairs of samples; a sample may be in several pairs.

    As `ratio`: with fewer than `LEAST_FOR_RATIO` values somewhere from the mean of the least to the mean of
    the largest ratios of two values.
    """
    each = [ratio(values, baseline) for values, baseline in pairs]
    if not each:
        raise ValueError("no pairs")
    value, n = float(np.mean([r.value for r in each])), min(r.n for r in each)
    if n < LEAST_FOR_RATIO:
        low, high = np.mean([(min(v) / max(b), max(v) / min(b)) for v, b in pairs], axis=0)
        return Interval(value, float(low), float(high), n, 0 if low == high else None)
    streams: dict[tuple[float, ...], int] = {}
    numbers = [[streams.setdefault(tuple(sample), len(streams)) for sample in pair] for pair in pairs]
    resampled = [_medians(v, i) / _medians(b, j) for (v, b), (i, j) in zip(pairs, numbers, strict=True)]
    low, high = np.percentile(np.mean(resampled, axis=0), RATIO_PERCENTILES)
    return Interval(value, float(low), float(high), n, CONFIDENCE)


def _medians(values: Sequence[float], stream: int) -> NDArray[np.float64]:
    """Medians of resamples; `stream` separates the random numbers of samples that are compared."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    lower, upper = _middles(len(ordered), stream)
    medians: NDArray[np.float64] = (ordered[lower] + ordered[upper]) / 2
    return medians


@functools.lru_cache(maxsize=64)
def _middles(n: int, stream: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Of every resample of n ordered values, which two are in the middle; for odd n both are one."""
    rng = np.random.default_rng([SEED, stream])
    drawn = np.sort(rng.integers(0, n, (RESAMPLES, n)), axis=1)
    return drawn[:, (n - 1) // 2], drawn[:, n // 2]


def compare(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], share: float = 1.0) -> list[Comparison]:
    """Exact two-sided Mann-Whitney of every pair of a family; p adjusted by Holm.

    `share` of `ALPHA` is what this family may use up where others are tested beside it; p is adjusted for
    that too, so that `ALPHA` is always the limit.
    """
    adjusted, alpha = holm([mann_whitney(a, b) for a, b in pairs]), share * ALPHA
    return [
        Comparison(
            min(1.0, p / share),
            None if can_show(len(a), len(b), len(pairs), alpha) else least_n(len(pairs), alpha),
        )
        for p, (a, b) in zip(adjusted, pairs, strict=True)
    ]


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Exact two-sided p, with ties too: of all ways to deal out the ranks, how many are as extreme.

    Beyond 100 values, where counting them takes long, scipy's normal approximation with its tie correction.
    """
    n, total = len(a), len(a) + len(b)
    if total > EXACT_UP_TO:
        from scipy import stats as scipy_stats

        return float(scipy_stats.mannwhitneyu(a, b, method="asymptotic").pvalue)
    ranks = np.rint(2 * ranks_of([*a, *b])).astype(int)  # doubled: tied ranks are halves
    ways = np.zeros((n + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    distance = np.abs(np.arange(ways.shape[1]) - n * (total + 1))
    extreme = distance >= abs(int(ranks[:n].sum()) - n * (total + 1))
    return float(ways[n, extreme].sum() / ways[n].sum())


def ranks_of(values: Sequence[float]) -> NDArray[np.float64]:
    """1 for the least; equal values share the mean of their ranks."""
    return np.asarray(pd.Series(values, dtype=float).rank())


def holm(raw: Sequence[float]) -> list[float]:
    """The p values of a family, adjusted (Holm 1979), in the same order."""
    adjusted, largest = [1.0] * len(raw), 0.0
    for rank, i in enumerate(sorted(range(len(raw)), key=raw.__getitem__)):
        largest = max(largest, min(1.0, raw[i] * (len(raw) - rank)))
        adjusted[i] = largest
    return adjusted


def can_show(n: int, m: int, comparisons: int, alpha: float = ALPHA) -> bool:
    """Complete separation would reach significance after Bonferroni for all comparisons."""
    return comparisons * 2 / math.comb(n + m, n) < alpha


def least_n(comparisons: int, alpha: float = ALPHA) -> int:
    """The least size of equal samples for which complete separation is significant in a family this large."""
    n = 1
    while not can_show(n, n, max(comparisons, 1), alpha):
        n += 1
    return n


def least_n_one_sample() -> int:
    """The least number of values that, all on one side of a limit, show by a sign test that the median is."""
    return math.ceil(math.log(ALPHA) / math.log(0.5))
