from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic

from tierbench.cli import main
from tierbench.runs import shapes

STATS: dict[str, Any] = {"tiers": [{"name": "ram", "bytes_in": 5}], "samples": {"seconds": [0.0, 1.5]}}


def test_what_tierctl_writes_fits() -> None:
    for tiers in synthetic.TIERS:
        assert shapes.misfit(synthetic.plan(tiers, "scratch", "none", "none"), shapes.PLAN) is None
        made = {"modelled": True, "samples": synthetic.samples(tiers, 2.0, 1.0)}
        assert shapes.misfit(made, shapes.STATS) is None
    assert shapes.misfit({"samples": None} | {"anything": "else"}, shapes.STATS) is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"tiers": {}}, "tiers is {}, expected a list"),
     ({"tiers": [3]}, "tiers[0] is 3, expected an object"),
     ({"tiers": [{"bytes_in": 5}]}, "lacks tiers[0].name"),
     ({"tiers": [{"name": 1}]}, "tiers[0].name is 1, expected text"),
     ({"passed": -1}, "passed is -1, expected a number of at least 0"),
     ({"passed": True}, "passed is True, expected a number of at least 0"),
     ({"drain_s": "soon"}, "drain_s is 'soon', expected a number of at least 0"),
     ({"samples": {"seconds": [0, None]}}, "samples.seconds[1] is None, expected a number of at least 0"),
     ({"samples": {"seconds": [], "used": {"ram": 1}}}, "samples.used.ram is 1, expected a list")],
)  # fmt: skip
def test_the_first_misfit_is_named(changed: dict[str, Any], told: str) -> None:
    assert shapes.misfit(STATS | changed, shapes.STATS) == told


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [("stats.json", '{"passed": []}', "stats.json: passed is [], expected a number of at least 0"),
     ("plan.json", '{"tiers": []}', "plan.json: lacks pfs"),
     ("stats.json", '{"drain_s": NaN}', "stats.json: drain_s is nan, expected a finite number"),
     ("stats.json", '{"config": "\\ud800"}', "expected text of whole characters"),
     ("stats.json", "[" * 100_000, "stats.json: is not valid JSON"),
     ("stats.json", '{"passed": 1' + "0" * 5000 + "}", "... is too large")],
)  # fmt: skip
def test_bad_records_of_a_run_are_refused(
    file: str, text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = synthetic.build(tmp_path, 1)
    folder = sorted(run.glob("cases/*/1"))[0]
    json.loads((folder / file).read_text())
    (folder / file).write_text(text)
    assert main(["report", str(run)]) == 2
    said = capsys.readouterr()
    assert told in said.err and said.err.count("\n") == 1 and not said.out
