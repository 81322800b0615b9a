"""What happens about tb-mdtest's phases: commands, the ranks' rows, and a run that does nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from driver import Mdtest

FILE_PHASES = ("File creation", "File stat", "File read", "File removal")
DIR_PHASES = ("Directory creation", "Directory stat", "Directory rename", "Directory removal")


@pytest.mark.parametrize(
    ("line", "phases"),
    [("", 8), ("-F", 4), ("-D", 4), ("-C", 2), ("-F -C -T", 2), ("-i 2 -F", 8), ("-F -B 1 -u", 4)],
)
def test_each_rank_runs_a_command_about_each_phase(mdtest: Mdtest, line: str, phases: int) -> None:
    """Not about the making and removal of the tree."""
    commands = [f"--run-cmd-{when}-phase=echo {when} >> commands" for when in ("before", "after")]
    mdtest.run([*f"-n 2 {line}".split(), *commands], ranks=2)
    said = (mdtest.folder / "commands").read_text().split()
    assert (said.count("before"), said.count("after")) == (2 * phases, 2 * phases)
    assert said[:2] == ["before", "before"] or "-B" in line
    assert said[-2:] == ["after", "after"] or "-B" in line


def test_only_the_command_after_a_phase_is_timed(mdtest: Mdtest) -> None:
    times = {}
    for when in ("before", "after"):
        line = ["-n1", "-FCZ", "-d", str(mdtest.folder / when), f"--run-cmd-{when}-phase=sleep 1"]
        text = mdtest.run(line).stdout
        said = re.search(r"File creation +([\d.]+)", text)
        assert said
        times[when] = float(said[1])
    assert times["after"] >= 1
    assert times["before"] < times["after"]


def test_a_command_that_fails_is_a_failed_operation(mdtest: Mdtest) -> None:
    done = mdtest.run("-n 1 -F -C --run-cmd-before-phase=false", ranks=2, status=1)
    assert done.stderr.count("tb-mdtest: --run-cmd-before-phase: false: exit status 1\n") == 2
    assert "tb-mdtest: 2 operations failed\n" in done.stderr
    done = mdtest.run(["-n1", "-FT", "--run-cmd-after-phase=kill $$", "-e1", "--warningAsErrors"], status=3)
    assert "kill $$: --run-cmd-after-phase: exit status 143" in done.stderr


def test_each_ranks_rates_in_rows(mdtest: Mdtest) -> None:
    text = mdtest.run("-n 3 -i 2 -P --print-all-procs", ranks=2).stdout
    names = [*DIR_PHASES, *FILE_PHASES, "Tree creation", "Tree removal"]
    of_all = []
    for kind in ("rate", "time"):
        part = text.split(f"Per process result ({kind}):\n")[1].split("\n\n")[0]
        assert re.findall(r"(?m)^iteration: (\d)$", part) == ["0", "1"]
        rows = re.findall(r"(?m)^Test (\D+) (\d\.\d{6}e[+-]\d\d,\d\.\d{6}e[+-]\d\d)$", part)
        assert [name for name, _ in rows] == names * 2
        of_all.append([[float(n) for n in numbers.split(",")] for _, numbers in rows])
    for rates, times in zip(of_all[0][:8], of_all[1][:8], strict=True):
        assert [rate * time for rate, time in zip(rates, times, strict=True)] == pytest.approx([3, 3])
    assert "Test Dir" not in mdtest.run("-n 3 -F --print-all-procs").stdout


@pytest.mark.parametrize(
    "line", ["", "-u -z 1 -b 2", "-F -w 10 -e 10 -y -Y", "-D", "-c", "-k", "-S", "-N 1", "-R"]
)
def test_a_run_on_nothing_leaves_nothing(mdtest: Mdtest, line: str) -> None:
    """A tree that is there stays as it is, also where the run says that it removed it."""
    mine = mdtest.folder / "tree/test-dir.0-0/mdtest_tree.0/file.mdtest.0.0"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    text = mdtest.run(f"-n 4 -d {mdtest.folder}/tree -a DUMMY {line}", ranks=2).stdout
    rows = re.findall(r"(?m)^   (\w+ \w+) +([\d.]+)", text)
    assert all(float(rate) > 0 for _, rate in rows)
    assert len(rows) == 2 + (line[:2] not in ("-F", "-S")) * 4 + (line != "-D") * 4
    assert [p for p in mdtest.folder.rglob("*") if p.is_file()] == [mine]
    assert mine.read_text() == "mine"


def test_waits_in_the_place_of_a_file_system(mdtest: Mdtest) -> None:
    """Each in its phases, never shorter than asked."""
    places = {"create": ["File creation"], "close": ["File creation", "File read"], "sync": [*FILE_PHASES]}
    places["xfer"] = places["close"]
    for option, phases in places.items():
        line = f"-a dummy -n 2 -F -w 1 -e 1 -Y -Z --dummy.delay-{option}=200000"
        text = mdtest.run(line, ranks=2).stdout
        times = dict(re.findall(r"(?m)^   (File \w+) +([\d.]+)", text))
        for phase in phases:
            assert float(times[phase]) >= (0.2 if option == "sync" else 0.4), (option, phase)


def test_there_is_nothing_to_check(mdtest: Mdtest) -> None:
    for check in ("-X", "--verify-write"):
        done = mdtest.run(f"-a DUMMY -n 1 -F -w 8 -e 8 {check}", status=2)
        assert "-a DUMMY moves nothing: -X and --verify-write have nothing to check" in done.stderr


def test_the_commands_run_where_the_driver_does(mdtest: Mdtest, tmp_path: Path) -> None:
    mdtest.run(["-n", "1", "-F", "--run-cmd-before-phase=touch here"], where=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["here"]
