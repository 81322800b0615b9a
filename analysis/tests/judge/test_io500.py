"""IO500's phases read from captured output of ior, mdtest and tb-find; its score and its rules."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic

from tierbench import cli
from tierbench.base import schema
from tierbench.base.errors import RecipeError
from tierbench.judge import independence, io500, peak_search, stats
from tierbench.judge.verdict import Row
from tierbench.pages import io500_report, report, report_record, report_words
from tierbench.recipes import rules
from tierbench.recipes.published import RECIPE_FOLDER
from tierbench.runs.run_folder import read_run

DATA = Path(__file__).parents[1] / "data" / "io500"
RANKS = 2


def ran() -> dict[str, io500.Ran]:
    """A run of IOR and mdtest with a stonewall of 3 s (data/README.md)."""
    files = int((DATA / "mdtest-hard.status").read_text())
    found = {}
    for name in io500.PHASES:
        text = (DATA / f"{name}.out").read_text()
        found[name] = io500.Ran(io500.command_of(text), 0, text, "", files)
    return found


def test_the_phases_are_those_of_the_recipe_in_its_order() -> None:
    recipe = next(r for r in rules.read_rules() if r.suite == "io500")
    assert [next(iter(x.measures)) for x in recipe.launches] == list(io500.PHASES)
    values = {"dir": "/d", "status": "/s", "seconds": "300", "files": "", "ppn": ""}
    for launch in recipe.launches:
        name = next(iter(launch.measures))
        assert io500.option_problems(name, launch.arguments(values)) == ()
        assert launch.program == (name if name == "find" else name.partition("-")[0])


def test_score_is_the_root_of_two_geometric_means() -> None:
    made = io500.outcome(ran(), RANKS)
    values = {p.name: p.value or 0 for p in made.phases}
    groups = (io500.BANDWIDTH, io500.METADATA)
    of = [[values[n] for n, g in io500.PHASES.items() if g == group] for group in groups]
    assert (len(of[0]), len(of[1])) == (4, 8)
    means = [math.prod(x) ** (1 / len(x)) for x in of]
    assert [made.bandwidth, made.metadata] == pytest.approx(means)
    assert made.score == pytest.approx(math.sqrt(means[0] * means[1]))
    printed = re.search(r"^write +([\d.]+)", (DATA / "ior-hard-write.out").read_text(), re.MULTILINE)
    assert printed and values["ior-hard-write"] == pytest.approx(float(printed[1]) / 1024, rel=1e-3)


def test_a_short_stonewall_is_invalid_and_nothing_went_wrong() -> None:
    made = io500.outcome(ran(), RANKS)
    assert made.problems == ()
    assert len(made.invalid) == 4 and all("stonewall of 3 s, at least 300 s" in x for x in made.invalid)
    assert io500.lines(made)[12].startswith("[SCORE INVALID] Bandwidth 0.")


def test_a_run_by_the_rules_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io500, "LEAST_STONEWALL_S", 3)
    made = io500.outcome(ran(), RANKS)
    assert made.invalid == () and io500.as_json(made)["valid"]
    assert io500.lines(made)[-1].startswith("[SCORE] Bandwidth 0.")


def test_a_phase_shorter_than_its_stonewall_is_invalid() -> None:
    short = ran()["ior-easy-write"]
    words = tuple("300" if w == "3" else w for w in short.arguments)
    problems = io500.phase("ior-easy-write", replace(short, arguments=words)).problems
    assert len(problems) == 1 and "less than its stonewall of 300 s" in problems[0]


Change = Callable[[io500.Ran], io500.Ran]


def _output(before: str, after: str) -> Change:
    return lambda r: replace(r, stdout=re.sub(before, after, r.stdout, count=1))


def _arguments(before: str, after: str) -> Change:
    return lambda r: replace(r, arguments=tuple(" ".join(r.arguments).replace(before, after, 1).split()))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("find", lambda r: replace(r, status=1, stderr="tb-find: x: gone\n"), "status 1 (tb-find: x: gone)"),
        ("find", _output(r"MATCHED \d+/", "MATCHED 0/"), "found nothing"),
        ("find", _output(r"MATCHED (\d+)/", r"MATCHED 1\1/"), "files, "),
        ("find", _arguments("3901c", "3900c"), "lacks -size 3901c"),
        ("ior-hard-write", _arguments("-t 47008", "-t 1m"), "lacks -t 47008"),
        ("ior-hard-write", _arguments("-C", "-C -F"), "has -F"),
        ("ior-hard-read", _arguments("-R", ""), "lacks -R"),
        ("ior-hard-read", _arguments("-R", "-R -D 30"), "has -D 30"),
        ("ior-easy-write", _arguments("WearOut=1", "WearOut=0"), "lacks -O stoneWallingWearOut=1"),
        ("mdtest-hard-write", _arguments("-w 3901", "-w 3900"), "lacks -w 3901"),
        ("mdtest-hard-read", _arguments("-X", ""), "lacks -X"),
        ("mdtest-hard-stat", _arguments("-F", "-F -u"), "has -u"),
        ("mdtest-easy-write", _arguments("-u", ""), "lacks -u"),
        (
            "ior-easy-read",
            _output("$", "\nWARNING: Incorrect data on read (5 errors found).\n"),
            "read 5 wrong",
        ),
        (
            "mdtest-hard-read",
            _output("SUMMARY", "ERROR: verifying the data (2 errors)!\nSUMMARY"),
            "verifying",
        ),
        ("mdtest-easy-stat", _output(r"(File stat +)([\d.]+ +){3}", r"\g<1>5.0 5.0 5.0 "), "worked on"),
    ],
)
def test_a_deviation_invalidates(name: str, change: Change, words: str) -> None:
    runs = ran()
    assert change(runs[name]) != runs[name]
    made = io500.outcome(runs | {name: change(runs[name])}, RANKS)
    assert any(x.startswith(f"{name}: ") and words in x for x in made.problems), made.problems
    assert set(made.problems) < set(made.invalid)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: replace(r, stdout=""),
        lambda r: replace(r, status=134),
        lambda r: replace(r, stdout=r.stdout[: len(r.stdout) // 2]),
        None,
    ],
)
@pytest.mark.parametrize("name", list(io500.PHASES))
def test_a_failed_phase_never_drops_out_of_the_mean(name: str, change: Change | None) -> None:
    runs = ran()
    failed = runs.pop(name)
    if change:
        runs[name] = change(failed)
    made = io500.outcome(runs, RANKS)
    assert made.score is None and [p.name for p in made.phases] == list(io500.PHASES)
    assert any(x.startswith(f"{name}: ") for x in made.invalid)
    assert "TOTAL none" in "\n".join(io500.lines(made)) and "[SCORE INVALID]" in "\n".join(io500.lines(made))


def test_matching_names_are_counted_without_looking_at_each() -> None:
    for ranks, files in ((1, 1), (1, 2), (3, 100), (2, 102), (12, 1234), (102, 101), (2, 20011)):
        names = (f"file.mdtest.{r}.{i}" for r in range(ranks) for i in range(files))
        assert io500.matches_expected(ranks, files) == sum("01" in n for n in names), (ranks, files)


def test_the_report_shows_phases_in_order_and_what_is_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = synthetic.build(tmp_path / "results")
    runs = ran()
    runs["mdtest-hard-stat"] = replace(runs["mdtest-hard-stat"], status=1, stderr="mdtest: gone\n")
    made = io500.as_json(io500.outcome(runs, RANKS)) | {"tiers": "pfs", "factor": 64, "scale": "smoke"}
    folder = run / "cases" / "io500-score_pfs" / "1"
    folder.mkdir(parents=True)
    (folder / "io500.json").write_text(json.dumps(made))
    assert cli.main(["report", str(run)]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n  {name} ") for name in io500.PHASES]
    assert places == sorted(places)
    assert "score none [INVALID]" in out and "mdtest-hard-stat: ended with status 1" in out
    document = json.loads((run / "report.json").read_text())
    assert document["io500"][0]["score"] is None and not document["io500"][0]["valid"]
    told = (run / "report.md").read_text()
    assert "## IO500" in told and "score none [INVALID]" in told
    judged = report_record.make(read_run(run))
    assert schema.misfit(json.loads(json.dumps(report_record.as_json(judged))), "report") is None
    first = report_words.headline(judged)[0]
    assert first.startswith("IO500 score none [INVALID] on ")
    page = report.as_html(judged)
    assert first in page.split("<table")[0]
    assert "INVALID" in page and page.index("ior-easy-write") < page.index("mdtest-hard-delete")
    (folder / "io500.json").write_text("{}")
    assert cli.main(["report", str(run)]) == 2
    assert "io500.json: lacks 'phases'" in capsys.readouterr().err


def test_sections_are_none_without_io500(shared_run: Path) -> None:
    assert io500_report.sections(read_run(shared_run)) == []


# --- searches over nodes and processes ---------------------------------------------------------------------


def _row(test: str, value: float) -> Row:
    return Row(
        key={"test": test, "tiers": "pfs"},
        values=(value,),
        median=stats.median((value,)),
        independence=independence.look((value,)),
        published=None,
        published_source=None,
        requirement=None,
        requirement_source=None,
        verified=True,
        prediction=None,
        open_s=None,
        close_s=None,
        durable_s=None,
        phases={},
        folders=(),
        command="mdtest",
    )


def test_the_fewest_that_reach_the_peak() -> None:
    rates = {2: (50, 90), 4: (96, 95), 8: (100, 99), 16: (94, 200)}
    rows = [_row(f"mdtest-shared-peak-n{n}-create", c) for n, (c, _) in rates.items()]
    rows += [_row(f"mdtest-shared-peak-n{n}-stat", s) for n, (_, s) in rates.items()]
    told = "mdtest-shared-peak on pfs: 4 nodes are the fewest within 5% of the peak of creation (100 op/s)"
    assert peak_search.sentences(rows) == [f"{told}: create 96, stat 95 op/s."]
    assert (
        peak_search.sentences([_row("mdtest-shared-peak-create", 1), _row("mdtest-shared-node-create", 2)])
        == []
    )
    both = [_row("mdtest-unique-peak-n2-x8-create", 9), _row("mdtest-unique-peak-n2-x16-create", 9)]
    assert ": 2 nodes, 8 processes a node are the fewest" in peak_search.sentences(both)[0]


# --- recipes from rules ------------------------------------------------------------------------------------


def test_rules_state_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recipes", "--json", "mdtest", "io500"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told) == 13
    assert all((r["origin"], r["requirement"], r["numbers"]) == ("rules", None, []) for r in told)
    levels = {(r["nodes"], r["ranks_per_node"]) for r in told if r["suite"] == "mdtest"}
    assert levels == {(1, 1), (1, "cores"), ("sweep", "cores"), ("all", "cores")}
    assert all(r["rules"]["files"] == 1048576 for r in told if r["suite"] == "mdtest")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("nodes: sweep", "nodes: some", "nodes: 'some'; allowed: a whole number above 0, all, sweep"),
        (
            "ranks_per_node: 1",
            "ranks_per_node: 0",
            "ranks_per_node: 0; allowed: a whole number above 0, cores",
        ),
        ("  nodes: sweep\n", "", "recipes[mdtest-shared-peak]: lacks 'nodes'"),
        ("-n {files}", "-n {file}", "{file}; allowed: {dir}, {files}, {ppn}, {seconds}, {status}"),
        ("mdtest -F", "dd -F", "runs none of ior, mdtest, find"),
        ("title:", "titel:", "unknown key 'titel'; allowed: name, title"),
        ("mdtest-shared-node", "mdtest-shared-process", "is there twice"),
        ("recipes:", "recipes: [", "cannot be read"),
    ],
)
def test_bad_rules_are_refused(tmp_path: Path, before: str, after: str, words: str) -> None:
    shutil.copy(RECIPE_FOLDER / "rules" / "mdtest.yaml", tmp_path)
    file = tmp_path / "mdtest.yaml"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after, 1))
    with pytest.raises(RecipeError, match=re.escape(words)):
        rules.read_rules(tmp_path)
