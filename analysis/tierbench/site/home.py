"""Where the suite and the programs are: the checkout, or what an installation brought."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import tierbench
from tierbench.base.errors import RunError


def home() -> Path:
    """The checkout, or `share/tierbench` of an installation."""
    package = Path(tierbench.__file__).resolve().parent
    for place in (package.parents[1], Path(sys.prefix) / "share" / "tierbench"):
        if (place / "reframe_tests" / "program.py").exists():
            return place
    raise RunError(f"{package}: the suite (reframe_tests) is not beside it; run `tierbench` from a checkout")


def program(name: str) -> Path:
    """A program of the build (tierctl, tb-ior ...): of the checkout, else of PATH."""
    built = home() / "build" / "bin" / name
    found = built if built.exists() else shutil.which(name)
    if not found:
        raise RunError(f"{built}: is missing; needs `make build`, or {name} in PATH")
    return Path(found)
