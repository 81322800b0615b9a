"""The HPDC'18 evaluation: what is possible, what was claimed, and which policy wins where.

The suite leaves `hpdc18.json` beside each case (`base/schemas/hpdc18.schema.json`). `bound` is the least time
that its workload can take on its devices; docs/testing/hpdc18.md derives it. A claim is a ratio of times, as
published: no buffering, or the other platforms, over the engine under the evaluation's default policy.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from tierbench.base.errors import RunError
from tierbench.base.strict_json import read_fitting
from tierbench.base.text import shown, times
from tierbench.judge import stats
from tierbench.judge.stats import Comparison, Interval
from tierbench.runs.run_folder import Run

PREFIX = "hpdc18-"
NONE, PLATFORMS, DEFAULT = "none", ("datawarp", "elevator"), "max-bandwidth"
OTHERS = (NONE, *PLATFORMS)
CLOSE = 1.15  # times the bound, that the best policy is to be within
PUBLISHED = "published/hpdc18.csv"
PARTS = ("open", "write", "read", "close", "flush", "drain")


@dataclass(frozen=True)
class Sample:
    """A workload on one way of buffering; `seconds` are medians of where the time went."""

    workload: str
    kind: str
    buffering: str
    scaling: str
    ranks: int
    values: tuple[float, ...]
    seconds: dict[str, float]
    bound: float | None
    modelled: bool
    factor: int  # K, by which the devices were slower than the twin's

    @property
    def median(self) -> Interval:
        """Of the repetitions."""
        return stats.median(self.values)

    @property
    def is_policy(self) -> bool:
        """Hermes' hierarchy, not a comparator."""
        return self.buffering not in OTHERS


@dataclass(frozen=True)
class Claim:
    """One of the evaluation's; `ratio` is None where the run lacks a sample of it, or has several K."""

    kind: str
    against: str
    published: float
    source: str
    ratio: Interval | None
    reason: str
    factor: int  # K of all samples

    @property
    def reached(self) -> bool | None:
        """The measured ratio is at least the published one."""
        return None if self.ratio is None else self.ratio.value >= self.published


@dataclass(frozen=True)
class Ranked:
    """A policy on a workload beside the best one there: the ratio of its time to the best one's."""

    sample: Sample
    ratio: Interval
    comparison: Comparison | None  # None: it is the best one

    @property
    def words(self) -> str:
        """What is shown."""
        if self.comparison is None:
            return "the fastest"
        if self.comparison.significant:
            return "slower"
        needs = self.comparison.needs_n
        return f"not shown, needs n >= {needs}" if needs else "no difference shown"


@dataclass(frozen=True)
class Efficiency:
    """The fastest policy of a workload beside the bound."""

    sample: Sample
    bound: float
    reason: str

    @property
    def times(self) -> float:
        """The median over the bound."""
        return self.sample.median.value / self.bound

    @property
    def close(self) -> bool:
        """Near enough."""
        return self.times <= CLOSE


# --- what is possible --------------------------------------------------------------------------------------


def bound(record: dict[str, Any]) -> float | None:
    """Seconds of I/O that the workload takes at least, with all devices busy at once; None: not modelled."""
    rates = record["rates"]
    if not rates:
        return None
    n, size, pfs = record["phases"], record["phase_bytes"], rates["pfs"]["write"]
    write, read = (size / sum(place[way] for place in rates.values()) for way in ("write", "read"))
    opens = record["creates"] * record["create_s"]
    moved = write + record["read_times"] * read
    if record["kind"] == "repetitive":
        return float(opens + moved)
    hidden = opens + (n - 1) * moved + max(size / pfs, moved)
    busy = n * size / pfs - (n - 1) / n * record["seconds"]["compute"]  # as long as it was, not as asked
    return float(max(hidden, busy))


# --- samples -----------------------------------------------------------------------------------------------


def samples(run: Run) -> list[Sample]:
    """Of a run, by kind and workload; repetitions together."""
    found: dict[tuple[str, str, str, int], list[tuple[dict[str, Any], float, bool]]] = {}
    for case in run.cases.to_dict("records"):
        file = run.path / case["folder"] / "hpdc18.json"
        if case["test"].startswith(PREFIX) and file.exists():
            record = read_fitting(file, "hpdc18")
            key = (record["workload"], record["scaling"], record["buffering"], int(case["factor"]))
            found.setdefault(key, []).append((record, float(case["value"]), bool(case["modelled"])))
    told = [_sample(repetitions, factor) for (*_, factor), repetitions in found.items()]
    return sorted(told, key=lambda s: (s.kind, len(s.workload), s.workload))


def _sample(repetitions: Sequence[tuple[dict[str, Any], float, bool]], factor: int) -> Sample:
    first = repetitions[0][0]
    seconds = {part: median(record["seconds"][part] for record, _, _ in repetitions) for part in PARTS}
    if first["kind"] == "repetitive":  # temporary data need no drain: it is no part of the time
        seconds["drain"] = 0.0
    return Sample(
        first["workload"],
        first["kind"],
        first["buffering"],
        first["scaling"],
        first["ranks"],
        tuple(value for _, value, _ in repetitions),
        seconds,
        _least_bound([record for record, _, _ in repetitions]),
        repetitions[0][2],
        factor,
    )


def _least_bound(records: Sequence[dict[str, Any]]) -> float | None:
    """Of all repetitions, as their computes were not equally long; None: not modelled."""
    bounds = [found for record in records if (found := bound(record)) is not None]
    return min(bounds, default=None)


def where(sample: Sample) -> str:
    """Where the time of a sample went, the longest first, beside what is possible."""
    parts = sorted(((s, part) for part, s in sample.seconds.items() if s > 0.0005), reverse=True)
    told = ", ".join(f"{part} {s:.3f} s" for s, part in parts)
    least = f"; at least {sample.bound:.3f} s" if sample.bound else ""
    return f"{sample.workload} under {sample.buffering} takes {sample.median.value:.3f} s ({told}{least})"


# --- claims ------------------------------------------------------------------------------------------------


def claims(run: Run, found: Sequence[Sample]) -> list[Claim]:
    """Every claim that the run's copy of the published numbers holds."""
    return [_claim(line, found) for line in _published(run)]


def _published(run: Run) -> list[dict[str, str]]:
    text = run.files.get(PUBLISHED, "")
    lines = list(csv.DictReader(io.StringIO(text)))
    for line in lines:
        try:
            float(line["value"]), line["test"], line["against"], line["source"]
        except (KeyError, TypeError, ValueError) as e:
            problem = f"{run.path / PUBLISHED}: is no table of claims: {shown(e)}"
            raise RunError(f"{problem}; allowed: results/published/hpdc18.csv") from e
    return lines


def _claim(line: dict[str, str], found: Sequence[Sample]) -> Claim:
    kind, against = line["test"].removeprefix(PREFIX), line["against"]
    here = [s for s in found if s.kind == kind and s.scaling == "none"]
    ours = {s.workload: s for s in here if s.buffering == DEFAULT}
    others = [s for s in here if s.buffering in ((NONE,) if against == NONE else PLATFORMS)]
    pairs = [(s.values, ours[s.workload].values) for s in others if s.workload in ours]
    factors = {s.factor for s in here}
    whole = bool(pairs) and len(pairs) == len(others) and len(factors) == 1
    ratio = stats.mean_ratio(pairs) if whole else None
    missed = ratio is not None and ratio.value < float(line["value"])
    why_none = "not measured" if len(factors) < 2 else f"devices of several K: {sorted(factors)}"
    reason = "; ".join(_why(s, others) for s in ours.values()) if missed else "" if ratio else why_none
    return Claim(kind, against, float(line["value"]), line["source"], ratio, reason, min(factors, default=1))


def _why(ours: Sample, others: Sequence[Sample]) -> str:
    """Where its time went, its ratio, and the largest one that its bound lets through."""
    over = mean(s.median.value for s in others if s.workload == ours.workload)
    most = f" of at most {times(over / ours.bound)}" if ours.bound else ""
    return f"{where(ours)}: {times(over / ours.median.value)}{most}"


# --- policies ----------------------------------------------------------------------------------------------


def _by_workload(found: Sequence[Sample]) -> dict[str, list[Sample]]:
    grouped: dict[str, list[Sample]] = {}
    for sample in found:
        if sample.is_policy and sample.scaling == "none":
            grouped.setdefault(sample.workload, []).append(sample)
    return grouped


def _fastest(policies: Sequence[Sample]) -> Sample:
    return min(policies, key=lambda s: s.median.value)


def policies(found: Sequence[Sample]) -> dict[str, list[Ranked]]:
    """By workload each policy beside the fastest; p adjusted within a workload."""
    told = {}
    for workload, here in _by_workload(found).items():
        best = _fastest(here)
        slower = [s for s in here if s is not best]
        compared = dict(
            zip(
                (s.buffering for s in slower),
                stats.compare([(s.values, best.values) for s in slower]),
                strict=True,
            )
        )
        told[workload] = [
            Ranked(s, stats.ratio(s.values, best.values), compared.get(s.buffering)) for s in here
        ]
    return told


def efficiency(found: Sequence[Sample]) -> list[Efficiency]:
    """Of each workload with a bound the fastest policy; why it is far from it, where it is."""
    told = []
    for here in _by_workload(found).values():
        best = _fastest(here)
        if best.bound:
            far = best.median.value > CLOSE * best.bound
            told.append(Efficiency(best, best.bound, where(best) if far else ""))
    return told
