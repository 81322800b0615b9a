"""A run that is ended by a signal leaves no daemon, no rank and no folder, and results/latest as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from common.sites.tiers import ROOT


def environment(process: Path) -> dict[str, str]:
    """Of a process, as it was started; nothing where it has ended."""
    try:
        told = (process / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in told.split("\0") if "=" in word)


def of_the_run(results: Path) -> dict[str, dict[str, str]]:
    """Processes of the run in `results`, with their environment."""
    found = {p.name: environment(p) for p in Path("/proc").glob("[0-9]*")}
    return {name: env for name, env in found.items() if str(results) in env.get("TIERBENCH_RUN_DIR", "")}


def shared_memory() -> set[str]:
    """Names of all that is there."""
    return {f.name for f in Path("/dev/shm").iterdir()}


def in_shared_memory(processes: dict[str, dict[str, str]], before: set[str]) -> list[str]:
    """What they left of regions, of folders of the twin, and of Open MPI's segments.

    `before`: what was there already. An older process may have had the same number.
    """
    jobs = {
        int(env["OMPI_MCA_ess_base_jobid"]) for env in processes.values() if "OMPI_MCA_ess_base_jobid" in env
    }
    ours = [f".run-{pid}-" for pid in processes] + [f".{job:x}." for job in jobs]
    return [name for name in shared_memory() - before if any(part in name for part in ours)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    if not (ROOT / "build" / "bin" / "tierctl").exists():
        pytest.skip("needs `make build`")
    (tmp_path / "latest").symlink_to("runs/before")
    before = shared_memory()
    run = subprocess.Popen(
        [ROOT / "ci" / "run-webinar"],
        env={**os.environ, "TIERBENCH_RESULTS": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # under nohup no shell could trap it
    )
    root, deadline = None, time.monotonic() + 120
    while not root and time.monotonic() < deadline and run.poll() is None:
        time.sleep(0.1)
        started = [env for env in of_the_run(tmp_path).values() if "OMPI_COMM_WORLD_RANK" in env]
        root = next((env["TB_ROOT"] for env in started if "TB_ROOT" in env), None)
    assert root, "no rank was ever started"
    running = of_the_run(tmp_path)
    assert in_shared_memory(running, before), "the ranks have no segments yet: the test would see nothing"
    os.killpg(run.pid, number)
    assert run.wait(150) == 128 + number
    while (left := of_the_run(tmp_path)) and time.monotonic() < deadline + 60:
        time.sleep(0.1)
    assert left == {}
    assert in_shared_memory(running, before) == []
    assert not Path(root).exists()
    assert str((tmp_path / "latest").readlink()) == "runs/before"
    assert run.stderr and "results/latest is as it was" in run.stderr.read()
