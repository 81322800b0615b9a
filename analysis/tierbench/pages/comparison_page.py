"""A comparison as one offline HTML page, verdict first, with its figure, Markdown and exports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tierbench import __version__
from tierbench.base.atomic_write import replace_all
from tierbench.base.text import number, plain, ratio_span, span, times
from tierbench.judge.compare import IMPROVEMENT, REGRESSION, Metric, Result
from tierbench.layout import canvas, terms
from tierbench.layout.html import templates
from tierbench.pages import exports, terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {REGRESSION: "#c2410c", IMPROVEMENT: "#1d4ed8"}
_SHAPES = {REGRESSION: "v", IMPROVEMENT: "^"}
_STYLES = {REGRESSION: "fail", IMPROVEMENT: "pass"}
_ALTERNATIVE = "Ratio of each metric to the baseline, with its interval; the tables hold the same numbers."
_MOST_DRAWN = 60  # metrics in one figure; the tables hold them all


def write(result: Result, folder: Path) -> list[Path]:
    """Write comparison.html, .md, .json, .csv and .parquet into a folder; returns their paths."""
    files = {
        "comparison.html": as_html(result).encode(),
        "comparison.md": as_markdown(result).encode(),
        "comparison.json": terminal.as_json(result),
        **exports.of_comparison(result),
    }
    replace_all(folder, files)
    return [folder / name for name in files]


def style(verdict: str) -> str:
    """The verdict's class in the page."""
    return _STYLES.get(verdict, "inconclusive" if verdict.startswith("inconclusive") else "none")


def as_html(result: Result) -> str:
    """The whole page; it requests nothing from anywhere."""
    environment = templates()
    environment.filters |= {"number": number, "span": span, "times": times, "ratio_span": ratio_span}
    environment.globals |= {"style": style, "whole_words": terminal.whole_words}
    drawn = draw(result.metrics)
    return terms.page(
        environment.get_template("comparison.html.j2"),
        result=result,
        verdict=terminal.verdict(result),
        pairs=_pairs(result),
        # Our own SVG: matplotlib has escaped its texts.
        figure=Markup(canvas.both(drawn, "ratios", _ALTERNATIVE)),  # noqa: S704
        left_out=max(0, len(result.metrics) - _MOST_DRAWN),
        version=__version__,
    )


def _pairs(result: Result) -> list[tuple[str, str, list[Metric]]]:
    names = dict.fromkeys((m.baseline, m.other) for m in result.metrics)
    return [(a, b, [m for m in result.metrics if (m.baseline, m.other) == (a, b)]) for a, b in names]


def draw(metrics: Sequence[Metric]) -> Figure:
    """Ratio of medians with its interval, a line a metric; the band is the threshold."""
    shown = list(metrics)[:_MOST_DRAWN]
    threshold = shown[0].threshold
    with canvas.style():
        figure = canvas.blank(0.6 + 0.24 * len(shown))
        axes = figure.subplots()
        axes.axvspan(1 / (1 + threshold), 1 + threshold, color=canvas.GRID, alpha=0.5, lw=0, zorder=0)
        axes.axvline(1, color=canvas.QUIET, linewidth=0.8)
        for place, m in enumerate(shown):
            colour = _COLOURS.get(m.verdict, canvas.QUIET)
            axes.plot([m.ratio.low, m.ratio.high], [place] * 2, color=colour, linewidth=2)
            shape = _SHAPES.get(m.verdict, "o")
            axes.plot([m.ratio.value], [place], shape, color=colour, markersize=4 if shape == "o" else 7)
        axes.set_yticks(range(len(shown)), _labels(shown))
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xlabel("ratio to the baseline")
        axes.grid(axis="x")
    return figure


def _labels(metrics: Sequence[Metric]) -> list[str]:
    """Names, and what else tells these metrics apart."""
    several = len({m.other for m in metrics}) > 1
    kinds = len({m.key["metric"] for m in metrics}) > 1
    return [
        m.name + (f", {m.key['metric']}" if kinds else "") + (f", {m.other}" if several else "")
        for m in metrics
    ]


def as_markdown(result: Result) -> str:
    """The same in words and tables."""
    lines = [f"# {plain(terminal.verdict(result))}", ""]
    lines += [f"- {plain(terminal.whole_words(w))}" for w in result.wholes]
    lines += [f"- forced: {plain(d)}" for d in result.differences]
    lines += [f"- {plain(line)}" for line in (*result.alone, *result.dependent)]
    lines += [f"- {result.assumes}"] if result.assumes else []
    head = ["metric", "unit", "before", "after", "ratio", "interval", "p", "n", "verdict"]
    align = ["---"] * 2 + ["---:"] * 6 + ["---"]
    for baseline, other, metrics in _pairs(result):
        lines += ["", f"## {plain(other)} against {plain(baseline)}", ""]
        lines += exports.table(head, align, [_cells(m) for m in metrics])
    lines += ["", "## Provenance", ""]
    names, abouts = zip(*result.sides, strict=True)
    body = [[what, *(about[what] for about in abouts)] for what in abouts[0]]
    lines += exports.table(["", *map(plain, names)], ["---"] * (len(names) + 1), body)
    return "\n".join([*lines, ""])


def _cells(m: Metric) -> list[str]:
    middle = [number(m.before.value), number(m.after.value), times(m.ratio.value), ratio_span(m.ratio)]
    sizes = f"{m.before.n}, {m.after.n}"
    unit = f"{m.key['metric']}, {m.key['unit']}"
    return [m.name, unit, *middle, f"{m.comparison.p:.3g}", sizes, m.verdict]
