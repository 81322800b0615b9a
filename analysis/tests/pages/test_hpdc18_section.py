"""The section of the HPDC'18 evaluation in a report: there where it was run, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic
from hpdc18_rows import keep, publish, record

from tierbench.pages import figures, hpdc18_section
from tierbench.pages.report import as_html
from tierbench.pages.report_record import make
from tierbench.runs.run_folder import read_run


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    run_folder = synthetic.build(tmp_path_factory.mktemp("results"), repetitions=1)
    publish(run_folder)
    for name, value in (("none", 90.0), ("datawarp", 30.0), ("elevator", 20.0), ("max-bandwidth", 10.0)):
        keep(run_folder, record("alternating-balanced", name), [value] * 5, factor=3)
        keep(run_folder, record("alternating-balanced", name, scaling="weak-double", ranks=2), [value] * 5)
    keep(run_folder, record("alternating-balanced", "random"), [25.0] * 5, factor=3)
    return " ".join(as_html(make(read_run(run_folder))).split())


def test_published_is_beside_measured(page: str) -> None:
    claim = page[page.index("alternating compute and I/O<small>no buffering; all devices slower by K = 3<") :]
    assert claim.index(">8.00x<") < claim.index(">9.00x<") < claim.index(">yes<")
    assert "VPIC-IO" in page and ">not measured<" in page and page.count("K = 3<") == 3


def test_policies_and_bounds_are_shown(page: str) -> None:
    assert "the fastest" in page and ">2.50x<" in page and ">slower<" in page
    assert ">340. s<" in page or ">340 s<" in page
    assert "On <b>modelled</b> devices" in page


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("HPDC'18: published and measured ratios", ["published", "measured, median", "9.00x"]),
        ("HPDC'18: where the time of each workload goes", ["DataWarp-like", "Data-Elevator-like", "flush"]),
        ("HPDC'18: scaling", ["weak scaling", "ranks"]),
        ("HPDC'18: which policy wins where", ["random", "2.50x*"]),
    ],
)
def test_each_figure_is_drawn_and_says_modelled(page: str, title: str, words: list[str]) -> None:
    start = page.index(f"<h2>{title.replace(chr(39), '&#39;')}</h2>")
    figure = page[start : page.index("</figure>", start)]
    assert "modelled" in figure
    for word in words:
        assert word in figure


def test_another_run_has_no_section(shared_run: Path) -> None:
    run = read_run(shared_run)
    assert hpdc18_section.of_run(run) is None
    ours = [d for d in figures.DRAWINGS if d.title.startswith("HPDC'18")]
    assert len(ours) == 4 and all(d.draw(run, []) is None for d in ours)


def test_a_claim_in_a_sentence(run_folder: Path) -> None:
    publish(run_folder)
    keep(run_folder, record("vpic", "none"), [9.0])
    keep(run_folder, record("vpic", "max-bandwidth"), [3.0])
    section = hpdc18_section.of_run(read_run(run_folder))
    assert section
    told = hpdc18_section.claim_words(section.claims[-1])
    assert told == "VPIC-IO, against no buffering: published 5.00x, measured 3.00x (NOT reached)"
