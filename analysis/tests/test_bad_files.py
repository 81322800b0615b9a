"""Every file that a command takes, as what it should not be: one message that names it, status 2, no wait."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import darshan_logs
import pytest

from tierbench import cli

SECONDS = 60  # until a command counts as hung
WRITTEN = {
    "empty": b"",
    "binary": bytes(range(256)) * 9,
    "truncated": b'{"session_info": {}, "runs": [{"testcases": [',
    "null": b"null",
    "list": b'[1, {"a": [2]}]',
    "number": b"3",
    "nan": b'{"value": NaN}',
    "other keys": b'{"session_info": 3, "runs": {"a": 1}, "version": "x", "rows": null, "tiers": 3}',
    "other types": b'{"session_info": {"uuid": 1, "time_start_unix": []}, "runs": [{"testcases": [3]}]}',
    "nested": b"[" * 100_000,
    "YAML": b"a: &a [x, *a]\nb: !!python/object/apply:os.system [true]\n",
    "SQLite": b"SQLite format 3\0" + bytes(100),
}
PLACES = ("missing", "directory", "fifo", "loop", "huge", "device")
KINDS = (*WRITTEN, *PLACES)
COMMANDS = (
    "report FILE",
    "list FILE",
    "trace FILE",
    "trace LOG --chrome out.json --stats FILE",
    "compare FILE RUN",
    "compare RUN FILE",
    "compare FILE@5f0c RUN",
    "history * FILE",
    "power FILE --difference 10",
    "try --pfs . --ram 64MiB -c FILE -o new -- true {pfs}",
)
FOLDERS = (
    "try --pfs FILE --ram 64MiB -o new -- true {pfs}",
    "try --pfs . --nvme FILE -o new -- true {pfs}",
    "site init --pfs FILE -o new.py",
    "site init --pfs . --nvme FILE -o new.py",
)
OUTPUTS = (
    "compare RUN RUN --json FILE",
    "compare RUN RUN -o FILE",
    "report RUN -o FILE",
    "history * RUN -o FILE",
    "try --pfs . --ram 64MiB -o FILE -- true {pfs}",
    "site init --pfs . -o FILE",
)
INSIDE = (
    "provenance.json",
    "reframe.json",
    "CASE/case.json",
    "CASE/plan.json",
    "CASE/stats.json",
    "CASE/summary.json",
    "trial.json",
)


@pytest.fixture(autouse=True)
def no_wait() -> Iterator[None]:
    """A command that waits for a fifo fails its test."""

    def hung(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"waits for more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make(kind: str, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind in WRITTEN:
        file.write_bytes(WRITTEN[kind])
    elif kind == "directory":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "huge":
        with file.open("wb") as stream:
            stream.truncate(5 << 30)


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """The message of a command that is refused."""
    try:
        status = cli.main(words)
    except SystemExit as e:  # argparse's own way
        status = int(e.code or 0)
    told = capsys.readouterr().err
    assert status == 2, told
    assert told.count("\n") == 1 and "Traceback" not in told, told
    assert "allowed: " in told or "-c" in words, told  # a configuration is refused in tierctl's words
    return told


def filled(line: str, file: Path, run: Path, log: Path) -> list[str]:
    names = {"FILE": str(file), "FILE@5f0c": f"{file}@5f0c", "RUN": str(run), "LOG": str(log)}
    return [names.get(word, word) for word in line.split()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", COMMANDS)
def test_a_file_to_read(
    line: str,
    kind: str,
    shared_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file, log = tmp_path / "of others" / "file", darshan_logs.strided().write(tmp_path / "app.darshan")
    make(kind, file)
    assert str(file) in refused(capsys, filled(line, file, shared_run, log))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["missing", "empty", "fifo", "loop", "device"])
@pytest.mark.parametrize("line", FOLDERS)
def test_a_folder_to_use(
    line: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make(kind, tmp_path / "file")
    assert str(tmp_path / "file") in refused(capsys, filled(line, tmp_path / "file", tmp_path, tmp_path))
    assert [p.name for p in tmp_path.iterdir()] == ["file"] * (kind != "missing")


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "empty"])
@pytest.mark.parametrize("line", OUTPUTS)
def test_a_file_to_write(
    line: str,
    kind: str,
    shared_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is written whole is renamed into its place: that must never remove what is no file."""
    if kind == ("empty" if "--json" in line else "directory") and "." not in line.split():
        return  # is what is allowed
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "file"
    make(kind, file)
    before = file.lstat()
    assert str(file) in refused(capsys, filled(line, file, shared_run, tmp_path))
    assert (file.lstat().st_ino, file.lstat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("kind", ["empty", "binary", "list", "nested", "directory", "fifo", "huge"])
@pytest.mark.parametrize("name", INSIDE)
def test_a_file_of_a_run_folder(
    name: str, kind: str, shared_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(shared_run, run, symlinks=True)
    case = next(run.glob("cases/*/1"))
    file = run / name.replace("CASE", str(case.relative_to(run)))
    if file.exists():
        file.unlink()
    make(kind, file)
    assert str(run) in refused(capsys, ["report", str(run)])


@pytest.mark.parametrize("line", ["report", "list", "trace", "compare", "history x", "power --difference 9"])
def test_what_may_not_be_read(line: str, tmp_path: Path) -> None:
    """As a user without root's right to read all."""
    without = ["setpriv", "--inh-caps=-dac_override,-dac_read_search"]
    without += ["--bounding-set=-dac_override,-dac_read_search"]
    if os.geteuid():
        without = []
    elif not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    file = tmp_path / "file"
    file.mkdir() if line in ("report", "list") else file.touch()
    file.chmod(0)
    words = [sys.executable, "-m", "tierbench.cli", *line.split(), str(file)]
    done = subprocess.run([*without, *words], capture_output=True, text=True, check=False)
    file.chmod(0o700)
    assert done.returncode == 2 and str(file) in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert "ermission denied" in done.stderr
