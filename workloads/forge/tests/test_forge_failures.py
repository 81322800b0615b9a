"""What fails is never told to be done: a full file system, an I/O node that dies or hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from driver import BIN, LIMIT_S, MPIEXEC
from forwarding_runs import RESULT, Forge, phases

LIMIT_OF_A_DEATH_S = 10


@pytest.fixture
def forge(folder: Path) -> Forge:
    return Forge(folder)


def may_mount() -> bool:
    done = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.skipif(not may_mount(), reason="no user namespaces here")
@pytest.mark.parametrize("io_nodes", [0, 1])
def test_a_full_file_system_is_an_error(forge: Forge, io_nodes: int) -> None:
    small = forge.folder / "small"
    small.mkdir()
    forge.scenario(json.dumps(phases(io_nodes, "write")).replace('"path": "f"', f'"path": "{small}/f"'))
    script = f'mount -t tmpfs -o size=256k tmpfs {small} && exec "$@"'
    words = ["unshare", "-rm", "sh", "-c", script, "sh", MPIEXEC, "-n", "2", forge.program]
    done = subprocess.run(
        [*words, "scenario.json", str(forge.folder)],
        cwd=forge.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert f"{small}/f: write at offset " in done.stderr
    assert "No space left on device" in done.stderr
    assert forge.names() == ["scenario.json", "small"]
    assert " requests" not in done.stdout


def rank_0(launcher: int) -> int:
    """The process of that rank, when it is there."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            try:
                if b"\0OMPI_COMM_WORLD_RANK=0\0" in Path(f"/proc/{child}/environ").read_bytes():
                    return int(child)
            except OSError:  # it has just ended
                continue
        time.sleep(0.05)
    raise AssertionError("rank 0 does not start")


@pytest.mark.parametrize("aggregate", [1, 8])
def test_a_slow_file_system_is_no_dead_io_node(forge: Forge, aggregate: int) -> None:
    """One write, after quick ones, takes longer than clients wait for a sign of life."""
    slow = BIN.with_name("lib") / "libforge_slow.so"
    found = forge.result(
        phases(1, "write", total_size=2 << 20, request_size=1 << 15),
        2,
        f"--aggregate {aggregate}",
        before=("env", f"LD_PRELOAD={slow}", "TB_SLOW_S=9"),
    )
    (write,) = found["patterns"]
    assert write["seconds"]["max"] > 9
    assert write["requests"] == 64
    assert found["forwarding"][0]["write_calls"] <= 64


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["dead", "hung"])
def test_the_end_of_an_io_node_is_an_error_at_the_clients(forge: Forge, blow: signal.Signals) -> None:
    forge.scenario(phases(1, "write", total_size=1 << 40, stone_wall=LIMIT_S, validation=0))
    file = forge.folder / "f"
    with subprocess.Popen(
        [MPIEXEC, "-n", "2", forge.program, "scenario.json", str(forge.folder)],
        cwd=forge.folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        node = rank_0(run.pid)
        while not (file.exists() and file.stat().st_size):
            time.sleep(0.02)
        os.kill(node, blow)
        mercy = threading.Timer(LIMIT_OF_A_DEATH_S + 2, os.kill, (node, signal.SIGKILL))  # then the run ends
        mercy.start()
        began = time.monotonic()
        assert run.stderr is not None
        told = run.stderr.readline()
        while told and blow == signal.SIGSTOP and "it gives no sign of life (I/O node 0)" not in told:
            told = run.stderr.readline()
        took = time.monotonic() - began
        mercy.cancel()
        rest, _ = run.communicate(timeout=LIMIT_S)
    assert told
    assert took < LIMIT_OF_A_DEATH_S
    assert run.returncode != 0
    assert rest == ""
    assert not (forge.folder / RESULT).exists()
