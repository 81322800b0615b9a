"""docs/first-hour.md: its program and its commands as they are printed, with the checkout's programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "first-hour.md").read_text()


def commands() -> list[str]:
    """Of the page's indented lines those outside its blocks of code; `make build` is what this test needs."""
    outside = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    found = [line.strip() for line in outside.splitlines() if line.startswith("    ")]
    assert found[0] == "make build"
    return found[1:]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "model.py").write_text(program)
    for name in ("build", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_the_pages_pictures_are_there() -> None:
    pictures = re.findall(r"!\[.+\]\((.+)\)", PAGE)
    assert len(pictures) > 2 and all((ROOT / "docs" / name).stat().st_size > 1000 for name in pictures)


def test_the_pages_commands_run(folder: Path) -> None:
    """With one run of each configuration in the place of three."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "analysis")}
    for line in commands():
        short = line.replace("-n 3", "-n 1")
        done = subprocess.run(
            short, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{short}\n{done.stdout}{done.stderr}"
    for file in (
        "first-try/report.html",
        "first-try/tiers/ram.yaml",
        "plan.svg",
        "s.json",
        "traces/trace.html",
        "mysite.py",
    ):
        assert (folder / file).stat().st_size > 0
    assert [p.name for p in (folder / "pfs").iterdir()] == ["run"]
