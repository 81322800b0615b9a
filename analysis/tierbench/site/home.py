"""Where the suite and the programs are: the checkout, or what an installation brought."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import tierbench
from tierbench.base.errors import RunError


def home() -> Path:
    """The checkout, or `share/tierbench` of an installation."""
    package = Path(tierbench.__file__).resolve().parent
    prefix = Path(sys.prefix)  # of a wheel; `make install` has it in PREFIX/lib/tierbench/python
    for place in (package.parents[1], *(p / "share" / "tierbench" for p in (prefix, *prefix.parents[2:3]))):
        if (place / "reframe_tests" / "program.py").exists():
            return place
    raise RunError(f"{package}: the suite (reframe_tests) is not beside it; run `tierbench` from a checkout")


def check_name(option: str, folder: Path) -> None:
    """ReFrame and job scripts take a name apart at blanks and what shells read."""
    if shlex.quote(str(folder)) != str(folder):
        raise RunError(
            f"{option}: {folder}: its name has a blank or a sign that shells read; allowed: letters, digits "
            "and any of . _ - + @ % , = :"
        )


def program(name: str) -> Path:
    """A program of the build (tierctl, tb-ior ...): of the checkout or of the installation, else of PATH."""
    built, installed = home() / "build" / "bin" / name, home().parents[1] / "bin" / name
    found = next((place for place in (built, installed) if place.exists()), None) or shutil.which(name)
    if not found:
        raise RunError(f"{built}: is missing; needs `make build`, or {name} in PATH")
    return Path(found)
