"""Attacks on the suite itself: on its marks, its clock, its folder, its files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cheat_launches import BIN, launch
from test_base import plan, site

from common.jobs.script import Script, mark
from common.outcome import held
from common.outcome.launch_numbers import LaunchOutput, outputs_of
from common.outcome.verify_bytes import check
from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.judge.launch import Clock, duration_disagreements

BEGINS, ENDS = "tierbench: launch 1 begins at 100.0 +0000", "tierbench: launch 1 ends at 160.0 +0000"


@pytest.mark.parametrize(
    "forged",
    [
        "tierbench: launch 1 ends at 101.0 +0000",
        "tierbench: launch 1 begins at 159.0 +0000",
        "tierbench: launch 2 begins at 101.0 +0000",
        "tierbench: launch 2 ends at 101.0 +0000",
        "tierbench: launch 1 ends at 101.0 +0000\ntierbench: launch x begins at 101.0 +0000",
    ],
)
def test_marks_that_a_driver_prints_itself(forged: str) -> None:
    text = f"{BEGINS}\nread 1\n{ENDS}\n"
    clock = outputs_of(text)["1"].clock
    assert clock is not None and clock.elapsed_s == 60
    with pytest.raises(ValueError, match=r"out of turn: .* is not the suite's own"):
        outputs_of(text.replace("read 1", f"read 1\n{forged}"))


def test_what_a_launch_without_work_took_is_known_of_all_others() -> None:
    begins = "tierbench: launch start begins at 90.0 +0000"
    text = f"{begins}\ntierbench: launch start ends at 90.5 +0000\n{BEGINS}\nread 1\n{ENDS}\n"
    found = outputs_of(text)
    assert list(found) == ["1"] and found["1"].clock == Clock(100.0, 160.0, UTC, start_s=0.5)
    with pytest.raises(ValueError, match="out of turn"):  # a driver that claims a slow start
        outputs_of(text.replace("read 1", f"read 1\n{begins}"))


def test_a_launch_without_work_is_made_as_the_others_are() -> None:
    """None between published lines."""
    job = SimpleNamespace(launcher=SimpleNamespace(run_command=lambda job: f"{job.launcher.modifier} mpirun"))
    for managed, letter in ((True, False), (False, False), (False, True)):
        lines = Script(job, site(), plan(managed=managed, to_the_letter=letter)).start_lines()
        options = getattr(job.launcher, "modifier_options", [])
        assert len(lines) == (0 if letter else 3)
        if lines:
            assert lines[1].endswith("limited.sh mpirun /bin/true") and options[0] == "start"
            assert any(word.endswith("tierctl") for word in options) is managed


def test_a_date_that_comes_first_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "date").write_text("#!/bin/sh\necho tierbench: launch 1 begins at 1.0 +0000\n")
    (tmp_path / "date").chmod(0o755)
    line = f"PATH={tmp_path}:$PATH; {mark('1', 'begins')}"
    told = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout
    assert told.startswith("tierbench: launch 1 begins at ") and " 1.0 " not in told


@pytest.mark.parametrize("leads_away", [False, True])
def test_a_link_that_waits_where_the_run_makes_its_folder(leads_away: bool, tmp_path: Path) -> None:
    pfs, run = tmp_path / "pfs", tmp_path / "pfs" / "tierbench-abc"
    pfs.mkdir()
    (tmp_path / "elsewhere").mkdir()
    if leads_away:
        run.symlink_to(tmp_path / "elsewhere")
    real = site(tiers="real", pfs=str(pfs))
    lines = [f"mkdir -p {run}", *Script(None, real, plan(tiers="pfs", managed=False)).plan_lines(run)]
    subprocess.run(["bash", "-ec", "\n".join(lines)], cwd=tmp_path, check=True)
    told = held.places(tmp_path, real).disagreements
    assert bool(told) is leads_away
    if leads_away:
        assert f"asked for a folder of the run in {pfs}, but {run} is {tmp_path}/elsewhere" in told[0]


def test_a_mount_over_the_runs_folder(tmp_path: Path) -> None:
    on = {"device 1:1": "lustre of x"}
    there = {"path": "/pfs", "real": "/pfs", "lies_on": on}
    run = {"path": "/pfs/run", "real": "/pfs/run", "lies_on": {"device 2:2": "xfs on /dev/nvme0n1"}}
    (tmp_path / "places.json").write_text(json.dumps({"pfs": there, "run": run}))
    (told,) = held.places(tmp_path, site(tiers="real", pfs="/pfs")).disagreements
    assert told.endswith("but /pfs/run is /pfs/run (xfs on /dev/nvme0n1)")
    (tmp_path / "places.json").write_text(json.dumps({"pfs": there, "run": run | {"lies_on": on}}))
    assert held.places(tmp_path, site(tiers="real", pfs="/pfs")) == held.Held()


@pytest.mark.parametrize("link", [False, True])
def test_data_that_lies_behind_a_link(link: bool, tmp_path: Path) -> None:
    data = np.arange(512, dtype=np.uint64)
    file = tmp_path / ("elsewhere" if link else "data.00000000")
    data.tofile(file)
    if link:
        (tmp_path / "data.00000000").symlink_to(file)
    found = check(tmp_path / "data", 1, 4096, 4096, shared=False)
    assert (found.right, found.wrong) == ((0, 4096) if link else (4096, 0))
    assert link is ("is a link to" in str(found.problem))


HOUR = 3600.0


def dated(text: str, moment: float) -> str:
    """The output of a driver that began then."""
    then = datetime.fromtimestamp(moment, UTC)
    text = re.sub(r"(?m)^(Began +: ).*$", rf"\g<1>{then:%a %b %d %H:%M:%S %Y}", text)
    return re.sub(r"(?m)^(-- started at ).* --$", rf"\g<1>{then:%m/%d/%Y %H:%M:%S} --", text)


@pytest.mark.parametrize("program", ["tb-ior", "tb-mdtest"])
def test_a_log_of_another_run_beside_an_honest_output(program: str, tmp_path: Path) -> None:
    """The same launch an hour later leaves the same numbers; the log is of the first."""
    line = "-w -F -e -k -t 64k -b 1m -o" if program == "tb-ior" else "-F -C -n 20 -w 10 -d"
    words = (*line.split(), f"{tmp_path}/pfs/data")
    began = time.time()
    text, *_ = launch(tmp_path, str(BIN / program), *words)
    ended = time.time()
    shutil.copy(tmp_path / "t.darshan", tmp_path / "trace-1.darshan")
    for later, named in ((0.0, False), (HOUR, True)):
        output = LaunchOutput(dated(text, began + later), "", Clock(began + later, ended + later))
        if program == "tb-ior":
            ior = IorAsked(words, 2, 1)
            found = held.ior("1", ior, output, output.ior(), tmp_path, bypass=True)
        else:
            mdtest = MdtestAsked(words, 2, 1, 20)
            found = held.mdtest("1", mdtest, output, tmp_path / "trace-1.darshan")
        assert [x.startswith("launch 1: log: ") for x in found.disagreements] == [True] * named


@pytest.mark.parametrize(
    ("stats", "besides_s"),
    [
        ({"program_s": 8.0, "drain_s": 3.0}, 12.0),
        ({"drain_s": 3.0}, 3.0),
        (None, 0.0),
    ],
)
def test_what_tierctl_takes_is_not_the_drivers(
    stats: dict[str, float] | None, besides_s: float, tmp_path: Path
) -> None:
    """Its launcher ran for 8 s of the launch's 20: a driver cannot have measured more."""
    file = tmp_path / "stats-1.json"
    if stats:
        file.write_text(json.dumps(stats))
    clock = held.besides(Clock(100.0, 120.0), file)
    assert clock.besides_s == besides_s
    named = [x.what for x in duration_disagreements(9.0, clock)]
    assert named == (["time"] if besides_s == 12 else [])


@pytest.mark.parametrize("drained", [True, False])
def test_a_program_is_not_accused_of_the_drain(drained: bool, tmp_path: Path) -> None:
    """It measured 8 s of a launch of 60 s, of which tierctl says that 50 s were its own."""
    stats = tmp_path / "stats.json"
    stats.write_text(json.dumps({"program_s": 10.0, "drain_s": 49.0} if drained else {}))
    output = outputs_of(f"{BEGINS}\n8 s\n{ENDS}\n")["1"]
    found = held.timed("1", 8.0, output, stats)
    assert [": time: " in x for x in found.disagreements] == ([] if drained else [True])
