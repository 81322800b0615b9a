"""Two sides of one run: what the program asked for, and what each tier and the PFS got, as proof of the tier.

The application's log says what the program wrote and read; the storage's log what the engine asked of the
places below it; the engine's own counters (`stats.json`) what its tiers acknowledged, all there is on a
memory tier. The proof names its sources and never fills one with another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierbench.trace.findings import size
from tierbench.trace.frames import Traces

COMPLETE = 0.999  # of the program's bytes: all of them, but for what the program wrote elsewhere


@dataclass(frozen=True)
class Place:
    """One place of a configuration; bytes, None where no source says."""

    name: str
    asked_written: int | None
    asked_read: int | None
    acknowledged: int | None
    storage_written: int | None
    storage_read: int | None


@dataclass(frozen=True)
class Evidence:
    """The places, tiers first, and what they prove in one sentence."""

    places: tuple[Place, ...]
    sentence: str
    proven: bool


def places_of(plan: Mapping[str, Any]) -> dict[str, str]:
    """Path prefixes of a plan (`tierctl plan --json`) and the names of the places there."""
    found = {str(t["path"]): str(t["name"]) for t in plan.get("tiers", []) if t.get("path")}
    pfs = plan.get("pfs") or {}
    return found | ({str(pfs["path"]): "pfs"} if pfs.get("path") else {})


def gather(
    name: str,
    application: Traces | None,
    storage: Traces | None,
    plan: Mapping[str, Any],
    stats: Mapping[str, Any],
) -> Evidence | None:
    """What the sources say about the configuration `name`; None where neither side was traced."""
    if application is None and storage is None:
        return None
    counted = {str(t["name"]): int(t.get("bytes_in", 0)) for t in stats.get("tiers", [])}
    names = [str(t["name"]) for t in plan.get("tiers", [])] or list(counted)
    asked, got = _moved(application), _moved(storage)
    nothing: tuple[int | None, int | None] = (None, None)
    found = []
    for n in [*names, "pfs"]:
        (wrote, read), (below_wrote, below_read) = asked.get(n, nothing), got.get(n, nothing)
        found.append(Place(n, wrote, read, counted.get(n), below_wrote, below_read))
    return _prove(name, tuple(found), stats, storage is not None)


def _moved(traces: Traces | None) -> dict[str, tuple[int, int]]:
    """Bytes written and read by place."""
    if traces is None:
        return {}
    sums = traces.tiers.groupby("place", observed=True)[["bytes_written", "bytes_read"]].sum()
    return {str(place): (int(line.iloc[0]), int(line.iloc[1])) for place, line in sums.iterrows()}


def _prove(name: str, places: tuple[Place, ...], stats: Mapping[str, Any], traced_below: bool) -> Evidence:
    pfs = places[-1]
    wrote = pfs.asked_written
    if not wrote:
        return Evidence(
            places, f"{name}: nothing proven: no application log says what the program wrote.", False
        )
    if all(p.acknowledged is None for p in places[:-1]):
        missing = "no counters of the engine say what its tiers acknowledged"
        return Evidence(places, f"{name}: nothing proven: {missing}.", False)
    tiers = [p for p in places[:-1] if p.acknowledged]
    taken = sum(p.acknowledged or 0 for p in tiers)
    where = " and ".join(p.name for p in tiers) or "no tier"
    told = f"{name}: {min(taken / wrote, 1):.0%} of {size(wrote)} acknowledged in {where}"
    by_log = pfs.storage_written if traced_below else None
    reached = by_log if by_log is not None else (stats.get("pfs") or {}).get("bytes_written")
    if reached is not None:
        source = "" if by_log is not None else " (the engine's own count: no storage log)"
        told += f"; PFS received {size(reached)}{source}"
        drain = stats.get("drain_s")
        told += f" within {drain:.3g} s after the program's end" if isinstance(drain, int | float) else ""
    proven = bool(places[:-1]) and taken >= COMPLETE * wrote
    return Evidence(places, told + ("." if proven or not places[:-1] else ": NOT all in the tiers."), proven)
