"""The published schemas: they are schemas, they fit what is written, and what does not fit is one message."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import synthetic
import yaml

from tierbench.base import schema
from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.pages import report_record
from tierbench.recipes.published import RECIPE_FOLDER
from tierbench.runs.case import Case, read_case
from tierbench.runs.run_folder import read_run

VERSIONS = {"report": 4, "comparison": 2}  # of the others 1
NAMES = sorted(p.name.split(".")[0] for p in Path(schema.__file__).parent.glob("schemas/*.schema.json"))
STATS: dict[str, Any] = {"tiers": [{"name": "ram", "bytes_in": 5}], "samples": {"seconds": [0.0, 1.5]}}
TIER = {"name": "ram", "medium": "memory", "usable_bytes": 0, "model": None}
PLAN: dict[str, Any] = {"pfs": {"path": "/p", "model": None}, "tiers": [TIER]}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_schema_with_its_name_and_version(name: str) -> None:
    found = schema.read(name)
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["$id"] == f"tierbench:{name}:{VERSIONS.get(name, 1)}"


def test_there_is_one_for_each_document() -> None:
    known = """
        bench-nodes case comparison components forge-map forge-result forwarding-jobs hpdc18 places plan
        provenance recipe report rules stats trial trial-answer trial-run
    """
    assert known.split() == NAMES


def test_a_case_and_its_schema_have_the_same_fields() -> None:
    found = schema.read("case")
    assert found["properties"].keys() == {f.name for f in fields(Case)} | {"version"}
    required = {f.name for f in fields(Case) if f.default is MISSING}
    assert set(found["required"]) == required


def test_a_case_is_read_as_it_was_written(shared_run: Path, tmp_path: Path) -> None:
    case = read_case(sorted(shared_run.glob("cases/*/1/case.json"))[0])
    case.write(tmp_path)
    assert read_case(tmp_path / "case.json") == case
    assert json.loads((tmp_path / "case.json").read_text())["version"] == 1


def test_a_bad_case_is_not_written(shared_run: Path, tmp_path: Path) -> None:
    case = read_case(sorted(shared_run.glob("cases/*/1/case.json"))[0])
    object.__setattr__(case, "fsync", "maybe")
    with pytest.raises(RunError, match=r"case\.json: fsync: 'maybe'; allowed: pfs, tier, none"):
        case.write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_report_json_fits(shared_run: Path) -> None:
    made = report_record.as_json(report_record.make(read_run(shared_run)))
    document = json.loads(json.dumps(made))
    assert schema.misfit(document, "report") is None
    document["rows"][0]["verdict"] = "maybe"
    told = "rows[0].verdict: 'maybe'; allowed: pass, fail, inconclusive"
    assert schema.misfit(document, "report") == told


def test_a_newer_version_is_refused(run_folder: Path) -> None:
    path = sorted(run_folder.glob("cases/*/*/case.json"))[0]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(RunError, match=r"version: 2; allowed: 1"):
        read_run(run_folder)


def test_what_tierctl_writes_fits() -> None:
    for tiers in synthetic.TIERS:
        assert schema.misfit(synthetic.plan(tiers, "scratch", "none", "none"), "plan") is None
        made = {"modelled": True, "samples": synthetic.samples(tiers, 2.0, 1.0)}
        assert schema.misfit(made, "stats") is None
    assert schema.misfit({"samples": None} | {"anything": "else"}, "stats") is None


NUMBER = "allowed: a number of at least 0"


@pytest.mark.parametrize(
    ("name", "document", "told"),
    [
        ("stats", STATS | {"tiers": {}}, "tiers: {}; allowed: a list of: a mapping"),
        ("stats", STATS | {"tiers": [3]}, "tiers[0]: 3; allowed: a mapping"),
        ("stats", STATS | {"tiers": [{"bytes_in": 5}]}, "tiers[0]: lacks 'name'; allowed: text"),
        ("stats", STATS | {"tiers": [{"name": 1}]}, "tiers[0].name: 1; allowed: text"),
        ("stats", STATS | {"passed": -1}, f"passed: -1; {NUMBER}"),
        ("stats", STATS | {"passed": True}, f"passed: True; {NUMBER}"),
        ("stats", STATS | {"passed": float("inf")}, f"passed: inf; {NUMBER}"),
        ("stats", STATS | {"drain_s": "soon"}, f"drain_s: 'soon'; {NUMBER}"),
        ("stats", STATS | {"samples": {"seconds": [0, None]}}, f"samples.seconds[1]: None; {NUMBER}"),
        (
            "stats",
            STATS | {"samples": {"seconds": [], "used": {"ram": 1}}},
            "samples.used.ram: 1; allowed: a list of: a number of at least 0",
        ),
        ("plan", PLAN | {"tiers": [TIER | {"medium": 1}]}, "tiers[ram].medium: 1; allowed: text"),
        ("plan", [], "[]; allowed: a mapping"),
        ("plan", PLAN | {"tiers": "x" * 99}, "tiers: '" + "x" * 56 + "...; allowed: a list of: a mapping"),
        ("case", {}, "lacks 'test'; allowed: text"),
    ],
)
def test_the_first_misfit_is_named(name: str, document: Any, told: str) -> None:
    assert schema.misfit(document, name) == told


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"nodes": 1.0}, "recipes[io500].nodes: 1.0; allowed: a whole number above 0, all, sweep"),
        ({"nodes": 0}, "recipes[io500].nodes: 0; allowed: a whole number above 0, all, sweep"),
        ({"notes": [" "]}, "recipes[io500].notes[0]: ' '; allowed: text"),
        (
            {"colour": 1},
            (
                "recipes[io500]: unknown key 'colour'; "
                "allowed: name, title, nodes, ranks_per_node, launches, notes"
            ),
        ),
        (
            {"launches": [{"line": "ior", "measures": {}}]},
            "recipes[io500].launches[0].measures: {}; allowed: a mapping that is not empty",
        ),
        (
            {"launches": [{"line": "ior", "measures": {1: "x"}}]},
            "recipes[io500].launches[0].measures: 1; allowed: text as a key",
        ),
    ],
)
def test_rules_are_held_to_their_schema(changed: dict[str, Any], told: str) -> None:
    document = yaml.safe_load((RECIPE_FOLDER / "rules" / "io500.yaml").read_text())
    assert schema.misfit(document, "rules") is None
    document["recipes"][0] |= changed
    assert schema.misfit(document, "rules") == told


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("stats.json", '{"passed": []}', "stats.json: passed: []; allowed: a number of at least 0"),
        ("plan.json", '{"tiers": []}', "plan.json: lacks 'pfs'; allowed: a mapping"),
        ("stats.json", '{"drain_s": NaN}', "stats.json: drain_s: nan; allowed: a finite number"),
        ("stats.json", '{"config": "\\ud800"}', "allowed: text of whole characters"),
        ("stats.json", "[" * 100_000, "stats.json: is not valid JSON"),
        ("stats.json", '{"passed": 1' + "0" * 5000 + "}", "... is too large"),
    ],
)
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
