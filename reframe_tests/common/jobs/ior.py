"""The driver of a test: the site's own program where there is one, else ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from reframe.core.exceptions import PipelineError

from tierbench.outputs import read_ior

from ..sites.programs import own_program


def find_program(name: str, *, build: bool = True, ours: bool = False) -> str | None:
    """Path of ior, mdtest or metadata: its variable (IOR ...), PATH, else our tb-NAME (`ours`)."""
    given = None if ours else os.environ.get(name.upper()) or shutil.which(name)
    found = given or (str(own_program(f"tb-{name}")) if build else None)
    return found if found and os.access(found, os.X_OK) else None


def needed_program(name: str, *, build: bool = True, ours: bool = False, otherwise: str | None = None) -> str:
    """The same; where there is none, `otherwise`, or `PipelineError` says what is needed."""
    found = find_program(name, build=build, ours=ours) or otherwise
    if not found:
        there = os.environ.get(name.upper(), f"nothing in {name.upper()}")
        needed = f"needs {name.upper()} set to a program, {name} on PATH, or `make build`"
        raise PipelineError(f"no {name}: {needed}; there is {there}")
    return found


def write_numbers(summary: Path) -> dict[str, Any]:
    """Bandwidth (MiB/s) and seconds of the one write in an IOR JSON summary, and the driver's own name."""
    report = read_ior(summary)
    writes = [r for r in report.results if r.access == "write"]
    if len(writes) != 1:
        raise ValueError(f"{summary}: holds {len(writes)} write results, expected 1")
    w = writes[0]
    return {
        "value": w.bandwidth_mib_s,
        "open_s": w.open_s,
        "write_s": w.transfer_s,
        "close_s": w.close_s,
        "total_s": w.total_s,
        "driver": report.driver,
    }
