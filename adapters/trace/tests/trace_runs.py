"""Traced runs, and their logs read back with PyDarshan."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from darshan.backend import cffi_backend

from tierbench import trace

BUILD = Path(__file__).resolve().parents[3] / "build"
TIERCTL = BUILD / "bin" / "tierctl"
CALLS, RANKS = BUILD / "bin" / "test_trace_calls", BUILD / "bin" / "test_trace_ranks"
MODULES = ("POSIX", "MPI-IO", "STDIO")
CONFIG = """version: 1
max_files: 8192
pfs: {{path: {root}/pfs}}
fsync: tier
allow_volatile: true
tiers:
  - {{name: ram, medium: memory, capacity: 48MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
  - name: nvme
    medium: directory
    path: {root}/nvme
    capacity: 16MiB
    block: 64KiB
    slabs: [{{units: 1, share: 1.0}}]
"""
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
SECONDS = 60

Records = dict[tuple[str, str, int], dict[str, float]]


def traced(
    root: Path,
    *command: str | Path,
    mode: str = "persistent-async",
    out: str = "t.darshan",
    stats: str = "",
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command under `tierctl run --trace`."""
    kept = ("--stats", str(root / stats)) if stats else ()
    made = ["--trace", str(root / out), *kept]
    run = [TIERCTL, "run", "-c", root / "c.yaml", "--mode", mode, *made, "--", *command]
    environment = {k: v for k, v in os.environ.items() if k != "DARSHAN_LIB"} | MPI | more
    return subprocess.run(run, capture_output=True, text=True, timeout=SECONDS, env=environment)


def records(log: Path) -> Records:
    """Every counter by module, last part of the file's name, and rank; PyDarshan's own reader."""
    handle = cffi_backend.log_open(str(log))
    names = cffi_backend.log_get_name_records(handle)
    cffi_backend.log_close(handle)
    handle, found = cffi_backend.log_open(str(log)), {}
    for module in {*MODULES} & cffi_backend.log_get_modules(handle).keys():
        while record := cffi_backend.log_get_record(handle, module, "dict"):
            values = {**record["counters"], **record["fcounters"]}
            short = {k.split("_", 1)[1]: v for k, v in values.items()}
            found[module, Path(names[record["id"]]).name, int(record["rank"])] = short | {"ID": record["id"]}
    cffi_backend.log_close(handle)
    return found


def metadata(log: Path) -> dict[str, str]:
    return trace.read_log(log).metadata


def check(values: dict[str, float], **expected: float) -> None:
    assert {name: values[name] for name in expected} == expected


KILLED = """
import os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
for i in range(1234):
    os.pwrite(fd, b"x" * 100, i * 100)
os.kill(os.getpid(), getattr(signal, sys.argv[2]))
"""


def mpirun() -> str:
    program = shutil.which("mpirun")
    if program is None:
        pytest.skip("mpirun is not on PATH")
    return program
