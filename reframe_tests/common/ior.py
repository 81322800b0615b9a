"""The driver of a test: the site's own program where there is one, else ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tierbench.outputs import read_ior

from .tiers import ROOT


def find_program(name: str, *, build: bool = True) -> str | None:
    """Path of ior, mdtest or metadata: its variable (IOR ...), PATH, or build/bin/tb-NAME."""
    given = os.environ.get(name.upper()) or shutil.which(name)
    ours = ROOT / "build" / "bin" / f"tb-{name}"
    found = given or (str(ours) if build else None)
    return found if found and os.access(found, os.X_OK) else None


def find_driver() -> str:
    """Path of the driver: IOR from the environment, `ior` on PATH, or build/bin/tb-ior."""
    return os.environ.get("IOR") or shutil.which("ior") or str(ROOT / "build" / "bin" / "tb-ior")


def write_numbers(summary: Path) -> dict[str, float | str | None]:
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
