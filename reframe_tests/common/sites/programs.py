"""Where our own programs are: in the checkout's build, or in the installation of which the suite is part."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .tiers import ROOT

_PLACES = (ROOT / "build" / "bin", ROOT.parents[1] / "bin")  # of a checkout; of PREFIX/share/tierbench


def own_program(name: str) -> Path:
    """The program; where there is none, where `make build` puts it."""
    there = next((place / name for place in _PLACES if os.access(place / name, os.X_OK)), None)
    return there or Path(shutil.which(name) or _PLACES[0] / name)
