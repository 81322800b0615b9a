"""A signal while the report is made: one line says what is left, and results/latest is as it was.

ReFrame and `tierbench` are stubs here; what a signal does to a run itself is in reframe_tests/tests/jobs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REPORT = """#!/bin/sh
trap 'exit 130' INT
: > "$2/reporting"
for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With programs that measure nothing."""
    shutil.copytree(ROOT / "ci", tmp_path / "ci", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("configs/sites/local.py", "configs/scales/local.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, text in {"python": "#!/bin/sh\n", "tierbench": REPORT}.items():
        (tmp_path / ".venv/bin" / name).write_text(text)
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/latest").symlink_to("runs/before")
    return tmp_path


def start(checkout: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [checkout / "ci/run-webinar"],
        env={**os.environ, "TIERBENCH_RESULTS": str(checkout / "results"), "SITE": "configs/sites/local.py"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (1, 2, 15)] and None,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_report_is_made(checkout: Path, number: signal.Signals) -> None:
    run = start(checkout)
    deadline = time.monotonic() + 60
    while not list(checkout.glob("results/runs/*/reporting")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(run.pid, number)
    told = run.communicate(timeout=60)[1]
    assert run.returncode == 128 + number, told
    assert f"ended by signal {number.value}: results/runs/" in told and told.endswith("is as it was\n")
    assert str((checkout / "results/latest").readlink()) == "runs/before"


def test_a_run_that_is_not_disturbed_is_the_latest(checkout: Path) -> None:
    run = start(checkout)
    assert (run.communicate(timeout=60)[1], run.returncode) == ("", 0)
    assert (checkout / "results/latest/reporting").exists()
