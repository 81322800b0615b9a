"""The engine's own side of the components, malloc, and what is refused: needs no server."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from measured import OPERATIONS, SKIPPED, check_rows, program, rows, run

N = ("-n", str(OPERATIONS))
METADATA = ("put", "get", "update", "delete")


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("system", ["engine", "glibc"])
def test_buffers_are_taken_and_given(tmp_path: Path, system: str, processes: int) -> None:
    found = rows(tmp_path, "memory", system, *N, "-p", str(processes))
    check_rows(found, ("take and give",), system, processes, 1)


@pytest.mark.parametrize("system", ["files", "glibc"])
def test_streams_are_written(tmp_path: Path, system: str) -> None:
    check_rows(rows(tmp_path, "streams", system, *N, "-p", "2"), ("fwrite",), system, 2, 1)


@pytest.mark.parametrize(("processes", "depth"), [(1, 1), (2, 64)])
def test_records_are_kept(tmp_path: Path, processes: int, depth: int) -> None:
    found = rows(tmp_path, "metadata", "engine", *N, "-p", str(processes), "-b", str(depth))
    check_rows(found, METADATA, "engine", processes, depth)
    assert found[2]["bytes"] > 0


@pytest.mark.parametrize(("processes", "depth"), [(1, 1), (2, 64)])
def test_messages_arrive(tmp_path: Path, processes: int, depth: int) -> None:
    found = rows(tmp_path, "messages", "engine", *N, "-p", str(processes), "-b", str(depth))
    check_rows(found, ("send",), "engine", processes, depth)
    latencies = [found[0]["latency_us"][share] for share in ("50", "90", "99", "99.9")]
    assert 0 < latencies[0] <= latencies[1] <= latencies[2] <= latencies[3]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("engine", "-n", "5"), "-n 5; allowed: operations, 10 to"),
        (("engine", "-n", "1e6"), "-n 1e6; allowed: operations, 10 to"),
        (("engine", "-n", "1010", "-p", "2"), "a multiple of 10 times the processes"),
        (("engine", "-p", "0"), "-p 0; allowed: processes, 1 to 64"),
        (("engine", "-b", "0"), "-b 0; allowed: requests under way at once, 1 to 4096"),
        (("etcd",), "SYSTEM etcd; allowed: engine, redis, memcached"),
        ((), "SYSTEM is not one word; allowed: engine, redis, memcached"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, args: tuple[str, ...], told: str) -> None:
    done = run(tmp_path, "metadata", *args)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("name", "system", "server"),
    [
        ("metadata", "redis", "redis-server"),
        ("metadata", "memcached", "memcached"),
    ],
)
def test_a_missing_server_is_named(tmp_path: Path, name: str, system: str, server: str) -> None:
    done = run(tmp_path, name, system, *N, environment={"PATH": "/nowhere"})
    assert done.returncode == SKIPPED
    assert f"there is no program {server}" in done.stderr or "this was built without" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_ended_measurement_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    running = subprocess.Popen(
        [program("metadata"), "engine", "-n", "1000000"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    own = wait_for_region(tmp_path)
    running.send_signal(number)
    assert running.wait(60) == 128 + number
    assert list(tmp_path.iterdir()) == []
    assert not regions_of(own)


def wait_for_region(folder: Path) -> str:
    """The name of the measurement's folder, which its instance has, too."""
    for _ in range(2000):
        for made in folder.iterdir():
            if regions_of(made.name):
                return made.name
        time.sleep(0.01)
    raise AssertionError("no instance was made")


def regions_of(instance: str) -> list[Path]:
    return [x for x in Path("/dev/shm").iterdir() if x.name.endswith(f".{instance}")]
