"""The section of Summit's tutorial in a report: both times of each way, and what was published."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tierbench.base.errors import RunError
from tierbench.pages import figures, stage_section
from tierbench.pages.report import as_html
from tierbench.pages.report_record import Report, make
from tierbench.runs.case import Case
from tierbench.runs.run_folder import read_run

PUBLISHED = Path(__file__).resolve().parents[3] / "results/published/summit.csv"
SECONDS = {
    (2, "pfs"): (2.5, 2.75),
    (2, "nvme-cp"): (4.5, 4.75),
    (2, "nvme-stage"): (4.0, 4.25),
    (8, "pfs"): (10.0, 10.25),
    (8, "nvme-cp"): (18.0, 18.25),
    (8, "nvme-stage"): (16.0, 16.25),
}


def case(steps: int, way: str, metric: str, value: float) -> Case:
    return Case(
        test=f"stage-{steps}-steps-time-to-{metric}",
        system="summit",
        tiers=way,
        mode="bypass",
        fsync="pfs" if way == "pfs" else "tier",
        policy="none",
        repetition=1,
        metric="time",
        unit="s",
        direction="lower",
        value=value,
        open_s=None,
        write_s=None,
        close_s=None,
        total_s=value,
        drain_s=None,
        verified=True,
        driver="tb-ior",
        modelled=True,
        ranks=2,
        command=f"{steps} steps, 0.5 s of computing after each: -w",
        bytes=1,
        published=None,
        published_source="the tutorial",
        requirement=None,
        factor=64,
    )


@pytest.fixture
def report(tmp_path: Path) -> Report:
    for (steps, way), times in SECONDS.items():
        for metric, value in zip(("close", "pfs"), times, strict=True):
            for repetition in range(1, 6):
                folder = tmp_path / "cases" / f"{steps}-{way}-{metric}" / str(repetition)
                folder.mkdir(parents=True)
                replace(case(steps, way, metric, value), repetition=repetition).write(folder)
    (tmp_path / "provenance.json").write_text("{}")
    (tmp_path / "reframe.json").write_text('{"runs": []}')
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "summit.csv").write_text(PUBLISHED.read_text())
    return make(read_run(tmp_path))


def test_few_time_steps_come_first_and_ways_in_their_order(report: Report) -> None:
    found = stage_section.ways(report.rows)
    names = ["GPFS", "NVMe, copied", "NVMe, staged out"]
    assert [(w.steps, w.name) for w in found] == [(steps, name) for steps in (2, 8) for name in names]
    assert [(w.close.median.value, w.on_pfs.median.value) for w in found] == list(SECONDS.values())
    assert [w.compute_s for w in found] == [1.0] * 3 + [4.0] * 3


def test_the_page_tells_both_times_and_what_was_published(report: Report) -> None:
    page = as_html(report)
    told = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert "When are a program's files on the PFS?" in told.replace("&#39;", "'")
    assert (
        "8 time steps with 4 s of computing in all; until the last file is closed, and "
        "until all are on the PFS: GPFS 10 s and 10.25 s; NVMe, copied 18 s and 18.25 s; "
        "NVMe, staged out 16 s and 16.25 s."
    ) in told
    for number in ("4173.36 MiB/s", "11161.54 MiB/s", "38.1130 s", "23.0020 s"):
        assert number in told
    assert "32.6 MiB/s" in told, "the model of NVMe: a node's share over 64"
    assert "Recommended" not in told and "Slower than the PFS alone" not in told
    assert "Closed is not durable" not in page


def test_the_figure_has_a_bar_for_each_way(report: Report) -> None:
    (drawing,) = (d for d in figures.DRAWINGS if d.draw is stage_section.times)
    figure = figures.draw(drawing, report.run, report.rows)
    assert figure is not None
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "8 steps, NVMe, staged out"
    assert "16.00 s, on the PFS 16.25 s" in {text.get_text() for text in axes.texts}


def test_a_way_with_one_of_its_times_is_left_out(report: Report) -> None:
    rows = [r for r in report.rows if r.key["test"] != "stage-8-steps-time-to-pfs"]
    assert {w.steps for w in stage_section.ways(rows)} == {2}


def test_a_table_of_published_numbers_that_is_none_is_refused(report: Report) -> None:
    run = replace(report.run, files={"published/summit.csv": "test,value\nsummit-gpfs-2,x\n"})
    with pytest.raises(RunError, match="is no table of published numbers"):
        stage_section.of_run(run, report.rows)


def test_another_run_has_no_section(shared_run: Path) -> None:
    report = make(read_run(shared_run))
    assert stage_section.of_run(report.run, report.rows) is None
    assert stage_section.times(report.run, report.rows) is None and not stage_section.sentences(report.rows)
