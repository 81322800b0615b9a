"""The wheel in an environment of its own, without the checkout: it finds its recipes and its templates."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("pyproject.toml", "LICENSE", "analysis/tierbench", "configs", "reframe_tests", "results/published")


def run(*command: str | Path, **env: str) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=env or None)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment: it sees all that tierbench needs, and tierbench as the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        source, target = ROOT / part, folder / "source" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, folder / "source")
    venv.create(folder / "venv")
    made = folder / "venv" / "bin" / "python"
    site = Path(run(made, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (wheel,) = folder.glob("*.whl")
    run(*pip, "install", "--no-deps", "--no-index", "--ignore-installed", "--prefix", folder / "venv", wheel)
    # A folder that a .pth file names is searched, and .pth files in it are not: no checkout comes in by one.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shutil.rmtree(folder / "source")
    return made


def test_the_wheel_finds_its_recipes(python: Path) -> None:
    place = run(python, "-c", "import tierbench; print(tierbench.__file__)", PATH="/usr/bin:/bin")
    assert Path(place.strip()).is_relative_to(python.parents[1])
    told = run(python, "-m", "tierbench.cli", "recipes", "--json", PATH="/usr/bin:/bin")
    assert told == run(sys.executable, "-m", "tierbench.cli", "recipes", "--json")
    assert '"cori-lustre-1-posix"' in told and '"io500"' in told


def test_the_wheel_brings_the_suite(python: Path) -> None:
    say = "from tierbench.site.home import home; print(home())"
    home = Path(run(python, "-c", say, PATH="/usr/bin:/bin").strip())
    assert home.is_relative_to(python.parents[1])
    parts = ("reframe_tests", "configs", "results/published")
    for file in (f for part in parts for f in (ROOT / part).rglob("*") if f.is_file()):
        hidden = {"tests", "__pycache__", "hermes"} & set(file.parts)
        assert hidden or (home / file.relative_to(ROOT)).exists(), file


def test_the_wheel_writes_a_report(python: Path, shared_run: Path, tmp_path: Path) -> None:
    run(python, "-m", "tierbench.cli", "report", shared_run, "-o", tmp_path, PATH="/usr/bin:/bin")
    assert "<h1" in (tmp_path / "report.html").read_text()
