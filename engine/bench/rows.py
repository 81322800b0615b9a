"""A row of a benchmark: a path, its yardstick, the budget of their ratio, and what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from setting import Bench

Pairs = list[tuple[float, float]]


class CannotMeasureError(Exception):
    """One row has no value; the message says why."""


@dataclass
class Row:
    """One line of the budget.  `values` are ratios, one a repetition."""

    path: str
    yardstick: str
    direction: str  # "at most" (ratio of times) or "at least" (ratio of rates)
    budget: float | None
    measure: Callable[[Bench], list[tuple[float, float]]] = field(repr=False)
    """Returns pairs of seconds, or of rates: (of the path, of the yardstick)."""
    pairs: list[tuple[float, float]] = field(default_factory=list)
    error: str | None = None

    @property
    def values(self) -> list[float]:
        """Ratios, one a repetition."""
        return [ours / theirs for ours, theirs in self.pairs]

    @property
    def within(self) -> bool | None:
        """Whether the median keeps the budget; None where there is none."""
        if not self.pairs or self.budget is None:
            return None
        ratio = statistics.median(self.values)
        return ratio <= self.budget if self.direction == "at most" else ratio >= self.budget

    def as_json(self) -> dict[str, object]:
        """One row of the result file."""
        values = self.values
        return {
            "path": self.path,
            "yardstick": self.yardstick,
            "direction": self.direction,
            "budget": self.budget,
            "n": len(values),
            "ratio": statistics.median(values) if values else None,
            "low": min(values, default=None),
            "high": max(values, default=None),
            "within_budget": self.within,
            "values": values,
            "path_values": [ours for ours, _ in self.pairs],
            "yardstick_values": [theirs for _, theirs in self.pairs],
            "error": self.error,
        }
