"""The section of components in a report: there where they were measured, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from component_rows import keep, row

from tierbench.pages import components_section, figures
from tierbench.pages.report import as_html
from tierbench.pages.report_record import make
from tierbench.runs.run_folder import read_run


@pytest.fixture
def page(run_folder: Path) -> str:
    latency = {"50": 4.5, "90": 6.25, "99": 17.0, "99.9": 33.5}
    engine, nats = row("engine", 90_000, latency_us=latency), row("nats", 9_000, server_us=3.0)
    keep(run_folder, "a", *(one | {"component": "messages", "operation": "send"} for one in (engine, nats)))
    keep(run_folder, "b", row("engine", 1_000_000, bytes=275_000), row("redis", 250_000, server_us=1.5))
    return as_html(make(read_run(run_folder)))


def test_ratios_and_reasons_are_shown(page: str) -> None:
    told = " ".join(page.split())
    assert "Of 2 comparisons with" in told
    assert "1 show the engine at least 5 times as fast" in told
    assert "no: redis took 2.00 us of processor time an operation" in page
    assert "put, 1 process, one request at a time" in page


def test_a_row_of_fewer_operations_says_so(run_folder: Path) -> None:
    keep(run_folder, "a", row("engine", 9000) | {"operations": 1_000_000}, row("redis", 90))
    told = " ".join(as_html(make(read_run(run_folder))).split())
    assert "1,000,000 operations of each kind" in told
    assert "redis<small>redis: 1,000 operations</small>" in told
    assert "engine: 1,000,000" not in told


def test_latency_and_memory_are_shown(page: str) -> None:
    for number in ("4.5", "6.25", "17", "33.5", "25%"):
        assert f">{number}<" in page


def test_the_figure_has_a_bar_for_each_system(page: str) -> None:
    for text in ("Messages of clients to the daemon", "Records of files", "engine", "redis", "nats"):
        assert f">{text}<" in page


def test_another_run_has_no_section(shared_run: Path) -> None:
    run = read_run(shared_run)
    assert components_section.of_run(run) is None
    assert next(d for d in figures.DRAWINGS if d.title == "Components").draw(run, []) is None
