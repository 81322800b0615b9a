"""Running one of the programs of components, for their tests."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(os.environ.get("TB_BUILD_DIR", Path(__file__).resolve().parents[4] / "build"))
BIN = BUILD / "bin"
SKIPPED = 77
PARTS = 10
OPERATIONS = 2000


def program(name: str) -> Path:
    return BIN / f"tb-components-{name}"


def run(
    folder: Path, name: str, *args: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """With all that it makes in `folder`, which must be empty afterwards."""
    env = os.environ | {"TMPDIR": str(folder)} | (environment or {})
    done = subprocess.run([program(name), *args], capture_output=True, text=True, timeout=100, env=env)
    assert list(folder.iterdir()) == [], "something is left"
    return done


def rows(folder: Path, name: str, *args: str) -> list[dict[str, Any]]:
    """What it printed; the test is skipped by the program's own words where it lacks the system."""
    done = run(folder, name, *args)
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_rows(
    found: list[dict[str, Any]], operations: tuple[str, ...], system: str, processes: int, depth: int
) -> None:
    assert [row["operation"] for row in found] == list(operations)
    for row in found:
        asked = (row["system"], row["processes"], row["depth"], row["operations"])
        assert asked == (system, processes, depth, OPERATIONS)
        assert len(row["ops_per_s"]) == PARTS
        assert min(row["ops_per_s"]) > 0
        assert row["cpu_us"]["client"] > 0
        assert (row["cpu_us"]["server"] > 0) == (system in ("redis", "memcached", "nats"))
