"""The same loops on servers of other projects, which die with the test; skipped by name without them."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path

import pytest
from measured import OPERATIONS, SKIPPED, check_rows, program, rows, run

SYSTEMS = [("metadata", "redis"), ("metadata", "memcached"), ("messages", "nats")]
METADATA = ("put", "get", "update", "delete")
N = ("-n", str(OPERATIONS))
PAUSE_S = 0.2


@pytest.mark.parametrize(("processes", "depth"), [(1, 1), (2, 64)])
@pytest.mark.parametrize(("name", "system"), SYSTEMS)
def test_the_same_loop_runs(tmp_path: Path, name: str, system: str, processes: int, depth: int) -> None:
    found = rows(tmp_path, name, system, *N, "-p", str(processes), "-b", str(depth))
    check_rows(found, METADATA if name == "metadata" else ("send",), system, processes, depth)


@pytest.mark.parametrize("system", ["jemalloc", "mimalloc"])
@pytest.mark.parametrize("name", ["memory", "streams"])
def test_another_malloc_answers(tmp_path: Path, name: str, system: str) -> None:
    operation = "take and give" if name == "memory" else "fwrite"
    if not find_library(system):
        pytest.skip(f"there is no library {system}")
    assert run(tmp_path, name, system, *N).returncode == 0
    check_rows(rows(tmp_path, name, system, *N), (operation,), system, 1, 1)


@contextlib.contextmanager
def measuring(folder: Path, name: str, *args: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A measurement under way, and its server's number."""
    made = subprocess.Popen(
        [program(name), *args],
        env=os.environ | {"TMPDIR": str(folder)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield made, server_of(made)
    finally:
        made.kill()
        made.wait()


@pytest.fixture
def running(tmp_path: Path, name: str, system: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A long one."""
    with measuring(tmp_path, name, system, "-n", "100000000") as found:
        yield found


def server_of(made: subprocess.Popen[str]) -> int:
    """Its child that runs another program, once the group is there, too: then it is being measured."""
    for _ in range(2000):
        if made.poll() == SKIPPED:
            assert made.stderr
            pytest.skip(made.stderr.read().strip())
        children = Path(f"/proc/{made.pid}/task/{made.pid}/children").read_text().split()
        servers = [int(c) for c in children if "server" in comm(c) or "memcached" in comm(c)]
        if servers and len(children) > 1:
            return servers[0]
        time.sleep(0.01)
    raise AssertionError("no server was started")


def comm(process: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text()
    return ""


def is_gone(process: int) -> bool:
    for _ in range(1000):
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(("name", "system"), SYSTEMS)
def test_a_server_that_dies_is_an_error(
    tmp_path: Path, system: str, running: tuple[subprocess.Popen[str], int]
) -> None:
    made, server = running
    os.kill(server, signal.SIGKILL)
    assert made.wait(60) == 1
    assert made.stderr
    assert f"tb-components-{'messages' if system == 'nats' else 'metadata'}: {system}:" in made.stderr.read()
    assert is_gone(server)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "system"), SYSTEMS)
def test_answers_that_come_late_are_waited_for(tmp_path: Path, name: str, system: str) -> None:
    """As on a busy machine: libmemcached gives up after 50 ms and takes later answers for other requests'."""
    with measuring(tmp_path, name, system, "-n", "40000", "-p", "2", "-b", "64") as (made, server):
        process = os.pidfd_open(server)  # a number could be another process's by then
        while made.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGSTOP)
                time.sleep(PAUSE_S)
                signal.pidfd_send_signal(process, signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                made.wait(0.1)
        os.close(process)
        assert made.stderr
        assert (made.returncode, made.stderr.read()) == (0, "")


@pytest.mark.parametrize(("name", "system"), SYSTEMS)
def test_a_killed_measurement_takes_all_along(running: tuple[subprocess.Popen[str], int]) -> None:
    made, server = running
    children = [int(c) for c in Path(f"/proc/{made.pid}/task/{made.pid}/children").read_text().split()]
    assert server in children
    made.kill()
    made.wait()
    assert all(is_gone(child) for child in children)
