"""How many repetitions `compare` needs to show a difference, and how often it does with fewer.

Simulated, by the rules of `compare`: normal noise on both sides, exact Mann-Whitney, p adjusted for a family
of that many metrics (as for its clearest member, which Holm adjusts most), and medians that differ by the
threshold. The random numbers are seeded: the same question has the same answer. Noise that was taken from
a few repetitions may be far from the true one, so `worst` answers for the most that it may be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tierbench.base.errors import RunError
from tierbench.judge import stats
from tierbench.judge.compare import WHOLE_SHARE

ROUNDS = 2_000
SIZES = (3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 50)  # repetitions of each side that are tried


SAMPLE = ["source", "test", "system", "tiers", "mode", "policy", "fsync", "metric"]


@dataclass(frozen=True)
class Power:
    """How often a `difference` is shown at a relative standard deviation of `noise`, by repetitions a side.

    `needed` is the least of `SIZES` that shows it as often as `wanted`; None where none of them does. `worst`
    is the same at the most that the noise may be, where it was measured.
    """

    name: str
    noise: float
    difference: float
    wanted: float
    shown: dict[int, float]
    worst: Power | None = None

    @property
    def needed(self) -> int | None:
        """The least number of repetitions that does."""
        return next((n for n, often in self.shown.items() if often >= self.wanted), None)

    def as_json(self) -> dict[str, Any]:
        """For scripts; fractions."""
        about = {"name": self.name, "noise": self.noise, "difference": self.difference, "power": self.wanted}
        return {
            **about,
            "needed": self.needed,
            "noise_at_most": self.worst.noise if self.worst else None,
            "needed_at_most": self.worst.needed if self.worst else None,
            "shown": [{"n": n, "power": p} for n, p in self.shown.items()],
        }


def power(name: str, noise: float, difference: float, threshold: float, metrics: int, wanted: float) -> Power:
    """Of a slowdown by `difference` (0.1: to 90 %), all as fractions."""
    if not threshold < difference < 1:
        told = f"allowed: above the threshold of {100 * threshold:.3g} %, below 100 %"
        raise RunError(f"--difference {100 * difference:.3g} %; {told}")
    shown = {n: often_shown(n, noise, difference, threshold, metrics) for n in SIZES}
    return Power(name, noise, difference, wanted, shown)


def often_shown(n: int, noise: float, difference: float, threshold: float, metrics: int) -> float:
    """The share of `ROUNDS` comparisons of n with n repetitions in which the difference is shown."""
    from scipy import stats as scipy_stats

    alpha = stats.ALPHA * (1 - WHOLE_SHARE if metrics > 1 else 1)
    if not stats.can_show(n, n, metrics, alpha):
        return 0.0
    rng = np.random.default_rng([stats.SEED, n])
    before = rng.normal(1.0, noise, (ROUNDS, n))
    after = (1 - difference) * rng.normal(1.0, noise, (ROUNDS, n))
    method = "exact" if 2 * n <= stats.EXACT_UP_TO else "asymptotic"
    p = scipy_stats.mannwhitneyu(before, after, axis=1, method=method).pvalue * metrics
    slower = 1 - np.median(after, axis=1) / np.median(before, axis=1)
    return float(((p < alpha) & (slower >= threshold)).mean())


@dataclass(frozen=True)
class Noise:
    """The relative standard deviation of repetitions, and of how many: 0 where it was given."""

    value: float
    n: int = 0

    @property
    def at_most(self) -> float | None:
        """Of 20 normal samples with a larger noise one has as little as this; None where it was given."""
        from scipy import stats as scipy_stats

        if not self.n:
            return None
        return self.value * math.sqrt((self.n - 1) / float(scipy_stats.chi2.ppf(stats.ALPHA, self.n - 1)))


def answer(
    name: str, noise: Noise, difference: float, threshold: float, metrics: int, wanted: float
) -> Power:
    """`power` at this noise, with `worst` where it was measured."""
    found = power(name, noise.value, difference, threshold, metrics, wanted)
    if not noise.at_most:
        return found
    return replace(found, worst=power(name, noise.at_most, difference, threshold, metrics, wanted))


def noises(samples: pd.DataFrame) -> dict[str, Noise]:
    """The noise within every sample of at least three repetitions, by its name."""
    found = {}
    for key, some in samples.groupby(SAMPLE, sort=False):
        if len(some) >= 3:
            name = " ".join(str(k) for k in key if k not in ("-", "none", ""))
            found[name] = Noise(float(some["value"].std(ddof=1) / some["value"].mean()), len(some))
    if not found:
        raise RunError("no measurement has three repetitions or more: its noise is not known; give --noise")
    return found


def words(found: Power) -> list[str]:
    """The answer first, then how often fewer and more repetitions do."""
    first = f"{found.name} ({found.noise:.1%}): a slowdown by {found.difference:.1%} needs {_needed(found)}"
    shown = ", ".join(f"{size}: {often:.0%}" for size, often in found.shown.items())
    told = [f"{first} to be shown in {found.wanted:.0%} of comparisons", f"  shown with {shown}"]
    if found.worst:
        most = f"  the noise is of few repetitions and may be {found.worst.noise:.1%}"
        told.append(f"{most}: then it needs {_needed(found.worst)}")
    return told


def _needed(found: Power) -> str:
    n = found.needed
    return f"{n} repetitions on each side" if n else f"more than {SIZES[-1]} repetitions on each side"


def rules(threshold: float, metrics: int) -> str:
    """What the answers are made by."""
    family = "one metric" if metrics == 1 else f"p adjusted for {metrics} metrics"
    return (
        f"By simulation of {ROUNDS} comparisons each: normal noise (relative standard deviation), "
        f"independent repetitions, exact Mann-Whitney at {stats.ALPHA:.0%}, {family}, medians that differ by "
        f"{threshold:.1%} or more. Correlated repetitions need more."
    )
