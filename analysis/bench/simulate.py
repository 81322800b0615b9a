"""What the statistics of `judge` are worth: how often intervals cover, alarms are false, and steps are found.

usage: simulate.py [ROUNDS [TABLE...]]

Everything is simulated with known answers and seeded. Prints the tables of "Measured" in
docs/testing/analysis.md as Markdown, or some of them by name; a number is of ROUNDS (2000) samples, or of the
part of them that docs/testing/analysis.md says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from tierbench.base.text import counted
from tierbench.judge import compare, history, independence, power, stats

Values = NDArray[np.float64]
SIZES = (3, 4, 5, 8, 10, 20)


def normal(rng: np.random.Generator, n: int) -> Values:
    """3 % of noise."""
    return rng.normal(100, 3, n)


def skewed(rng: np.random.Generator, n: int) -> Values:
    """A best case, and delays with an exponential tail of 10 % on average."""
    return 100 / (1 + rng.exponential(0.1, n))


def bimodal(rng: np.random.Generator, n: int) -> Values:
    """Three in ten are slower by 20 %."""
    return np.where(rng.random(n) < 0.7, 100, 80) * rng.normal(1, 0.02, n)


def drifting(rng: np.random.Generator, n: int) -> Values:
    """Slower by 10 % at the end, with 3 % of noise."""
    return np.linspace(100, 90, n) * rng.normal(1, 0.03, n)


def correlated(rng: np.random.Generator, n: int) -> Values:
    """3 % of noise, of which each repetition has 0.6 in common with the one before."""
    noise = rng.normal(size=n)
    for i in range(1, n):
        noise[i] = 0.6 * noise[i - 1] + 0.8 * noise[i]
    return 100 + 3 * noise


Kind = Callable[[np.random.Generator, int], Values]
KINDS: tuple[Kind, ...] = (normal, skewed, bimodal, drifting)


def truth(kind: Kind, n: int) -> float:
    """The median of all that a measurement of n repetitions may give."""
    rng = np.random.default_rng(99)
    return float(np.median(np.concatenate([kind(rng, n) for _ in range(200_000 // n)])))


def covers(kind: Kind, n: int, rounds: int) -> float:
    """How often the interval of the median holds it."""
    rng, right = np.random.default_rng([stats.SEED, n]), truth(kind, n)
    found = (stats.median(list(kind(rng, n))) for _ in range(rounds))
    return sum(i.low <= right <= i.high for i in found) / rounds


def covers_ratio(kind: Kind, baseline: Kind, n: int, rounds: int) -> float:
    """How often the interval of the ratio of medians holds it."""
    rng, right = np.random.default_rng([stats.SEED, n]), truth(kind, n) / truth(baseline, n)
    found = (stats.ratio(list(kind(rng, n)), list(baseline(rng, n))) for _ in range(rounds))
    return sum(i.low <= right <= i.high for i in found) / rounds


def named(kind: Kind, n: int, rounds: int) -> tuple[float, float | None]:
    """How often repetitions are said not to be independent; of the others, how often their interval holds."""
    rng, right, kept = np.random.default_rng([stats.SEED, n]), truth(kind, n), []
    for _ in range(rounds):
        values = list(kind(rng, n))
        interval = independence.claimed(stats.median(values), independence.look(values))
        kept += [interval.low <= right <= interval.high] if interval.level is not None else []
    return 1 - len(kept) / rounds, sum(kept) / len(kept) if kept else None


def compare_alarms(kind: Kind, metrics: int, n: int, rounds: int) -> float:
    """How often `compare` shows any difference where there is none, with any change counted."""
    rng = np.random.default_rng([stats.SEED, metrics, n])
    runs = (np.array([[kind(rng, n), kind(rng, n)] for _ in range(metrics)]) for _ in range(rounds))
    return sum(shows_any(found) for found in runs) / rounds


def shows_any(found: Values) -> bool:
    """By the tests of `compare.compare`, without its intervals: single metrics, then all of them together.

    `found` has a line a metric with the values of both runs.
    """
    several = len(found) > 1
    single = stats.compare(
        [(list(a), list(b)) for a, b in found], 1 - compare.WHOLE_SHARE if several else 1.0
    )
    if any(c.significant for c in single) or not several:
        return any(c.significant for c in single)
    before, after = rankdata(found.reshape(len(found), -1), axis=1).sum(axis=0).reshape(2, -1)
    return stats.compare([(list(before), list(after))], compare.WHOLE_SHARE)[0].significant


def history_shows(step: float, at: Sequence[int], rounds: int, threshold: float) -> float:
    """How often a history of 20 runs at 3 % noise shows a step; one of that size is at one of these runs."""
    rng, shown = np.random.default_rng([stats.SEED, round(1000 * step), *at]), 0
    for i in range(rounds):
        levels = np.where(np.arange(20) < at[i % len(at)], 1, 1 - step)
        shown += bool(history.find_steps(list(levels * normal(rng, 20)), threshold))
    return shown / rounds


def _table(head: Sequence[str], body: Iterator[list[str]]) -> None:
    for line in (head, ["---"] * len(head), *body):
        print("| " + " | ".join(line) + " |", flush=True)
    print()


def _per_cent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.1f}"


def _coverage(rounds: int) -> Iterator[list[str]]:
    for n in SIZES:
        level = stats.median([float(v) for v in range(n)]).level or 0
        ratios = [_per_cent(covers_ratio(k, k, n, rounds // 2)) for k in KINDS[:3]]
        mixed = _per_cent(covers_ratio(skewed, normal, n, rounds // 2))
        medians = [_per_cent(covers(k, n, rounds)) for k in (*KINDS, correlated)]
        told = stats.ratio([1.0] * n, [1.0] * n).level
        yield [
            str(n),
            _per_cent(level),
            *medians,
            "range" if told is None else _per_cent(told),
            *ratios,
            mixed,
        ]


def coverage(rounds: int) -> None:
    """How often intervals hold the true value."""
    kinds = ["normal", "skewed", "bimodal"]
    medians = ["median called", *kinds, "drifting", "correlated"]
    _table(["n", *medians, "ratio called", *kinds, "skewed to normal"], _coverage(rounds))


def independent(rounds: int) -> None:
    """How often repetitions that depend on each other are named."""
    looked_at = (normal, drifting, correlated)
    names = [word for kind in looked_at for word in (kind.__name__, "not named: holds")]
    few = max(rounds // 4, 1)  # takes long
    _table(
        ["n", *names],
        (
            [str(n), *(_per_cent(x) for kind in looked_at for x in named(kind, n, few))]
            for n in (*SIZES[2:], independence.TESTABLE, 40)
        ),
    )


def alarms(rounds: int) -> None:
    """How often `compare` shows what is not there."""
    cases = ((1, 5), (1, 8), (6, 5), (6, 8))
    _table(
        ["repetitions", *(f"{counted(m, 'metric')}, n = {n}" for m, n in cases)],
        (
            [kind.__name__, *(_per_cent(compare_alarms(kind, m, n, 2 * rounds)) for m, n in cases)]
            for kind in (normal, skewed, correlated)
        ),
    )


def histories(rounds: int) -> None:
    """How often a history shows a step."""
    few = max(rounds // 4, 1)  # takes long
    _table(
        ["history of 20 runs", "shows a step"],
        iter(
            [
                ["none, any change counts", _per_cent(history_shows(0, [10], few, 0))],
                ["none, 5 % threshold", _per_cent(history_shows(0, [10], few, 0.05))],
                ["10 % at run 3 to 17", _per_cent(history_shows(0.1, range(3, 18), few, 0.05))],
                ["10 % at run 10", _per_cent(history_shows(0.1, [10], few, 0.05))],
            ]
        ),
    )


def powers(rounds: int) -> None:
    """How often `compare` shows a slowdown; always of `power.ROUNDS` samples."""
    del rounds
    _table(
        ["difference, noise", *(str(n) for n in power.SIZES)],
        (
            [f"{d:.0%} at {s:.0%}", *(_per_cent(power.often_shown(n, s, d, 0.05, 1)) for n in power.SIZES)]
            for d, s in ((0.1, 0.01), (0.1, 0.03), (0.1, 0.05), (0.1, 0.1), (0.2, 0.05), (0.2, 0.1))
        ),
    )


TABLES = {table.__name__: table for table in (coverage, independent, alarms, histories, powers)}


def main(rounds: int, names: Sequence[str]) -> None:
    """Print the tables of these names."""
    for name in names:
        TABLES[name](rounds)


if __name__ == "__main__":
    wrong = [name for name in sys.argv[2:] if name not in TABLES]
    if wrong:
        sys.exit(f"simulate.py: table {wrong[0]!r}; allowed: {', '.join(TABLES)}")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, sys.argv[2:] or list(TABLES))
