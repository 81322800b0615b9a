"""Scripts of several programs where the site's Darshan traces them, or a stand-in that is always there."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest
from trace_runs import BUILD, CONFIG, KILLED, RANKS, check, metadata, mpirun, records, traced

from tierbench import trace

STAND_IN = BUILD / "lib" / "libtest_trace_site.so"
WRITES = "import os, sys; os.write(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), b'x' * 100)"


@pytest.fixture(params=[str(STAND_IN), *filter(None, [os.environ.get("DARSHAN_LIB")])])
def runtime(request: pytest.FixtureRequest) -> str:
    """The stand-in, and the real runtime where there is one."""
    return str(request.param)


def script(root: Path, *lines: str) -> Path:
    """A job's script, of which tierctl sees the name only."""
    job = root / "job.sh"
    job.write_text("\n".join(("#!/bin/bash", *lines, "")))
    job.chmod(0o700)
    return job


def logs(root: Path) -> list[str]:
    return sorted(p.name for p in root.glob("*.darshan"))


def ranks(root: Path, how: str, number: int = 2) -> str:
    return f"{mpirun()} -n {number} {RANKS} {root}/pfs {how}"


def program(root: Path, name: str, source: str, *words: str) -> str:
    (root / f"{name}.py").write_text(source)
    return " ".join([sys.executable, f"{root}/{name}.py", f"{root}/pfs/{name}", *words])


@pytest.mark.parametrize("number", [1, 2])
def test_ranks_that_a_script_starts_have_one_log(root: Path, runtime: str, number: int) -> None:
    job = script(root, "date", ranks(root, "well", number), "cat /dev/null")
    done = traced(root, job, DARSHAN_LIB=runtime)
    assert done.returncode == 0 and f"{number} processes, by {runtime}" in done.stderr, done.stderr
    log = trace.read_log(root / "t.darshan")
    assert "tierbench_side" not in log.metadata and RANKS.name in log.executable
    assert logs(root) == ["t.darshan", "t.storage.darshan"]


def test_a_program_that_dies_is_not_hidden_by_a_helper_that_ends_well(root: Path, runtime: str) -> None:
    job = script(root, program(root, "k", KILLED, "SIGKILL"), program(root, "helper", WRITES))
    done = traced(root, job, DARSHAN_LIB=runtime)
    assert f"{runtime} left no log of" in done.stderr and "k.py" in done.stderr, done.stderr
    assert metadata(root / "t.darshan")["tierbench_incomplete"] == "1"
    found = records(root / "t.darshan")
    check(next(v for k, v in found.items() if k[:2] == ("POSIX", "k")), WRITES=1234)
    assert logs(root) == ["t.darshan", "t.storage.darshan"]


def test_programs_that_end_well_have_the_sites_logs(root: Path, runtime: str) -> None:
    job = script(root, program(root, "first", WRITES), program(root, "second", WRITES))
    done = traced(root, job, DARSHAN_LIB=runtime)
    assert done.returncode == 0 and "left no log" not in done.stderr, done.stderr
    found = [trace.read_log(root / name) for name in logs(root) if "storage" not in name]
    assert not any("tierbench_side" in log.metadata for log in found)
    assert len(found) >= 2


@pytest.mark.parametrize("how", ["abort", "kill"])
def test_ranks_that_die_are_not_hidden_by_a_job_that_ends_well(root: Path, runtime: str, how: str) -> None:
    job = script(root, ranks(root, "well"), ranks(root, how), program(root, "helper", WRITES))
    done = traced(root, job, DARSHAN_LIB=runtime)
    assert f"{runtime} left no log of" in done.stderr, done.stderr
    assert metadata(root / "t.darshan")["tierbench_incomplete"] == "1"
    assert ("POSIX", "shared", -1) in records(root / "t.darshan")


def test_ranks_without_mpi_are_in_our_log(root: Path, runtime: str) -> None:
    job = script(root, f"{mpirun()} -n 2 {program(root, 'serial', WRITES)}")
    done = traced(root, job, DARSHAN_LIB=runtime)
    assert done.returncode == 0 and f"{runtime} left no log of" in done.stderr, done.stderr
    assert metadata(root / "t.darshan")["tierbench_side"] == "application"
    check(records(root / "t.darshan")["POSIX", "serial", -1], WRITES=2)


def test_places_that_darshan_leaves_out_are_recorded_all_the_same(runtime: str) -> None:
    """A PFS below /var: runtimes from 3.4 on learn of it by a file, which none of the user's gives way to."""
    with tempfile.TemporaryDirectory(prefix="tierbench.+trace-", dir="/var/tmp") as folder:
        root = Path(folder)
        for place in ("pfs", "nvme"):
            (root / place).mkdir()
        (root / "c.yaml").write_text(CONFIG.format(root=root))
        job = script(
            root, f'cp "$DARSHAN_CONFIG_PATH" {shlex.quote(f"{root}/names")}', program(root, "first", WRITES)
        )
        done = traced(root, job, DARSHAN_LIB=runtime)
        assert done.returncode == 0, done.stderr
        said = (root / "names").read_text().splitlines()
        assert any(re.match(line.split()[1], f"{root}/pfs/first") for line in said), said
        assert not any(re.match(line.split()[1], "/var/log/x") for line in said)
        if runtime != str(STAND_IN):
            assert any(k[:2] == ("POSIX", "first") for name in logs(root) for k in records(root / name))
        theirs = traced(root, job, DARSHAN_LIB=runtime, DARSHAN_CONFIG_PATH="/dev/null")
        assert theirs.returncode == 0 and (root / "names").read_text() == ""
