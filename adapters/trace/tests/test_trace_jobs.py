"""Scripts of several programs where the site's Darshan traces; and a stand-in for it, without which nothing would be checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trace_runs import BUILD, RANKS, mpirun, traced

from tierbench import trace

STAND_IN = BUILD / "lib" / "libtest_trace_site.so"


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


def ranks(root: Path, how: str, number: int = 2) -> str:
    return f"{mpirun()} -n {number} {RANKS} {root}/pfs {how}"


@pytest.mark.parametrize("number", [2, 3])
def test_ranks_that_a_script_starts_have_one_log(root: Path, runtime: str, number: int) -> None:
    job = script(root, "date", ranks(root, "well", number), "cat /dev/null")
    done = traced(root, job, DARSHAN_LIB=runtime)
    assert done.returncode == 0 and f"{number} processes, by {runtime}" in done.stderr, done.stderr
    log = trace.read_log(root / "t.darshan")
    assert "tierbench_side" not in log.metadata and RANKS.name in log.executable
