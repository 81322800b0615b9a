"""What a site file says: the directories of the PFS and the tiers, and the environment of jobs.

`python -m tierbench.site.site_reader FILE` prints the name of the system that this machine is, for scripts.
"""

from __future__ import annotations

import re
import runpy
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

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
    """The first partition with a PFS."""
    found = _ask(file, "--site", _first_with_a_pfs)
    if not found:
        raise RunError(f"--site: {file}: no partition's extras name a pfs; allowed: 'pfs': DIRECTORY there")
    return found


def system_here(file: Path) -> str:
    """The name of the system that this machine is: by its name, else the only one.

    ReFrame alone would take a system of its own, without the site's directories.
    """
    host = socket.gethostname()
    patterns, like = _ask(file, "SITE", lambda says: _systems(says, host))
    if like or len(patterns) == 1:
        return (like or list(patterns))[0]
    told = "; ".join(f"{name}: {', '.join(p)}" for name, p in patterns.items())
    raise RunError(f"SITE: {file}: no hostnames are like {host} ({told}); allowed: a system of this machine")


def _systems(says: dict[str, Any], host: str) -> tuple[dict[str, list[str]], list[str]]:
    """Patterns of hostnames by system, and the systems of which one is like `host`."""
    systems = says["site_configuration"]["systems"]
    patterns = {str(s["name"]): [str(p) for p in s["hostnames"]] for s in systems}
    return patterns, [name for name, told in patterns.items() if any(re.match(p, host) for p in told)]


_Found = TypeVar("_Found")


def _ask(file: Path, option: str, what: Callable[[dict[str, Any]], _Found]) -> _Found:
    """Of the file, which is a program of Python, as ReFrame runs it."""
    if file.is_dir():
        raise RunError(f"{option}: {file}: is a directory; {_ALLOWED}")
    try:
        return what(runpy.run_path(str(file)))
    except OSError as e:
        raise RunError(f"{option}: {file}: {e.strerror}; {_ALLOWED}") from e
    except KeyError as e:
        raise RunError(f"{option}: {file}: lacks {e}; {_ALLOWED}") from e
    except (Exception, SystemExit) as e:  # whatever a stranger's program raises
        told = f"{type(e).__name__}: {' '.join(str(e).split())}"
        raise RunError(f"{option}: {file}: {told}; {_ALLOWED}") from e


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


def main() -> int:
    """0, or 2 where there is none."""
    try:
        print(system_here(Path(sys.argv[1])))
    except RunError as e:
        print(f"tierbench: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
