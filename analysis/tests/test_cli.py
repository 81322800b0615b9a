"""The command line: it explains itself, names the nearest word, and answers odd input in words."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import synthetic

from tierbench import cli, manual

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = manual.commands_of(cli._parser())
OPTIONS = [(name, action) for name, command in COMMANDS.items() for action in command._actions]
STATS = {"instance": "a", "tiers": [], "pfs": {}, "drain_s": 0.5}


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    try:
        status = cli.main([str(word) for word in words])
    except SystemExit as e:  # argparse's own way
        status = int(e.code or 0)
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = run(capsys, command, "--help")
    assert status == 0 and f"example:\n  tierbench {command}" in said
    for action in COMMANDS[command]._actions:
        assert action.help, action.dest
        assert all(name in said for name in action.option_strings)
        if action.option_strings and action.dest != "help":
            assert re.search(r"default|required", action.help), action.option_strings
        if action.option_strings and action.nargs != 0:
            assert action.metavar or action.choices, action.option_strings
    assert run(capsys, "help", command)[1] == said


@pytest.mark.parametrize(("command", "action"), [pytest.param(c, a, id=f"{c}-{a.dest}") for c, a in OPTIONS])
def test_man_page_and_completion_hold_every_option(
    command: str, action: argparse.Action, capsys: pytest.CaptureFixture[str]
) -> None:
    page = run(capsys, "help", "--man")[1].replace("\\-", "-")
    part = page.split(f"\n.SS tierbench {command}\n")[1].split("\n.SS")[0]
    assert f".TP\n\\fB{manual._spelled(action)}\\fR\n{action.help}" in part
    completed = re.search(rf'^ +{command}\) words="(.*)" ;;$', run(capsys, "help", "--bash")[1], re.M)
    assert completed
    assert {n for n in action.option_strings if n.startswith("--")} <= set(completed[1].split())


def test_man_page_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("groff"):
        pytest.skip("no groff here")
    page = run(capsys, "help", "--man")[1]
    groff = ["groff", "-man", "-wall", "-ww", "-z"]
    done = subprocess.run(groff, input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_completion_completes(capsys: pytest.CaptureFixture[str]) -> None:
    script = run(capsys, "help", "--bash")[1]
    for words, found in (("tierbench re", "report recipes"), ("tierbench compare --thr", "--threshold")):
        last = len(words.split()) - 1
        ask = f'. /dev/stdin; COMP_WORDS=({words}); COMP_CWORD={last}; _tierbench; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", ask], input=script, capture_output=True, text=True, check=True)
        assert (done.stdout.strip(), done.stderr) == (found, "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["reprot"], "unknown command 'reprot'; the nearest is report; allowed: try, site, report"),
        (["xyzzy"], "unknown command 'xyzzy'; allowed: try, site, report"),
        (["compare", "a", "b", "--treshold", "4"], "unknown option '--treshold'; the nearest is --threshold"),
        (["compare", "a", "--jsn=x"], "unknown option '--jsn=x'; the nearest is --json"),
        (["list", "a", "b"], "unexpected word 'b'"),
        (["compare", "a", "--by", "teirs"], "invalid choice: 'teirs' (choose from"),
        (["recipes", "sumit"], "'sumit'; the nearest is summit; allowed: cfs"),
        (["help", "reprot"], "the nearest is report"),
        ([], "required: COMMAND"),
    ],
)
def test_a_wrong_word_is_told_in_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *words)
    assert status == 2 and says in err and err.count("\n") == 1 and not out


def test_exit_statuses_are_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = (ROOT / "docs/exit-statuses.md").read_text().split("| tierbench |")[1].split("\n\n")[0]
    assert re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.M) == list(manual.STATUSES)
    told, page = run(capsys, "--help")[1], run(capsys, "help", "--man")[1].replace("\\-", "-")
    for status, meaning in manual.STATUSES:
        assert f"  {status:<8} {meaning}\n" in told and f".TP\n{status}\n{meaning}.\n" in page


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (STATS, "is the counters of an instance (`tierctl --stats`), which hold no repetitions"),
        ({"region": {}, "tiers": []}, "is a plan (`tierctl plan --json`)"),
        ({"runs": []}, "is not a ReFrame report (it has no session_info)"),
    ],
)
def test_compare_says_what_a_file_is_and_what_is_allowed(
    document: object, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(document))
    status, _, err = run(capsys, "compare", file, file)
    assert status == 2 and f"{file}: {says}" in err and "allowed: run folder, ReFrame report" in err
    assert "KeyError" not in err and err.count("\n") == 1


def test_report_of_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "report", tmp_path)
    assert status == 2 and f"{tmp_path}: holds neither a run" in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_incomplete_run_is_named_and_the_others_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = synthetic.build(tmp_path / "results")
    (tmp_path / "results/runs/ended-early/cases").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "list")
    assert status == 0 and whole.name in out and "ended-early: is no whole run folder" in err
    status, out, err = run(capsys, "history", "*")
    assert status == 0 and " 1 run, " in out and "ended-early: is no whole run folder" in err
    status, out, err = run(capsys, "history", "*", whole, "results/runs/ended-early")
    assert status == 2 and " 1 run, " in out and "ended-early: is no whole run folder" in err
    shutil.rmtree(whole)
    assert run(capsys, "history", "*")[:2] == (2, "")
