"""How many repetitions `compare` needs to show a difference, and how often it does with fewer.

Simulated, by the rules of `compare`: normal noise on both sides, exact Mann-Whitney, p adjusted for a family
of that many metrics (as for its clearest member, which Holm adjusts most), and medians that differ by the
threshold. The random numbers are seeded: the same question has the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    `needed` is the least of `SIZES` that shows it as often as `wanted`; None where none of them does.
    """

    name: str
    noise: float
    difference: float
    wanted: float
    shown: dict[int, float]

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


def noises(samples: pd.DataFrame) -> dict[str, float]:
    """The relative standard deviation within every sample of at least three repetitions, by its name."""
    found = {}
    for key, some in samples.groupby(SAMPLE, sort=False):
        if len(some) >= 3:
            name = " ".join(str(k) for k in key if k not in ("-", "none", ""))
            found[name] = float(some["value"].std(ddof=1) / some["value"].mean())
    if not found:
        raise RunError("no measurement has three repetitions or more: its noise is not known; give --noise")
    return found


def words(found: Power) -> list[str]:
    """The answer first, then how often fewer and more repetitions do."""
    n = found.needed
    told = (
        f"needs {n} repetitions on each side"
        if n
        else f"needs more than {SIZES[-1]} repetitions on each side"
    )
    first = f"{found.name} ({found.noise:.1%}): a slowdown by {found.difference:.1%} {told}"
    shown = ", ".join(f"{size}: {often:.0%}" for size, often in found.shown.items())
    return [f"{first} to be shown in {found.wanted:.0%} of comparisons", f"  shown with {shown}"]
