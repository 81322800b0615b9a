"""A judged run, and the same as `report.json` for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tierbench import __version__
from tierbench.judge.requirement import Requirement
from tierbench.judge.stats import Interval
from tierbench.judge.verdict import FAIL, INCONCLUSIVE, PASS, Row, Step, judge, steps
from tierbench.pages import io500_report
from tierbench.runs.run_folder import Run
from tierbench.trace import of_run
from tierbench.trace.page import Section

VERSION = 4  # of base/schemas/report.schema.json


@dataclass(frozen=True)
class Report:
    """A judged run."""

    run: Run
    rows: list[Row]
    steps: list[Step]
    traces: list[Section]
    trace_errors: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """Rows by verdict."""
        return {v: sum(r.verdict == v for r in self.rows) for v in (PASS, FAIL, INCONCLUSIVE)}


def make(run: Run, required: Sequence[Requirement] = ()) -> Report:
    """Judge a run; `required` by the user goes before what the cases say."""
    rows = judge(run, required)
    return Report(run, rows, steps(rows), *of_run.sections(run, rows))


def as_json(report: Report) -> dict[str, Any]:
    """The rows as scripts read them."""
    run = {
        **report.run.provenance,
        "id": report.run.name,
        "tierbench": __version__,
        "cases_passed": report.run.passed,
        "cases_failed": [f.__dict__ for f in report.run.failures],
    }
    return {
        "version": VERSION,
        "run": run,
        "rows": [row_as_json(r) for r in report.rows],
        "steps": [_step(s) for s in report.steps],
        "io500": [s.made for s in io500_report.sections(report.run)],
        "traces": [of_run.as_json(s) for s in report.traces],
        "trace_errors": report.trace_errors,
    }


def row_as_json(row: Row) -> dict[str, Any]:
    """One row; ratios are to the PFS row with -Y, and beside it to the one without."""
    key = row.key
    plain, unsynced = _bounds("ratio", row.ratio), _bounds("ratio_to_pfs_without_Y", row.ratio_without_sync)
    return {
        "test": key["test"],
        "system": key["system"],
        "tiers": key["tiers"],
        "metric": key["metric"],
        "unit": key["unit"],
        "direction": key["direction"],
        "n": len(row.values),
        "values": list(row.values),
        "median": row.median.value,
        "ci_low": row.median.low,
        "ci_high": row.median.high,
        "ci_level": row.median.level,
        "drift_p": row.independence.drift_p,
        "serial_p": row.independence.serial_p,
        "dependence": row.independence.words(),
        "independence_testable": row.independence.testable,
        "baseline": row.baseline,
        **plain,
        "requirement": row.requirement,
        "requirement_source": row.requirement_source,
        "margin": row.margin,
        "verdict": row.verdict,
        "fraction_of_peak": row.fraction_of_peak,
        "fsync": key["fsync"],
        "policy": key["policy"],
        "modelled": bool(key["modelled"]),
        "driver": key["driver"],
        "mode": key["mode"],
        **unsynced,
        "predicted": row.predicted,
        "deviation": row.deviation,
        "agreement": next((c.verdict for c in row.checks if c.name == "agreement"), None),
        "published": row.published,
        "published_source": row.published_source,
        "open_s": row.open_s,
        "predicted_open_s": row.prediction.open_s if row.prediction else None,
        "close_s": row.close_s,
        "durable_s": row.durable_s,
        "verified": row.verified,
        "reason": row.reason,
        "scale": row.scale,
        "dropped": list(row.dropped),
        "invalid": list(row.invalid),
        "factor": row.factor,
        "at_full_speed": row.at_full_speed,
        "published_at_full_speed": row.published_at_full_speed,
        "medium": row.medium,
        "full_percent": row.full_percent,
        "sustained": row.sustained,
        "sustained_by": row.sustained_by,
    }


def _bounds(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None, f"{name}_level": None}
    ends = {f"{name}_low": interval.low, f"{name}_high": interval.high}
    return {name: interval.value, **ends, f"{name}_level": interval.level}


def _step(step: Step) -> dict[str, Any]:
    return {
        "from": step.before.label,
        "to": step.after.label,
        "fsync": step.after.key["fsync"],
        **_bounds("ratio", step.ratio),
        "p_holm": step.comparison.p,
        "result": step_words(step),
    }


def step_words(step: Step) -> str:
    """What a comparison shows."""
    if step.comparison.needs_n:
        return f"inconclusive, needs n >= {step.comparison.needs_n}"
    if not step.comparison.significant:
        return "no difference shown"
    higher_is_better = step.after.key["direction"] == "higher"
    return "faster" if (step.ratio.value > 1) == higher_is_better else "slower"
