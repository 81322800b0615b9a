"""Reports, comparisons, histories and recipes on a terminal."""

from __future__ import annotations

import json

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tierbench.base.text import counted, number, percent, ratio_span, span, times
from tierbench.judge import compare
from tierbench.judge.compare import Metric, Result, Whole
from tierbench.judge.history import Series
from tierbench.judge.stats import Interval
from tierbench.judge.verdict import FAIL, INCONCLUSIVE, PASS, Row
from tierbench.pages import io500_report
from tierbench.pages.history_page import conclusion, day, title
from tierbench.pages.report_record import Report
from tierbench.pages.report_words import (
    assumption,
    baselines,
    dependence_sentences,
    failure_sentences,
    headline,
    limit_sentences,
    measured_words,
    promise_words,
    verdict_words,
)

_COLOURS = {compare.REGRESSION: "red", compare.IMPROVEMENT: "green"}
_BLOCKS = "▁▂▃▄▅▆▇█"


def as_json(result: Result) -> bytes:
    """The comparison for scripts."""
    return (json.dumps(compare.as_json(result), indent=1, allow_nan=False) + "\n").encode()


def print_comparison(result: Result, console: Console) -> None:
    """One line a metric, the conditions that were forced, and what only one side measured."""
    for baseline, other in dict.fromkeys((m.baseline, m.other) for m in result.metrics):
        table = Table(
            box=box.SIMPLE_HEAD,
            title=escape(f"{other} against {baseline}"),
            title_justify="left",
            pad_edge=False,
        )
        for name in ("Metric", "Unit"):
            table.add_column(name)
        for name in ("Before", "After", "Ratio", "Interval", "p", "n"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("Verdict")
        for m in result.metrics:
            if (m.baseline, m.other) == (baseline, other):
                table.add_row(*_line(m))
        console.print(table)
    for whole in result.wholes:
        console.print(whole_words(whole), highlight=False, markup=False)
    assumed = [result.assumes] if result.assumes else []
    for line in [*(f"forced: {d}" for d in result.differences), *result.alone, *result.dependent, *assumed]:
        console.print(line, highlight=False, markup=False)
    console.print(verdict(result), highlight=False, markup=False)


def whole_words(whole: Whole) -> str:
    """What all metrics of a group show together."""
    told = f"All {whole.metrics} metrics of {whole.other} together: {whole.gain:+.1%}, p = {whole.p:.3g}"
    return f"{told}: {whole.verdict}"


def _line(m: Metric) -> list[str]:
    colour = _COLOURS.get(m.verdict)
    told = f"[{colour}]{m.verdict}[/]" if colour else m.verdict
    sizes = f"{m.before.n}, {m.after.n}"
    unit = f"{m.key['metric']}, {m.key['unit']}"
    middle = [number(m.before.value), number(m.after.value), times(m.ratio.value), ratio_span(m.ratio)]
    return [escape(m.name), escape(unit), *middle, f"{m.comparison.p:.3g}", sizes, told]


def verdict(result: Result) -> str:
    """The whole comparison in a sentence."""
    counts: dict[str, int] = {}
    for m in result.metrics:
        counts[m.verdict] = counts.get(m.verdict, 0) + 1
    told = ", ".join(f"{n} {words}" for words, n in sorted(counts.items()))
    return f"{'Regression' if result.regressed else 'No regression shown'}: {told}."


def print_series(series: Series, console: Console) -> None:
    """A series as a line of blocks, its range and its steps."""
    key, values = series.key, [p.value for p in series.points]
    console.print(
        f"{title(series)}: {key['metric']}, {key['unit']}", highlight=False, markup=False, style="bold"
    )
    since, until = day(series.points[0]), day(series.points[-1])
    levels = f"{number(min(values))} to {number(max(values))}, last {number(values[-1])}"
    told = f"  {_blocks(values)}  {counted(len(values), 'run')}, {since} to {until}, {levels}"
    console.print(told, highlight=False, markup=False)
    for line in conclusion(series):
        console.print(f"  {line}", highlight=False, markup=False)


def _blocks(values: list[float]) -> str:
    low, high = min(values), max(values)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0
    return "".join(_BLOCKS[round((v - low) * scale)] for v in values[-100:])


# --- reports ------------------------------------------------------------------------------------------------


def print_report(report: Report, console: Console) -> None:
    """Verdict and recommendation, what limits them, the verdict table, and what did not pass."""
    for sentence in headline(report):
        console.print(sentence, style="bold", highlight=False, markup=False)
    for sentence in limit_sentences(report):
        console.print(f"- {sentence}", highlight=False, markup=False)
    compared = [r for r in report.rows if r.scale is None]
    if compared:
        _print_compared(report.run.name, compared, console)
    if len(compared) < len(report.rows):
        _print_acceptance(report.run.name, [r for r in report.rows if r.scale is not None], console)
    for section in io500_report.sections(report.run):
        console.print("\n".join(io500_report.text(section)) + "\n", highlight=False, markup=False)
    assumed = [told] if (told := assumption(report)) else []
    for sentence in [*failure_sentences(report), *dependence_sentences(report), *assumed]:
        console.print(sentence, highlight=False, markup=False)


_VERDICT_COLOURS = {PASS: "green", FAIL: "red", INCONCLUSIVE: "yellow"}


def _coloured_verdict(row: Row) -> str:
    words = verdict_words(row)
    colour = _VERDICT_COLOURS.get(words)
    return f"[{colour}]{words}[/]" if colour else words


def _print_compared(name: str, rows: list[Row], console: Console) -> None:
    """Columns as on the page, cells of two lines: a row keeps its name and its verdict in 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, title=escape(name), title_justify="left", padding=(0, 1, 0, 0))
    against = baselines(rows)
    last = {"Required": [r.requirement for r in rows], "Predicted": [r.predicted for r in rows]}
    last = {heading: column for heading, column in last.items() if column != [None] * len(rows)}
    table.add_column("Configuration\nfsync promise", min_width=14, overflow="fold")
    table.add_column("Verdict", no_wrap=True)
    table.add_column("Measured\ninterval", justify="right", min_width=12)
    for heading, _ in against:
        table.add_column(f"{heading}\ninterval", justify="right", min_width=8)
    for heading in last:
        table.add_column(heading, justify="right")
    for i, r in enumerate(rows):
        table.add_row(
            f"{escape(r.label)}\n{promise_words(r)}",
            _coloured_verdict(r),
            f"{measured_words(r)}\n{span(r.median)}",
            *(_ratio(of(r)) for _, of in against),
            *(number(column[i]) for column in last.values()),
        )
    console.print(table)


def _ratio(ratio: Interval | None) -> str:
    """As the headline has it; the page says how often such an interval holds."""
    if ratio is None or not ratio_span(ratio):
        return times(ratio.value if ratio else None)
    return f"{times(ratio.value)}\n\\[{times(ratio.low)}, {times(ratio.high)}]"


def _print_acceptance(name: str, rows: list[Row], console: Console) -> None:
    """What recipes measured, and times the twin's factor K, beside what was published for as many nodes."""
    scales = ", ".join(dict.fromkeys(str(r.scale) for r in rows))
    title = f"{name}, acceptance at scale {scales}"
    table = Table(box=box.SIMPLE_HEAD, title=escape(title), title_justify="left", pad_edge=False)
    table.add_column("Test", overflow="fold", min_width=24)
    table.add_column("Verdict", no_wrap=True)
    table.add_column("Measured\ninterval", justify="right", min_width=12)
    for column in ("Medium", "K", "At full speed", "Published", "Deviation"):
        table.add_column(column, justify="right")
    for r in rows:
        right = r.published or r.expected
        deviation = r.median.value / right - 1 if right else None
        table.add_row(
            escape(r.label),
            _coloured_verdict(r),
            f"{measured_words(r)}\n{span(r.median)}",
            number(r.medium),
            str(r.factor),
            number(r.at_full_speed),
            number(r.published_at_full_speed),
            percent(deviation),
        )
    console.print(table)
