"""Runs, tier configurations, commits or sites against each other, metric by metric.

The first group is the baseline. Every metric that both sides measured is one comparison; all comparisons of
one command are one family for the correction (Holm). Where a side has several metrics, the whole is tested
too: repetition by repetition, so that what all metrics of a repetition share is not taken for many witnesses.
Metrics then have 4 of the 5 % of false alarms that a command may give, the wholes the fifth. Numbers are
comparable when they were taken under the same conditions (`CONDITIONS`); where those differ, `Refused` says
what differs, and only `force` goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tierbench.base.errors import RunError
from tierbench.judge import independence, stats
from tierbench.judge.stats import Comparison, Interval

# What must be the same on both sides, and how it is called in a refusal.
CONDITIONS = {
    "driver": "driver",
    "modelled": "devices",
    "fsync": "fsync promise",
    "nodes": "scale: nodes",
    "ranks": "scale: ranks",
    "bytes": "scale: bytes",
    "options": "options",
}
_ORIGIN = {"run": "run", "commit": "commit", "site": "site"}
_MATCHED = ["test", "system", "metric", "unit", "direction"]
_CONFIGURATION = ["tiers", "mode", "policy"]
# A metric's key, the other group's name, and both samples.
_Pair = tuple[Any, str, pd.DataFrame, pd.DataFrame]
REGRESSION, IMPROVEMENT = "regression", "improvement"


@dataclass(frozen=True)
class Metric:
    """One metric of two groups; `key` says which, `ratio` is of the medians, `other` to `baseline`."""

    key: dict[str, Any]
    baseline: str
    other: str
    before: Interval
    after: Interval
    ratio: Interval
    comparison: Comparison
    threshold: float

    @property
    def name(self) -> str:
        """Test, configuration and metric in words."""
        configuration = [
            str(self.key[c]) for c in _CONFIGURATION if self.key.get(c, "-") not in ("-", "none")
        ]
        return " ".join([str(self.key["test"]), *configuration])

    @property
    def gain(self) -> float:
        """By which fraction the other is better (below 0: worse), for both directions of better."""
        higher = self.key["direction"] == "higher"
        return self.ratio.value - 1 if higher else 1 / self.ratio.value - 1

    @property
    def verdict(self) -> str:
        """What is shown, in words."""
        if self.comparison.needs_n:
            return f"inconclusive, needs n >= {self.comparison.needs_n}"
        if not self.comparison.significant:
            return "no difference shown"
        if abs(self.gain) < self.threshold:
            return f"differs by less than {self.threshold:.3g}"
        return IMPROVEMENT if self.gain > 0 else REGRESSION


VERSION = 2  # of base/schemas/comparison.schema.json
WHOLE_SHARE = 0.2  # of ALPHA, for all wholes of a command


@dataclass(frozen=True)
class Whole:
    """All metrics of two groups together: `gain` is the geometric mean of theirs."""

    baseline: str
    other: str
    metrics: int
    gain: float
    p: float
    needs_n: int | None
    threshold: float

    @property
    def verdict(self) -> str:
        """What is shown, in words."""
        if self.needs_n:
            return f"inconclusive, needs n >= {self.needs_n}"
        if self.p >= stats.ALPHA:
            return "no difference shown"
        if abs(self.gain) < self.threshold:
            return f"differs by less than {self.threshold:.3g}"
        return IMPROVEMENT if self.gain > 0 else REGRESSION


@dataclass(frozen=True)
class Result:
    """A comparison; `alone` names what only one side measured, `differences` what `force` went over.

    `dependent` says of which samples the repetitions are not independent; `sides` are the groups, the
    baseline first, each with its conditions and where its numbers come from.
    """

    metrics: list[Metric]
    wholes: list[Whole]
    alone: list[str]
    differences: list[str]
    dependent: list[str]
    sides: list[tuple[str, dict[str, str]]]

    @property
    def assumes(self) -> str | None:
        """What intervals and p take for granted."""
        return independence.assumed(i.n for m in self.metrics for i in (m.before, m.after))

    @property
    def regressed(self) -> bool:
        """Any metric, or all together, are worse by the threshold, significantly."""
        return REGRESSION in {*(m.verdict for m in self.metrics), *(w.verdict for w in self.wholes)}


class Refused(RunError):  # noqa: N818 - it is an answer, and no fault of the input
    """What was to be compared was taken under different conditions: one line a difference."""


def compare(
    samples: pd.DataFrame, by: str, threshold: float, force: bool, baseline: str | None = None
) -> Result:
    """Compare the groups of `samples` (of `tierbench.runs.samples`); see the module for the rules."""
    groups = _groups(samples, by)
    matched = _MATCHED if by == "tiers" else [*_MATCHED, *_CONFIGURATION]
    names = _in_order(list(dict.fromkeys(groups)), by, baseline)
    parts = {name: dict(list(samples[groups == name].groupby(matched, sort=False))) for name in names}
    pairs, alone = _paired(names, parts)
    differences = _all_differences(names[0], pairs, force)
    tested = [name for name in names[1:] if sum(pair[1] == name for pair in pairs) > 1]
    metrics = _metrics(names[0], pairs, matched, threshold, bool(tested))
    share = WHOLE_SHARE / max(1, len(tested))
    wholes = [_whole([m for m in metrics if m.other == name], pairs, share) for name in tested]
    sides = [(name, _provenance(samples[groups == name])) for name in names]
    return Result(metrics, wholes, alone, differences, _dependent(metrics, pairs), sides)


def _in_order(names: list[str], by: str, baseline: str | None) -> list[str]:
    """The groups, the baseline first: that of `--baseline`; of tiers the PFS alone; else the first group."""
    if by == "tiers":
        names = sorted(names, key=lambda name: not name.startswith("pfs "))
    if baseline is not None:
        if baseline not in names:
            raise RunError(f"--baseline {baseline!r}; allowed: {', '.join(map(repr, names))}")
        names = [baseline, *(n for n in names if n != baseline)]
    if len(names) < 2:
        raise RunError(f"nothing to compare: all measurements have the same {by} ({names[0]})")
    return names


def _paired(names: list[str], parts: dict[str, dict[Any, pd.DataFrame]]) -> tuple[list[_Pair], list[str]]:
    """The metrics that the baseline and another group measured, and in words those that only one side did."""
    base, alone = parts[names[0]], []
    pairs: list[_Pair] = []
    for name in names[1:]:
        pairs += [(key, name, base[key], parts[name][key]) for key in base if key in parts[name]]
        alone += [f"only in {names[0]}: {_words(key)}" for key in base if key not in parts[name]]
        alone += [f"only in {name}: {_words(key)}" for key in parts[name] if key not in base]
    if not pairs:
        raise RunError("nothing to compare: no metric was measured on both sides\n" + "\n".join(alone))
    return pairs, list(dict.fromkeys(alone))


def _all_differences(first: str, pairs: list[_Pair], force: bool) -> list[str]:
    """Conditions that differ between two sides, once each; a refusal unless `force`."""
    found = list(dict.fromkeys(d for _, name, a, b in pairs for d in _differences(a, b, first, name)))
    if found and not force:
        raise Refused("\n".join([*found, "not comparable; --force compares them all the same"]))
    return found


def _metrics(
    first: str, pairs: list[_Pair], matched: list[str], threshold: float, has_wholes: bool
) -> list[Metric]:
    """One comparison a pair, all in one family; wholes take their share of the allowed false alarms."""
    values = [(a["value"].tolist(), b["value"].tolist()) for _, _, a, b in pairs]
    compared = stats.compare(values, 1 - WHOLE_SHARE if has_wholes else 1.0)
    metrics = []
    for (key, name, *sides), (a, b), comparison in zip(pairs, values, compared, strict=True):
        looks = [independence.look(_in_turn(side)) for side in sides]
        before = independence.claimed(stats.median(a), looks[0])
        after = independence.claimed(stats.median(b), looks[1])
        ratio = independence.claimed(stats.ratio(b, a), *looks)
        about = dict(zip(matched, key, strict=True))
        metrics.append(Metric(about, first, name, before, after, ratio, comparison, threshold))
    return metrics


def _dependent(metrics: list[Metric], pairs: list[_Pair]) -> list[str]:
    """Drift and serial correlation within a sample, in words; a baseline is named once."""
    told = []
    for metric, (_, name, before, after) in zip(metrics, pairs, strict=True):
        for side, sample in ((metric.baseline, before), (name, after)):
            words = independence.look(_in_turn(sample)).words()
            told += [f"{metric.name}, {metric.key['metric']}, of {side}: {words}"] if words else []
    return list(dict.fromkeys(told))


def _provenance(side: pd.DataFrame) -> dict[str, str]:
    """Every condition with all its values."""
    told = {name: sorted({_condition(c, v) for v in side[c]}) for c, name in (_ORIGIN | CONDITIONS).items()}
    return {name: ", ".join(values) for name, values in told.items()}


def _whole(metrics: list[Metric], pairs: list[_Pair], share: float) -> Whole:
    """Each repetition's mean rank over all metrics; then these are compared like a metric."""
    mine = [(a, b) for _, name, a, b in pairs if name == metrics[0].other]
    n, m = (min(len(pair[side]) for pair in mine) for side in (0, 1))
    ranks = [stats.ranks_of([*_in_turn(a)[:n], *_in_turn(b)[:m]]) for a, b in mine]
    signs = [1 if m.key["direction"] == "higher" else -1 for m in metrics]
    scores = [sum(s * r[i] for s, r in zip(signs, ranks, strict=True)) for i in range(n + m)]
    gain = math.exp(math.fsum(math.log1p(m.gain) for m in metrics) / len(metrics)) - 1
    (found,) = stats.compare([(scores[:n], scores[n:])], share)
    about = (metrics[0].baseline, metrics[0].other, len(metrics))
    return Whole(*about, gain, found.p, found.needs_n, metrics[0].threshold)


def _in_turn(samples: pd.DataFrame) -> list[float]:
    values: list[float] = samples.sort_values(["when", "repetition"], kind="stable")["value"].tolist()
    return values


def _groups(samples: pd.DataFrame, by: str) -> pd.Series[str]:
    if by == "tiers":
        words = (
            samples[_CONFIGURATION]
            .astype(str)
            .apply(lambda line: " ".join(w for w in line if w != "none"), axis=1)
        )
        return words.astype(str)
    column = "source" if by == "run" else by
    unsaid = samples[samples[column] == ""]
    if len(unsaid):
        raise RunError(f"{unsaid['source'].iloc[0]}: does not say its {by}")
    return samples[column].astype(str)


def _words(key: Iterable[Any]) -> str:
    return " ".join(str(k) for k in key if k not in ("-", "none"))


def _differences(a: pd.DataFrame, b: pd.DataFrame, first: str, second: str) -> list[str]:
    """Conditions that are not the same everywhere in both samples."""
    told = []
    for column, name in CONDITIONS.items():
        one, two = (sorted({_condition(column, v) for v in side[column]}) for side in (a, b))
        if one != two or len(one) > 1:
            told.append(f"{name} differs: {' and '.join(one)} in {first}, {' and '.join(two)} in {second}")
    return told


def _condition(column: str, value: Any) -> str:
    if column == "modelled":
        return {True: "modelled", False: "real"}.get(value, "not said")
    if column in ("nodes", "ranks", "bytes"):
        return str(value) if value else "not said"
    return str(value) or "none"


def as_json(result: Result) -> dict[str, Any]:
    """The comparison for scripts."""
    return {
        "version": VERSION,
        "differences": result.differences,
        "alone": result.alone,
        "dependent": result.dependent,
        "assumes": result.assumes,
        "regressed": result.regressed,
        "sides": [{"name": name, **about} for name, about in result.sides],
        "together": [{**w.__dict__, "verdict": w.verdict} for w in result.wholes],
        "metrics": [_metric_as_json(m) for m in result.metrics],
    }


def _metric_as_json(m: Metric) -> dict[str, Any]:
    ends = {"ratio_low": m.ratio.low, "ratio_high": m.ratio.high}
    ratio = {"ratio": m.ratio.value, **ends, "ratio_level": m.ratio.level}
    sides = {
        name: {"n": i.n, "median": i.value, "low": i.low, "high": i.high, "level": i.level}
        for name, i in (("before", m.before), ("after", m.after))
    }
    judged = {"p_holm": m.comparison.p, "verdict": m.verdict, "threshold": m.threshold}
    return {**m.key, "baseline": m.baseline, "other": m.other, **sides, **ratio, **judged}
