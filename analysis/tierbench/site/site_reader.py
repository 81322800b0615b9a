"""What a site file says: the directories of the PFS and the tiers, and the environment of jobs."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench.base.errors import RunError

PLACES = ("pfs", "nvme", "bb")


@dataclass(frozen=True)
class SitePlaces:
    """Of one partition."""

    name: str  # SYSTEM:PARTITION
    places: dict[str, str]
    variables: tuple[tuple[str, str], ...]
    scheduler: str


def read(file: Path) -> SitePlaces:
    """The first partition with a PFS; the file is a program of Python, as ReFrame runs it."""
    try:
        found: Any = runpy.run_path(str(file))["site_configuration"]["systems"]
        partitions = [(system["name"], p) for system in found for p in system["partitions"]]
        with_pfs = [(name, p) for name, p in partitions if "pfs" in p.get("extras", {})]
    except OSError as e:
        raise RunError(f"--site: {file}: {e.strerror}; allowed: a site file (configs/sites/README.md)") from e
    except (Exception, SystemExit) as e:  # whatever a stranger's program raises
        raise RunError(
            f"--site: {file}: {type(e).__name__}: {' '.join(str(e).split())}; allowed: a site file "
            "(configs/sites/README.md)"
        ) from e
    if not with_pfs:
        raise RunError(f"--site: {file}: no partition's extras name a pfs; allowed: 'pfs': DIRECTORY there")
    name, partition = with_pfs[0]
    places = {place: str(partition["extras"][place]) for place in PLACES if place in partition["extras"]}
    variables = tuple((str(k), str(v)) for k, v in partition.get("env_vars", []))
    return SitePlaces(f"{name}:{partition.get('name')}", places, variables, str(partition.get("scheduler")))
