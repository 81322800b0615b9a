from __future__ import annotations

import json
import math
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from scipy import stats as scipy_stats

from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.judge import compare, history, stats
from tierbench.pages import comparison_page
from tierbench.runs import samples

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two runs alike, one with tiers that are 20 % slower, and both kinds with more repetitions."""
    root = tmp_path_factory.mktemp("compare")
    kinds = {
        "a": (5, 1.0),
        "slow": (5, 0.8),
        "long": (8, 1.0),
        "long-slow": (8, 0.8),
        "short": (3, 1.0),
        "short-slow": (3, 0.8),
    }
    return {n: str(synthetic.build(root / n, reps, scale=scale)) for n, (reps, scale) in kinds.items()}


def made(values: list[float], **columns: Any) -> pd.DataFrame:
    lines = [
        {
            **samples._UNSAID,
            "source": "a",
            "test": "t",
            "metric": "bandwidth",
            "unit": "MiB/s",
            "direction": "higher",
            "driver": "d",
            **columns,
            "value": v,
        }
        for v in values
    ]
    return pd.DataFrame(lines, columns=samples.COLUMNS)


def two(before: list[float], after: list[float], threshold: float = 0.05, **columns: Any) -> compare.Metric:
    both = pd.concat([made(before, **columns), made(after, source="b", **columns)])
    return compare.compare(both, "run", threshold, False).metrics[0]


def test_exact_p_is_scipys_without_ties_and_right_with_them() -> None:
    rng = random.Random(3)
    for _ in range(50):
        a = [rng.random() for _ in range(rng.randint(1, 8))]
        b = [rng.random() + 0.3 for _ in range(rng.randint(1, 8))]
        exact = scipy_stats.mannwhitneyu(a, b, method="exact").pvalue
        assert math.isclose(stats.mann_whitney(a, b), exact)
    assert stats.mann_whitney([1, 1, 1], [1, 1, 1]) == 1
    # Of the 10 ways to deal out 1 1 2 2 2, one has both 1s on the left and the mirrored extreme is none.
    assert math.isclose(stats.mann_whitney([1, 1], [2, 2, 2]), 0.1)


def test_direction_decides_what_is_a_regression() -> None:
    low, high = [10.0, 10.1, 10.2, 10.3, 10.4], [12.0, 12.1, 12.2, 12.3, 12.4]
    assert two(high, low).verdict == "regression" and two(low, high).verdict == "improvement"
    assert two(low, high, direction="lower", unit="s").verdict == "regression"
    assert two(low, high, threshold=0.3).verdict == "differs by less than 0.3"
    assert two(low, low).verdict == "no difference shown"
    assert two(low[:3], high[:3]).verdict == "inconclusive, needs n >= 4"


def test_more_metrics_need_more_repetitions() -> None:
    parts = [
        made([10.0 + s + i / 9 for i in range(5)], source=n, test=t)
        for t in "pqrstuvw"
        for n, s in (("a", 9), ("b", 0))
    ]
    result = compare.compare(pd.concat(parts), "run", 0.05, False)
    assert {m.verdict for m in result.metrics} == {"inconclusive, needs n >= 6"}
    assert result.wholes[0].verdict == "regression" and result.regressed


def test_half_up_and_half_down_is_no_regression_of_the_whole() -> None:
    parts = []
    for test, step in (("p", 5), ("q", -5), ("r", 5), ("s", -5)):
        parts += [
            made([10.0 + i / 9 for i in range(5)], test=test),
            made([10.0 + step + i / 9 for i in range(5)], source="b", test=test),
        ]
    assert compare.compare(pd.concat(parts), "run", 0.05, False).wholes[0].verdict == "no difference shown"


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("driver", "IOR-4.0.0", "driver differs: d in a, IOR-4.0.0 in b"),
        ("fsync", "none", "fsync promise differs"),
        ("nodes", 2, "scale: nodes differs: not said in a, 2 in b"),
        ("ranks", 9, "scale: ranks differs: not said in a, 9 in b"),
        ("bytes", 1, "scale: bytes differs"),
        ("modelled", True, "devices differs: not said in a, modelled in b"),
        ("options", "-F", "options differs"),
    ],
)
def test_other_conditions_are_refused_and_said(column: str, value: Any, said: str) -> None:
    both = pd.concat([made([1.0] * 5), made([2.0] * 5, **{"source": "b", column: value})])
    with pytest.raises(compare.Refused, match=said):
        compare.compare(both, "run", 0.05, False)
    forced = compare.compare(both, "run", 0.05, True)
    assert len(forced.differences) == 1 and forced.metrics


def test_nothing_in_common_is_said() -> None:
    both = pd.concat([made([1.0]), made([1.0], source="b", test="u")])
    with pytest.raises(RunError, match="only in a: t"):
        compare.compare(both, "run", 0.05, False)


def test_cli_exit_status_and_json(
    runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", runs["long"], runs["long-slow"], "--json", str(tmp_path / "c.json")]) == 1
    document = json.loads((tmp_path / "c.json").read_text())
    slow = [m for m in document["metrics"] if m["verdict"] == "regression"]
    assert len(slow) == 10 and all(
        0.75 < m["ratio_low"] <= m["ratio"] <= m["ratio_high"] < 0.85 for m in slow
    )
    assert "regression" in capsys.readouterr().out
    assert main(["compare", runs["a"], runs["slow"]]) == 1
    assert main(["compare", runs["slow"], runs["a"]]) == 0
    assert main(["compare", runs["a"], runs["a"]]) == 0
    assert main(["compare", runs["short"], runs["short-slow"]]) == 0
    assert "needs n >= " in capsys.readouterr().out
    assert main(["compare", runs["long"], runs["long-slow"], "--threshold", "30"]) == 0


def test_cli_refusal_is_status_2(
    runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "run"
    shutil.copytree(runs["a"], other)
    for path in other.glob("cases/*/*/case.json"):
        case = json.loads(path.read_text()) | {"driver": "IOR-4.0.0", "modelled": False, "ranks": 8}
        path.write_text(json.dumps(case))
    assert main(["compare", runs["a"], str(other)]) == 2
    said = capsys.readouterr().err
    assert "driver differs: tb-ior 0.1 in" in said and "devices differs: modelled in" in said
    assert "scale: ranks differs: 4 in" in said and "--force" in said
    assert main(["compare", runs["a"], str(other), "--force"]) == 0
    assert "forced: driver differs" in capsys.readouterr().out


def test_tiers_of_one_run(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", runs["a"], "--by", "tiers"]) == 2
    assert "fsync promise differs: pfs in pfs bypass, tier in" in capsys.readouterr().err
    assert main(["compare", runs["a"], "--by", "tiers", "--force"]) in (0, 1)
    assert "ram scratch max-bandwidth against pfs bypass" in capsys.readouterr().out


# --- sources -----------------------------------------------------------------------------------------------


def reframe(uuid: str, values: list[float], start: float = 1e9) -> dict[str, Any]:
    """A report as ReFrame 4.10 writes it, cut down to what is read: its own test and one of the suite."""
    common = {"result": "pass", "system": "here", "partition": "p", "environ": "e", "num_tasks": 2}
    runs = []
    for value in values:
        own = {
            "display_name": "Own %n=1",
            "perfvalues": {"here:p:copy": [value, 0, None, None, "MB/s", "pass"]},
        }
        suite = {
            "display_name": "TierWrite",
            "perfvalues": {},
            "metrics": {
                "test": "w",
                "system": "ares",
                "tiers": "bb",
                "mode": "scratch",
                "fsync": "none",
                "policy": "x",
                "repetition": 1,
                "metric": "bandwidth",
                "unit": "MiB/s",
                "direction": "higher",
                "value": value,
                "driver": "d",
                "modelled": True,
                "ranks": 2,
                "bytes": 5,
            },
        }
        failed = {**common, **own, "result": "fail"}
        runs.append({"testcases": [{**common, **own}, {**common, **suite}, failed]})
    return {"session_info": {"uuid": uuid, "time_start_unix": start}, "runs": runs}


def store(path: Path, *reports: dict[str, Any]) -> str:
    with sqlite3.connect(path) as base:
        columns = "uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, json_blob TEXT"
        base.execute(f"CREATE TABLE sessions({columns}, report_file TEXT)")
        for r in reports:
            line = (r["session_info"]["uuid"], r["session_info"]["time_start_unix"], 0, json.dumps(r), "")
            base.execute("INSERT INTO sessions VALUES(?, ?, ?, ?, ?)", line)
    base.close()
    return str(path)


def test_reframe_report_and_store(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    report.write_text(json.dumps(reframe("u1", [1.0, 2.0])))
    read = samples.read(str(report))
    assert read["value"].tolist() == [1.0, 1.0, 2.0, 2.0]
    own, suite = read.iloc[0], read.iloc[1]
    assert (own["test"], own["metric"], own["unit"], own["direction"]) == (
        "Own %n=1",
        "copy",
        "MB/s",
        "higher",
    )
    assert (suite["tiers"], suite["fsync"], suite["modelled"], suite["ranks"]) == ("bb", "none", True, 2)
    several = reframe("u1", [1.0])
    (case,) = [c for c in several["runs"][0]["testcases"] if "metrics" in c]
    case["metrics"] = {"cases": [case["metrics"], case["metrics"] | {"test": "r", "value": 7.0}]}
    report.write_text(json.dumps(several))
    assert samples.read(str(report)).set_index("test")["value"].to_dict() == {"Own %n=1": 1, "w": 1, "r": 7}
    base = store(tmp_path / "results.db", reframe("u1", [1.0] * 5), reframe("v2", [3.0] * 5, 2e9))
    assert len(samples.read(base)) == 20 and set(samples.read(f"{base}@v")["run"]) == {"v2"}
    assert (
        main(["compare", f"{base}@u1", f"{base}@v2"]) == 0
        and main(["compare", f"{base}@v2", f"{base}@u1"]) == 1
    )
    with pytest.raises(RunError, match="session 'w'"):
        samples.read(f"{base}@w")


def test_plain_output(tmp_path: Path) -> None:
    for driver, names in (("ior-4.0.0", ("default-i4.out",)), ("mdtest-4.0.0", ())):
        for name in names or [
            next(p.name for p in sorted((DATA / driver).glob("*.out")) if "SUMMARY" in p.read_text())
        ]:
            folder = tmp_path / driver
            folder.mkdir()
            shutil.copy(DATA / driver / name, folder)
            (folder / "notes.txt").write_text("not output")
    ior, mdtest = samples.read(str(tmp_path / "ior-4.0.0")), samples.read(str(tmp_path / "mdtest-4.0.0"))
    assert (ior[ior["test"] == "ior write"]["value"] > 0).sum() == 4 and set(ior["metric"]) == {"bandwidth"}
    assert set(ior["driver"]) == {"IOR-4.0.0"} and "/scratch" not in " ".join(ior["options"])
    assert "mdtest File creation" in set(mdtest["test"])


def test_a_copy_of_plain_output_is_no_repetition(tmp_path: Path) -> None:
    for name in ("run.log", "run.out"):
        shutil.copy(DATA / "ior-4.0.0" / "default-i4.out", tmp_path / name)
    with pytest.raises(RunError, match=r"run\.out: is a copy of .*run\.log; allowed: each output once"):
        samples.read(str(tmp_path))


def test_cut_off_plain_output_is_refused(tmp_path: Path) -> None:
    text = (DATA / "ior-4.0.0" / "default-i4.out").read_text()
    (tmp_path / "x.out").write_text(text[: len(text) // 2])
    with pytest.raises(RunError, match=r"x\.out"):
        samples.read(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [
        ("ior-4.0.0/check-corrupt.out", "", "read 1 wrong transfers; "),
        ("ior-4.0.0/err-enospc-mpiio.out", "", "the file holds fewer bytes than were written; "),
        (
            "mdtest-4.0.0/n200.out",
            "WARNING: unable to stat file f.1\n" * 2,
            "WARNING: unable.* .and 1 more.; ",
        ),
    ],
)
def test_output_of_a_run_that_went_wrong_is_refused(tmp_path: Path, file: str, line: str, words: str) -> None:
    """IOR and mdtest print numbers all the same, and mostly exit with status 0."""
    text = (DATA / file).read_text()
    (tmp_path / "x.out").write_text(text.replace("\n2 tasks,", f"\n{line}2 tasks,"))
    with pytest.raises(RunError, match=rf"x\.out: its run went wrong: {words}allowed: runs without"):
        samples.read(str(tmp_path))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"session_info": {}, "runs": 3}', "SQLite format 3\0garbage"]
)
def test_strangers_are_one_line_and_status_2(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text(text)
    assert main(["compare", str(tmp_path / "x"), str(tmp_path / "x")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and str(tmp_path / "x") in captured.err and not captured.out


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("value", 1e308, "value: 1e+308; allowed: a number above 0, from 1e-30 to 1e+30"),
        ("value", -1.0, "value: -1.0; allowed: a number above 0, from 1e-30 to 1e+30"),
        ("when", 1e300, "when: 1e+300; allowed: seconds since 1970, before the year 10000"),
        ("bytes", "many", "bytes: 'many'; allowed: a whole number of at least 0"),
        ("ranks", 10**19, "ranks: 10000000000000000000; allowed: a whole number of at least 0"),
        ("test", ["a"], "test: ['a']; allowed: text"),
        ("direction", "sideways", "direction: 'sideways'; allowed: higher, lower"),
    ],
)
def test_a_value_of_another_kind_in_a_report_is_named(
    column: str, value: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = reframe("u1", [1.0, 2.0])
    if column == "when":
        document["session_info"]["time_start_unix"] = value
    else:
        document["runs"][1]["testcases"][1]["metrics"][column] = value
    (tmp_path / "x").write_text(json.dumps(document))
    for command in (["compare", str(tmp_path / "x")], ["history", "*"]):
        assert main([*command, str(tmp_path / "x")]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and words in told, told


def test_control_characters_of_a_name_reach_no_terminal(tmp_path: Path) -> None:
    document = reframe("u1", [1.0])
    document["runs"][0]["testcases"][0]["display_name"] = "a\n\x1b[31mb"
    (tmp_path / "x").write_text(json.dumps(document))
    assert samples.read(str(tmp_path / "x"))["test"].iloc[0] == "a\\n\\x1b[31mb"


# --- history -----------------------------------------------------------------------------------------------


def test_steps_are_found_where_they_are() -> None:
    rng = random.Random(1)
    values = [level * rng.gauss(1, 0.02) for level in [100] * 12 + [80] * 12 + [100] * 9]
    steps = history.find_steps(values, 0.05)
    assert [s.at for s in steps] == [12, 24]
    assert math.isclose(steps[0].ratio, 0.8, rel_tol=0.05) and math.isclose(
        steps[1].ratio, 1.25, rel_tol=0.05
    )
    assert not history.find_steps(values, 0.5)


def test_a_level_that_comes_and_goes_is_found() -> None:
    """No single step fits it: before and after any one place the levels are nearly alike."""
    rng = random.Random(4)
    values = [level * rng.gauss(1, 0.01) for level in [100] * 12 + [82] * 10 + [101] * 9]
    assert [s.at for s in history.find_steps(values, 0.05)] == [12, 22]


def test_noise_and_an_outlier_are_no_step() -> None:
    rng = random.Random(2)
    found = sum(bool(history.find_steps([rng.gauss(100, 5) for _ in range(20)], 0)) for _ in range(100))
    assert found <= 10
    assert not history.find_steps(
        [100.0 + i % 3 for i in range(10)] + [10.0] + [100.0 + i % 3 for i in range(10)], 0.05
    )


def test_a_step_needs_runs() -> None:
    least = history.least_points()
    step = [100.0 + i for i in range(least)]
    step[least // 2 :] = [50.0 + i for i in range(least - least // 2)]
    assert history.find_steps(step, 0.05) and not history.find_steps(step[1:], 0.05)


def test_cli_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = store(
        tmp_path / "r.db",
        *(reframe(f"u{i}", [(10.0 if i < 6 else 7.0) + i / 50], 1e9 + i) for i in range(12)),
    )
    assert main(["history", "w", base]) == 0
    assert "WORSE by a factor of 0.7" in capsys.readouterr().out
    assert main(["history", "nothing", base]) == 2
    assert "there are: Own %n=1, w" in capsys.readouterr().err


def test_history_as_a_page_with_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels = [10.0] * 8 + [7.0] * 8
    base = store(
        tmp_path / "r.db", *(reframe(f"u{i}<b>", [v + i / 50], 1e9 + i) for i, v in enumerate(levels))
    )
    assert main(["history", "w", base, "-o", str(tmp_path / "out")]) == 0
    assert "history.html" in capsys.readouterr().out
    page, told = (
        (tmp_path / "out" / "history.html").read_text(),
        (tmp_path / "out" / "history.md").read_text(),
    )
    assert "w: 1 step: 1 for the worse; 1 series" in page and "1 step: 1 for the worse" in told
    assert page.count('<svg class="narrow"') == 1 and "worse: 0.7" in page and "<b>" not in page + told
    (series,) = json.loads((tmp_path / "out" / "history.json").read_text())
    assert [(s["at"], s["since"], s["better"]) for s in series["steps"]] == [(8, "u8<b>", False)]
    table = pd.read_csv(tmp_path / "out" / "history.csv")
    assert table["level"].tolist() == [0] * 8 + [1] * 8 and table["run"].iloc[-1] == "u15<b>"


def test_lower_is_better_in_a_history() -> None:
    step = history.Step(3, 0.5, 0.01)
    points = [history.Point(str(i), math.nan, "", 1.0, 1) for i in range(6)]
    for direction, better in (("lower", True), ("higher", False)):
        series = history.Series({"direction": direction}, points, [step], None)
        assert series.is_better(step) == better and ("WORSE" in series.words(step)) != better


def test_the_page_says_where_both_sides_come_from(tmp_path: Path) -> None:
    before, after = made([1.0] * 5, commit="abc", fsync="tier"), made([2.0] * 5, commit="def", fsync="tier")
    result = compare.compare(pd.concat([before, after]), "commit", 0.05, False)
    about = {"fsync promise": "tier", "driver": "d", "devices": "not said", "scale: ranks": "not said"}
    for (name, told), commit in zip(result.sides, ("abc", "def"), strict=True):
        assert name == commit and told["commit"] == commit and about.items() <= told.items()
    (tmp_path / "page").mkdir()
    comparison_page.write(result, tmp_path / "page")
    for suffix in ("html", "md"):
        assert "fsync promise" in (tmp_path / "page" / f"comparison.{suffix}").read_text()
