"""The answer of a trial: on a terminal, as a page with one picture, and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tierbench import __version__
from tierbench.base import schema
from tierbench.base.atomic_write import replace_all
from tierbench.base.errors import RunError
from tierbench.base.text import level, seconds, size, times
from tierbench.judge import stats, verdict
from tierbench.layout import canvas, terms
from tierbench.layout.html import templates
from tierbench.pages import trial_rows
from tierbench.trial import start
from tierbench.trial.answer import Answer, Row, called
from tierbench.trial.plan import PFS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAIN, PROGRAM = "#94a3b8", "#1d4ed8"
_PROMISES = {"tier": "safe in a tier", "pfs": "on the PFS", "none": "nothing", None: "nothing"}
_CLEAN = (
    "Before each run its folder below the PFS is made anew, inputs are copied into it, written back and "
    "dropped from the page cache (posix_fadvise); caches of the PFS's servers are not touched."
)


def write(answer: Answer, folder: Path, rows: Sequence[verdict.Row]) -> list[Path]:
    """Write the page, what scripts read, and the picture into the trial's folder; returns their paths."""
    documents = {
        "report.json": ("report", trial_rows.as_json(answer, folder, rows)),
        "answer.json": ("trial-answer", answer.as_json()),
    }
    for name, (kind, document) in documents.items():
        if told := schema.misfit(document, kind):
            raise RunError(f"{folder / name}: {told}")
    files = {
        "report.html": as_html(answer, folder, rows).encode(),
        "answer.svg": canvas.svg(draw(answer), "answer", answer.advice).encode(),
        **{n: (json.dumps(d, indent=1, allow_nan=False) + "\n").encode() for n, (_, d) in documents.items()},
    }
    replace_all(folder, files)
    return [folder / name for name in files]


def print_answer(answer: Answer, console: Console, rows: Sequence[verdict.Row]) -> None:
    """The advice, what is required, what limits it, then times and bytes of each configuration."""
    for told in [answer.advice, *trial_rows.sentences(answer, rows)]:
        console.print(told, style="bold", highlight=False, markup=False, soft_wrap=True)
    for line in [*answer.limits, *(f"failed: {failure}" for failure in answer.failures)]:
        console.print(f"- {line}", highlight=False, markup=False, soft_wrap=True)
    for headings, cells in TABLES:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in headings:
            table.add_column(heading, justify="left" if heading in IN_WORDS else "right")
        for row in answer.rows:
            table.add_row(*(escape(cell) for cell in cells(row)))
        console.print(table)
    if answer.trial.bare_s is not None:
        told = seconds(answer.trial.bare_s)
        console.print(
            f"Without Tierbench the program took {told} s (once, before the others).", highlight=False
        )
    console.print(_CLEAN, highlight=False, soft_wrap=True)


def _times(row: Row) -> list[str]:
    return [
        called(row),
        seconds(row.wall.value),
        interval_words(row.wall, row.runs),
        ratio_words(row),
        seconds(row.io_s),
        seconds(row.durable_s),
        outputs_words(row),
        str(row.runs),
    ]


def _bytes(row: Row) -> list[str]:
    return [
        called(row),
        "–" if row.written_bytes is None else size(row.written_bytes),
        "–" if row.read_bytes is None else size(row.read_bytes),
        "–" if row.tier_read_share is None else share_words(row.tier_read_share),
        ", ".join(f"{name} {share_words(share)}" for name, share in row.peak_share.items()) or "–",
        _PROMISES[row.fsync] if row.name == PFS else f"{_PROMISES[row.fsync]} ({row.fsyncs} asked)",
    ]


IN_WORDS = ("Configuration", "An fsync promised", "Outputs")
TABLES = (
    (
        (
            "Configuration",
            "Wall s",
            "Interval",
            "To the PFS alone",
            "I/O s",
            "Durable s",
            "Outputs",
            "n",
        ),
        _times,
    ),
    (("Configuration", "Written", "Read", "Read from tiers", "Fullest", "An fsync promised"), _bytes),
)


def share_words(share: float) -> str:
    """Whole per cent; a little is not nothing."""
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def interval_words(interval: stats.Interval, runs: int) -> str:
    """The ends; a single run has none."""
    if runs < 2:
        return "–"
    told = level(interval.level) if interval.level else f"no level: {interval.dependent}"
    return f"{seconds(interval.low)} – {seconds(interval.high)} ({told})"


def ratio_words(row: Row) -> str:
    """The ratio with its interval, or that no difference is shown."""
    if row.ratio is None:
        return "1" if row.name == PFS else "–"
    if row.needs_n:
        return f"needs n >= {row.needs_n}"
    told = f"{times(row.ratio.value)} [{times(row.ratio.low)}, {times(row.ratio.high)}]"
    return told if row.shown else f"{told}, not shown to differ"


def outputs_words(row: Row) -> str:
    """Whether the runs left the bytes that the PFS alone left."""
    if row.name == PFS:
        return "–"
    return {True: "the same bytes", False: "OTHER BYTES", None: "cannot be told"}[row.same_outputs]


def draw(answer: Answer) -> Figure:
    """A bar for each configuration: the program, and after it what is left until all is durable."""
    with canvas.style():
        return _draw(answer.rows[::-1])


def _draw(rows: Sequence[Row]) -> Figure:
    figure = canvas.blank(0.8 + 0.34 * len(rows))
    axes = figure.add_subplot()
    at = range(len(rows))
    walls = [row.wall.value for row in rows]
    after = [max(0.0, row.durable_s - row.wall.value) for row in rows]
    axes.barh(at, walls, height=0.62, color=PROGRAM, label="program")
    axes.barh(at, after, height=0.62, left=walls, color=DRAIN, label="then, until all is durable on the PFS")
    for i, row in enumerate(rows):
        end = walls[i] + after[i]
        if row.runs > 1:
            canvas.interval(axes, row.wall, i)
            end = max(end, row.wall.high)
        axes.annotate(
            f"{seconds(row.wall.value)} s", (end, i), (4, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(list(at), [called(row) for row in rows])
    axes.set_xlabel("seconds of a run (bar: median, line: its interval)")
    axes.margins(x=0.12)
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def as_html(answer: Answer, folder: Path, rows: Sequence[verdict.Row]) -> str:
    """The whole page; it requests nothing from anywhere."""
    files = {name: Path(file).read_text() for name, file in answer.trial.configurations.items()}
    line = shlex.join(start.reframe_line(answer.trial, folder))
    again = f"TIERBENCH_TRIAL={shlex.quote(str(folder / 'trial.json'))} {line}"
    return terms.page(
        templates().get_template("trial.html.j2"),
        answer=answer,
        required=trial_rows.sentences(answer, rows),
        tables=[(headings, [cells(row) for row in answer.rows]) for headings, cells in TABLES],
        picture=Markup(canvas.both(draw(answer), "answer", answer.advice)),  # noqa: S704 (our own: matplotlib has escaped its texts)
        command=shlex.join(answer.trial.command),
        in_words=IN_WORDS,
        folder=folder,
        bare=seconds(answer.trial.bare_s),
        clean=_CLEAN,
        files=files,
        again=again,
        version=__version__,
    )
