"""Studies of I/O forwarding as one offline page, as Markdown and JSON, and in short on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.table import Table

from tierbench import __version__
from tierbench.base.atomic_write import replace_all
from tierbench.base.text import number, plain
from tierbench.forwarding.choices import Choice
from tierbench.forwarding.study import (
    Study,
    about_words,
    as_json,
    best_words,
    candidate_words,
    headline,
    needed_words,
    sentences,
    twin_sentence,
)
from tierbench.layout import canvas, terms
from tierbench.layout.html import templates
from tierbench.pages import exports, forwarding_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PATTERNS = """Over all deployments: each run as a share of its deployment's median. Recommended is the best,
where it is shown to be faster than no forwarding (Dunn's test, Holm); no forwarding, where it is the best and
another number is shown to be slower."""
_COUNTS = """A number of I/O nodes is a choice of its own if it differs from those before it. The published
rule compares Dunn's statistic, not its p value, with 0.05."""
_QUEUES = """Modelled: a simulated queue of this machine's scenarios as jobs that write 1 TiB each, first
come, first served. best: exact allocation over the bandwidths, again when a job starts or ends; static: by
compute nodes, kept until the job ends."""
_FIGURES: tuple[tuple[str, Callable[[Study], Figure], str], ...] = (
    ("What each pattern gains", forwarding_figures.patterns, _PATTERNS),
    ("Bandwidth of every scenario", forwarding_figures.bandwidths, "Medians of the repetitions."),
    ("How many choices there are", forwarding_figures.counts, _COUNTS),
    ("What a pool of I/O nodes is worth", forwarding_figures.queues, _QUEUES),
)


class Drawn(NamedTuple):
    """A figure on the page."""

    title: str
    picture: Markup
    caption: str


def write(studies: Sequence[Study], folder: Path) -> list[Path]:
    """Write forwarding.html, .md, .json, .csv and .parquet into a folder; returns their paths."""
    document = [as_json(s) for s in studies]
    files = {
        "forwarding.html": as_html(studies).encode(),
        "forwarding.md": as_markdown(studies).encode(),
        "forwarding.json": (json.dumps(document, indent=1, allow_nan=False) + "\n").encode(),
        **exports.tables("forwarding", [line for s in studies for line in _lines(s)]),
    }
    replace_all(folder, files)
    return [folder / name for name in files]


def as_html(studies: Sequence[Study]) -> str:
    """The whole page; it requests nothing from anywhere."""
    environment = templates()
    environment.filters |= {"number": number}
    environment.globals |= {
        "headline": headline,
        "sentences": sentences,
        "twin_sentence": twin_sentence,
        "about_words": about_words,
        "best_words": best_words,
        "candidate_words": candidate_words,
        "needed_words": needed_words,
    }
    page = environment.get_template("forwarding.html.j2")
    return terms.page(page, studies=[(s, drawn(s)) for s in studies], version=__version__)


def drawn(study: Study) -> list[Drawn]:
    """The figures of a machine, those that have something to show."""
    salt = study.measured.name
    # Our own SVG: matplotlib has escaped its texts.
    return [
        Drawn(title, Markup(canvas.both(draw(study), f"{salt}{i}", f"{title}. {caption}")), caption)  # noqa: S704
        for i, (title, draw, caption) in enumerate(_FIGURES)
        if study.queues or draw is not forwarding_figures.queues
    ]


def as_markdown(studies: Sequence[Study]) -> str:
    """The same in words and tables."""
    lines = ["# I/O forwarding", ""]
    for study in studies:
        name = plain(study.measured.name)
        lines += [f"## {name}", "", plain(headline(study)), "", *(f"- {plain(s)}" for s in sentences(study))]
        lines += [f"- {plain(twin_sentence(study.checked))}"] if study.checked else []
        head = [
            "pattern",
            *(f"{k} I/O nodes" for k in study.numbers),
            "best (share)",
            "not shown slower",
            "recommended",
        ]
        body = [_cells(c, study.numbers) for c in study.patterns]
        lines += [
            "",
            *exports.table(head, ["---", *["---:"] * len(study.numbers), "---", "---", "---"], body),
            "",
        ]
    return "\n".join(lines)


def print_studies(studies: Sequence[Study], console: Console) -> None:
    """In short: the sentences, and a line a pattern."""
    for study in studies:
        console.print(headline(study), style="bold", highlight=False, markup=False, soft_wrap=True)
        told = [*sentences(study), *([twin_sentence(study.checked)] if study.checked else [])]
        for line in told:
            console.print(f"- {line}", highlight=False, markup=False, soft_wrap=True)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("Pattern")
        for k in study.numbers:
            table.add_column(f"{k} I/O nodes", justify="right")
        table.add_column("Best (share)")
        table.add_column("Not shown slower")
        table.add_column("Recommended")
        for choice in study.patterns:
            table.add_row(*_cells(choice, study.numbers))
        console.print(table)


def print_allocation(lines: Sequence[Sequence[str]], head: Sequence[str], console: Console) -> None:
    """How many I/O nodes each job gets, by each policy."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i == 0 else "right")
    for line in lines:
        table.add_row(*line)
    console.print(table)


def _cells(choice: Choice, numbers: Sequence[int]) -> list[str]:
    medians = [number(choice.medians[k]) if k in choice.medians else "–" for k in numbers]
    return [about_words(choice), *medians, best_words(choice), candidate_words(choice), choice.recommendation]


def _lines(study: Study) -> list[dict[str, object]]:
    """A line a scenario and number of I/O nodes."""
    return [
        {
            "machine": study.measured.name,
            "scenario": about_words(c),
            "io_nodes": k,
            "median_mib_s": m,
            "n": c.repetitions[k],
            "best_share": c.best_share[k],
            "is_best": k == c.best,
            "p_kruskal": c.p,
            "recommendation": c.recommendation,
        }
        for c in study.scenarios
        for k, m in c.medians.items()
    ]
