#!/usr/bin/env python3
"""`make install` and `make uninstall`: the programs by cmake, and the command `tierbench` with its Python.

usage: .venv/bin/python ci/install.py BUILD PREFIX [DESTDIR]
       python3 ci/install.py --remove PREFIX [DESTDIR]

All is laid out in PREFIX/lib/tierbench/.new first, so that the list of what is removed later,
PREFIX/lib/tierbench/manifest, is written before the first file. The tree may be moved as a whole: nothing in
it names its own place.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = Path("lib/tierbench/manifest")
LAID_OUT = Path("lib/tierbench/.new")  # until all is there
PYTHON = Path("lib/tierbench/python")
COMMAND = """#!/bin/sh
# The installed {name}, with the Python and the packages of the installation.
here=$(dirname "$(readlink -f "$0")")
exec "$here/{python}" -I -c 'import sys; from {module} import main
sys.argv[0] = "{name}"
sys.exit(main())' "$@"
"""


def main() -> int:
    """Exit status 2: bad input, or what the system refuses."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--remove", action="store_true", help="remove what the manifest lists")
    parser.add_argument("places", nargs="+", metavar="BUILD PREFIX [DESTDIR]")
    options = parser.parse_args()
    build = None if options.remove else Path(options.places.pop(0))
    prefix = Path(options.places[0])
    if not prefix.is_absolute():
        print(f"install: PREFIX: {prefix}; allowed: a path from /", file=sys.stderr)
        return 2
    tree = Path(options.places[1], *prefix.parts[1:]) if len(options.places) > 1 else prefix
    try:
        return remove(tree) if build is None else install(build, tree)
    except OSError as e:
        print(f"install: {e.filename}: {e.strerror}", file=sys.stderr)
        return 2


def install(build: Path, tree: Path) -> int:
    """Lay all out, write the manifest, then put everything in its place."""
    made = tree / LAID_OUT
    shutil.rmtree(made, ignore_errors=True)  # of an install that was ended early
    above = [
        f"{p}/" for p in (LAID_OUT.parent, *LAID_OUT.parent.parents) if p.name and not (tree / p).is_dir()
    ]
    made.mkdir(parents=True)
    try:
        subprocess.run(
            ["cmake", "--install", build, "--prefix", made],
            check=True,
            stdout=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k != "DESTDIR"},
        )
        lay_out_python(made)
        files = sorted(p.relative_to(made) for p in made.rglob("*") if p.is_symlink() or not p.is_dir())
        folders = sorted(p.relative_to(made) for p in made.rglob("*") if p.is_dir() and not p.is_symlink())
        new = [f"{folder}/" for folder in folders if not (tree / folder).is_dir()] + above
        old = read_manifest(tree) if (tree / MANIFEST).exists() else []
        for folder in folders:
            (tree / folder).mkdir(parents=True, exist_ok=True)
        lines = [*new, *(line for line in old if line.endswith("/")), *map(str, files), str(MANIFEST)]
        write_manifest(
            tree, list(dict.fromkeys([*lines, *old]))
        )  # a stop below leaves nothing that is not listed
        for file in files:
            (made / file).replace(tree / file)  # a file that is in use is not written into
        left = sorted({line for line in old if not line.endswith("/")} - set(lines))
        for line in left:  # of an older version
            (tree / line).unlink(missing_ok=True)
        write_manifest(tree, list(dict.fromkeys(lines)))
    finally:
        shutil.rmtree(made, ignore_errors=True)
    print(f"install: {len(files)} files below {tree}; make uninstall removes them")
    return 0


def read_manifest(tree: Path) -> list[str]:
    """What an install made: files, and folders with a slash at the end. No line leads out of the tree."""
    lines = (tree / MANIFEST).read_text().splitlines()
    if any(Path(line).is_absolute() or ".." in Path(line).parts for line in lines):
        raise OSError(0, "names a place outside the tree; nothing was removed", str(tree / MANIFEST))
    return lines


def write_manifest(tree: Path, lines: list[str]) -> None:
    """What is to be removed later."""
    (tree / MANIFEST).write_text("".join(f"{line}\n" for line in lines))


def remove(tree: Path) -> int:
    """Files of the manifest, then its folders where they are empty; the manifest last."""
    if not (tree / MANIFEST).exists():
        print(
            f"install: {tree / MANIFEST}: is missing: make install put nothing below {tree}", file=sys.stderr
        )
        return 2
    lines = read_manifest(tree)
    for line in lines:
        if not line.endswith("/") and line != str(MANIFEST):
            (tree / line).unlink(missing_ok=True)
    (tree / MANIFEST).unlink()
    folders = sorted((tree / line for line in lines if line.endswith("/")), reverse=True)
    kept = [folder for folder in folders if folder.is_dir() and not removed(folder)]
    for folder in kept:
        print(f"install: {folder} is kept: it holds what make install did not put there")
    return 0


def removed(folder: Path) -> bool:
    """Whether an empty folder could be removed."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def lay_out_python(made: Path) -> None:
    """A virtual environment of the packages that tierbench and its suite need, and the commands."""
    home = made / PYTHON
    venv.create(home, symlinks=True)
    (home / "bin" / "python").unlink()
    (home / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (site,) = home.glob("lib/python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in sorted(needed(project["dependencies"])):
        copy_distribution(metadata.distribution(name), site)
    shutil.copytree(
        ROOT / "analysis/tierbench", site / "tierbench", ignore=shutil.ignore_patterns("__pycache__")
    )
    for script in (home / "bin").glob("[aA]ctivate*"):  # they name the place that they were made in
        script.unlink()
    command(made / "bin" / "tierbench", f"../{PYTHON}/bin/python", "tierbench.cli")
    command(home / "bin" / "reframe", "python", "reframe.frontend.cli")
    compiled = (
        site / "tierbench",
        made / "share/tierbench/reframe_tests",
        made / "share/tierbench/configs/sites",
    )
    subprocess.run([home / "bin/python", "-m", "compileall", "-q", *compiled], check=True)
    for option, file in (
        ("--man", "man/man1/tierbench.1"),
        ("--bash", "bash-completion/completions/tierbench"),
    ):
        text = subprocess.run(
            [made / "bin/tierbench", "help", option], check=True, capture_output=True
        ).stdout
        (made / "share" / file).write_bytes(text)


def needed(wanted: list[str]) -> set[str]:
    """Distributions, and all that they require."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    while wanted:
        requirement = Requirement(wanted[0])
        name, wanted = requirement.name.lower(), wanted[1:]
        if name not in found and (not requirement.marker or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            wanted += metadata.requires(name) or []
    return found


def copy_distribution(distribution: metadata.Distribution, site: Path) -> None:
    """Its files except for tests, and for scripts, which name the Python of the checkout."""
    for file in distribution.files or []:
        source = Path(str(distribution.locate_file(file)))
        if not {"..", "tests"} & set(file.parts) and source.exists():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, site / file)


def command(file: Path, python: str, module: str) -> None:
    """A program that finds its Python beside itself."""
    file.write_text(COMMAND.format(python=python, module=module, name=file.name))
    file.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
