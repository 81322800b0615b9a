"""What a site file says: the directories of the PFS and the tiers, and the environment of jobs."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench.base.errors import RunError

PLACES = ("pfs", "nvme", "bb")
_ALLOWED = "allowed: a site file (configs/sites/README.md)"


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
        found = _first_with_a_pfs(runpy.run_path(str(file)))
    except OSError as e:
        raise RunError(f"--site: {file}: {e.strerror}; {_ALLOWED}") from e
    except KeyError as e:
        raise RunError(f"--site: {file}: lacks {e}; {_ALLOWED}") from e
    except (Exception, SystemExit) as e:  # whatever a stranger's program raises
        told = f"{type(e).__name__}: {' '.join(str(e).split())}"
        raise RunError(f"--site: {file}: {told}; {_ALLOWED}") from e
    if not found:
        raise RunError(f"--site: {file}: no partition's extras name a pfs; allowed: 'pfs': DIRECTORY there")
    return found


def _first_with_a_pfs(says: dict[str, Any]) -> SitePlaces | None:
    for system in says["site_configuration"]["systems"]:
        for partition in system["partitions"]:
            extras = partition.get("extras", {})
            if "pfs" in extras:
                places = {place: str(extras[place]) for place in PLACES if place in extras}
                variables = tuple((str(k), str(v)) for k, v in partition.get("env_vars", []))
                name = f"{system['name']}:{partition.get('name')}"
                return SitePlaces(name, places, variables, str(partition.get("scheduler")))
    return None
