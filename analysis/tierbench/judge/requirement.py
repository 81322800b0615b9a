"""What a user requires of a test: a limit of its metric, with the source of the number.

A site says it in its `extras` (`require`, a list of objects), a report in `--require` (one line of text). A
requirement of the user takes the place of the published number that a twin is held against.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tierbench.base.errors import RunError

FORM = "'[TEST:] METRIC >= NUMBER UNIT' (or <=), and after a comma its source"
KEYS = ("test", "metric", "at_least", "at_most", "unit", "source")
_LINE = re.compile(
    r"(?:(?P<test>[^\s:]+)\s*:\s*)?(?P<metric>\w+)\s*(?P<sign>[<>]=)\s*(?P<limit>[\d.]\S*)\s+(?P<unit>[^\s,]+)"
    r"(?:\s*,\s*(?P<source>\S.*))?"
)


@dataclass(frozen=True)
class Requirement:
    """A limit: the value must be at least that (`direction` higher) or at most (lower).

    Without a test (None) it is required of each test with that metric and unit.
    """

    test: str | None
    metric: str
    direction: str
    limit: float
    unit: str
    source: str
    where: str


@dataclass(frozen=True)
class Measured:
    """What a test measures: the kind of number, its unit, and which values are better."""

    metric: str
    unit: str
    direction: str


def parse(text: str) -> Requirement:
    """One line of `--require`."""
    where = f"--require {text!r}"
    match = _LINE.fullmatch(text.strip())
    if not match:
        raise RunError(f"{where}; allowed: {FORM}")
    direction = "higher" if match["sign"] == ">=" else "lower"
    source = match["source"] or "--require"
    limit = _limit(match["limit"], where)
    return Requirement(match["test"], match["metric"], direction, limit, match["unit"], source, where)


def of_site(found: Any) -> list[Requirement]:
    """`require` of a site's extras."""
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise RunError(f"site: extras: require: {found!r}; allowed: a list of objects with {', '.join(KEYS)}")
    return [_of_object(number, told) for number, told in enumerate(found, 1)]


def _of_object(number: int, told: Any) -> Requirement:
    where = f"site: extras: require: number {number}"
    needed = {"test", "metric", "unit", "source"}
    if not isinstance(told, Mapping) or not needed <= told.keys() or not told.keys() <= set(KEYS):
        raise RunError(f"{where}: {told!r}; allowed: {', '.join(KEYS)}; one of at_least and at_most")
    if ("at_least" in told) == ("at_most" in told):
        raise RunError(f"{where}: has both or none of at_least and at_most; allowed: one of them")
    if wrong := next(
        (key for key in sorted(needed) if not isinstance(told[key], str) or not told[key]), None
    ):
        raise RunError(f"{where}: {wrong}: {told[wrong]!r}; allowed: a text")
    direction = "higher" if "at_least" in told else "lower"
    limit = _limit(told.get("at_least", told.get("at_most")), where)
    return Requirement(told["test"], told["metric"], direction, limit, told["unit"], told["source"], where)


def _limit(given: Any, where: str) -> float:
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 < value < math.inf:
        raise RunError(f"{where}: {given!r}; allowed: a number above 0")
    return value


def check(required: Sequence[Requirement], known: Mapping[str, Collection[Measured]]) -> list[Requirement]:
    """Refuse what none of the known tests measures, in another unit, or twice; returns one for each test.

    A requirement that names its test goes before one that names none.
    """
    seen = set()
    for r in required:
        _check_one(r, known)
        if (r.test, r.metric) in seen:
            raise RunError(f"{r.where}: {r.test or 'any test'}: {r.metric} is required twice; allowed: once")
        seen.add((r.test, r.metric))
    named = [r for r in required if r.test is not None]
    return named + [
        replace(r, test=test)
        for r in required
        if r.test is None
        for test in _of(r, known)
        if (test, r.metric) not in seen
    ]


def _check_one(r: Requirement, known: Mapping[str, Collection[Measured]]) -> None:
    """Refuse a test that is not known, and a metric, unit or direction that its test, or any test, lacks."""
    if r.test is not None and r.test not in known:
        raise RunError(f"{r.where}: test {r.test!r}; allowed: {', '.join(sorted(known))}")
    of = r.test or "any test"
    measured = [m for test, several in known.items() if r.test in (None, test) for m in several]
    fit = [m for m in measured if m.metric == r.metric]
    if not fit:
        raise RunError(
            f"{r.where}: metric {r.metric!r} of {of}; allowed: {_names(m.metric for m in measured)}"
        )
    if r.unit not in {m.unit for m in fit}:
        raise RunError(f"{r.where}: unit {r.unit!r} of {r.metric}; allowed: {_names(m.unit for m in fit)}")
    if r.direction != fit[0].direction:
        allowed = ">= (at_least)" if fit[0].direction == "higher" else "<= (at_most)"
        raise RunError(f"{r.where}: of {r.metric} {fit[0].direction} is better; allowed: {allowed}")


def _names(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def _of(r: Requirement, known: Mapping[str, Collection[Measured]]) -> list[str]:
    """Tests that measure it in its unit."""
    return [
        test
        for test, measured in known.items()
        if any((m.metric, m.unit) == (r.metric, r.unit) for m in measured)
    ]


def find(required: Sequence[Requirement], test: str, metric: str) -> Requirement | None:
    """The one of a test and metric."""
    return next((r for r in required if (r.test, r.metric) == (test, metric)), None)
