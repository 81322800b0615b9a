"""A command starts without the libraries that it does not use: they take seconds to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("jinja2", "jsonschema", "matplotlib", "numpy", "pandas", "polars", "scikit_posthocs", "scipy")
TOLD = f"""
import sys
from tierbench.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as e:
    status = e.code or 0
print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules))
sys.exit(status)
"""


def loaded(*words: str | Path) -> set[str]:
    """Those of `HEAVY` that a command of this line has loaded when it is done."""
    done = subprocess.run(
        [sys.executable, "-c", TOLD, *map(str, words)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["try", "--help"],
        ["help", "--man"],
        ["compare", "--help"],
    ],
)
def test_help_loads_nothing(words: list[str]) -> None:
    assert loaded(*words) == set()


def test_what_needs_no_arithmetic_loads_none() -> None:
    assert loaded("recipes") == {"jsonschema"}
    assert loaded("project") == {"jsonschema"}


def test_list_and_compare_load_no_drawing_and_no_scipy(run_folder: Path) -> None:
    arithmetic = {"jsonschema", "numpy", "pandas"}
    assert loaded("list", run_folder.parent.parent) == arithmetic
    assert loaded("compare", run_folder, run_folder) == arithmetic
    assert {"matplotlib", "jinja2", "polars"} <= loaded("report", run_folder)
