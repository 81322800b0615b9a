"""What a report says first: verdict, recommendation, and which measurements are none."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from rich.console import Console

from tierbench.base.text import times
from tierbench.layout import terms
from tierbench.pages import exports, report, report_record, report_words, terminal
from tierbench.pages.report_record import Report
from tierbench.runs.run_folder import read_run


def changed(run: Path, change: Callable[[dict[str, Any]], dict[str, Any]], cases: str = "*") -> Report:
    """The report of a run with cases that say something else."""
    for path in run.glob(f"cases/{cases}/*/case.json"):
        case = json.loads(path.read_text())
        path.write_text(json.dumps(case | change(case)))
    return report_record.make(read_run(run))


def printed(made: Report, width: int = 400) -> str:
    """What the terminal shows; where no other width is given, one that breaks no line."""
    console = Console(file=io.StringIO(), width=width)
    terminal.print_report(made, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


RECIPE = {
    "scale": "local",
    "requirement": None,
    "published": None,
    "unit": "op/s",
    "metric": "rate",
    "modelled": False,
    "command": "metadata",
    "verified": True,
}


@pytest.fixture
def acceptance(run_folder: Path) -> Report:
    """The same test of a recipe on the PFS alone and in RAM, without any published number."""
    for path in run_folder.glob("cases/*/*/case.json"):
        if path.parent.parent.name not in (
            "pfs-bypass-pfs-none-plain",
            "ram-scratch-none-max-bandwidth-Y",
            "bb-scratch-none-max-bandwidth-Y",
        ):
            for file in sorted(path.parent.iterdir()):
                file.unlink()
            path.parent.rmdir()
        else:
            path.with_name("stdout.txt").write_text(f"write {json.loads(path.read_text())['value']}\n")
    return changed(run_folder, lambda _: RECIPE | {"test": "x-write"})


def test_a_run_of_recipes_has_a_headline_its_own_title_and_no_bullet(acceptance: Report) -> None:
    page, text, told = report.as_html(acceptance), exports.markdown(acceptance), printed(acceptance)
    assert "What does each storage tier buy?" not in page and "What does this storage do?" in page
    for shown in (page, text, told):
        assert "On real devices: 3 rows were measured; no number is required (" in shown
        assert "), so none passed and none failed; bytes were right in all that were read back." in shown
        assert "RAM against the PFS alone: faster in 1 of 1 tests" in shown
        assert "Recommended: state what is required" in shown
        assert "What did not pass" not in shown
    assert (
        report_words.failure_sentences(acceptance) == []
        and report_words.counts_words(acceptance) == "3 measured"
    )


def test_rows_without_a_number_are_counted_apart(run_folder: Path) -> None:
    """A manager reads the first sentence: what was judged, and how much was only measured."""
    made = changed(
        run_folder, lambda c: {"modelled": False, "requirement": 9e6 if c["tiers"] == "ram" else None}
    )
    judged = sum(r.key["tiers"] == "ram" for r in made.rows)
    told = f"0 pass, {judged} fail, 0 inconclusive of {judged} row"
    assert report_words.headline(made)[0].startswith(f"On real devices: {told}")
    assert (
        f"; {len(made.rows) - judged} more were measured and held against no number"
        in report_words.headline(made)[0]
    )
    assert report_words.counts_words(made).endswith(f" inconclusive, {len(made.rows) - judged} measured")


@pytest.mark.usefixtures("acceptance")
def test_a_long_name_is_broken_and_not_cut(run_folder: Path) -> None:
    """Two tests that differ in their last word were one line twice."""
    name = "hpdc18-alternating_compute_intensive_weak_double"
    told = printed(changed(run_folder, lambda _: {"test": name}), 150)
    table = told[told.index("At full speed") :]
    first = [line.strip().split("  ")[0] for line in table.splitlines()]
    assert name not in first and "".join(first).count(name) >= 3 and "…" not in "".join(first)


def test_one_baseline_is_one_column(acceptance: Report, shared_run: Path) -> None:
    for text in (report.as_html(acceptance), exports.markdown(acceptance), printed(acceptance)):
        assert "vs PFS without" not in text
    assert [name for name, _ in report_words.baselines(acceptance.rows)] == ["vs PFS"]
    both = report_record.make(read_run(shared_run))
    for text in (report.as_html(both), exports.markdown(both), printed(both)):
        assert "vs PFS with -Y" in text and "vs PFS without" in text


def test_each_step_of_a_site_without_a_burst_buffer_is_shown(run_folder: Path) -> None:
    """The steps follow from the configurations that were run, not from the webinar's."""
    called = {
        "pfs-bypass-pfs-none-Y": "pfs",
        "bb-scratch-none-max-bandwidth-Y": "nvme",
        "bb-nvme-scratch-none-max-bandwidth-Y": "nvme-ram",
    }
    for case in run_folder.glob("cases/*"):
        if case.name not in called:
            shutil.rmtree(case)
    for name, tiers in called.items():
        made = changed(run_folder, lambda _, tiers=tiers: {"tiers": tiers}, name)  # type: ignore[misc]
    found = [(s.before.key["tiers"], s.after.key["tiers"]) for s in made.steps]
    assert found == [("pfs", "nvme"), ("nvme", "nvme-ram")]
    page, text = report.as_html(made), exports.markdown(made)
    for told in (page.split("What each step buys")[1], text.split("## What each step buys")[1]):
        assert "NVMe + RAM" in told


def test_bytes_alone_never_pass(acceptance: Report) -> None:
    assert {r.verdict for r in acceptance.rows} == {"inconclusive"}
    assert {report_words.verdict_words(r) for r in acceptance.rows} == {"measured, bytes right"}
    assert "verdict pass" not in report.as_html(acceptance)
    assert " pass " not in exports.markdown(acceptance).split("## Verdicts")[1]


def test_each_number_has_its_unit(acceptance: Report) -> None:
    page = report.as_html(acceptance).split("<h2>Verdicts")[1].split("</table>")[0]
    text = exports.markdown(acceptance).split("## Verdicts")[1].split("##")[0]
    for table in (page, text):
        assert table.count("op/s") == 3 and "MiB/s" not in table


def test_signs_in_words_stay_signs(tmp_path: Path) -> None:
    text = exports.markdown(report_record.make(read_run(synthetic.build(tmp_path, 3))))
    assert "needs n >= 5" in text and "&gt;" not in text


def test_sizes_of_the_provenance_have_the_unit_that_fits() -> None:
    told = report_words.provenance_facts({"a_bytes": 64 << 20, "b_bytes": 8 << 20, "c_bytes": 24 << 30})
    assert told == [("a", "64 MiB"), ("b", "8 MiB"), ("c", "24 GiB")]


def test_verdict_and_recommendation_come_first(shared_run: Path) -> None:
    made = report_record.make(read_run(shared_run))
    first, second = report_words.headline(made)[:2]
    assert first.startswith("On modelled devices: ")
    assert second.startswith("Recommended: BB + NVMe")
    page, text, told = report.as_html(made), exports.markdown(made), printed(made)
    assert page.index(first) < page.index("<table") and text.index(first) < text.index("| conf")
    assert told.startswith(first)


def test_ratios_in_the_headline_carry_their_interval(shared_run: Path) -> None:
    made = report_record.make(read_run(shared_run))
    row = next(r for r in made.rows if r.key["tiers"] == "bb" and r.ratio)
    assert row.ratio
    told = report_words.ratio_words(row.ratio)
    assert re.fullmatch(r"1\d\.\dx \[1\d\.\dx, 1\d\.\dx\]", told)


def test_a_ratio_that_is_not_shown_says_so(tmp_path: Path) -> None:
    made = report_record.make(read_run(synthetic.build(tmp_path, 3)))
    told = report_words.headline(made)
    assert "x [" not in " ".join(told) and "not shown to differ (n = 3, needs 5)" in " ".join(told)
    assert told[1] == "Recommended: nothing yet; 3 repetitions can show no difference (needs 5)."


def test_without_a_faster_tier_the_pfs_is_recommended(tmp_path: Path) -> None:
    made = report_record.make(read_run(synthetic.build(tmp_path, scale=0.01)))
    assert report_words.headline(made)[1].startswith("Recommended: keep the PFS alone")
    assert any(t.startswith("Slower than the PFS alone: ") for t in report_words.limit_sentences(made))


def test_a_pfs_that_misses_what_is_required_is_not_recommended(tmp_path: Path) -> None:
    run = synthetic.build(tmp_path, scale=0.01)
    made = changed(run, lambda c: {"requirement": 1e6 if c["tiers"] == "pfs" else None})
    assert report_words.headline(made)[1].startswith("Recommended: none of these; no configuration")
    assert "and the PFS alone failed: PFS with -Y (on the PFS)" in report_words.headline(made)[1]


def test_a_requirement_that_is_not_shown_is_said_beside_the_recommendation(run_folder: Path) -> None:
    made = changed(run_folder, lambda c: {"requirement": 770.8 if c["policy"] == "round-robin" else None})
    assert report_words.headline(made)[1].endswith("; that it reaches what is required is not shown.")


def test_one_repetition_has_no_interval(tmp_path: Path) -> None:
    made = report_record.make(read_run(synthetic.build(tmp_path, 1)))
    assert any(t.startswith("Measured once") for t in report_words.limit_sentences(made))
    for text in (report.as_html(made), exports.markdown(made), printed(made)):
        assert "one run" in text and " %)" not in text
        assert "repeat 5 times or more" in text


def test_a_sound_run_has_no_limits(shared_run: Path) -> None:
    assert report_words.limit_sentences(report_record.make(read_run(shared_run))) == []


PFS_ALONE = "pfs-bypass-pfs-none-plain"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"total_s": 0.2}, "Shorter than 1 s"),
        (
            {"total_s": 20.0, "witness": "the trace; not shown: pfs and bb apart (both share storage: ext4)"},
            "On storage that a tier shares with the PFS",
        ),
        ({"total_s": 20.0, "witness": "not shown: pfs on a device (it is in memory: tmpfs)"}, "apart: False"),
        ({"command": "mpirun tb-ior -w", "total_s": 20.0}, "perhaps the page cache took them"),
        (
            {"command": "mpirun tb-ior -r", "test": "a-read", "total_s": 20.0},
            "perhaps the page cache took them",
        ),
    ],
)
def test_a_measurement_that_is_none_says_what_to_change(
    run_folder: Path, change: dict[str, Any], told: str
) -> None:
    made = changed(run_folder, lambda _: {"modelled": False} | change, PFS_ALONE)
    found = [t for t in report_words.limit_sentences(made) if told in t]
    assert len(found) == 1 and "Change: " in found[0]
    page = report.as_html(made)
    assert told in page.split("<h2>Verdicts")[0] and told in printed(made) and told in exports.markdown(made)


@pytest.mark.parametrize(
    "change",
    [
        {"total_s": 20.0, "witness": "the driver's own words; not shown: what ranks moved"},
        {"total_s": 20.0},  # -e: it waits for the device
        {"command": "mpirun tb-ior -w", "total_s": 20.0, "bytes": 9 << 30},
        {"command": "mpirun tb-ior -r -C", "test": "a-read", "total_s": 20.0},
        {"modelled": True, "total_s": 0.2},
    ],
)
def test_a_measurement_that_is_one_has_no_limit(run_folder: Path, change: dict[str, Any]) -> None:
    made = changed(run_folder, lambda _: {"modelled": False} | change, PFS_ALONE)
    assert report_words.limit_sentences(made) == []


def test_an_interval_that_spans_a_factor_is_said(run_folder: Path) -> None:
    for path in run_folder.glob("cases/bb-*/*/summary.json"):
        path.unlink()
    made = changed(run_folder, lambda c: {"value": c["value"] * c["repetition"]}, "bb-*")
    assert any("spans a factor of 2" in t for t in report_words.limit_sentences(made))


@pytest.mark.parametrize(
    "term",
    [
        "PFS",
        "BB",
        "NVMe",
        "RAM",
        "fsync promise",
        "-Y",
        "interval",
        "n",
        "p",
        "modelled",
        "predicted",
        "scratch",
        "required",
        "margin",
        "side by side",
        "max-bandwidth",
        "round-robin",
        "pass",
        "fail",
        "durable",
        "published",
    ],
)
def test_words_of_the_page_are_explained_on_it(shared_page: str, term: str) -> None:
    glossary = shared_page.split('id="glossary"')[1].split("</section>")[0]
    assert f"<dt>{term}</dt>" in glossary


def test_words_that_a_text_does_not_use_are_not_explained() -> None:
    assert [term for term, _ in terms.used("On the PFS, with -Y, n=5; nothing tiered.")] == ["n", "PFS", "-Y"]


@pytest.fixture(scope="module")
def shared_page(shared_run: Path) -> str:
    """The page of the shared run."""
    return report.as_html(report_record.make(read_run(shared_run)))


def test_in_80_columns_a_row_keeps_name_verdict_and_intervals(run_folder: Path) -> None:
    """As on the page, whatever the terminal's width."""
    made = report_record.make(read_run(run_folder))
    row = next(r for r in made.rows if r.ratio and r.ratio.value > 5)
    assert row.ratio
    ends = f"[{times(row.ratio.low)}, {times(row.ratio.high)}]"
    for width in (80, 400):
        said = printed(made, width)
        table = said[said.index("Configuration") :].split("\n\n")[0]
        first = next(line for line in table.splitlines() if f" {row.label.split()[0]} " in line)
        assert row.label.split()[0] in first and row.verdict in table and "Verdict" in table
        assert ends in " ".join(table.split()) or (width == 80 and ends.split()[0] in table)
