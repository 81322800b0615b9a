"""`tierbench try`: a program of the user's own, through ReFrame, on real directories of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
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
    done = subprocess.run(words(tmp_path, COPY), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "trial" / "answer.json").read_text())
    assert [(row["name"], row["runs"]) for row in found["rows"]] == [("pfs", 2), ("mine", 2)]
    mine = found["rows"][1]
    assert mine["same_outputs"] is True and mine["written_bytes"] == 4 << 20 and mine["read_bytes"] == 1 << 20
    assert mine["spilled_bytes"] == 0 and mine["peak_share"]["ram"] > 0
    assert "can show no difference" in " ".join(found["limits"])
    assert left_in(tmp_path) == []
    report = json.loads((tmp_path / "trial" / "reframe.json").read_text())
    assert report["session_info"]["num_cases"] == 2 and len(report["runs"]) == 2


def test_a_program_that_fails_is_named_before_anything_else(tmp_path: Path) -> None:
    line = words(tmp_path, "import sys; sys.exit('no such model')")
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "the program ended with 1 without Tierbench: no such model" in done.stderr
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """As a terminal does it: all processes of the group get it."""
    trial = subprocess.Popen(
        words(tmp_path, SLEEP),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not (run := running(tmp_path)) and time.monotonic() < deadline and trial.poll() is None:
        time.sleep(0.1)
    assert run, "the program never ran under tierctl"
    os.killpg(trial.pid, number)
    assert trial.wait(90) != 0
    while (left := [*running(tmp_path), *left_in(tmp_path)]) and time.monotonic() < deadline + 60:
        time.sleep(0.1)
    assert left == []


def running(tmp_path: Path) -> list[str]:
    """Processes that work for the trial: the program under tierctl, tierctl, its daemon."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(tmp_path) in told and ("tierd" in told or "tierctl" in told):
            found.append(f"{process.name}: {told}")
    return found
