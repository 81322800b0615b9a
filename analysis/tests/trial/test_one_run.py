"""One run of a trial: its folder, what a signal leaves, and what is left where bytes could not be written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tierbench.base import endings
from tierbench.base.endings import SIGNALS, EndedError
from tierbench.base.errors import RunError
from tierbench.trial import left_processes, one_run, results
from tierbench.trial.plan import Trial
from tierbench.trial.working_folder import WorkingFolder

# Ignores all signals that end.
STUBBORN = """
import signal, sys, time
for n in (1, 2, 15):
    signal.signal(n, signal.SIG_IGN)
open(sys.argv[1] + '.up', 'w').close()
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """As in a terminal: a shell's background job ignores SIGINT."""
    given = {n: signal.signal(n, signal.SIG_DFL) for n in SIGNALS}
    yield
    for number, handler in given.items():
        signal.signal(number, handler)


def a_trial(tmp_path: Path, *command: str, tierctl: str = "/bin/true", **changes: Any) -> Path:
    """The file of a trial below `tmp_path`."""
    (tmp_path / "pfs").mkdir(exist_ok=True)
    words: dict[str, Any] = {"inputs": (), "read_only": (), **changes}
    (tmp_path / "ram.yaml").write_text("")
    trial = Trial(command=command, directory=str(tmp_path), pfs=str(tmp_path / "pfs"),
                  folder=str(tmp_path / "pfs" / "run"), configurations={"ram": str(tmp_path / "ram.yaml")},
                  repetitions=1, tierctl=tierctl, **words)  # fmt: skip
    return trial.write(tmp_path)


def tierctl(folder: Path, status: int, *, lives: bool, stats: bool = True) -> str:
    """A tierctl that ends with this status; `lives`: its instance is there then."""
    program = folder / "tierctl"
    keep = f'echo \'{{"instance": "run-1", "mode": "persistent-async", "errors": []}}\' > {folder}/stats.json'
    program.write_text(f"#!/bin/sh\n[ $1 = status ] && exit {0 if lives else 1}\n{keep if stats else ':'}\n"
                       f"echo x > {folder}/pfs/run/out\nexit {status}\n")  # fmt: skip
    program.chmod(0o755)
    return str(program)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="none/run: cannot be made: No such file"):
        WorkingFolder(tmp_path, tmp_path / "none" / "run", [], []).__enter__()


def test_a_signal_in_the_middle_of_a_copy_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    for name in "ab":
        (tmp_path / "data" / name).write_bytes(b"x" * 64)
    monkeypatch.setattr("tierbench.trial.working_folder._PIECE", 16)
    real = shutil.copystat

    def copystat(source: Any, target: Any, **more: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        real(source, target, **more)

    monkeypatch.setattr(shutil, "copystat", copystat)
    made = WorkingFolder(tmp_path, tmp_path / "run", ["data"], [])
    with pytest.raises(EndedError), endings.noted(), made:
        pytest.fail("the run began after the signal")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data"]


def test_a_signal_while_the_folder_is_made_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.rmtree
    made = WorkingFolder(tmp_path, tmp_path / "run", [], [])

    def rmtree(*words: Any, **more: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real(*words, **more)

    with pytest.raises(EndedError), endings.noted(), made:
        (tmp_path / "run" / "file").write_text("x")
        monkeypatch.setattr(shutil, "rmtree", rmtree)
    assert not (tmp_path / "run").exists()


def test_what_was_made_read_only_is_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is for a user other than root: a closed folder keeps what is in it."""
    real = shutil.rmtree

    def rmtree(folder: Path, onerror: Any) -> None:
        closed = [p for p in folder.rglob("*") if p.is_dir() and p.stat().st_mode & 0o700 != 0o700]
        if closed:
            onerror(
                os.scandir, str(closed[0]), (PermissionError, PermissionError(13, "Permission denied"), None)
            )
        else:
            real(folder, onerror=onerror)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with WorkingFolder(tmp_path, tmp_path / "run", [], []) as work:
        (work.folder / "closed").mkdir()
        (work.folder / "closed" / "file").write_text("x")
        (work.folder / "closed").chmod(0)
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_removed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unlink(path: str, **_: Any) -> None:
        raise OSError(16, "Device or resource busy", path)

    with WorkingFolder(tmp_path, tmp_path / "run", [], []) as work:
        (work.folder / "file").write_text("x")
        monkeypatch.setattr(os, "unlink", unlink)
    assert f"{tmp_path / 'run'}: is left, it cannot be removed: " in capsys.readouterr().err


def test_outputs_that_cannot_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.open

    def refused(path: Any, *words: Any, **more: Any) -> int:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *words, **more)

    monkeypatch.setattr(os, "open", refused)
    monkeypatch.chdir(tmp_path)
    file = a_trial(tmp_path, "sh", "-c", "echo x > {pfs}/secret")
    assert one_run.main([str(file), "bare"]) == 2
    said = capsys.readouterr().err
    assert "run/secret: cannot be written back: Permission denied; allowed" in said
    assert not (tmp_path / "pfs" / "run").exists()


@pytest.mark.parametrize("status", [3, 1])
def test_where_bytes_are_missing_the_folder_stays(
    tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = a_trial(tmp_path, "p", tierctl=tierctl(tmp_path, status, lives=True))
    assert one_run.main([str(file), "ram"]) == status
    said = capsys.readouterr().err
    assert (tmp_path / "pfs" / "run" / "out").exists() and f"{tmp_path}/pfs/run: is kept: " in said
    assert "`tierctl stop -i run-1`" in said and f"`tierctl recover -c {tmp_path / 'ram.yaml'}`" in said
    assert one_run.main([str(file), "ram"]) == 2
    assert "is there already; allowed: " in capsys.readouterr().err
    assert (tmp_path / "pfs" / "run" / "out").exists()


def test_a_program_that_fails_with_3_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = a_trial(tmp_path, "p", tierctl=tierctl(tmp_path, 3, lives=False))
    assert one_run.main([str(file), "ram"]) == 3
    assert not (tmp_path / "pfs" / "run").exists()
    assert results.read(tmp_path / "run.json").exit_status == 3


def test_where_tierctl_is_killed_the_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = a_trial(tmp_path, "p", tierctl=tierctl(tmp_path, 137, lives=False, stats=False))
    one_run.main([str(file), "ram"])
    assert (tmp_path / "pfs" / "run" / "out").exists() and "`tierctl gc`" in capsys.readouterr().err


@pytest.mark.parametrize("number", SIGNALS)
def test_a_program_that_hears_no_signal_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    file = a_trial(tmp_path, sys.executable, "-c", STUBBORN, str(tmp_path / "pid"), "{pfs}")
    code = "from tierbench.trial import one_run as o; o._PATIENCE_S = 0.3; "
    code += f"o.main([{str(file)!r}, 'bare'])"
    run = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid.up").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    run.send_signal(number)
    told = run.communicate(timeout=60)[1]
    assert "is killed" in told and f"ended by {number.name}" in told
    assert not (tmp_path / "pfs" / "run").exists()


def test_the_programs_of_tierctl_are_its_children() -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        assert (child.pid, "sleep") in left_processes.children(os.getpid())
    finally:
        child.kill()
        child.wait()


LEAVES = """
import os, signal, sys, time
for n in range(2):
    if os.fork() == 0:
        os.setsid()
        if n:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif os.fork():
            os._exit(0)
        open(sys.argv[1] + f'/up{n}', 'w').close()
        while True:
            open(sys.argv[1] + f'/{time.time()}', 'w').close()
            time.sleep(0.01)
while len(os.listdir(sys.argv[1])) < 4:
    time.sleep(0.01)
"""


def test_processes_that_go_on_are_ended_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other sessions, orphans, and those that hear no SIGTERM; not those of others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(left_processes, "_PATIENCE_S", 0.3)
    with subprocess.Popen(["sleep", "600"]) as other:
        assert one_run.main([str(a_trial(tmp_path, sys.executable, "-c", LEAVES, "{pfs}")), "bare"]) == 0
        assert other.poll() is None
        other.kill()
    assert len(results.read(tmp_path / "run.json").left_processes) == 2
    assert not (tmp_path / "pfs" / "run").exists()
    assert not [p for p, _ in left_processes.children(os.getpid()) if p != other.pid]


def test_servers_of_mpi_are_ended_and_not_blamed_on_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is started without mpirun starts `orted`, which ends a moment after it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy("/bin/sleep", tmp_path / "orted")
    line = f"{tmp_path}/orted 600 & a=$!; sleep 600 & b=$!; echo > {{pfs}}/out; "
    line += "until grep -q orted /proc/$a/comm && grep -q sleep /proc/$b/comm; do sleep 0.01; done"
    assert one_run.main([str(a_trial(tmp_path, "sh", "-c", line)), "bare"]) == 0
    assert results.read(tmp_path / "run.json").left_processes == ["sleep"]
    assert not left_processes.children(os.getpid())


def test_the_record_of_a_good_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pfs").mkdir()
    (tmp_path / "pfs" / "data").write_bytes(bytes(10_000))
    line = "head -c 5000 {pfs}/data > {pfs}/out; truncate -s 1G {pfs}/hole"
    assert one_run.main([str(a_trial(tmp_path, "sh", "-c", line, inputs=("data",))), "bare"]) == 0
    record = json.loads((tmp_path / "run.json").read_text())
    assert list(record["outputs"]) == ["data", "hole", "out"] and record["new_bytes"] == 5000
