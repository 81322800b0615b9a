"""The report of a run: one offline HTML page, report.json with the same rows, the comparison as a picture.

Everything is made in memory first and then replaced file by file, so that no reader meets half a report.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.table import Table

from tierbench import __version__
from tierbench.base.atomic_write import replace_all
from tierbench.base.text import number, percent, ratio_span, seconds, span, times
from tierbench.judge import peak_search
from tierbench.judge.stats import Interval
from tierbench.judge.verdict import FAIL, INCONCLUSIVE, PASS, Row, Step, judge, steps
from tierbench.layout import canvas
from tierbench.pages import figures, io500_report
from tierbench.runs.run_folder import Run
from tierbench.trace import of_run
from tierbench.trace.page import Section, templates


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


def make(run: Run) -> Report:
    """Judge a run."""
    rows = judge(run)
    return Report(run, rows, steps(rows), *of_run.sections(run, rows))


def write(report: Report, folder: Path, exported: dict[str, bytes]) -> list[Path]:
    """Write report.html, report.json, comparison.svg/.png and `exported`; returns their paths."""
    comparison = figures.draw(figures.COMPARISON, report.run, report.rows)
    files: dict[str, bytes] = {
        "report.json": (json.dumps(as_json(report), indent=1, allow_nan=False) + "\n").encode(),
        "report.html": as_html(report).encode(),
    }
    if comparison:
        files["comparison.svg"] = canvas.svg(comparison, "comparison").encode()
        files["comparison.png"] = canvas.png(comparison)
    files |= exported
    replace_all(folder, files)
    return [folder / name for name in files]


# --- report.json -------------------------------------------------------------------------------------------


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
        "baseline": row.baseline,
        **plain,
        "requirement": row.requirement,
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
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _step(step: Step) -> dict[str, Any]:
    return {
        "from": step.before.label,
        "to": step.after.label,
        "fsync": step.after.key["fsync"],
        **_bounds("ratio", step.ratio),
        "p_holm": step.comparison.p,
        "result": step_words(step),
    }


# --- words -------------------------------------------------------------------------------------------------


def step_words(step: Step) -> str:
    """What a comparison shows."""
    if step.comparison.needs_n:
        return f"inconclusive, needs n >= {step.comparison.needs_n}"
    if not step.comparison.significant:
        return "no difference shown"
    higher_is_better = step.after.key["direction"] == "higher"
    return "faster" if (step.ratio.value > 1) == higher_is_better else "slower"


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


# --- report.html -------------------------------------------------------------------------------------------


def as_html(report: Report) -> str:
    """The whole page; it requests nothing from anywhere."""
    environment = templates()
    environment.globals |= {"row_name": row_name, "promise": promise_words, "step_words": step_words}
    environment.filters |= {
        "number": number,
        "times": times,
        "percent": percent,
        "span": span,
        "ratio_span": ratio_span,
        "seconds": seconds,
    }
    drawn = []
    for index, drawing in enumerate(figures.DRAWINGS):
        figure = figures.draw(drawing, report.run, report.rows)
        if figure:
            # Our own SVG, whose texts matplotlib has escaped.
            drawn.append((drawing, Markup(canvas.svg(figure, f"figure{index}"))))  # noqa: S704
    template = environment.get_template("report.html.j2")
    return template.render(
        report=report,
        run=report.run,
        rows=report.rows,
        counts=report.counts,
        sentences=summary_sentences(report),
        failures=failure_sentences(report),
        drawings=drawn,
        published_opens=published_opens(report),
        io500_runs=io500_report.sections(report.run),
        facts=provenance_facts(report.run.provenance),
        version=__version__,
    )


def published_opens(report: Report) -> list[tuple[Row, float | None]]:
    """Rows that were published, with the open(s) their source gives; null where it gives none."""
    published: dict[tuple[str, str], float] = {}
    for name, text in report.run.files.items():
        if name.startswith("published/") and name.endswith(".csv"):
            for line in csv.DictReader(io.StringIO(text)):
                if line.get("open_s") and line.get("tiers"):
                    published[line["tiers"], line.get("test", "")] = float(line["open_s"])
    rows = [r for r in report.rows if r.published is not None and r.key["mode"] in ("bypass", "scratch")]
    return [(r, published.get((r.key["tiers"], r.key["test"]))) for r in rows]


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


# --- terminal ----------------------------------------------------------------------------------------------


def print_table(report: Report, console: Console) -> None:
    """The verdict table on a terminal."""
    compared = [r for r in report.rows if r.scale is None]
    if compared:
        _print_compared(report.run.name, compared, console)
    if len(compared) < len(report.rows):
        _print_acceptance(report.run.name, [r for r in report.rows if r.scale is not None], console)
    for section in io500_report.sections(report.run):
        console.print("\n".join(io500_report.text(section)) + "\n", highlight=False, markup=False)
    for sentence in [*summary_sentences(report), *failure_sentences(report)]:
        console.print(sentence, highlight=False, markup=False)


_COLOURS = {PASS: "green", FAIL: "red", INCONCLUSIVE: "yellow"}


def _print_compared(name: str, rows: list[Row], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, title=name, title_justify="left", pad_edge=False)
    for name in ("Configuration", "fsync"):
        table.add_column(name)
    for name in ("MiB/s", "95 % interval", "vs PFS -Y", "vs PFS", "Required", "Predicted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Verdict")
    for r in rows:
        table.add_row(
            r.label,
            r.key["fsync"],
            number(r.median.value),
            span(r.median),
            times(r.ratio.value if r.ratio else None),
            times(r.ratio_without_sync.value if r.ratio_without_sync else None),
            number(r.requirement),
            number(r.predicted),
            f"[{_COLOURS[r.verdict]}]{r.verdict}[/]",
        )
    console.print(table)


def _print_acceptance(name: str, rows: list[Row], console: Console) -> None:
    """What recipes measured, and times the twin's factor K, beside what was published for as many nodes."""
    scales = ", ".join(dict.fromkeys(str(r.scale) for r in rows))
    title = f"{name}, acceptance at scale {scales}"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    table.add_column("Test")
    for column in ("Measured", "95 % interval", "Medium", "K", "At full speed", "Published", "Deviation"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("Verdict")
    for r in rows:
        right = r.published or r.expected
        deviation = r.median.value / right - 1 if right else None
        table.add_row(
            r.label,
            f"{number(r.median.value)} {r.key['unit']}",
            span(r.median),
            number(r.medium),
            str(r.factor),
            number(r.at_full_speed),
            number(r.published_at_full_speed),
            percent(deviation),
            f"[{_COLOURS[r.verdict]}]{r.verdict}[/]",
        )
    console.print(table)
