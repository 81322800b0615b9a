"""How many I/O nodes to use for a scenario, and what the runs show of it.

Kruskal and Wallis's test asks whether the number of I/O nodes matters at all. Dunn's test, with Holm's
correction within a scenario, asks which numbers differ. A number of I/O nodes is a distinct choice if it
differs from those before it; `distinct` counts them as the study did (Bez et al., PDSW 2020: fewest I/O nodes
first, each choice takes along all later ones that do not differ from it). Three rules say what differs:

- `by_p_value`: Dunn's p, two-sided, adjusted, below 0.05.
- `as_published`: the study compared Dunn's statistic Z with 0.05 where the p value belongs. From the raw runs
  this rule gives the published counts to the digit.
- without correction, p below 0.05: shows what the correction costs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tierbench.base.errors import RunError
from tierbench.forwarding.measurements import Measurements, Pattern, Scenario
from tierbench.judge import stats

ALPHA = stats.ALPHA
POWER = 0.9
RESAMPLES = 2_000
MOST_REPETITIONS = 200  # more are told as "more than"
Cells = Mapping[int, Sequence[float]]  # bandwidths in MiB/s by the number of I/O nodes
Pair = tuple[int, int]  # numbers of I/O nodes, the lower first


@dataclass(frozen=True)
class Choice:
    """The answer for one scenario or, over all deployments, for one pattern; `about` says which.

    `medians` are bandwidths in MiB/s; of a pattern, shares of each deployment's median. `p` is Kruskal and
    Wallis's; `pairs` holds Dunn's p of each pair of numbers of I/O nodes after Holm, `plain_pairs` the same
    without correction, `z` the statistic. `best_share` says in which part of resamples of the runs each
    number has the highest median; `best_run` had the highest single run, as published. `needed` is how many
    repetitions each number needs to tell the best from its rival; None where these repetitions do.
    """

    about: Scenario | Pattern
    medians: dict[int, float]
    repetitions: dict[int, int]
    p: float
    pairs: dict[Pair, float]
    plain_pairs: dict[Pair, float]
    z: dict[Pair, float]
    best_share: dict[int, float]
    best_run: int
    needed: int | None

    @property
    def best(self) -> int:
        """The number of I/O nodes with the highest median."""
        return _best(self.medians)

    @property
    def rival(self) -> int:
        """What the best is held against: no forwarding, or the next one where that is best."""
        return _rival(self.medians)

    def distinct(self, differs: Callable[[Choice, Pair], bool]) -> int:
        """How many choices there are by a rule."""
        left, found = sorted(self.medians), 0
        while left:
            first, *rest = left
            left = [n for n in rest if differs(self, (first, n))]
            found += 1
        return found

    @property
    def candidates(self) -> list[int]:
        """The best and the numbers that are not shown to differ from it, fewest first."""
        best = self.best
        return [n for n in sorted(self.medians) if n == best or not by_p_value(self, _pair(n, best))]

    @property
    def recommendation(self) -> str:
        """`use k`, the best by median, where it is shown to be faster than no forwarding.

        `don't forward` where none is fastest and another number is shown to be slower; else `no difference
        shown`, whatever the medians say.
        """
        if self.best and by_p_value(self, _pair(self.best, self.rival)):
            return f"use {self.best}"
        slower = self.best == 0 and len(self.candidates) < len(self.medians)
        return "don't forward" if slower else "no difference shown"


def by_p_value(choice: Choice, pair: Pair) -> bool:
    """Two numbers of I/O nodes differ: Dunn's test after Holm."""
    return choice.pairs[pair] < ALPHA


def by_plain_p_value(choice: Choice, pair: Pair) -> bool:
    """The same without correction."""
    return choice.plain_pairs[pair] < ALPHA


def as_published(choice: Choice, pair: Pair) -> bool:
    """The rule that the published counts follow from: Z, with its sign, in the place of p."""
    return choice.z[pair] < ALPHA


RULES = {
    "as published, from the raw runs": as_published,
    "p values, no correction": by_plain_p_value,
    "p values, Holm": by_p_value,
}


def choices(measured: Measurements) -> list[Choice]:
    """Of every scenario with two numbers of I/O nodes or more."""
    return [choose(s, cells) for s, cells in measured.scenarios() if len(cells) > 1]


def by_pattern(measured: Measurements) -> list[Choice]:
    """Of every pattern over its deployments: bandwidths are shares of the median of their deployment."""
    pooled: dict[Pattern, dict[int, list[float]]] = {}
    for scenario, cells in measured.scenarios():
        middle = float(np.median(np.concatenate([np.asarray(v) for v in cells.values()])))
        of_pattern = pooled.setdefault(scenario.pattern, {})
        for n, values in cells.items():
            of_pattern.setdefault(n, []).extend(v / middle for v in values)
    found = ((p, dict(sorted(cells.items()))) for p, cells in sorted(pooled.items()))
    return [choose(p, cells) for p, cells in found if len(cells) > 1]


def choose(about: Scenario | Pattern, cells: Cells) -> Choice:
    """The answer for bandwidths by the number of I/O nodes."""
    medians = {n: float(np.median(values)) for n, values in cells.items()}
    if len({v for values in cells.values() for v in values}) == 1:
        raise RunError(f"{about}: all runs have one bandwidth; allowed: measured ones")
    plain = _dunn(cells)
    from scipy import stats as scipy_stats

    adjusted = dict(zip(plain, stats.holm(list(plain.values())), strict=True))
    best, rival = _best(medians), _rival(medians)
    return Choice(
        about,
        medians,
        {n: len(values) for n, values in cells.items()},
        float(scipy_stats.kruskal(*cells.values()).pvalue),
        adjusted,
        plain,
        statistic(cells),
        _best_share(cells),
        max(cells, key=lambda n: (max(cells[n]), -n)),
        _needed(cells, best, rival) if adjusted[_pair(best, rival)] >= ALPHA else None,
    )


def counts(found: Sequence[Choice], rule: Callable[[Choice, Pair], bool]) -> dict[int, int]:
    """Scenarios by their number of distinct choices."""
    numbers = [choice.distinct(rule) for choice in found]
    return {n: numbers.count(n) for n in sorted(set(numbers))}


def statistic(cells: Cells) -> dict[Pair, float]:
    """Dunn's Z of each pair: the difference of mean ranks, fewer I/O nodes first, over its standard error."""
    ranks = stats.ranks_of(np.concatenate([np.asarray(v) for v in cells.values()]).tolist())
    n = len(ranks)
    ties = np.unique(ranks, return_counts=True)[1].astype(float)
    variance = n * (n + 1) / 12 - float((ties**3 - ties).sum()) / (12 * (n - 1))
    ends = itertools.accumulate(len(v) for v in cells.values())
    means = {k: float(ranks[end - len(cells[k]) : end].mean()) for k, end in zip(cells, ends, strict=True)}
    return {
        (a, b): (means[a] - means[b]) / math.sqrt(variance * (1 / len(cells[a]) + 1 / len(cells[b])))
        for a, b in itertools.combinations(sorted(cells), 2)
    }


def _best(medians: Mapping[int, float]) -> int:
    """The highest; of equals the fewest I/O nodes."""
    return max(medians, key=lambda n: (medians[n], -n))


def _rival(medians: Mapping[int, float]) -> int:
    best = _best(medians)
    return 0 if best and 0 in medians else _best({n: m for n, m in medians.items() if n != best})


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _dunn(cells: Cells) -> dict[Pair, float]:
    """The p of each pair, not corrected: when the library corrects, it collects garbage first (0.1 s)."""
    import scikit_posthocs

    order = list(cells)
    p = scikit_posthocs.posthoc_dunn([list(v) for v in cells.values()]).to_numpy()
    pairs = itertools.combinations(sorted(cells), 2)
    return {(a, b): float(p[order.index(a), order.index(b)]) for a, b in pairs}


def _best_share(cells: Cells) -> dict[int, float]:
    """In which part of resamples each number of I/O nodes has the highest median."""
    rng = np.random.default_rng(stats.SEED)
    medians = np.array(
        [np.median(rng.choice(np.asarray(v), (RESAMPLES, len(v))), axis=1) for v in cells.values()]
    )
    first = np.bincount(medians.argmax(axis=0), minlength=len(cells))
    return {n: float(count) / RESAMPLES for n, count in zip(cells, first, strict=True)}


def _needed(cells: Cells, best: int, rival: int) -> int:
    """Repetitions a side (Noether 1987), for all pairs of the scenario together, shown 9 times of 10.

    The chance that a run with one is faster than a run with the other is taken from the runs. A chance of 1
    or 0, which few runs give by luck, is taken as half a pair of runs short of it.
    """
    from scipy import stats as scipy_stats

    a, b = np.asarray(cells[best]), np.asarray(cells[rival])
    over = float((a[:, None] > b).mean() + (a[:, None] == b).mean() / 2)
    half = 0.5 / (len(a) * len(b))
    distance = abs(min(max(over, half), 1 - half) - 0.5)
    pairs = len(cells) * (len(cells) - 1) / 2
    z = scipy_stats.norm.ppf(1 - ALPHA / 2 / pairs) + scipy_stats.norm.ppf(POWER)
    if distance == 0:
        return MOST_REPETITIONS + 1
    return min(math.ceil(float(z) ** 2 / (6 * distance**2)), MOST_REPETITIONS + 1)
