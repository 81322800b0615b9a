"""A site file: what is detected, what is written, and the trial that checks it."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest
import reframe.core.schedulers

from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.site import site_file, site_reader
from tierbench.site.home import home


def test_slurms_default_partition_with_the_smallest_of_its_nodes() -> None:
    told = "debug|2|8|16000\nbatch*|100|64|257000+\nbatch*|20|32|128000\n"
    assert site_file.parse_sinfo(told) == site_file.Nodes("batch", 120, 32, 128000 << 20)
    assert site_file.parse_sinfo("debug|2|8|16000\n").partition == "debug"
    for wrong in ("", "slurm is down\n"):
        with pytest.raises(RunError, match="sinfo"):
            site_file.parse_sinfo(wrong)


@pytest.mark.parametrize(
    ("hostnames", "found"),
    [
        ([["login.*"]], "s0"),
        ([["login.*"], ["here[0-9]"]], "s1"),
        ([["here"], [".*"]], "s0"),
        ([["login.*"], ["batch"]], "no hostnames are like here1 (s0: login.*; s1: batch); allowed: "),
        ([["("]], "error: "),
        ([], "no hostnames are like here1 (); allowed: "),
    ],
)
def test_the_system_of_a_site_that_this_machine_is(
    hostnames: list[list[str]],
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ReFrame would run on its own system without the site's directories, as if there were none."""
    systems = [{"name": f"s{i}", "hostnames": names} for i, names in enumerate(hostnames)]
    file = tmp_path / "site.py"
    file.write_text(f"site_configuration = {{'systems': {systems}}}\n")
    monkeypatch.setattr("socket.gethostname", lambda: "here1")
    monkeypatch.setattr("sys.argv", ["site_reader", str(file)])
    status = site_reader.main()
    said = capsys.readouterr()
    assert (status, said.out) == ((0, found + "\n") if found.startswith("s") else (2, ""))
    assert status == 0 or (found in said.err and said.err.count("\n") == 1)


def command(folder: Path, name: str, output: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\ncat <<'.'\n{output}\n.\n")
    (folder / name).chmod(0o755)


def test_a_site_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command(tmp_path, "sinfo", "batch*|4|16|64000")
    command(tmp_path, "srun", "slurm 22.05")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    site_file.write(site_file.site({"pfs": tmp_path}, "slurm"), tmp_path / "s.py")
    made = runpy.run_path(str(tmp_path / "s.py"))["site_configuration"]
    (partition,) = made["systems"][0]["partitions"]
    assert (partition["scheduler"], partition["launcher"], partition["access"]) == (
        "slurm",
        "srun",
        ["-p batch"],
    )
    assert partition["extras"] == {
        "tiers": "real",
        "pfs": str(tmp_path),
        "nodes": 4,
        "ranks_per_node": 16,
        "memory_bytes": 64000 << 20,
        "per_node": site_file.PER_NODE,
    }


@pytest.mark.parametrize("scheduler", [s for s in site_file.SCHEDULERS if s not in ("local", "slurm")])
def test_a_site_of_another_scheduler(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("qsub", "bsub", "flux"):
        command(tmp_path, name, "")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (partition,) = site_file.site({"pfs": tmp_path}, scheduler)["systems"][0]["partitions"]
    assert (partition["name"], partition["scheduler"]) == ("compute", scheduler)
    assert "nodes" not in partition["extras"] and site_file.undetected(scheduler)


def test_schedulers_are_reframes() -> None:
    folder = Path(reframe.core.schedulers.__path__[0])
    known = {
        n for f in folder.glob("*.py") for n in re.findall(r"@register_scheduler\('(\w+)'", f.read_text())
    }
    assert {*site_file.SCHEDULERS} <= known


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--pfs", "/", "--scheduler", "lsf"), "bsub: is not in PATH"),
        (("--pfs", "/none"), "--pfs: '/none' is not a directory"),
        (("--pfs", "/", "--scheduler", "slurm"), "sinfo: is not in PATH"),
    ],
)
def test_what_is_refused_writes_nothing(
    options: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["site", "init", *options, "-o", str(tmp_path / "s.py")]) == 2
    assert told in capsys.readouterr().err and not (tmp_path / "s.py").exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("mine")
    with pytest.raises(RunError, match="is there already"):
        site_file.write({}, tmp_path / "s.py")
    assert (tmp_path / "s.py").read_text() == "mine"


def test_a_trial_without_a_test_or_with_a_failed_one_is_none(tmp_path: Path) -> None:
    good, bad = {"result": "pass"}, {"result": "fail", "name": "W", "fail_reason": "no\nroom"}
    assert site_file.told_of({"runs": [{"testcases": [good]}]}) == (
        True,
        "the trial: 1 test passed, 0 failed",
    )
    assert site_file.told_of({"runs": [{"testcases": [good, bad]}]})[1].endswith("1 failed; W: no room")
    assert not site_file.told_of({"runs": [{"testcases": [{"result": "skip"}]}]})[0]
    (tmp_path / "job.err").write_text("mpirun: not found\n")
    bad |= {"stagedir": str(tmp_path), "job_stderr": "job.err"}
    assert site_file.told_of({"runs": [{"testcases": [bad]}]})[1].endswith("W: no room; mpirun: not found")


def test_the_trial_runs_on_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not (home() / "build" / "bin" / "tierctl").exists():
        pytest.skip("needs `make build`")
    pfs, out = tmp_path / "pfs", tmp_path / "s.py"
    pfs.mkdir()
    assert main(["site", "init", "--pfs", str(pfs), "-o", str(out)]) == 0
    assert "tests passed, 0 failed" in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pfs", "s.py"] and not list(pfs.iterdir())
    broken = tmp_path / "broken.py"
    broken.write_text(out.read_text().replace("'mpirun'", "'nolauncher'"))
    assert site_file.check(broken)[0] is False


def test_names_that_shells_take_apart_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job script would make, and remove, two other folders."""
    (tmp_path / "a pfs").mkdir()
    (tmp_path / "pfs").mkdir()
    assert main(["site", "init", "--pfs", str(tmp_path / "a pfs"), "-o", str(tmp_path / "s.py")]) == 2
    assert f"--pfs: {tmp_path}/a pfs: its name has a blank" in capsys.readouterr().err
    assert main(["site", "init", "--pfs", str(tmp_path / "pfs"), "-o", str(tmp_path / "a pfs/s.py")]) == 2
    assert f"-o: {tmp_path}/a pfs: its name has a blank" in capsys.readouterr().err
    assert not (tmp_path / "s.py").exists() and not list((tmp_path / "a pfs").iterdir())
