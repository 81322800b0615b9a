"""Tier configurations of the places that a user names: a file for each combination worth a trial.

A tier needs its name, its medium, its place and its capacity; `docs/configuration.md` has the other defaults.
Without a directory tier nothing but the PFS is safe from a crash of the node, so an fsync goes there.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tierbench.base.errors import RunError
from tierbench.base.sizes import MIB, UNITS
from tierbench.trial.plan import PFS

LEAST_BYTES = 64 * MIB  # a tier smaller than that has little room beside its own metadata
_FREE_SHARE = 0.5  # of a directory's free space, where no capacity is given


@dataclass(frozen=True)
class Tier:
    """A tier as the user named it; `path` is None in memory. Fastest first is the order of a list of them."""

    name: str
    path: Path | None
    capacity_bytes: int


def parse_size(text: str, option: str) -> int:
    """Bytes of `8GiB`, `8G` or `8g`; `RunError` names the option."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    count = int(float(match[1]) * UNITS[match[2]]) if match else 0
    if count < LEAST_BYTES:
        raise RunError(f"{option}: {text!r}; allowed: a size from 64MiB on, e.g. 8GiB")
    return count


def directory_tier(name: str, text: str) -> Tier:
    """A tier of `DIR` or `DIR:SIZE`; without a size half of what is free there.

    A directory that is there is one, whatever colons its name has.
    """
    option, (path, colon, size) = f"--{name}", text.rpartition(":")
    if not colon or Path(text).expanduser().is_dir():
        place = directory(option, text)
        return Tier(name, place, max(LEAST_BYTES, int(shutil.disk_usage(place).free * _FREE_SHARE)))
    return Tier(name, directory(option, path), parse_size(size, option))


def directory(option: str, path: str) -> Path:
    """An existing directory that may be written, as an absolute path without links."""
    place = Path(path).expanduser()
    if not path or not place.is_dir():
        raise RunError(f"{option}: {path!r} is not a directory; allowed: a directory that is there")
    if not os.access(place, os.W_OK | os.X_OK):
        raise RunError(f"{option}: {path!r} may not be written; allowed: a directory of yours")
    return place.resolve()


def check_apart(places: Mapping[str, Path]) -> None:
    """Refuse a place in another, by options of these names: its files would be the other's as well."""
    for inner, outer in itertools.permutations(places, 2):
        if places[inner].is_relative_to(places[outer]):
            raise RunError(
                f"--{inner}: {places[inner]}: is in --{outer} {places[outer]}; allowed: a place outside it"
            )


def combinations(tiers: Sequence[Tier]) -> list[list[Tier]]:
    """Each tier alone, then each run of neighbours from the fastest on: with ram, nvme and bb six."""
    neighbours = itertools.combinations(range(len(tiers) + 1), 2)
    return sorted((list(tiers[a:b]) for a, b in neighbours), key=len)


def write_all(tiers: Sequence[Tier], pfs: Path, folder: Path, profiles: dict[str, str]) -> dict[str, str]:
    """Write a file for the PFS alone and each combination; returns them by name, the PFS alone first.

    `profiles` are device files by tier (and `pfs`) that `tierctl profile` has measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {PFS: _write(folder / f"{PFS}.yaml", _pfs_alone(pfs), "The PFS alone: no byte is buffered.")}
    for chosen in combinations(tiers):
        name = "-".join(t.name for t in chosen)
        files[name] = _write(folder / f"{name}.yaml", configuration(chosen, pfs, profiles), _told(chosen))
    return files


def configuration(tiers: Sequence[Tier], pfs: Path, profiles: dict[str, str]) -> dict[str, Any]:
    """The configuration of these tiers in front of the PFS."""
    in_directory = any(t.path for t in tiers)
    return {
        "version": 1,
        "pfs": {"path": str(pfs), **_profile(PFS, profiles)},
        "fsync": "tier" if in_directory else "pfs",
        "flush": {"policy": "on-close", "background": True},
        "placement": {"policy": "max-bandwidth"},
        "tiers": [
            {
                "name": t.name,
                "medium": "directory" if t.path else "memory",
                **({"path": str(t.path)} if t.path else {}),
                "capacity": f"{t.capacity_bytes >> 20}MiB",
                **_profile(t.name, profiles),
            }
            for t in tiers
        ],
    }


def _profile(name: str, profiles: dict[str, str]) -> dict[str, str]:
    return {"profile": profiles[name]} if name in profiles else {}


def _pfs_alone(pfs: Path) -> dict[str, Any]:
    """A configuration has at least one tier: in bypass nothing uses it."""
    unused = Tier("unused", None, LEAST_BYTES)
    return {**configuration([unused], pfs, {}), "mode": "bypass"}


def _told(tiers: Sequence[Tier]) -> str:
    names = ", ".join(t.name for t in tiers)
    return f"{names} in front of the PFS; written by `tierbench try`. Sizes and places are yours to change."


def _write(file: Path, document: dict[str, Any], told: str) -> str:
    file.write_text(f"# {told}\n" + yaml.safe_dump(document, sort_keys=False))
    return str(file)
