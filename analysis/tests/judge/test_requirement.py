"""Requirements of the user: how they are said, what is refused, and what a row is then held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.judge import requirement
from tierbench.judge.requirement import Measured
from tierbench.judge.verdict import Row, judge
from tierbench.runs.run_folder import read_run

KNOWN = {"w": [Measured("bandwidth", "MiB/s", "higher")], "m": [Measured("time", "s", "lower")]}
GOOD = {"test": "w", "metric": "bandwidth", "at_least": 2000, "unit": "MiB/s", "source": "contract, 4.2"}


def test_a_line_and_an_object_say_the_same() -> None:
    line = requirement.parse("w: bandwidth >= 2000 MiB/s, contract, 4.2")
    (of_site,) = requirement.of_site([GOOD])
    told = [(r.test, r.metric, r.direction, r.limit, r.unit, r.source) for r in (line, of_site)]
    assert told == [("w", "bandwidth", "higher", 2000.0, "MiB/s", "contract, 4.2")] * 2
    requirement.check([line, requirement.parse("m:time<=3.5 s")], KNOWN)
    assert requirement.parse("m:time<=3.5 s").source == "--require"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("bandwidth 2000 MiB/s", "allowed: '[TEST:] METRIC >= NUMBER UNIT'"),
        ("", "allowed: '[TEST:] METRIC >= NUMBER UNIT'"),
        ("w: bandwidth = 2000 MiB/s", "allowed: '[TEST:] METRIC >= NUMBER UNIT'"),
        ("iops >= 2000 op/s", "metric 'iops' of any test; allowed: bandwidth, time"),
        ("bandwidth >= 2 GB/s", "unit 'GB/s' of bandwidth; allowed: MiB/s"),
        ("w: bandwidth >= 0 MiB/s", "'0'; allowed: a number above 0"),
        ("w: bandwidth >= 2.0.0 MiB/s", "'2.0.0'; allowed: a number above 0"),
        ("x: bandwidth >= 2000 MiB/s", "test 'x'; allowed: m, w"),
        ("w: iops >= 2000 op/s", "metric 'iops' of w; allowed: bandwidth"),
        ("w: bandwidth >= 2 GB/s", "unit 'GB/s' of bandwidth; allowed: MiB/s"),
        ("w: bandwidth <= 2 MiB/s", "higher is better; allowed: >= (at_least)"),
        ("m: time >= 2 s", "lower is better; allowed: <= (at_most)"),
    ],
)
def test_what_is_refused_of_a_line(line: str, told: str) -> None:
    with pytest.raises(RunError) as e:
        requirement.check([requirement.parse(line)], KNOWN)
    assert told in str(e.value) and str(e.value).startswith(f"--require {line!r}")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"at_most": 5}, "allowed: one of them"),
        ({"at_least": True}, "True; allowed: a number above 0"),
        ({"at_least": "nan"}, "'nan'; allowed: a number above 0"),
        ({"source": ""}, "source: ''; allowed: a text"),
        ({"tiers": "pfs"}, "allowed: test, metric, at_least, at_most, unit, source"),
    ],
)
def test_what_is_refused_of_a_site(change: dict[str, Any], told: str) -> None:
    with pytest.raises(RunError) as e:
        requirement.of_site([GOOD, GOOD | change])
    assert told in str(e.value) and "require: number 2" in str(e.value)


def test_a_list_and_each_test_once() -> None:
    with pytest.raises(RunError, match="allowed: a list of objects"):
        requirement.of_site(GOOD)
    with pytest.raises(RunError, match="is required twice; allowed: once"):
        requirement.check(requirement.of_site([GOOD, GOOD]), KNOWN)


def test_without_a_test_it_is_required_of_each_that_measures_it() -> None:
    known = {**KNOWN, "r": KNOWN["w"], "i": [Measured("bandwidth", "GiB/s", "higher")]}
    lines = [requirement.parse(line) for line in ("bandwidth >= 5 MiB/s", "r: bandwidth >= 7 MiB/s")]
    assert {(r.test, r.limit) for r in requirement.check(lines, known)} == {("w", 5), ("r", 7)}
    with pytest.raises(RunError, match="any test: bandwidth is required twice"):
        requirement.check(lines[:1] * 2, known)


def on_real_devices(run: Path, **more: Any) -> None:
    """A site of the user's: numbers are published, none is required."""
    for path in run.glob("cases/*/*/case.json"):
        case = json.loads(path.read_text()) | {"modelled": False, "requirement": None}
        path.write_text(json.dumps(case | more))


def plain_pfs(rows: list[Row]) -> Row:
    return next(r for r in rows if r.key["tiers"] == "pfs" and not r.syncs_each_write)


def test_a_requirement_is_what_a_row_is_held_against(run_folder: Path) -> None:
    on_real_devices(run_folder)
    run = read_run(run_folder)
    without = plain_pfs(judge(run))
    assert without.published and without.verdict == "inconclusive" and without.requirement is None
    for limit, verdict, word in ((300, "pass", "meets"), (900, "fail", "misses")):
        line = f"webinar-write: bandwidth >= {limit} MiB/s, the contract"
        rows = judge(run, [requirement.parse(line)])
        row = plain_pfs(rows)
        assert (row.verdict, row.requirement_source) == (verdict, "the contract")
        assert f"{word} the requirement" in row.reason
        assert f"a required {limit} MiB/s (the contract)" in row.reason
        assert all(r.requirement is None for r in rows if r.key["test"] != "webinar-write")


def test_a_sites_requirement_stands_in_its_cases_and_the_reports_goes_before_it(run_folder: Path) -> None:
    on_real_devices(run_folder, requirement=900.0, requirement_source="the site")
    run = read_run(run_folder)
    row = plain_pfs(judge(run))
    assert (row.verdict, row.requirement_source) == ("fail", "the site")
    assert (
        plain_pfs(judge(run, [requirement.parse("webinar-write: bandwidth >= 300 MiB/s")])).verdict == "pass"
    )


def test_the_report_shows_it_and_its_source(run_folder: Path, tmp_path: Path) -> None:
    on_real_devices(run_folder)
    line = "webinar-write: bandwidth >= 300 MiB/s, contract 4.2"
    assert main(["report", str(run_folder), "-o", str(tmp_path / "out"), "--require", line]) == 0
    rows = json.loads((tmp_path / "out" / "report.json").read_text())["rows"]
    found = {r["test"]: (r["requirement"], r["requirement_source"]) for r in rows}
    assert found == {"webinar-write": (300.0, "contract 4.2"), "webinar-write-Y": (None, None)}
    assert all(
        "contract 4.2" in (tmp_path / "out" / f"report.{x}").read_text() for x in ("html", "md", "csv")
    )


def test_an_unknown_test_writes_nothing(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "wobinar: bandwidth >= 300 MiB/s"
    assert main(["report", str(run_folder), "-o", str(tmp_path / "out"), "--require", line]) == 2
    assert "test 'wobinar'; allowed: webinar-write, webinar-write-Y" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
