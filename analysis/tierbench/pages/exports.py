"""A report's rows and a comparison's metrics for other programs (CSV, Parquet) and as Markdown.

One line is one row of report.json or one metric of a comparison, with the same columns: bandwidths in MiB/s,
times in seconds, ratios and margins as fractions. In CSV the repetitions of `values` are in one cell, with
blanks between them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from tierbench.base.text import number, percent, plain, ratio_span, span, times
from tierbench.judge import compare
from tierbench.judge.verdict import Row
from tierbench.pages import io500_report
from tierbench.pages.report_record import Report, row_as_json, step_words
from tierbench.pages.report_words import (
    assumption,
    baselines,
    counts_words,
    dependence_sentences,
    failure_sentences,
    headline,
    limit_sentences,
    measured_words,
    promise_words,
    provenance_facts,
    verdict_words,
)

_RIGHT, _LEFT = "---:", "---"


def of_report(report: Report) -> dict[str, bytes]:
    """report.md, report.csv and report.parquet."""
    files = tables("report", [row_as_json(r) for r in report.rows])
    return {"report.md": markdown(report).encode(), **files}


def of_comparison(result: compare.Result) -> dict[str, bytes]:
    """comparison.csv and comparison.parquet."""
    metrics: list[dict[str, Any]] = compare.as_json(result)["metrics"]
    flat = [{k: v for key, value in m.items() for k, v in _flat(key, value).items()} for m in metrics]
    return tables("comparison", flat)


def _flat(key: str, value: Any) -> dict[str, Any]:
    return {f"{key}_{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}


def tables(name: str, lines: Sequence[dict[str, Any]]) -> dict[str, bytes]:
    """NAME.csv and NAME.parquet of lines that have the same keys."""
    import polars

    table = polars.DataFrame(list(lines), infer_schema_length=None)
    listed = [c for c, kind in table.schema.items() if isinstance(kind, polars.List)]
    text, parquet = io.BytesIO(), io.BytesIO()
    joined = [polars.col(c).list.eval(polars.element().cast(polars.String)).list.join(" ") for c in listed]
    table.with_columns(joined).write_csv(text)
    table.write_parquet(parquet)
    return {f"{name}.csv": text.getvalue(), f"{name}.parquet": parquet.getvalue()}


def markdown(report: Report) -> str:
    """The report in words and tables, verdict first."""
    lines = [f"# {plain(report.run.name)}: {counts_words(report)}", ""]
    lines += [f"{plain(sentence)}\n" for sentence in headline(report)]
    if limits := limit_sentences(report):
        lines += ["## What limits these numbers", "", *(f"- {plain(told)}" for told in limits), ""]
    if failures := failure_sentences(report):
        lines += ["## What did not pass", "", *(f"- {plain(f)}" for f in failures), ""]
    if dependent := dependence_sentences(report):
        lines += ["## Repetitions that are not independent", "", *(f"- {plain(d)}" for d in dependent), ""]
    lines += ["## Verdicts", "", *_verdicts(report), ""]
    lines += [assumed, ""] if (assumed := assumption(report)) else []
    for section in io500_report.sections(report.run):
        lines += ["## IO500", "", *(f"    {line}" for line in io500_report.text(section)), ""]
    if report.steps:
        lines += ["## What each step buys", "", *_steps(report), ""]
    if proofs := [s.evidence.sentence for s in report.traces if s.evidence]:
        lines += ["## Where the bytes went", "", *(f"- {plain(said)}" for said in proofs), ""]
    facts = provenance_facts(report.run.provenance)
    lines += ["## Provenance", "", *(f"- {plain(name)}: {plain(value)}" for name, value in facts), ""]
    return "\n".join(lines)


def table(head: Sequence[str], align: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """A table of Markdown."""
    lines = [head, align, *([plain(cell) for cell in line] for line in body)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _verdicts(report: Report) -> list[str]:
    against = baselines(report.rows)
    head = [
        "configuration",
        "placement",
        "fsync promise",
        "devices",
        "driver",
        "n",
        "measured",
        "interval",
        *(heading for heading, _ in against),
        "required",
        "margin",
        "predicted",
        "verdict",
    ]
    body = [
        [
            r.label,
            r.key["policy"],
            promise_words(r),
            "modelled" if r.key["modelled"] else "real",
            r.key["driver"],
            str(len(r.values)),
            measured_words(r),
            span(r.median),
            *(times(ratio.value if ratio else None) for ratio in (of(r) for _, of in against)),
            _required(r),
            percent(r.margin),
            number(r.predicted),
            verdict_words(r),
        ]
        for r in report.rows
    ]
    return table(head, [_LEFT] * 5 + [_RIGHT] * (len(head) - 6) + [_LEFT], body)


def _required(row: Row) -> str:
    told = number(row.requirement)
    return f"{told} ({row.requirement_source})" if row.requirement_source else told


def _steps(report: Report) -> list[str]:
    body = [
        [
            s.before.label,
            s.after.label,
            promise_words(s.after),
            times(s.ratio.value),
            ratio_span(s.ratio),
            f"{s.comparison.p:.3f}",
            step_words(s),
        ]
        for s in report.steps
    ]
    head = ["from", "to", "fsync", "ratio", "interval", "p (Holm)", "shown"]
    return table(head, [_LEFT] * 3 + [_RIGHT] * 3 + [_LEFT], body)
