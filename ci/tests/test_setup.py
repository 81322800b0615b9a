"""Set-up on machines unlike this one: a folder with a blank, little room, no dpkg, a copied checkout.

The Python that set-up is given is a stub, so that no package is fetched; the rest is real.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = ("dpkg", "apt", "sudo")  # what other distributions have not
# Makes a .venv of a stub that answers where tierbench is imported from and notes all else it is asked.
INNER = """#!/bin/sh
case "$*" in *__path__*) echo "HERE/analysis/tierbench" ;; *) echo "$@" >> "HERE/pip.log" ;; esac
"""
PYTHON = f"""#!/bin/sh
case "$*" in
"-m venv --clear .venv")
    mkdir -p .venv/bin
    sed "s,HERE,$PWD,g" "$(dirname "$0")/inner" > .venv/bin/python
    chmod +x .venv/bin/python ;;
*) exec {sys.executable} "$@" ;;
esac
"""
OLD = f"""#!/bin/sh
[ "$1" = --version ] && echo Python 3.10.12 && exit
exec {sys.executable} -c "import sys; sys.version_info = (3, 10, 12)
$2"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What set-up needs of a checkout."""
    made = tmp_path / "checkout"
    shutil.copytree(ROOT / "ci", made / "ci", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "requirements.txt"):
        shutil.copy(ROOT / name, made / name)
    (made / "analysis/tierbench").mkdir(parents=True)
    (tmp_path / "inner").write_text(INNER)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return made


def do(checkout: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    # as from a shell: a make that runs these tests tells the ones below it of itself
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    env = outside | {"PYTHON": str(checkout.parent / "python")} | more
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def without_dpkg(tmp_path: Path) -> Path:
    """A folder for PATH with all commands of this machine but Debian's own."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(":")):
        for found in Path(place).iterdir() if Path(place).is_dir() else ():
            if not found.name.startswith(HIDDEN):
                (folder / found.name).unlink(missing_ok=True)
                (folder / found.name).symlink_to(found)
    return folder


def test_set_up_is_done_once(checkout: Path) -> None:
    first = do(checkout, "ci/bootstrap")
    assert (first.returncode, first.stdout) == (0, ""), first.stderr
    assert "making .venv" in first.stderr and "install" in (checkout / "pip.log").read_text()
    assert "making" not in do(checkout, "ci/bootstrap").stderr


def test_a_copied_checkout_makes_its_own(checkout: Path) -> None:
    do(checkout, "ci/bootstrap")
    (checkout / "build/CMakeFiles").mkdir(parents=True)
    cache = f"X:STRING=1\nCMAKE_HOME_DIRECTORY:INTERNAL={checkout}\n"
    (checkout / "build/CMakeCache.txt").write_text(cache)
    assert "configured again" not in do(checkout, "ci/bootstrap").stderr
    copy = checkout.with_name("copy")
    shutil.copytree(checkout, copy, symlinks=True)
    said = do(copy, "ci/bootstrap")
    assert (
        said.returncode == 0
        and f"build was made in {checkout}" in said.stderr
        and "making .venv" in said.stderr
    )
    assert list((copy / "build").iterdir()) == []
    assert (checkout / "build/CMakeCache.txt").read_text() == cache
    assert "making" not in do(copy, "ci/bootstrap").stderr + do(checkout, "ci/bootstrap").stderr


def test_a_linked_environment_is_left_as_it_is(checkout: Path) -> None:
    do(checkout, "ci/bootstrap")
    other = checkout.with_name("other")
    shutil.copytree(checkout, other, ignore=shutil.ignore_patterns(".venv"))
    (other / ".venv").symlink_to(checkout / ".venv")
    before = (checkout / ".venv/bin/python").read_text()
    assert do(other, "ci/bootstrap").returncode == 0
    assert not (other / ".venv").is_symlink() and (checkout / ".venv/bin/python").read_text() == before


@pytest.mark.parametrize("name", ["a checkout", "a:b", "a'b", "a$b", "a;b"])
def test_a_folder_whose_name_breaks_scripts_is_refused(checkout: Path, name: str) -> None:
    moved = checkout.rename(checkout.with_name(name))
    said = do(moved, "make", "run")
    assert said.returncode == 2 and not said.stdout
    reason = said.stderr.splitlines()[-1]
    assert f"{moved}: this folder's name has a blank" in reason and "move the checkout" in reason
    assert not (moved / ".venv").exists()


def test_little_memory_is_refused_before_the_build(checkout: Path, tmp_path: Path) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    small = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=64m none {shm} && exec "$@"', "small"]
    if subprocess.run([*small, "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    said = do(checkout, *small, "make", "run", TIERBENCH_SHM=str(shm))
    reason = said.stderr.splitlines()[-1]
    assert (
        said.returncode == 2 and f"{shm}: 64 MiB are free; needed: 600 MiB" in reason and "size=4g" in reason
    )
    assert f"{shm}: 64 MiB are free" in do(checkout, *small, "make", "test", TIERBENCH_SHM=str(shm)).stderr
    nothing = do(checkout, "make", "run", TIERBENCH_SHM=str(tmp_path / "none"))
    assert "needed: a tmpfs" in nothing.stderr.splitlines()[-1]


def test_an_old_python_is_refused(checkout: Path, without_dpkg: Path) -> None:
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        (without_dpkg / name).unlink(missing_ok=True)
    (without_dpkg / "old").write_text(OLD)
    (without_dpkg / "old").chmod(0o755)
    said = do(checkout, "ci/bootstrap", PATH=str(without_dpkg), PYTHON="old")
    assert (
        said.returncode == 2
        and "old is Python 3.10.12" in said.stdout
        and "apt-get install python3.11" in said.stdout
    )


def test_without_dpkg_what_is_here_is_used(checkout: Path, without_dpkg: Path) -> None:
    said = do(checkout, "ci/bootstrap", PATH=str(without_dpkg))
    assert (said.returncode, said.stdout) == (0, ""), said.stderr
    said = do(checkout, "ci/bootstrap", "lint", PATH=str(without_dpkg))
    assert said.returncode == 0 and "no Debian packages here" in said.stderr


def test_what_is_missing_is_named_for_each_distribution(
    checkout: Path, without_dpkg: Path, tmp_path: Path
) -> None:
    for name in ("mpicc", "h5pcc", "cmake"):
        (without_dpkg / name).unlink()
    said = do(checkout, "make", "build", PATH=str(without_dpkg), PKG_CONFIG_LIBDIR=str(tmp_path))
    assert said.returncode == 2
    reason = said.stderr.splitlines()[-1]
    for part in (
        "missing: cmake mpicc parallel-HDF5 libyaml xxhash libsodium jansson zlib cmocka.",
        "apt-get install cmake libopenmpi-dev libhdf5-openmpi-dev libyaml-dev",
        "dnf install cmake openmpi-devel hdf5-openmpi-devel libyaml-devel",
        "zypper install cmake openmpi4-devel hdf5-openmpi4-devel libyaml-devel",
    ):
        assert part in reason


def test_an_image_holds_nothing_that_a_checkout_made() -> None:
    """What git leaves out at the top names its place (.venv, build), or is large (results)."""
    ignored, left_out = (
        {line.strip("/") for line in (ROOT / name).read_text().splitlines() if keeps(line)}
        for name, keeps in ((".gitignore", lambda line: line.startswith("/")), (".dockerignore", bool))
    )
    assert {".venv", "build", "results/latest", "perflogs", "output", "stage"} <= ignored
    assert ignored - left_out == set()


def test_every_need_has_a_package_on_each_distribution() -> None:
    rows = [line.split() for line in (ROOT / "ci/setup/needs.txt").read_text().splitlines() if line[0] != "#"]
    assert len(rows) >= 14 and all(len(row) == 5 for row in rows)
