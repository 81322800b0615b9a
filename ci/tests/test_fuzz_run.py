"""What the runner of the fuzz targets says of a target. A stub that speaks as libFuzzer is the target."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(
    folder: Path, edges: int, status: int = 0, done: str = "Done 8443 runs in 5 second(s)"
) -> tuple[int, str]:
    """Exit status of the runner, and what it prints of the target `device`."""
    said = f"#8192\tNEW    cov: 9 ft: 11\n#8443\tDONE   cov: {edges} ft: 11\n{done}"
    stub = folder / "fuzz_device"
    stub.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {status}\n")
    stub.chmod(0o755)
    command = [sys.executable, f"{ROOT}/engine/tests/fuzz/run.py", f"{folder}", "device", "--seconds", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout


def test_a_target_that_reads_is_counted(tmp_path: Path) -> None:
    status, line = run(tmp_path, 314)
    assert status == 0
    assert "8443 executions, 314 edges, no finding" in line


def test_a_target_that_never_reaches_its_reader_fails(tmp_path: Path) -> None:
    status, line = run(tmp_path, 10)
    assert status == 1
    assert "10 edges, REACHES TOO LITTLE (at least 40 edges)" in line


@pytest.mark.parametrize(("status", "done"), [(77, "Done 8443 runs in 5 second(s)"), (0, "==1== ERROR")])
def test_a_target_that_ends_otherwise_is_a_finding(tmp_path: Path, status: int, done: str) -> None:
    code, line = run(tmp_path, 314, status, done)
    assert code == 1
    assert "FINDING" in line
