from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic import ROWS

from tierbench.base.errors import RunError
from tierbench.runs.run_folder import find_runs, read_run


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def first_case(run: Path) -> Path:
    return sorted(run.glob("cases/*/*/case.json"))[0]


def test_a_run_is_one_tidy_table(shared_run: Path) -> None:
    run = read_run(shared_run)
    assert len(run.cases) == len(ROWS) * 5
    assert run.passed == len(ROWS) * 5 and not run.failures
    assert set(run.cases["tiers"]) == {"pfs", "bb", "bb-nvme", "bb-nvme-ram", "ram"}
    assert len(run.plans) == len(run.stats) == len(run.cases)
    assert "published/hermes-webinar.csv" in run.files


def test_failures_of_every_report_are_kept(run_folder: Path) -> None:
    case = {
        "name": "A",
        "display_name": "A %x=1",
        "result": "fail",
        "fail_phase": "sanity",
        "fail_reason": "no\nbytes",
    }
    (run_folder / "reframe-2.json").write_text(json.dumps({"runs": [{"testcases": [case]}]}))
    failure = read_run(run_folder).failures[0]
    assert (failure.name, failure.phase, failure.reason) == ("A %x=1", "sanity", "no bytes")


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("provenance.json", None, "is no whole run folder .no provenance.json"),
        ("provenance.json", "{", "provenance.json:1: is not valid JSON"),
        ("provenance.json", "[]", "holds a list; allowed: a JSON object"),
        ("reframe.json", "{}", "is not a ReFrame report"),
        ("reframe.json", "", "is not valid JSON"),
    ],
)
def test_damaged_run_files(run_folder: Path, file: str, content: str | None, words: str) -> None:
    path = run_folder / file
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(RunError, match=words) as caught:
        read_run(run_folder)
    assert "\n" not in str(caught.value)


def test_no_reframe_report(run_folder: Path) -> None:
    (run_folder / "reframe.json").unlink()
    with pytest.raises(RunError, match="no ReFrame report"):
        read_run(run_folder)


def test_no_cases(run_folder: Path) -> None:
    shutil.rmtree(run_folder / "cases")
    with pytest.raises(RunError, match="holds no cases"):
        read_run(run_folder)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("value", "fast", "case.json: value: 'fast'; allowed: a number above 0"),
        ("value", True, "value: True; allowed: a number above 0"),
        ("value", -1.0, "value: -1.0; allowed: a number above 0"),
        ("value", float("nan"), "value: nan; allowed: a finite number"),
        ("fsync", "maybe", "fsync: 'maybe'; allowed: pfs, tier, none"),
        ("verified", "yes", "verified: 'yes'; allowed: true or false or null"),
    ],
)
def test_bad_values_name_file_key_and_what_is_allowed(
    run_folder: Path, key: str, value: object, words: str
) -> None:
    path = first_case(run_folder)
    edit(path, lambda case: case.update({key: value}))
    with pytest.raises(RunError, match=words) as caught:
        read_run(run_folder)
    assert str(path) in str(caught.value)


def test_missing_key(run_folder: Path) -> None:
    edit(first_case(run_folder), lambda case: case.pop("fsync"))
    with pytest.raises(RunError, match="lacks 'fsync'; allowed: pfs, tier, none"):
        read_run(run_folder)


def test_a_value_the_driver_never_printed_is_refused(run_folder: Path) -> None:
    edit(first_case(run_folder), lambda case: case.update(value=12345.0))
    with pytest.raises(RunError, match=r"value is 12345\.0, but summary\.json holds"):
        read_run(run_folder)


def test_a_truncated_summary_is_refused(run_folder: Path) -> None:
    path = first_case(run_folder).with_name("summary.json")
    path.write_text(path.read_text()[:200])
    with pytest.raises(RunError, match=r"summary\.json:\d+: is cut off"):
        read_run(run_folder)


def test_a_repetition_counted_twice_is_refused(run_folder: Path) -> None:
    folder = first_case(run_folder).parent
    shutil.copytree(folder, folder.with_name("9"))
    with pytest.raises(RunError, match="once more"):
        read_run(run_folder)


def test_a_copy_under_another_number_is_refused(run_folder: Path) -> None:
    folder = first_case(run_folder).parent
    (folder / "stdout.txt").write_text("tierbench: launch 1 begins at 1795982148.123456789 +0000\n")
    assert len(read_run(run_folder).cases) == len(ROWS) * 5
    shutil.copytree(folder, folder.with_name("9"))
    edit(folder.with_name("9") / "case.json", lambda case: case.update(repetition=9))
    with pytest.raises(RunError, match=r"/9: is a copy of cases/.*/1; allowed: another launch"):
        read_run(run_folder)


def reported(run: Path) -> dict[str, Any]:
    """Puts all cases into ReFrame's report, as the suite does; the first of them."""
    cases = [json.loads(f.read_text()) for f in sorted(run.glob("cases/*/*/case.json"))]
    passed = {"name": "T", "result": "pass", "metrics": {"cases": cases}}
    edit(run / "reframe.json", lambda report: report.update(runs=[{"testcases": [passed]}]))
    return dict(cases[0])


def test_a_repetition_that_was_left_out_is_missed(run_folder: Path) -> None:
    """The best of several would else be all that a copy has."""
    first = reported(run_folder)
    assert len(read_run(run_folder).cases) == len(ROWS) * 5
    shutil.rmtree(first_case(run_folder).parent)
    words = f"repetition 1 of {first['test']} .* is {first['value']} in ReFrame's report and not in cases/"
    with pytest.raises(RunError, match=words):
        read_run(run_folder)


def test_a_value_that_was_changed_in_all_of_a_case_is_refused(run_folder: Path) -> None:
    reported(run_folder)
    path = first_case(run_folder)
    value = json.loads(path.read_text())["value"]
    for name in ("case.json", "summary.json"):
        text = path.with_name(name).read_text()
        path.with_name(name).write_text(text.replace(str(value), str(2 * value)))
    with pytest.raises(RunError, match=f"is {value} in ReFrame's report and {2 * value} in cases/"):
        read_run(run_folder)


def test_find_runs(run_folder: Path) -> None:
    assert find_runs(run_folder.parent.parent) == [run_folder]
    with pytest.raises(RunError, match="is not a results folder"):
        find_runs(run_folder / "none")
