"""A report in sentences: what the tiers buy, what did not pass, and under which conditions."""

from __future__ import annotations

from typing import Any

from tierbench.base.text import number, times
from tierbench.judge import peak_search
from tierbench.judge.verdict import PASS, Row, Step
from tierbench.pages.report_record import Report, step_words


def summary_sentences(report: Report) -> list[str]:
    """What the tiers buy, in words and with both baselines."""
    told = []
    for promise, where in (
        ("tier", "With every fsync safe in a tier"),
        ("none", "In scratch (fsync promises nothing)"),
    ):
        rows = [r for r in report.rows if r.key["fsync"] == promise and r.key["tiers"] not in ("pfs", "ram")]
        rows = [r for r in rows if r.scale is None]  # recipes are many tests: none of their rows is the best
        best = max((r for r in rows if r.ratio), key=lambda r: r.median.value, default=None)
        if best:
            reached = f"{number(best.median.value)} {best.key['unit']}"
            told.append(f"{where}, {best.label} reaches {reached}: {_both_ratios(best)}.")
        chain = [s for s in report.steps if s.after.key["fsync"] == promise and s.after.key["tiers"] != "ram"]
        chain = [s for s in chain if s.after.scale is None]
        if chain:
            told.append(
                f"Step by step from {chain[0].before.label}: " + ", ".join(map(_step_words, chain)) + "."
            )
    return told + peak_search.sentences(report.rows)


def _both_ratios(row: Row) -> str:
    assert row.ratio
    told = f"{times(row.ratio.value)} the PFS with a sync after each write"
    if row.ratio_without_sync:
        told += f", {times(row.ratio_without_sync.value)} the PFS without"
    return told


def _step_words(step: Step) -> str:
    """One link of the chain: what is reached and how many times the one before."""
    result = step_words(step)
    shown = "" if result in ("faster", "slower") else f" ({result})"
    return f"{step.after.label} {times(step.ratio.value)}{shown}"


def failure_sentences(report: Report) -> list[str]:
    """Everything that did not pass, and why."""
    told = [f"{row_name(r)}: {_verdict_and_reason(r)}." for r in report.rows if r.verdict != PASS]
    return told + [f"{f.name} failed in {f.phase}: {f.reason}" for f in report.run.failures]


def dependence_sentences(report: Report) -> list[str]:
    """Rows with drift or serial correlation among their repetitions, and what follows from it."""
    return [f"{row_name(r)}: {told}." for r in report.rows if (told := r.independence.words())]


def _verdict_and_reason(row: Row) -> str:
    return row.reason if row.reason.startswith(row.verdict) else f"{row.verdict}: {row.reason}"


def row_name(row: Row) -> str:
    """The row with its fsync promise."""
    return f"{row.label} ({promise_words(row)})"


def promise_words(row: Row) -> str:
    """What an fsync promised in this row, in two or three words."""
    if row.key["mode"] == "scratch":
        return "scratch, promises nothing"
    return {"pfs": "on the PFS", "tier": "safe in a tier", "none": "nothing"}[row.key["fsync"]]


def provenance_facts(provenance: dict[str, Any]) -> list[tuple[str, str]]:
    """Provenance as flat lines: nested keys are joined, lists are listed."""
    facts: list[tuple[str, str]] = []
    for key, value in provenance.items():
        if isinstance(value, dict):
            facts += [(f"{key}: {name}", text) for name, text in provenance_facts(value)]
        elif isinstance(value, list):
            facts.append((key, ", ".join(str(v) for v in value)))
        elif key.endswith("_bytes") and isinstance(value, int):
            facts.append((key.removesuffix("_bytes"), f"{value / 2**30:.1f} GiB"))
        else:
            facts.append((key, str(value)))
    return facts
