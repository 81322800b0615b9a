"""A trial as the rows of `report.json`: each number of each configuration, and what the user requires of it.

`wall`, `durable` and `io` are seconds of a run, `bandwidth` is what the program wrote and read, by the second
of its run. A requirement is of the configuration to keep: the advised one, else the PFS alone. It holds where
that is shown, or where each run held it although they are too few to show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tierbench import __version__
from tierbench.base.errors import RunError
from tierbench.base.sizes import MIB
from tierbench.base.text import number
from tierbench.judge import independence, requirement, stats, verdict
from tierbench.judge.requirement import Measured, Requirement
from tierbench.judge.verdict import Row
from tierbench.pages import report_record
from tierbench.trial import results
from tierbench.trial.answer import Answer
from tierbench.trial.plan import PFS
from tierbench.trial.results import OneRun

TEST = "program"
_TIME, _BANDWIDTH = Measured("time", "s", "lower"), Measured("bandwidth", "MiB/s", "higher")


def _bandwidth(run: OneRun) -> float | None:
    if run.asked_written_bytes is None or run.asked_read_bytes is None:
        return None
    return (run.asked_written_bytes + run.asked_read_bytes) / MIB / run.wall_s


_NUMBERS: dict[str, tuple[Measured, Callable[[OneRun], float | None]]] = {
    "wall": (_TIME, lambda r: r.wall_s),
    "durable": (_TIME, lambda r: r.durable_s),
    "io": (_TIME, lambda r: r.io_s),
    "bandwidth": (_BANDWIDTH, _bandwidth),
}


def parse(lines: Sequence[str]) -> list[Requirement]:
    """Of `--require`: `wall <= 30 s`; `RunError` on what a trial does not measure."""
    known = {f"{TEST}-{name}": [measured] for name, (measured, _) in _NUMBERS.items()}
    return requirement.check([_named(requirement.parse(line)) for line in lines], known)


def _named(asked: Requirement) -> Requirement:
    """The number's name is said in the place of test and metric."""
    number = "wall" if asked.metric == "time" else asked.metric  # as `report.json` calls it
    if asked.test is not None or number not in _NUMBERS:
        allowed = (
            f"METRIC >= NUMBER UNIT (or <=), and after a comma its source; METRIC: {', '.join(_NUMBERS)}"
        )
        raise RunError(f"{asked.where}; allowed: {allowed}")
    return replace(asked, test=f"{TEST}-{number}", metric=_NUMBERS[number][0].metric)


def make(answer: Answer, folder: Path, required: Sequence[Requirement]) -> list[Row]:
    """All rows; a number that a run does not have, or that is nothing, makes none."""
    good, _ = results.read_all(answer.trial, folder)
    rows = [
        _row(answer, folder, name, asked, good[name], required)
        for asked in _NUMBERS
        for name in (row.name for row in answer.rows)
        if all(_NUMBERS[asked][1](run) for run in good[name])
    ]
    return verdict.judged(rows)


def _row(
    answer: Answer,
    folder: Path,
    name: str,
    number: str,
    runs: Sequence[OneRun],
    required: Sequence[Requirement],
) -> Row:
    measured, value = _NUMBERS[number]
    values = [value(run) or 0.0 for run in runs]
    order = independence.look(values)
    test = f"{TEST}-{number}"
    asked = requirement.find(required, test, measured.metric)
    of_answer = next(row for row in answer.rows if row.name == name)
    key = {
        "system": "trial:here",
        "test": test,
        "tiers": name,
        "metric": measured.metric,
        "unit": measured.unit,
        "direction": measured.direction,
        "fsync": of_answer.fsync or "none",
        "policy": runs[0].policy,
        "mode": runs[0].mode,
        "modelled": False,
        "driver": TEST,
    }
    return Row(
        key=key,
        values=tuple(values),
        median=independence.claimed(stats.median(values), order),
        independence=order,
        published=None,
        published_source=None,
        requirement=asked.limit if asked else None,
        requirement_source=asked.source if asked else None,
        verified=None if name == PFS else of_answer.same_outputs,
        prediction=None,
        open_s=None,
        close_s=of_answer.wall.value,
        durable_s=of_answer.durable_s,
        phases={},
        folders=tuple(str(folder / "runs" / name) for _ in runs),
        command=" ".join(answer.trial.command),
    )


def as_json(answer: Answer, folder: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """`report.json` (`base/schemas/report.schema.json`)."""
    failed = [{"name": line.partition(":")[0], "phase": "run", "reason": line} for line in answer.failures]
    return {
        "version": report_record.VERSION,
        "headline": [answer.advice, *sentences(answer, rows)],
        "run": {
            "id": folder.name,
            "tierbench": __version__,
            "command": list(answer.trial.command),
            "pfs": answer.trial.pfs,
            "cases_passed": sum(row.runs for row in answer.rows),
            "cases_failed": failed,
        },
        "rows": [report_record.row_as_json(row) for row in rows],
        "steps": [],
        "io500": [],
        "traces": [],
        "trace_errors": [],
    }


def sentences(answer: Answer, rows: Sequence[Row]) -> list[str]:
    """What is required, a sentence each: whether the configuration to keep holds it."""
    return [_sentence(row) for row in _required(answer, rows)]


def _sentence(row: Row) -> str:
    """Of what is not shown also what was measured, which decides the exit status."""
    told = row.reason if row.reason.startswith(row.verdict) else f"{row.verdict}: {row.reason}"
    if row.verdict == verdict.INCONCLUSIVE:
        each = "each run held it" if _each_run_holds(row) else "not each run held it"
        values = f"{number(row.median.value)} against a required {number(row.requirement)} {row.key['unit']}"
        told += f"; {values}: {each}"
    return f"{row.label}: {told}"


def holds(answer: Answer, rows: Sequence[Row]) -> bool:
    """Whether the configuration to keep holds all that is required."""
    return all(row.verdict == verdict.PASS or _each_run_holds(row) for row in _required(answer, rows))


def _each_run_holds(row: Row) -> bool:
    """Right bytes, and no value on the wrong side."""
    limit = row.requirement or 0.0
    right = min(row.values) >= limit if row.key["direction"] == "higher" else max(row.values) <= limit
    return right and row.verdict != verdict.FAIL


def _required(answer: Answer, rows: Sequence[Row]) -> list[Row]:
    kept = answer.advised or PFS
    return [row for row in rows if row.requirement is not None and row.key["tiers"] == kept]
