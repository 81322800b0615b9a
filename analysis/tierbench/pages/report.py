"""The report of a run: one offline HTML page, report.json with the same rows, the comparison as a picture.

Everything is made in memory first and then replaced file by file, so that no reader meets half a report.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tierbench import __version__
from tierbench.base.atomic_write import replace_all
from tierbench.base.errors import RunError
from tierbench.base.text import number, percent, ratio_span, seconds, shown, span, times
from tierbench.judge.verdict import Row
from tierbench.layout import canvas, terms
from tierbench.pages import (
    components_section,
    exports,
    figures,
    hpdc18_section,
    io500_report,
    stage_section,
)
from tierbench.pages.report_record import Report, as_json, step_words
from tierbench.pages.report_words import (
    assumption,
    baselines,
    dependence_sentences,
    failure_sentences,
    headline,
    limit_sentences,
    promise_words,
    provenance_facts,
    row_name,
    title,
    verdict_style,
    verdict_words,
)
from tierbench.trace.page import templates


def write(report: Report, folder: Path) -> list[Path]:
    """Write report.html, .json, .md, .csv, .parquet and comparison.svg/.png; returns their paths."""
    comparison = figures.draw(figures.COMPARISON, report.run, report.rows)
    files: dict[str, bytes] = {
        "report.json": (json.dumps(document(report), indent=1, allow_nan=False) + "\n").encode(),
        "report.html": as_html(report).encode(),
    }
    if comparison:
        files["comparison.svg"] = canvas.svg(
            comparison, "comparison", figures.alternative(figures.COMPARISON, report.rows)
        ).encode()
        files["comparison.png"] = canvas.png(comparison)
    files |= exports.of_report(report)
    replace_all(folder, files)
    return [folder / name for name in files]


def document(report: Report) -> dict[str, Any]:
    """What scripts read: the headline of the page, then the record."""
    record = as_json(report)
    return {"version": record["version"], "headline": headline(report), **record}


def as_html(report: Report) -> str:
    """The whole page; it requests nothing from anywhere."""
    environment = templates()
    environment.globals |= {
        "row_name": row_name,
        "promise": promise_words,
        "step_words": step_words,
        "component_words": components_section.words,
        "verdict_words": verdict_words,
        "verdict_style": verdict_style,
    }
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
            told = figures.alternative(drawing, report.rows)
            # Our own SVG: matplotlib has escaped its texts.
            drawn.append((drawing, Markup(canvas.both(figure, f"figure{index}", told))))  # noqa: S704
    template = environment.get_template("report.html.j2")
    content = {
        "report": report,
        "run": report.run,
        "rows": report.rows,
        "title": title(report),
        "headline": headline(report),
        "limits": limit_sentences(report),
        "against": baselines(report.rows),
        "failures": failure_sentences(report),
        "dependent": dependence_sentences(report),
        "assumption": assumption(report),
        "drawings": drawn,
        "published_opens": published_opens(report),
        "bases": _bases(report.rows),
        "hpdc18": hpdc18_section.of_run(report.run),
        "hpdc18_kinds": hpdc18_section.KINDS,
        "hpdc18_against": hpdc18_section.AGAINST,
        "io500_runs": io500_report.sections(report.run),
        "components": components_section.of_run(report.run),
        "stage": stage_section.of_run(report.run, report.rows),
        "facts": provenance_facts(report.run.provenance),
        "version": __version__,
    }
    return terms.page(template, **content)


def _bases(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The rows that published ones are divided by: the PFS alone, with and without a sync after writes."""
    alone = {row.syncs_each_write: row for row in reversed(rows) if row.key["tiers"] == "pfs"}
    named = ((True, "vs PFS with -Y"), (False, "vs PFS without"))
    return [(heading, alone[synced]) for synced, heading in named if synced in alone]


def published_opens(report: Report) -> list[tuple[Row, float | None]]:
    """Rows that were published, with the open(s) their source gives; null where it gives none."""
    published: dict[tuple[str, str], float] = {}
    for name, text in report.run.files.items():
        if name.startswith("published/") and name.endswith(".csv"):
            try:
                for line in csv.DictReader(io.StringIO(text)):
                    if line.get("open_s") and line.get("tiers"):
                        published[line["tiers"], line.get("test", "")] = float(line["open_s"])
            except (ValueError, csv.Error) as e:
                told = f"{report.run.path / name}: is no table of published numbers: {shown(e)}"
                raise RunError(f"{told}; allowed: a file of results/published") from e
    rows = [r for r in report.rows if r.published is not None and r.key["mode"] in ("bypass", "scratch")]
    return [(r, published.get((r.key["tiers"], r.key["test"]))) for r in rows]
