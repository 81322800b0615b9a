"""Pass, fail or inconclusive, and why, for every row of a run.

A row is one test on one configuration with all its repetitions. Its checks are:

- `verified`: the bytes on the PFS were compared after the drain and were right;
- `requirement`: the interval of the median is on the right side of the required number. A device model keeps
  its rates within 5 %, so a modelled row may miss the number by that much;
- `agreement`: on a modelled row the interval is within 10 % of what the models predict, or of the published
  share where the model is a published machine's twin;
- `sustained`: something shows that in no repetition a rank reached the end of its data before the deadline;
- `uncached`: reads are not faster than the device can read;
- `medium`: the machine's own medium does at least twice what its twin is to show;
- `same`: all repetitions had the same nodes, ranks and bytes, and were to reach the same number;
- `launch`: what ran is what was asked for, and its numbers agree with the suite's clock and the trace;
- `valid`: the benchmark's own rules (IO500's) accept the run.

The verdict is the worst of the checks that apply. Without a check of the number itself (a requirement or a
prediction) it is inconclusive, and says so: right bytes make no number right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from tierbench.judge import independence, requirement, stats
from tierbench.judge.predict import Prediction, parse_command, predict
from tierbench.judge.requirement import Measured, Requirement
from tierbench.judge.stats import Comparison, Interval
from tierbench.runs.run_folder import ROW_KEYS, Run

MODEL_TOLERANCE = 0.05
AGREEMENT_TOLERANCE = 0.10
MOST_OF_MEDIUM = 0.5
PHASES = {"open": "open_s", "transfer": "write_s", "close": "close_s", "flush": "drain_s"}
NUMERIC = {"requirement", "agreement"}  # checks of the number itself
PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"


@dataclass(frozen=True)
class Check:
    """One question about a row, its answer and the reason in words."""

    name: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Row:
    """One line of the verdict table; `key` holds the columns of `runs.ROW_KEYS`.

    `phases` are median seconds by `PHASES`: of the driver, and of the drain after it.
    """

    key: dict[str, Any]
    values: tuple[float, ...]
    median: Interval
    independence: independence.Independence
    published: float | None
    published_source: str | None
    requirement: float | None
    requirement_source: str | None
    verified: bool | None
    prediction: Prediction | None
    open_s: float | None
    close_s: float | None
    durable_s: float | None
    phases: dict[str, float | None]
    folders: tuple[str, ...]
    command: str
    baseline: str | None = None
    ratio: Interval | None = None
    ratio_without_sync: Interval | None = None
    expected: float | None = None
    factor: int = 1
    scale: str | None = None
    dropped: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    full_percent: float | None = None
    read_limit: float | None = None
    medium: float | None = None
    sustained: bool | None = None
    sustained_by: str | None = None
    disagreements: tuple[str, ...] = ()
    witness: str | None = None
    moved_bytes: int = 0
    nodes: int = 1
    unlike: tuple[str, ...] = ()
    checks: tuple[Check, ...] = field(default=())

    @property
    def label(self) -> str:
        """Names the row in words: test, configuration, sync option and policy where they differ."""
        parts = [TIER_NAMES.get(self.key["tiers"], self.key["tiers"])]
        if self.scale is not None or self.key["test"].startswith(_SEVERAL):
            policy = self.key["policy"]
            return ", ".join([self.key["test"], *parts, *([] if policy in _USUAL_POLICIES else [policy])])
        if self.key["tiers"] == "pfs":
            parts.append("with -Y" if self.syncs_each_write else "without -Y")
        if self.key["policy"] == "round-robin":
            parts.append("side by side")
        return " ".join(parts)

    @property
    def nearest(self) -> str:
        """The folder of the repetition nearest the median."""
        at = min(range(len(self.values)), key=lambda i: abs(self.values[i] - self.median.value))
        return self.folders[at]

    @property
    def syncs_each_write(self) -> bool:
        """The test fsyncs after every write."""
        return bool(self.key["test"].endswith("-Y"))

    @property
    def reads(self) -> bool:
        """The number is of reading."""
        return "read" in self.key["test"].split("-")

    @property
    def only_measured(self) -> bool:
        """Nothing is wrong with it, and no number says what it should be."""
        return not self.held_against_a_number and all(c.verdict == PASS for c in self.checks)

    @property
    def verdict(self) -> str:
        """The worst of the checks."""
        answers = [c.verdict for c in self.checks]
        if FAIL in answers:
            return FAIL
        return PASS if self.held_against_a_number and INCONCLUSIVE not in answers else INCONCLUSIVE

    @property
    def held_against_a_number(self) -> bool:
        """A requirement or a prediction applies to its value."""
        return bool({c.name for c in self.checks} & NUMERIC)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        told = list(dict.fromkeys(c.reason for c in self.checks if c.verdict == self.verdict))
        if self.verdict == INCONCLUSIVE and self.checks and not self.held_against_a_number:
            good = [c.reason for c in self.checks if c.verdict == PASS]
            told = [*told, "held against no number: no requirement or prediction applies to it", *good]
        return "; ".join(told) if told else "no requirement is stated and no model predicts it"

    @property
    def margin(self) -> float | None:
        """How far the median is on the right side of the requirement, as a fraction of it."""
        if self.requirement is None:
            return None
        difference = self.median.value / self.requirement - 1
        return difference if self.key["direction"] == "higher" else -difference

    @property
    def predicted(self) -> float | None:
        """What the models say: a prediction, or on a twin the published share."""
        return self.prediction.bandwidth_mib_s if self.prediction else self.expected

    @property
    def deviation(self) -> float | None:
        """Measured against predicted, as a fraction of the prediction."""
        return self.median.value / self.predicted - 1 if self.predicted else None

    @property
    def at_full_speed(self) -> float:
        """The median without the twin's factor: comparable with the published share."""
        return self._quickened(self.median.value)

    @property
    def published_at_full_speed(self) -> float | None:
        """What was published, for as many nodes."""
        return None if self.published is None else self._quickened(self.published)

    def _quickened(self, value: float) -> float:
        return value / self.factor if self.key["metric"] == "time" else value * self.factor

    @property
    def of_medium(self) -> float | None:
        """The twin's share as a fraction of what the medium below it does."""
        if not self.medium or not self.expected:
            return None
        return (
            self.expected / self.medium if self.key["direction"] == "higher" else self.medium / self.expected
        )

    @property
    def fraction_of_peak(self) -> float | None:
        """Of the modelled bandwidth of all the row's tiers working side by side; None on real devices."""
        if not self.prediction or not self.prediction.peak_mib_s:
            return None
        return self.median.value / self.prediction.peak_mib_s


@dataclass(frozen=True)
class Step:
    """What changing one thing in a configuration buys: from one row to the next."""

    before: Row
    after: Row
    ratio: Interval
    comparison: Comparison


_SEVERAL = (
    "forge-",
    "stage-",
    "nodes-",
    "program-",
)  # tests of which a report has several: a label names the test, too
_USUAL_POLICIES = ("none", "max-bandwidth")  # of no tiers, and the default: a label names another one
TIER_NAMES = {
    "pfs": "PFS",
    "bb": "BB",
    "nvme": "NVMe",
    "bb-nvme": "BB + NVMe",
    "nvme-ram": "NVMe + RAM",
    "bb-nvme-ram": "BB + NVMe + RAM",
    "ram": "RAM",
    "nvme-cp": "NVMe, copied",
    "nvme-stage": "NVMe, staged out",
    "ram-several": "RAM, by the PFS",
    "ram-shared": "RAM of all nodes",
}
_TIER_ORDER = list(TIER_NAMES)
_PROMISE_ORDER = ["pfs", "tier", "none"]


def judge(run: Run, required: Sequence[Requirement] = ()) -> list[Row]:
    """All rows of a run with ratios and checks, the baseline first; `RunError` on what can't be required."""
    checked = requirement.check(required, _measured(run))
    return judged(
        _with_requirement(_row(run, dict(zip(ROW_KEYS, key, strict=True)), group), checked)
        for key, group in run.cases.groupby(ROW_KEYS, sort=False, dropna=False)
    )


def judged(found: Iterable[Row]) -> list[Row]:
    """Rows with ratios and checks, the baseline first."""
    rows = list(found)
    baselines = {(r.key["system"], r.key["test"]): r for r in rows if r.key["tiers"] == "pfs"}
    judged = [_with_checks(_with_ratios(r, baselines)) for r in rows]
    return sorted(judged, key=_order)


def _measured(run: Run) -> dict[str, set[Measured]]:
    """What each test of the run measures."""
    found: dict[str, set[Measured]] = {}
    for _, case in run.cases.iterrows():
        measured = Measured(str(case["metric"]), str(case["unit"]), str(case["direction"]))
        found.setdefault(str(case["test"]), set()).add(measured)
    return found


def _with_requirement(row: Row, required: Sequence[Requirement]) -> Row:
    found = requirement.find(required, row.key["test"], row.key["metric"])
    if not found:
        return row
    unlike = tuple(
        told for told in row.unlike if not told.startswith("requirement ")
    )  # it goes before theirs
    return replace(row, requirement=found.limit, requirement_source=found.source, unlike=unlike)


def _order(row: Row) -> tuple[Any, ...]:
    tiers, key = row.key["tiers"], row.key
    place = _TIER_ORDER.index(tiers) if tiers in _TIER_ORDER else len(_TIER_ORDER)
    return (
        key["system"],
        tiers != "pfs",
        _PROMISE_ORDER.index(key["fsync"]),
        place,
        not row.syncs_each_write,
        key["policy"],
        tiers,
        key["test"],
        key["driver"],
    )


def _row(run: Run, key: dict[str, Any], group: pd.DataFrame) -> Row:
    group = group.sort_values("repetition")
    values = tuple(float(v) for v in group["value"])
    verified = [v for v in group["verified"] if v is not None]
    order = independence.look(values)
    return Row(
        key=key,
        values=values,
        median=independence.claimed(stats.median(values), order),
        independence=order,
        published=_single(group["published"]),
        published_source=_text(group["published_source"]),
        requirement=_single(group["requirement"]),
        requirement_source=_requirement_source(group),
        verified=all(verified) if verified else None,
        prediction=_prediction(run, key, group),
        open_s=_median(group["open_s"]),
        close_s=_median(group["total_s"]),
        durable_s=_durable(key["mode"], group),
        phases={name: _median(group[column]) for name, column in PHASES.items()},
        folders=tuple(group["folder"]),
        command=str(group["command"].iloc[0]),
        moved_bytes=int(group["bytes"].iloc[0]),
        nodes=1 if pd.isna(group["nodes"].iloc[0]) else int(group["nodes"].iloc[0]),
        unlike=_unlike(group),
        **_of_recipe(group),
    )


def _unlike(group: pd.DataFrame) -> tuple[str, ...]:
    """What the repetitions did not have in common: then their median is of nothing, or for nothing."""
    several = {
        name: sorted({"not said" if pd.isna(v) else f"{v:.17g}" for v in group[name]})
        for name in ("nodes", "ranks", "bytes", "factor", "expected", "requirement")
    }
    return tuple(f"{name} {' and '.join(values)}" for name, values in several.items() if len(values) > 1)


def _requirement_source(group: pd.DataFrame) -> str | None:
    """The user's words, else the document of the published number."""
    if _single(group["requirement"]) is None:
        return None
    return _text(group["requirement_source"]) or _text(group["published_source"])


def _of_recipe(group: pd.DataFrame) -> dict[str, Any]:
    """What only acceptance recipes say."""
    first, sustained = group.iloc[0], list(group["sustained"])
    limit, full = _single(group["read_limit"]), _median(group["full_percent"])
    return {
        "expected": _single(group["expected"]),
        "factor": int(first["factor"]),
        "scale": _text(group["scale"]),
        "dropped": tuple(first["dropped"]),
        "invalid": tuple(dict.fromkeys(reason for told in group["invalid"] for reason in told)),
        "full_percent": full,
        "read_limit": limit,
        "medium": _median(group["medium"]),
        "sustained": False if False in sustained else True if all(sustained) else None,
        "sustained_by": _text(group["sustained_by"]),
        "disagreements": tuple(dict.fromkeys(x for told in group["disagreements"] for x in told)),
        "witness": _text(group["witness"]),
    }


def _single(column: pd.Series[float]) -> float | None:
    value = column.iloc[0]
    return None if pd.isna(value) else float(value)


def _text(column: pd.Series[str]) -> str | None:
    value = column.iloc[0]
    return None if pd.isna(value) else str(value)


def _median(column: pd.Series[float]) -> float | None:
    known = column.dropna()
    return float(np.median(known)) if len(known) else None


def _durable(mode: str, group: pd.DataFrame) -> float | None:
    """Seconds from first open until every byte is on the PFS: test and drain; None: never or unknown."""
    if mode == "bypass" and group["command"].str.contains(r" -e\b").all():
        return _median(group["total_s"])
    return _median(group["total_s"] + group["drain_s"])


def _prediction(run: Run, key: dict[str, Any], group: pd.DataFrame) -> Prediction | None:
    first = group.iloc[0]
    plan = next((run.plans[f] for f in group["folder"] if f in run.plans), None)
    workload = parse_command(first["command"], int(first["ranks"]), int(first["bytes"]))
    if pd.isna(first["nodes"]):  # on how many devices it ran is not known
        return None
    if plan is None or workload is None or key["metric"] != "bandwidth" or not key["modelled"]:
        return None
    return predict(plan, workload, key["mode"], key["fsync"], key["policy"], int(first["nodes"]))


def _with_ratios(row: Row, baselines: dict[tuple[str, str], Row]) -> Row:
    """Against the PFS with a sync after each write, and against the PFS without."""
    plain = row.key["test"].removesuffix("-Y")
    synced = baselines.get((row.key["system"], plain + "-Y"))
    unsynced = baselines.get((row.key["system"], plain))
    baseline = synced or unsynced
    return replace(
        row,
        baseline=baseline.label if baseline else None,
        ratio=_ratio(row, baseline) if baseline else None,
        ratio_without_sync=_ratio(row, unsynced) if unsynced else None,
    )


def _ratio(row: Row, baseline: Row) -> stats.Interval:
    found = stats.ratio(row.values, baseline.values)
    return independence.claimed(found, row.independence, baseline.independence)


def _with_checks(row: Row) -> Row:
    checks = (
        _same(row),
        _launched(row),
        _verified(row),
        _required(row),
        _agrees(row),
        _sustains(row),
        _uncached(row),
        _supported(row),
        _valid(row),
    )
    return replace(row, checks=tuple(c for c in checks if c))


def _verified(row: Row) -> Check | None:
    if row.verified is None:
        return None
    return (
        Check("verified", PASS, "the bytes on the PFS were right after the drain")
        if row.verified
        else Check("verified", FAIL, "the bytes on the PFS were WRONG after the drain")
    )


def _same(row: Row) -> Check | None:
    if not row.unlike:
        return None
    return Check("same", FAIL, f"its repetitions are not of the same: {'; '.join(row.unlike)}")


def _launched(row: Row) -> Check | None:
    """No number of a launch that did something else than was asked means what its row says."""
    if row.disagreements:
        return Check("launch", FAIL, f"is not what was asked for: {'; '.join(row.disagreements)}")
    if row.witness is None:
        return None
    return Check("launch", PASS, f"what ran is what was asked for, by {row.witness}")


def _required(row: Row) -> Check | None:
    if row.requirement is None:
        return None
    tolerance = MODEL_TOLERANCE if row.key["modelled"] else 0.0
    higher = row.key["direction"] == "higher"
    limit = row.requirement * (1 - tolerance if higher else 1 + tolerance)
    interval = (row.median.low, row.median.high)
    worst, best = interval if higher else (-interval[1], -interval[0])
    limit = limit if higher else -limit
    told = f"{row.median.value:.4g} against a required {row.requirement:.4g} {row.key['unit']}"
    told += f" ({row.requirement_source})" if row.requirement_source else ""
    if best < limit and row.median.n >= stats.least_n_one_sample():
        return Check("requirement", FAIL, f"misses the requirement: {told}")
    return _enough(row, "requirement", worst >= limit, f"meets the requirement: {told}", f"not shown: {told}")


def _agrees(row: Row) -> Check | None:
    predicted = row.predicted
    if predicted is None or row.deviation is None:
        return None
    low, high = row.median.low / predicted - 1, row.median.high / predicted - 1
    told = f"{row.deviation:+.1%} from the predicted {predicted:.4g} {row.key['unit']}"
    outside = low > AGREEMENT_TOLERANCE or high < -AGREEMENT_TOLERANCE
    if outside and row.median.n >= stats.least_n_one_sample():
        return Check("agreement", FAIL, f"does not behave as modelled: {told}")
    inside = low >= -AGREEMENT_TOLERANCE and high <= AGREEMENT_TOLERANCE
    return _enough(row, "agreement", inside, f"behaves as modelled: {told}", f"not shown to agree: {told}")


def _sustains(row: Row) -> Check | None:
    if row.sustained is None:
        unknown = (row.sustained_by or "").startswith("not shown")
        return Check("sustained", INCONCLUSIVE, f"sustained: {row.sustained_by}") if unknown else None
    if row.sustained:
        return Check("sustained", PASS, f"sustained until the deadline ({row.sustained_by})")
    return Check(
        "sustained", FAIL, f"a rank reached the end of its data before the deadline ({row.sustained_by})"
    )


def _uncached(row: Row) -> Check | None:
    """A read that no device could have served came from a cache."""
    if row.read_limit is None or row.key["mode"] != "bypass":
        return None
    told = f"{row.median.value:.4g} of at most {row.read_limit:.4g} {row.key['unit']}"
    if row.median.low > row.read_limit * (1 + AGREEMENT_TOLERANCE):
        return Check("uncached", FAIL, f"reads faster than the device can, from a cache: {told}")
    return Check("uncached", PASS, f"no faster than the device can read: {told}")


def _supported(row: Row) -> Check | None:
    """A model can only slow down a medium that is fast enough."""
    if row.of_medium is None:
        return None
    allowed = f"of what the medium below it does, allowed are {MOST_OF_MEDIUM:.0%}"
    told = f"the twin's share is {row.of_medium:.0%} {allowed}"
    return Check("medium", PASS if row.of_medium <= MOST_OF_MEDIUM else FAIL, told)


def _valid(row: Row) -> Check | None:
    """By the rules of the benchmark; what went wrong has failed the case as well."""
    if not row.invalid:
        return None
    return Check("valid", INCONCLUSIVE, f"INVALID by the rules: {'; '.join(row.invalid)}")


def _enough(row: Row, name: str, holds: bool, yes: str, unknown: str) -> Check:
    """A sample too small to show anything shows nothing, whatever its values."""
    least = stats.least_n_one_sample()
    if row.median.n < least:
        return Check(name, INCONCLUSIVE, f"inconclusive, needs n >= {least}")
    return Check(name, PASS, yes) if holds else Check(name, INCONCLUSIVE, unknown)


def steps(rows: list[Row]) -> list[Step]:
    """What each tier buys: planned comparisons of neighbours, one family per test and fsync promise."""
    found: list[Step] = []
    tests = dict.fromkeys((r.key["system"], r.key["test"].removesuffix("-Y")) for r in rows)
    for (system, test), promise in itertools.product(tests, ("tier", "none")):
        mine = [r for r in rows if (r.key["system"], r.key["test"].removesuffix("-Y")) == (system, test)]
        family = _family(mine, promise)
        pairs = [(b, a) for b, a in family if b.values and a.values]
        if pairs:
            compared = stats.compare([(b.values, a.values) for b, a in pairs])
            found += [Step(b, a, _ratio(a, b), c) for (b, a), c in zip(pairs, compared, strict=True)]
    return found


def _step_before(tiers: str, known: list[str]) -> str:
    """Of the known configurations, the largest that has only tiers of this one; the PFS where there is none.

    Of two as large the one with the name that this one continues: nvme-ram comes after nvme, not after ram.
    """
    parts = set(tiers.split("-"))
    smaller = [name for name in known if set(name.split("-")) < parts]
    return max(smaller, key=lambda name: (name.count("-"), tiers.startswith(name)), default="pfs")


def _family(rows: list[Row], promise: str) -> list[tuple[Row, Row]]:
    """Each configuration against the one with a tier less, or the PFS; then the same tiers side by side."""
    baselines = [r for r in rows if r.key["tiers"] == "pfs"]
    pfs = next((r for r in baselines if r.syncs_each_write), baselines[0] if baselines else None)
    mine = [r for r in rows if r.key["fsync"] == promise and r.key["tiers"] != "pfs"]
    in_turn = {r.key["tiers"]: r for r in mine if r.key["policy"] == "max-bandwidth"}
    beside = {r.key["tiers"]: r for r in mine if r.key["policy"] == "round-robin"}
    pairs = [(in_turn.get(_step_before(tiers, list(in_turn))) or pfs, row) for tiers, row in in_turn.items()]
    pairs += [(in_turn.get(tiers), row) for tiers, row in beside.items()]
    return [(b, a) for b, a in pairs if b and a]
