"""What tierctl says of itself: help, man page and completion hold every option, and the nearest word is named."""

import re
import shutil
import subprocess

import pytest
from instances import BIN, SOURCE


def ctl(*words: str, status: int = 0) -> str:
    done = subprocess.run([BIN / "tierctl", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, f"{words}: {done.stdout}{done.stderr}"
    return done.stderr if status else done.stdout


COMMANDS = re.findall(r"^  ([a-z-]+) +[A-Z]", ctl("--help"), re.MULTILINE)


def options(command: str) -> list[str]:
    return re.findall(r"^  (?:-\w, )?--([a-z-]+)", ctl(command, "--help"), re.MULTILINE)


def plain(man: str) -> str:
    return man.replace(r"\-", "-").replace(r"\e", "\\")


def test_every_command_is_explained() -> None:
    assert {"run", "start", "stop", "status", "drain", "recover", "gc", "plan", "check"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_meaning_default_and_example(command: str) -> None:
    said = ctl(command, "--help")
    assert said.startswith(f"usage: tierctl {command}")
    assert f"\nexample:\n  tierctl {command}" in said
    assert ctl("help", command) == said == ctl(command, "-h")
    entries = re.split(r"\n  (?=-|[A-Z])", said.split("\nexample:")[0])[1:]
    assert entries[-1].startswith("-h, --help")
    for entry in entries[:-1]:
        name, meaning, details = entry.strip().split("\n")
        assert meaning.strip()
        assert "default: " in details
        if name.startswith("-") and (" " in name.split("--")[1] or "=" in name):
            assert "values: " in details
            assert "example: -" in details


def test_every_option_of_the_table_is_in_the_help() -> None:
    """The table, read as text: an option that no command lists is dead, one that --help lacks is hidden."""
    table = (SOURCE / "engine/ctl/commands.c").read_text()
    named = set(re.findall(r'"([a-z-]+)",[\s\\]*\'\w\'', table))
    assert named == {name for command in COMMANDS for name in options(command)} - {"help"}
    assert len(named) > 15


@pytest.mark.parametrize("command", COMMANDS)
def test_man_page_and_completion_hold_every_option(command: str) -> None:
    page = plain(ctl("help", "--man")).split(f"\n.SS tierctl {command}\n")[1].split("\n.SS")[0]
    completed = re.search(rf"^ +{command}\) words=\"(.*)\" ;;$", ctl("help", "--bash"), re.MULTILINE)
    assert completed
    assert set(completed[1].split()) == {f"--{name}" for name in options(command)}
    for name in set(options(command)) - {"help"}:
        assert re.search(rf"^\.TP\n\\fB.*--{name}\b", page, re.MULTILINE), name


def test_man_page_is_sound() -> None:
    if not shutil.which("groff"):
        pytest.skip("no groff here")
    done = subprocess.run(
        ["groff", "-man", "-wall", "-ww", "-z"],
        input=ctl("help", "--man"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def complete(*words: str) -> list[str]:
    line = " ".join(f"'{word}'" for word in words)
    script = (
        f'. /dev/stdin; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tierctl; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], input=ctl("help", "--bash"), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_completes() -> None:
    assert complete("tierctl", "st") == ["start", "stop", "status", "stage"]
    assert complete("tierctl", "run", "--ke") == ["--keep"]
    assert complete("tierctl", "gc", "--ke") == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("statu",), "the nearest is status"),
        (("statsu",), "the nearest is status"),
        (("rnu",), "the nearest is run"),
        (("xyzzy",), "unknown command xyzzy; all: tierctl --help"),
        (("help", "statu"), "the nearest is status"),
        (("status", "--jsno"), "unknown option --jsno; the nearest is --json"),
        (("status", "--jsno=1"), "the nearest is --json"),
        (("status", "--zzzzzzz"), "unknown option --zzzzzzz; see: tierctl status --help"),
        (("status", "--force"), "unknown option --force"),
        (("status", "-x"), "unknown option -x"),
        (("status", "-i"), "-i needs a value"),
        (("status", "--json=1"), "--json=1 takes no value"),
        (("status", "there"), "unexpected word: there"),
        (("plan",), "needs a configuration"),
        (("plan", "a", "b", "c"), "unexpected word: c"),
        (("run", "--", "true"), "needs -c CONFIG"),
        (("help", "run", "--man"), "of all commands"),
        (("statu" * 40,), "unknown command"),
        (("",), "unknown command"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(words: tuple[str, ...], says: str) -> None:
    said = ctl(*words, status=2)
    assert says in said
    assert said.count("\n") == 1


def test_no_such_instance_is_status_1() -> None:
    for command in ("status", "drain", "stop"):
        assert "no such instance" in ctl(command, "-i", "nonesuch", status=1)


def test_exit_statuses_are_one_table() -> None:
    table = (SOURCE / "docs/exit-statuses.md").read_text()
    ours = re.findall(
        r"^\| ([^|]+) \| (.+) \|$", table.split("| tierctl |")[1].split("\n\n")[0], re.MULTILINE
    )
    assert len(ours) == 8
    told, page = ctl("--help"), plain(ctl("help", "--man"))
    lines = re.findall(r"^  (\d[\d+ N]*|others) +(\w.*)$", told, re.MULTILINE)
    assert [(status.strip(), meaning) for status, meaning in lines] == ours
    for status, meaning in ours:
        assert f".TP\n{status}\n{meaning}.\n" in page
