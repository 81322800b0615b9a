"""Where our own programs are: in the checkout's build, or in the installation of which the suite is part."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from reframe.core.exceptions import PipelineError

from .tiers import ROOT

_PLACES = (ROOT / "build" / "bin", ROOT.parents[1] / "bin")  # of a checkout; of PREFIX/share/tierbench


def named_program(variable: str) -> Path | None:
    """The site's own program that an environment variable names; None: it is not set."""
    given = os.environ.get(variable)
    if given and not os.access(given, os.X_OK):
        raise PipelineError(f"{variable}: {given!r} is not allowed, expected a program")
    return Path(given).resolve() if given else None


def own_program(name: str) -> Path:
    """The program; where there is none, where `make build` puts it."""
    there = next((place / name for place in _PLACES if os.access(place / name, os.X_OK)), None)
    return there or Path(shutil.which(name) or _PLACES[0] / name)


@cache
def has_romio() -> bool:
    """The Open MPI of PATH brings MPICH's MPI-IO beside its own."""
    tool = shutil.which("ompi_info")
    if not tool:
        return False
    told = subprocess.run([tool, "--parsable"], capture_output=True, text=True, check=False).stdout
    return "mca:io:romio" in told
