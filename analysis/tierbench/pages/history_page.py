"""A history as one offline HTML page, verdict first, with a figure a series, and as Markdown and exports."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from tierbench import __version__
from tierbench.base.atomic_write import replace_all
from tierbench.base.text import number, plain
from tierbench.judge import independence
from tierbench.judge.history import Point, Series
from tierbench.layout import canvas, terms
from tierbench.layout.canvas import INK, QUIET
from tierbench.layout.html import templates
from tierbench.pages import exports

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORSE, _BETTER = "#c2410c", "#1d4ed8"


def write(found: Sequence[Series], test: str, folder: Path) -> list[Path]:
    """Write history.html, .md, .json, .csv and .parquet into a folder; returns their paths."""
    lines = [line for series in found for line in _lines(series)]
    files = {
        "history.html": as_html(found, test).encode(),
        "history.md": as_markdown(found, test).encode(),
        "history.json": (json.dumps([as_json(s) for s in found], indent=1, allow_nan=False) + "\n").encode(),
        **exports.tables("history", lines),
    }
    replace_all(folder, files)
    return [folder / name for name in files]


def as_html(found: Sequence[Series], test: str) -> str:
    """The whole page; it requests nothing from anywhere."""
    environment = templates()
    environment.filters |= {"number": number}
    environment.globals |= {"day": day, "title": title, "conclusion": conclusion}
    # Our own SVG: matplotlib has escaped its texts.
    drawn = [
        (s, Markup(canvas.both(draw(s), f"history{i}", _in_words(s))))  # noqa: S704
        for i, s in enumerate(found)
    ]
    page = environment.get_template("history.html.j2")
    return terms.page(page, test=test, verdict=verdict(found), drawn=drawn, version=__version__)


def _in_words(series: Series) -> str:
    """The picture in words, for a reader that cannot see it."""
    return f"{title(series)}: {' '.join(conclusion(series))}"


def draw(series: Series) -> Figure:
    """The median of every run, the levels between the steps, and since when each is another."""
    with canvas.style():
        figure = canvas.blank(2.3)
        axes = figure.add_subplot()
        values = [p.value for p in series.points]
        axes.plot(range(len(values)), values, "o", color=QUIET, ms=4, mec="white", mew=0.5)
        ends = [0, *(step.at for step in series.steps), len(values)]
        for first, after in itertools.pairwise(ends) if series.needs_n is None else ():
            axes.plot(
                [first - 0.4, after - 0.6], [float(np.median(values[first:after]))] * 2, color=INK, lw=1.4
            )
        for step in series.steps:
            colour = _BETTER if series.is_better(step) else _WORSE
            axes.axvline(step.at - 0.5, color=colour, lw=1, ls="--")
            axes.annotate(
                f"{'better' if series.is_better(step) else 'worse'}: {step.ratio:.3g}x",
                (step.at - 0.5, 1),
                (3, -2),
                xycoords=("data", "axes fraction"),
                va="top",
                textcoords="offset points",
                color=colour,
                fontsize=8,
            )
        at = np.unique(np.linspace(0, len(values) - 1, min(len(values), 6)).astype(int))
        axes.set_xticks(at, [day(series.points[i]) for i in at])
        axes.set_xlim(-0.6, len(values) - 0.4)
        axes.set_ylim(0, 1.15 * max(values))
        axes.set_xlabel("runs in order of time (dots: medians, lines: levels)")
        axes.set_ylabel(f"{series.key['metric']}, {series.key['unit']}")
        axes.grid(axis="y")
    return figure


def as_markdown(found: Sequence[Series], test: str) -> str:
    """The same in words and tables."""
    lines = [f"# {plain(test)}: {plain(verdict(found))}", ""]
    for series in found:
        lines += [f"## {plain(title(series))}", "", *(f"- {plain(c)}" for c in conclusion(series)), ""]
        body = [[p.run, day(p), p.commit[:10], number(p.value), str(p.n)] for p in series.points]
        head = ["run", "day", "commit", f"{series.key['metric']}, {series.key['unit']}", "n"]
        lines += [*exports.table(head, ["---"] * 3 + ["---:"] * 2, body), ""]
    return "\n".join(lines)


def as_json(series: Series) -> dict[str, Any]:
    """A series for scripts."""
    steps = [
        {**s.__dict__, "since": series.points[s.at].run, "better": series.is_better(s)} for s in series.steps
    ]
    points = [{**p.__dict__, "when": None if math.isnan(p.when) else p.when} for p in series.points]
    key = {name: None if value != value else value for name, value in series.key.items()}
    return {
        **key,
        "needs_n": series.needs_n,
        "dependence": series.dependence,
        "steps": steps,
        "points": points,
    }


def _lines(series: Series) -> list[dict[str, Any]]:
    """A line a run, with the number of its level."""
    about = {name: str(series.key[name]) for name in ("test", "system", "site", "tiers", "mode", "policy")}
    about |= {name: str(series.key[name]) for name in ("fsync", "driver", "metric", "unit", "direction")}
    steps = [step.at for step in series.steps]
    return [
        {
            **about,
            "run": p.run,
            "when": day(p),
            "commit": p.commit,
            "value": p.value,
            "n": p.n,
            "level": sum(i >= at for at in steps),
        }
        for i, p in enumerate(series.points)
    ]


def verdict(found: Sequence[Series]) -> str:
    """All series in a sentence."""
    worse = sum(not s.is_better(step) for s in found for step in s.steps)
    better = sum(s.is_better(step) for s in found for step in s.steps)
    short = sum(s.needs_n is not None for s in found)
    told = [f"{n} {what}" for n, what in ((worse, "for the worse"), (better, "for the better")) if n]
    steps = (
        f"{worse + better} step{'s' * (worse + better != 1)}: {', '.join(told)}" if told else "no step shown"
    )
    return f"{steps}; {len(found)} series" + (f", {short} too short to show one" if short else "")


def conclusion(series: Series) -> list[str]:
    """What a series shows."""
    if series.needs_n:
        return [f"inconclusive, needs n >= {series.needs_n} runs"]
    told = [series.words(step) for step in series.steps] or ["no step shown"]
    if series.steps:
        return [*told, str(independence.assumed([len(series.points)], "runs"))]
    return [*told, series.dependence] if series.dependence else told


def title(series: Series) -> str:
    """Test and configuration, and what tells series of the same test apart."""
    said = [str(series.key[c]) for c in ("test", "site", "tiers", "mode", "policy", "driver")]
    return " ".join(w for w in said if w not in ("", "-", "none"))


def day(point: Point) -> str:
    """When the run started, to the day; `?` where no source says."""
    return "?" if math.isnan(point.when) else datetime.fromtimestamp(point.when, UTC).date().isoformat()
