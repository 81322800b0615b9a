"""A trial: its configurations, its inputs, what the runs say, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from trial_runs import AS_FAST, FASTER, a_trial, run, tier, walls

from tierbench import cli
from tierbench.base import schema
from tierbench.base.errors import RunError
from tierbench.pages import trial_page
from tierbench.trial import answer, results, start, tier_files
from tierbench.trial.plan import read
from tierbench.trial.tier_files import Tier
from tierbench.trial.working_folder import WorkingFolder

GIB = 1 << 30
RAM, NVME, BB = Tier("ram", None, GIB), Tier("nvme", Path("/nvme"), GIB), Tier("bb", Path("/bb"), 4 * GIB)


def test_each_tier_alone_then_neighbours() -> None:
    names = ["-".join(t.name for t in chosen) for chosen in tier_files.combinations([RAM, NVME, BB])]
    assert names == ["ram", "nvme", "bb", "ram-nvme", "nvme-bb", "ram-nvme-bb"]


def test_a_tier_is_written_with_name_medium_place_and_capacity(tmp_path: Path) -> None:
    files = tier_files.write_all([RAM, NVME], Path("/pfs"), tmp_path, {"nvme": "/profiles/nvme.yaml"})
    assert list(files) == ["pfs", "ram", "nvme", "ram-nvme"]
    both = yaml.safe_load(Path(files["ram-nvme"]).read_text())
    assert both["fsync"] == "tier" and both["tiers"][0] == {
        "name": "ram",
        "medium": "memory",
        "capacity": "1024MiB",
    }
    assert both["tiers"][1]["profile"] == "/profiles/nvme.yaml"
    assert yaml.safe_load(Path(files["ram"]).read_text())["fsync"] == "pfs"
    assert yaml.safe_load(Path(files["pfs"]).read_text())["mode"] == "bypass"


@pytest.mark.parametrize(
    ("text", "found"), [("8GiB", 8 * GIB), ("8g", 8 * GIB), ("1.5G", 3 * GIB // 2), ("64m", 64 << 20)]
)
def test_sizes(text: str, found: int) -> None:
    assert tier_files.parse_size(text, "--ram") == found


def test_a_directory_with_a_colon_in_its_name(tmp_path: Path) -> None:
    place = tmp_path / "a:2g"
    place.mkdir()
    assert tier_files.directory_tier("nvme", str(place)).path == place
    assert tier_files.directory_tier("nvme", f"{place}:3g") == Tier("nvme", place, 3 * GIB)
    with pytest.raises(RunError, match=r"--nvme: .*none' is not a directory"):
        tier_files.directory_tier("nvme", f"{tmp_path}/none:2g")


@pytest.mark.parametrize("text", ["", "8", "63m", "-1g", "8 gallons", "1e3g"])
def test_sizes_that_are_refused(text: str) -> None:
    with pytest.raises(RunError, match=r"--ram: .*; allowed: a size"):
        tier_files.parse_size(text, "--ram")


def test_a_run_has_its_inputs_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("input")
    (tmp_path / "big").write_text("large")
    folder = tmp_path / "run"
    with WorkingFolder(tmp_path, folder, ["data"], ["big"]) as work:
        (folder / "data" / "a").write_text("changed")
        (folder / "out").write_text("new")
        assert (folder / "big").read_text() == "large"
        assert sorted(work.digests()) == ["data/a", "out"]
        assert work.sync() >= 0
    assert (
        not folder.exists()
        and (tmp_path / "data" / "a").read_text() == "input"
        and (tmp_path / "big").exists()
    )


def test_a_folder_of_another_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "theirs").write_text("keep")
    with pytest.raises(RunError, match="is there already"), WorkingFolder(tmp_path, tmp_path / "run", [], []):
        pass
    assert (tmp_path / "run" / "theirs").read_text() == "keep"


def wish(tmp_path: Path, *command: str, **changes: Any) -> start.Wish:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "a").write_text("x")
    words: dict[str, Any] = {"command": command, "pfs": tmp_path, "folder": tmp_path / "new", **changes}
    return start.Wish(**{"tiers": (), "own": (), "inputs": (), "read_only": (), "repetitions": 1, **words})


def test_inputs_are_what_the_command_names(tmp_path: Path) -> None:
    found = start._inputs(
        wish(tmp_path, "p", "--in={pfs}/data", "{pfs}/out", "-x", "{pfs}/data/a:{pfs}/none")
    )
    assert found == ("data",)  # which has data/a
    assert start._inputs(wish(tmp_path, "p", "{pfs}/data/a", "{pfs}", read_only=("data",))) == ()
    assert start._inputs(wish(tmp_path, "tar", "-C", "{pfs}", "data", inputs=("data/",))) == ("data",)


@pytest.mark.parametrize(("command", "changes", "told"), [
    (("p", "/data"), {}, "no word names {pfs}"),
    (("p", "{pfs}/../" + "x"), {}, "leads out of the PFS"),
    (("p", "{pfs}/data"), {"inputs": ("../x",)}, "--input: '../x'"),
    (("p", "{pfs}/data"), {"read_only": ("none",)}, "--read-only: 'none'"),
    (("p", "{pfs}/data"), {"read_only": ("/data",)}, "--read-only: '/data'"),
])  # fmt: skip
def test_commands_that_are_refused(
    tmp_path: Path, command: tuple[str, ...], changes: dict[str, Any], told: str
) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "pfs").mkdir()
    with pytest.raises(RunError) as e:
        start._inputs(wish(tmp_path / "pfs", *command, **changes))
    assert told in str(e.value)


def test_a_faster_configuration_is_advised(tmp_path: Path) -> None:
    runs = {
        "pfs": walls(*AS_FAST),
        "ram": walls(*AS_FAST, tiers=tier()),
        "ram-nvme": walls(*FASTER, fsync="tier", tiers=tier() | tier(0, 0, "nvme")),
    }
    made = answer.make(a_trial(tmp_path, runs), tmp_path)
    assert made.advised == "ram-nvme"
    assert made.advice.startswith("RAM + NVMe saves 30 % [") and "RAM is not shown to differ" in made.advice
    assert made.advice.endswith(f"use this file: {tmp_path / 'ram-nvme.yaml'}")
    assert schema.misfit(made.as_json(), "trial-answer") is None
    saved = made.as_json()["rows"][2]["saved"]
    assert saved["low"] < saved["value"] < saved["high"]
    assert made.rows[2].tier_read_share == 0.5 and made.rows[2].peak_share == {"ram": 0.5, "nvme": 0.5}


def test_the_simpler_of_two_that_are_as_fast(tmp_path: Path) -> None:
    both = tier() | tier(0, 0, "nvme")
    runs = {
        "pfs": walls(*AS_FAST),
        "my-own-one": walls(*(s + 0.1 for s in FASTER), tiers=tier()),
        "both": walls(*FASTER, tiers=both),
    }
    made = answer.make(a_trial(tmp_path, runs), tmp_path)
    assert made.advised == "my-own-one" and made.advice.startswith("my-own-one saves")


def test_a_configuration_of_ones_own_is_called_by_its_name(tmp_path: Path) -> None:
    runs = {
        "pfs": walls(*AS_FAST),
        "ram-fast": walls(*FASTER, tiers=tier()),
        "ram": walls(*FASTER, tiers=tier()),
    }
    made = answer.make(a_trial(tmp_path, runs), tmp_path)
    assert [answer.called(row) for row in made.rows] == ["PFS alone", "ram-fast", "RAM"]


def test_too_few_runs_advise_nothing(tmp_path: Path) -> None:
    made = answer.make(a_trial(tmp_path, {"pfs": walls(10), "ram": walls(7)}), tmp_path)
    assert made.advised is None and made.rows[1].needs_n == 4
    assert made.advice == "Nothing can be advised yet: 1 run of a configuration can show nothing (needs 4)."
    assert trial_page.ratio_words(made.rows[1]) == "needs n >= 4"


def test_of_a_configuration_with_few_runs_nothing_is_said(tmp_path: Path) -> None:
    runs = {
        "pfs": walls(*AS_FAST),
        "ram": walls(7),
        "ram-nvme": walls(*FASTER, tiers=tier() | tier(name="nvme")),
    }
    made = answer.make(a_trial(tmp_path, runs), tmp_path)
    assert made.advised == "ram-nvme" and "RAM has 1 run to compare, too few" in made.advice


def test_a_changed_configuration_is_not_advised_by_older_runs(tmp_path: Path) -> None:
    faster = walls(*FASTER, configuration_sha256=hashlib.sha256(b"# ram\n").hexdigest())
    trial = a_trial(tmp_path, {"pfs": walls(*AS_FAST), "ram": faster})
    assert answer.make(trial, tmp_path).advised == "ram"
    (tmp_path / "ram.yaml").write_text("# another\n")
    made = answer.make(trial, tmp_path)
    assert made.advised is None and len(made.failures) == 5 and "was changed after it" in made.failures[0]


def test_a_little_is_not_nothing() -> None:
    assert [trial_page.share_words(x) for x in (0, 0.001, 0.006, 1)] == ["0 %", "<1 %", "1 %", "100 %"]


def test_other_bytes_are_never_advised(tmp_path: Path) -> None:
    wrong = walls(*FASTER, outputs={"out": "b" * 64})
    made = answer.make(a_trial(tmp_path, {"pfs": walls(*AS_FAST), "ram": wrong}), tmp_path)
    assert made.advised is None and "RAM leaves other bytes" in made.advice
    assert made.rows[1].same_outputs is False


def test_slower_is_said(tmp_path: Path) -> None:
    made = answer.make(a_trial(tmp_path, {"pfs": walls(*FASTER), "ram": walls(*AS_FAST)}), tmp_path)
    assert made.advised is None and "RAM takes 43 % [" in made.advice and "longer" in made.advice


@pytest.mark.parametrize(("runs", "told"), [
    ({"pfs": walls(10, 10.1), "ram": walls(7, 7.1)}, "2 runs of each can show no difference"),
    ({"pfs": walls(10), "ram": walls(7)}, "1 run of each can show no difference"),
    ({"pfs": [run(outputs={}), run(outputs={})]}, "the program left no file"),
    ({"pfs": walls(0.1, 0.11, 0.1, 0.1, 0.1)}, "a run takes 0.100 s"),
    ({"pfs": walls(*AS_FAST, io_s=0.01)}, "I/O is 0.0100 s of 10.0 s"),
    ({"pfs": [run(), run(outputs={"out": "b" * 64})]}, "left different bytes"),
    ({"pfs": walls(*AS_FAST), "ram": walls(*FASTER, spilled_bytes=1 << 20)}, "the tiers were full, 1 MiB"),
    ({"pfs": walls(*AS_FAST), "ram": walls(*FASTER, passed=3)}, "ram: 3 opens were not buffered"),
    ({"pfs": walls(*AS_FAST, new_bytes=3 << 20)}, "the trace saw 1 MiB written, of files of 3 MiB that"),
    ({"pfs": walls(12, 12.1, 12.2, 11.9, 12), "ram": walls(*AS_FAST)}, "without Tierbench the program took"),
    ({"pfs": walls(*AS_FAST), "ram": walls(*FASTER, fallbacks=1)}, "ram: 1 file fell back to the PFS"),
    ({"pfs": walls(*AS_FAST), "ram": walls(*FASTER, tiers=tier(written=1 << 19))}, "ram: 512 KiB of 1 MiB"),
    ({"pfs": walls(*AS_FAST, left_processes=["sh", "a"])}, "went on after its end and were ended (a, sh)"),
])  # fmt: skip
def test_what_limits_the_answer(tmp_path: Path, runs: dict[str, Any], told: str) -> None:
    limits = answer.make(a_trial(tmp_path, runs), tmp_path).limits
    assert any(told in limit for limit in limits), limits


def test_what_is_no_run_is_left_alone(tmp_path: Path) -> None:
    trial = a_trial(tmp_path, {"pfs": walls(10.0)})
    (tmp_path / "runs" / "pfs" / "notes").mkdir()
    assert answer.make(trial, tmp_path).rows[0].runs == 1


def test_failed_runs_do_not_count_and_are_named(tmp_path: Path) -> None:
    runs = {"pfs": walls(*AS_FAST), "ram": [run(exit_status=3), run(errors=["/p/f/x: EIO"]), run(wall_s=9)]}
    trial = a_trial(tmp_path, runs)
    results.next_folder(tmp_path, "ram").joinpath("stderr.txt").write_text("first\nkilled\n-----\n\n")
    made = answer.make(trial, tmp_path)
    assert made.rows[1].runs == 1
    assert [f.split(":")[0] for f in made.failures] == ["ram, run 1", "ram, run 2", "ram, run 4"]
    assert "EIO" in made.failures[1] and made.failures[2].endswith(": killed")


def test_without_a_run_on_the_pfs_alone_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run that ended well; pfs, run 1: the program ended with 1"):
        answer.make(a_trial(tmp_path, {"pfs": [run(exit_status=1)], "ram": walls(1)}), tmp_path)


def test_a_run_that_is_none_is_refused(tmp_path: Path) -> None:
    a_trial(tmp_path, {"pfs": [run(wall_s=-1)]})
    with pytest.raises(RunError, match=r"run.json: wall_s: -1; allowed: a number of at least 0"):
        results.read(tmp_path / "runs" / "pfs" / "1" / "run.json")


def test_the_page_and_the_terminal_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_trial(tmp_path, {"pfs": walls(*AS_FAST), "ram<b>": walls(*FASTER, tiers=tier())})
    assert cli.main(["report", str(tmp_path)]) == 0
    said, page = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    made = answer.make(read(tmp_path / "trial.json"), tmp_path)
    assert made.advice in said and "<b>" in said and "ram<b>" not in page and "ram&lt;b&gt;" in page
    for _, cells in trial_page.TABLES:
        for cell in cells(made.rows[0]):
            assert cell in page and cell in said


def test_what_is_not_shown_to_differ_has_its_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_trial(tmp_path, {"pfs": walls(*AS_FAST), "ram": walls(*AS_FAST, tiers=tier())})
    assert cli.main(["report", str(tmp_path)]) == 0
    told = re.compile(r"1\.00x \[0\.\d+x, 1\.\d+x\], not shown to differ")
    for said in (capsys.readouterr().out, (tmp_path / "report.html").read_text()):
        assert told.search(said), said


@pytest.mark.parametrize(("lines", "status", "told"), [
    (["wall <= 8 s, contract 4.2"], 0, "meets the requirement: 7 against a required 8 s (contract 4.2)"),
    (["wall <= 6.9 s"], 1, "program-wall, RAM: inconclusive"),
    (["durable <= 5 s"], 1, "misses the requirement: 7.1 against a required 5 s"),
    (["wall <= 8 s", "bandwidth >= 900 MiB/s"], 1, "program-bandwidth, RAM: fail"),
    (["time <= 6.9 s"], 1, "program-wall, RAM: inconclusive"),
    (["io <= 4 s", "bandwidth >= 0.1 MiB/s"], 0, "program-io, RAM: pass"),
])  # fmt: skip
def test_what_is_required_of_the_configuration_to_keep(
    tmp_path: Path, lines: list[str], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {"pfs": walls(*AS_FAST), "ram": walls(*FASTER, tiers=tier())}
    plan_of = a_trial(tmp_path, runs)
    replace(plan_of, required=tuple(lines)).write(tmp_path)
    assert cli.main(["report", str(tmp_path), "--check"]) == status
    said = capsys.readouterr().out
    document = json.loads((tmp_path / "report.json").read_text())
    assert told in said and told in (tmp_path / "report.html").read_text()
    assert any(told in line for line in document["headline"])
    kept = [r for r in document["rows"] if r["tiers"] == "ram" and r["requirement"]]
    assert len(kept) == len(lines) and ({r["verdict"] for r in kept} == {"pass"}) == (status == 0)
    assert cli.main(["report", str(tmp_path), "--check", "--require", "wall <= 99 s"]) == 0


@pytest.mark.parametrize(
    ("limit", "status", "told"), [(10.3, 0, "each run held it"), (10.1, 1, "not each run")]
)
def test_few_runs_show_nothing_but_each_may_hold(
    tmp_path: Path, limit: float, status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then what was measured is said, once, and what decides."""
    a_trial(tmp_path, {"pfs": walls(10.0, 10.2)})
    assert cli.main(["report", str(tmp_path), "--check", "--require", f"wall <= {limit} s"]) == status
    first = f"program-wall, PFS: inconclusive, needs n >= 5; 10.1 against a required {limit} s: {told}"
    assert first in capsys.readouterr().out
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert [r["verdict"] for r in rows if r["test"] == "program-wall"] == ["inconclusive"]


@pytest.mark.parametrize("line", [
    "", "wall", "wall <= x s", "wall < 3 s", "wall <= 3 min", "wall >= 3 s", "rows <= 3 s", "wall <= 3 s\n",
    "program-wall: time <= 3 s", "wall <= 0 s", "wall <= nan s", "wall <= 1e999 s", "\0 <= 1 s",
])  # fmt: skip
def test_bad_requirements_are_refused_before_a_run(
    tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["try", "--pfs", str(tmp_path), "--ram", "64MiB", "-o", str(tmp_path / "new"), "--require", line]
    if line.endswith("\n"):
        words += ["--require", "wall <= 4 s"]
    assert cli.main([*words, "--", "true", "{pfs}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("tierbench: --require ") and "allowed: " in said and said.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_single_run_has_no_interval(tmp_path: Path) -> None:
    made = answer.make(a_trial(tmp_path, {"pfs": walls(10), "ram": walls(7)}), tmp_path)
    assert trial_page.interval_words(made.rows[0].wall, made.rows[0].runs) == "–"
    with Console(record=True, width=160) as console:
        trial_page.print_answer(made, console, [])
    assert "[" not in console.export_text().split("RAM")[1].split("\n")[0]


@pytest.mark.parametrize(("words", "told"), [
    (["--pfs", "/nonesuch", "--ram", "1g", "--", "p", "{pfs}"], "--pfs: '/nonesuch' is not a directory"),
    (["--pfs", "/tmp", "--", "p", "{pfs}"], "no tier: allowed: at least one of --ram"),
    (["--pfs", "/tmp", "--ram", "1", "--", "p", "{pfs}"], "--ram: '1'; allowed"),
    (["--pfs", "/tmp", "--nvme", "/nonesuch:1g", "--", "p", "{pfs}"], "--nvme: '/nonesuch' is not"),
    (["--pfs", "/tmp", "--ram", "1g", "--", "p"], "no word names {pfs}"),
    (["--ram", "1g", "--", "p", "{pfs}"], "no PFS: allowed: --pfs DIR, or --site FILE"),
    (["--pfs", "/tmp", "--ram", "1g"], "nothing to run: allowed: one of COMMAND, --ior and --recipe"),
    (["--pfs", "/tmp", "--ram", "1g", "--ior", "-w -r", "--", "p"], "--ior: allowed: one of COMMAND"),
    (["--pfs", "/tmp", "--ram", "1g", "--recipe", "none"], "--recipe: 'none'; allowed: cfs-iops, "),
    (["--site", "/nonesuch.py", "--ram", "1g", "--", "p"], "--site: /nonesuch.py: No such file"),
    (["--pfs", "/tmp", "--nvme", "/tmp", "--", "p", "{pfs}"], "--nvme: /tmp: is in --pfs /tmp; allowed"),
])  # fmt: skip
def test_what_the_command_refuses(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["try", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pfs", "more", "told"),
    [
        ("a/sub", ["--nvme", "a"], "--pfs: T/a/sub: is in --nvme T/a; allowed: a place outside it"),
        ("a", ["--bb", "a/sub"], "--bb: T/a/sub: is in --pfs T/a; allowed: a place outside it"),
        ("b", ["--nvme", "a/sub", "--bb", "a"], "--nvme: T/a/sub: is in --bb T/a; allowed: "),
        ("link/sub", ["--nvme", "a"], "--pfs: T/a/sub: is in --nvme T/a; allowed: a place outside it"),
    ],
)
def test_a_place_in_another_is_refused(
    pfs: str,
    more: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Files of a tier would be files of the PFS, or the other way round."""
    monkeypatch.chdir(tmp_path)
    for place in ("a/sub", "b"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    places = ["--pfs", pfs, *more, "-o", "new"]
    for words in (["try", *places, "--", "true", "{pfs}"], ["site", "init", *places]):
        assert cli.main(words) == 2
        said = capsys.readouterr().err
        assert told.replace("T", str(tmp_path)) in said and said.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "link"]


def test_what_is_refused_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder's name that ReFrame takes apart; a place that may not be written; what tierctl refuses."""
    (tmp_path / "pfs").mkdir()
    monkeypatch.setattr(start, "program", lambda _: Path("/bin/false"))
    line = ["try", "--pfs", str(tmp_path / "pfs"), "--ram", "64MiB", "-o"]
    assert cli.main([*line, str(tmp_path / "a trial"), "--", "p", "{pfs}"]) == 2
    assert cli.main([*line, str(tmp_path / "trial"), "--", "p", "{pfs}"]) == 2
    monkeypatch.setattr("os.access", lambda *_: False)
    assert cli.main([*line, str(tmp_path / "trial"), "--", "p", "{pfs}"]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["pfs"]


@pytest.mark.parametrize(("folder", "told"), [
    ("a trial", "its name has a blank or a sign that shells read"),
    ("t", "pfs' may not be written; allowed: a directory of yours"),
])  # fmt: skip
def test_places_that_are_refused(
    folder: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pfs").mkdir()
    if folder == "t":
        monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr(start, "program", lambda _: Path("/bin/true"))
    line = ["try", "--pfs", str(tmp_path / "pfs"), "--ram", "64MiB", "-o", str(tmp_path / folder)]
    assert cli.main([*line, "--", "p", "{pfs}"]) == 2
    assert told in capsys.readouterr().err
