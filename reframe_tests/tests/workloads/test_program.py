"""`tierbench try`: a program of the user's own, through ReFrame, on real directories of this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from common.sites.tiers import ROOT

CONFIG = """\
version: 1
pfs: {{path: {pfs}}}
fsync: pfs
tiers:
  - {{name: ram, medium: memory, capacity: 64MiB}}
"""
COPY = "import sys; d = open(sys.argv[1], 'rb').read(); open(sys.argv[2], 'wb').write(d * 4)"
# Under tierctl it sleeps; the bare run before that ends at once.
SLEEP = """
import os, sys, time
open(sys.argv[2], 'wb').write(b'x')
time.sleep(600 if 'LD_PRELOAD' in os.environ else 0)
"""


def words(tmp_path: Path, program: str) -> list[str]:
    """The command line; the PFS has one input."""
    pfs = tmp_path / "pfs"
    pfs.mkdir()
    (pfs / "data").write_bytes(os.urandom(1 << 20))
    (tmp_path / "mine.yaml").write_text(CONFIG.format(pfs=pfs))
    line = [
        sys.executable,
        "-m",
        "tierbench.cli",
        "try",
        "--pfs",
        str(pfs),
        "-c",
        str(tmp_path / "mine.yaml"),
    ]
    line += ["-n", "2", "-o", str(tmp_path / "trial"), "--"]
    return [*line, sys.executable, "-c", program, "{pfs}/data", "{pfs}/out"]


def left_in(tmp_path: Path) -> list[str]:
    """What is below the PFS beside its input."""
    return sorted(p.name for p in (tmp_path / "pfs").iterdir() if p.name != "data")


@pytest.fixture(autouse=True)
def _built() -> None:
    if not (ROOT / "build" / "bin" / "tierctl").exists():
        pytest.skip("needs `make build`")


def test_a_program_is_run_and_answered(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        words(tmp_path, COPY),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
    )
    assert done.returncode == 0 and "WARNING" not in done.stdout + done.stderr, done.stdout + done.stderr
    found = json.loads((tmp_path / "trial" / "answer.json").read_text())
    assert [(row["name"], row["runs"]) for row in found["rows"]] == [("pfs", 2), ("mine", 2)]
    mine = found["rows"][1]
    assert mine["same_outputs"] is True and mine["written_bytes"] == 4 << 20 and mine["read_bytes"] == 1 << 20
    assert mine["spilled_bytes"] == 0 and mine["peak_share"]["ram"] > 0
    assert "can show no difference" in " ".join(found["limits"])
    assert left_in(tmp_path) == []
    report = json.loads((tmp_path / "trial" / "reframe.json").read_text())
    assert report["session_info"]["num_cases"] == 2 and len(report["runs"]) == 2
    assert list((tmp_path / "tmp").iterdir()) == [] and list((tmp_path / "trial").glob("rfm-*.log"))


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here")
def test_an_mpi_program_is_run_and_answered(tmp_path: Path) -> None:
    """By mpirun itself, of root too: what Open MPI asks of root is not in this environment."""
    line = words(tmp_path, "")
    ior = [str(ROOT / "build/bin/tb-ior"), *"-a MPIIO -w -r -k -G 1 -t 64k -b 1m -o {pfs}/out".split()]
    line = [*line[: line.index("--") + 1], "mpirun", "-n", "2", "--oversubscribe", *ior]
    bare = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_")}
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, env=bare)
    assert done.returncode == 0, done.stdout + done.stderr
    mine = json.loads((tmp_path / "trial" / "answer.json").read_text())["rows"][1]
    assert mine["same_outputs"] is True and mine["written_bytes"] == mine["read_bytes"] == 2 << 20
    assert mine["spilled_bytes"] == 0 and mine["peak_share"]["ram"] > 0
    assert left_in(tmp_path) == []


def test_a_pfs_with_a_blank_behind_a_link(tmp_path: Path) -> None:
    line = words(tmp_path, COPY)
    (tmp_path / "pfs").rename(tmp_path / "a pfs")
    (tmp_path / "pfs").symlink_to("a pfs")
    line[line.index("-n") + 1] = "1"
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "trial" / "answer.json").read_text())["rows"][1]
    assert found["same_outputs"] is True and found["written_bytes"] == 4 << 20 and not found["spilled_bytes"]
    assert left_in(tmp_path) == []


def test_a_program_that_fails_is_named_before_anything_else(tmp_path: Path) -> None:
    line = words(tmp_path, "import sys; sys.exit('no such model')")
    line[line.index("-c") : line.index("-c")] = ["--ram", "64MiB"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "the program ended with 1 without Tierbench: no such model" in done.stderr
    assert "measuring" not in done.stderr
    assert left_in(tmp_path) == []


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    line = words(tmp_path, "")
    at = line.index("--")
    line[at:] = ["--ram", "64MiB", "--", "./none", "{pfs}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "tierbench: ./none: cannot be started: No such file or directory (" in done.stderr


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """As a terminal does it: all processes of the group get it."""
    started, told = ended(
        tmp_path, words(tmp_path, SLEEP), number, lambda: any("tierd" in p for p in running(tmp_path))
    )
    assert started, "the program never ran under tierctl"
    assert f"nothing is left but {tmp_path / 'trial'}" in told


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_the_bare_run(tmp_path: Path, number: signal.Signals) -> None:
    program = SLEEP.replace("600 if", "0 if").replace("else 0", "else 600")
    started, told = ended(tmp_path, words(tmp_path, program), number, lambda: out_is_there(tmp_path))
    assert started, "the bare run never began"
    assert f"nothing is left but {tmp_path / 'trial'}" in told


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_places_are_measured(tmp_path: Path, number: signal.Signals) -> None:
    line = words(tmp_path, SLEEP)
    line[line.index("-c") : line.index("-c") + 2] = ["--ram", "64MiB"]
    there = lambda: any(name.startswith("tierbench.profile") for name in left_in(tmp_path))  # noqa: E731
    started, told = ended(tmp_path, line, number, there)
    assert started, "the PFS was never measured"
    assert f"nothing is left but {tmp_path / 'trial'}" in told


def test_where_bytes_cannot_be_written_they_are_kept(tmp_path: Path) -> None:
    """The PFS refuses what the tiers hold: the folder and the instance stay, and a line says how to go on."""
    program = "import os, sys; os.write(os.open(sys.argv[2], 0o101), b'x' * 5000)"  # no close that flushes
    fault = {"TB_FAULT": f"op=pwrite,errno=EIO,count=0,path={tmp_path}/pfs"}
    done = subprocess.run(
        words(tmp_path, program),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | fault,
    )
    (folder,) = [tmp_path / "pfs" / name for name in left_in(tmp_path)]
    assert f"{folder} is left" in done.stderr
    told = next(line for line in (done.stdout + done.stderr).split("\n") if "is kept" in line)
    name = re.search(r"tierctl stop -i (run-[^`]*)`", told)
    assert name and f"tierctl recover -c {tmp_path / 'mine.yaml'}" in told
    ctl = ROOT / "build" / "bin" / "tierctl"
    subprocess.run([ctl, "stop", "-i", name[1]], check=True)
    assert (folder / "out").read_bytes() == b"x" * 5000


def out_is_there(tmp_path: Path) -> bool:
    return any((tmp_path / "pfs").glob("*/out"))


def ended(
    tmp_path: Path, line: list[str], number: signal.Signals, started: Callable[[], bool]
) -> tuple[bool, str]:
    """Send the signal when it has started; nothing is left then, no answer is given. Returns what is said."""
    trial = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a shell's background job ignores SIGINT
    )
    deadline = time.monotonic() + 120
    while not (ran := started()) and time.monotonic() < deadline and trial.poll() is None:
        time.sleep(0.05)
    os.killpg(trial.pid, number)
    try:
        out, told = trial.communicate(timeout=90)
    finally:
        trial.terminate()  # where it goes on
    assert trial.returncode == 128 + number, told
    assert "Traceback" not in told and "Written:" not in out and not (tmp_path / "trial/answer.json").exists()
    assert [*running(tmp_path), *left_in(tmp_path)] == []
    (said,) = [line for line in told.split("\n") if "ended by" in line]
    assert number.name in said
    return ran, said


def running(tmp_path: Path) -> list[str]:
    """Processes that work for the trial: the program under tierctl, tierctl, its daemon."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(tmp_path) in told and any(name in told for name in ("tierd", "tierctl", "one_run")):
            found.append(f"{process.name}: {told}")
    return found
