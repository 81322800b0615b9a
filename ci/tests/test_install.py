"""`make install` without the checkout: moved as a whole, started from elsewhere, removed to the last file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}  # no checkout, no environment


def do(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=ELSEWHERE | env, capture_output=True, text=True, check=False
    )


def install(*words: str | Path) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ)
    return do(sys.executable, ROOT / "ci" / "install.py", *words, cwd=ROOT, **env)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed for a package, and then moved; a file of the user's own is between."""
    folder = tmp_path_factory.mktemp("installed")
    said = install("build", "/opt/tb", folder / "dest")
    assert said.returncode == 0, said.stderr
    return (folder / "dest/opt/tb").rename(folder / "moved")


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_symlink() or not p.is_dir()}


def test_the_manifest_is_what_is_there(tree: Path) -> None:
    lines = (tree / "lib/tierbench/manifest").read_text().splitlines()
    assert {line for line in lines if not line.endswith("/")} == files(tree)
    folders = {str(p.relative_to(tree)) + "/" for p in tree.rglob("*") if p.is_dir() and not p.is_symlink()}
    assert {line for line in lines if line.endswith("/")} == folders
    assert not any("/tests/" in line for line in lines if line.startswith("share/tierbench/"))


def test_nothing_names_the_checkout(tree: Path) -> None:
    named = [p for p in sorted(tree.rglob("*")) if p.is_symlink() and str(ROOT) in str(p.readlink())]
    scripts = [
        *tree.glob("bin/*"),
        *tree.glob("lib/tierbench/python/bin/reframe"),
        *tree.glob("lib/pkgconfig/*"),
    ]
    named += [p for p in scripts if p.read_bytes()[:2] == b"#!" and str(ROOT) in p.read_text()]
    assert named == []


def test_the_command_works_from_elsewhere(tree: Path, tmp_path: Path) -> None:
    told = do(tree / "bin/tierbench", "recipes", "summit", "--json", cwd=tmp_path)
    assert told.returncode == 0 and '"summit"' in told.stdout, told.stderr
    where = do(
        tree / "lib/tierbench/python/bin/python",
        "-I",
        "-c",
        "import tierbench; print(tierbench.__file__)",
        cwd=tmp_path,
    )
    assert Path(where.stdout.strip()).is_relative_to(tree)
    for page in ("share/man/man1/tierbench.1", "share/bash-completion/completions/tierbench"):
        assert "recipes" in (tree / page).read_text()


def test_each_program_says_its_version(tree: Path, tmp_path: Path) -> None:
    """Those of MPI without a launcher; `--version` is all that they do."""
    programs = [p for p in sorted((tree / "bin").iterdir()) if p.suffix != ".py"]
    assert len(programs) > 10
    for program in programs:
        said = do(program, "--version", cwd=tmp_path)
        assert (said.returncode, said.stderr) == (0, ""), program
        assert re.fullmatch(rf"{program.name} \d+\.\d+\.\d+( \(.+\))?\n", said.stdout), said.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_suite_runs_and_is_reported(tree: Path, tmp_path: Path) -> None:
    reframe, suite = tree / "lib/tierbench/python/bin/reframe", tree / "share/tierbench"
    line = [
        str(reframe),
        "-C",
        f"{suite}/configs/sites/local.py",
        "-c",
        f"{suite}/reframe_tests",
        "--system=local",
        "-S",
        "scale=smoke",
        "-n",
        "^WebinarPfs.*at-close",
        "-r",
    ]
    done = do(*line, cwd=tmp_path, PWD=str(tmp_path), HOME=str(tmp_path))
    assert "Ran 1/1 test case(s)" in done.stdout and done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "results/runs").iterdir()
    assert (run / "report.html").exists(), done.stdout + done.stderr
    assert (tmp_path / "results/latest").resolve() == run


SITE = """site_configuration = {"systems": [{"name": "s", "hostnames": [".*"], "partitions": [{
    "name": "p", "scheduler": "local", "launcher": "local", "environs": ["builtin"],
    "extras": {"tiers": "real", "pfs": "PFS"}}]}]}
"""


def test_jobs_of_a_real_site_name_only_files_that_are_there(tree: Path, tmp_path: Path) -> None:
    reframe, suite = tree / "lib/tierbench/python/bin/reframe", tree / "share/tierbench"
    (tmp_path / "site.py").write_text(SITE.replace("PFS", str(tmp_path)))
    line = [
        str(reframe),
        "-C",
        "site.py",
        "-c",
        f"{suite}/reframe_tests",
        "-n",
        "^WebinarPfs.*at-close",
        "--dry-run",
        f"--prefix={tmp_path}",
    ]
    done = do(*line, cwd=tmp_path, PWD=str(tmp_path), HOME=str(tmp_path))
    (job,) = tmp_path.glob("stage/**/rfm_job.sh")
    named = re.findall(rf"{tree}\S+", job.read_text())
    assert any(name.endswith("devices.py") for name in named), done.stdout + done.stderr
    assert [name for name in named if not Path(name).exists()] == []


def test_uninstall_removes_what_install_made(tree: Path, tmp_path: Path) -> None:
    """Without the Python packages, which make it slow: the manifest is what counts."""
    copy = tmp_path / "tb"
    shutil.copytree(tree, copy, symlinks=True, ignore=shutil.ignore_patterns("site-packages"))
    mine = copy / "share/tierbench/configs/sites/mine.py"
    mine.write_text("# a site of my own\n")
    said = install("--remove", copy)
    assert said.returncode == 0 and f"{mine.parent} is kept" in said.stdout
    assert files(copy) == {"share/tierbench/configs/sites/mine.py"}
    again = install("--remove", copy)
    assert again.returncode == 2 and "make install put nothing" in again.stderr


def test_folders_that_were_there_stay(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tb"
    shutil.copytree(tree / "bin", copy / "bin", symlinks=True)
    manifest = copy / "lib/tierbench/manifest"
    manifest.parent.mkdir(parents=True)
    lines = (tree / "lib/tierbench/manifest").read_text().splitlines()
    manifest.write_text("".join(f"{line}\n" for line in lines if line != "bin/"))
    assert install("--remove", copy).returncode == 0
    assert [str(p.relative_to(copy)) for p in copy.rglob("*")] == ["bin"]


def test_a_manifest_that_leads_out_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("x")
    (tmp_path / "tb/lib/tierbench").mkdir(parents=True)
    (tmp_path / "tb/lib/tierbench/manifest").write_text("../other\n")
    said = install("--remove", tmp_path / "tb")
    assert said.returncode == 2 and "outside the tree" in said.stderr and other.exists()
    assert install("build", "opt/tb").returncode == 2
