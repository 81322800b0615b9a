"""Two sides of one run: what the program asked for, and what each tier and the PFS got, as proof of the tier.

The application's log says what the program wrote and read; the storage's log what the engine asked of the
places below it; the engine's own counters (`stats.json`) what its tiers acknowledged, all there is on a
memory tier. The proof names its sources and never fills one with another. It holds where every byte that the
program wrote was taken by a tier, where what is not in memory was written to that tier's directory, and where
the PFS got all of it in the end; else the sentence says what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tierbench.base import devices
from tierbench.base.text import size
from tierbench.trace.frames import Traces
from tierbench.trace.segments import covered_bytes


@dataclass(frozen=True)
class Moved:
    """What one source says of one place: bytes, and seconds of all ranks together where it counts them."""

    written: int
    read: int
    seconds: float | None = None


@dataclass(frozen=True)
class Place:
    """One place of a configuration by its three sources; None where a source says nothing of it.

    `moved_in` are the bytes that came from another tier, as when an fsync made them safe in a directory.
    """

    name: str
    asked: Moved | None
    engine: Moved | None
    storage: Moved | None
    moved_in: int = 0


@dataclass(frozen=True)
class Evidence:
    """The places, tiers first, what they prove in one sentence, and what keeps them from proving it."""

    places: tuple[Place, ...]
    sentence: str
    missing: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Nothing is missing."""
        return not self.missing


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
    places_on: Mapping[str, Any] | None = None,
) -> Evidence | None:
    """What the sources say about the configuration `name`; None where neither side was traced.

    `places_on` says what the real places are on (`places.json`); without it they are a twin's, which is not
    looked at.
    """
    if application is None and storage is None:
        return None
    mode = str(plan.get("mode") or stats.get("mode") or "")
    tiers = {} if mode == "bypass" else {str(t["name"]): t for t in stats.get("tiers", [])}
    counted = {n: Moved(int(t.get("bytes_in", 0)), int(t.get("bytes_out", 0))) for n, t in tiers.items()}
    moved_in = {n: int(t.get("moved_in", 0)) for n, t in tiers.items()}
    names = [] if mode == "bypass" else [str(t["name"]) for t in plan.get("tiers", [])] or list(tiers)
    asked, got = _moved(application), _moved(storage)
    places = tuple(
        Place(n, asked.get(n), counted.get(n), got.get(n), moved_in.get(n, 0)) for n in [*names, "pfs"]
    )
    case = _Case(places, application, storage, stats, mode, places_on or {})
    return Evidence(places, f"{name}: {case.sentence()}", tuple(case.missing()))


def _moved(traces: Traces | None) -> dict[str, Moved]:
    """By place."""
    if traces is None:
        return {}
    times = ["read_s", "write_s", "meta_s"]
    sums = traces.tiers.groupby("place", observed=True)[["bytes_written", "bytes_read", *times]].sum()
    return {
        str(place): Moved(int(line["bytes_written"]), int(line["bytes_read"]), float(line[times].sum()))
        for place, line in sums.iterrows()
    }


class _Case:
    """The places of one run and what can be said about them."""

    def __init__(
        self,
        places: tuple[Place, ...],
        application: Traces | None,
        storage: Traces | None,
        stats: Mapping[str, Any],
        mode: str,
        places_on: Mapping[str, Any],
    ) -> None:
        self.tiers, self.pfs, self.places_on = places[:-1], places[-1], places_on
        self.application, self.storage, self.stats, self.mode = application, storage, stats, mode
        self.wrote = self.pfs.asked.written if self.pfs.asked else 0
        self.taken = sum(p.engine.written for p in self.tiers if p.engine)
        below = self.pfs.storage.written if self.pfs.storage else 0
        counted: Any = (stats.get("pfs") or {}).get("bytes_written")
        read: Any = (stats.get("pfs") or {}).get("bytes_read")
        fetched = self.pfs.storage.read if self.pfs.storage else 0
        self.fetched: int | None = fetched if storage is not None else read
        self.received: int | None = below if storage is not None else counted

    def sentence(self) -> str:
        """What was taken where, and what the PFS got and when."""
        missing = list(self.missing())
        if self.wrote:
            told = self._taken() + self._received()
        else:
            told = self._served() if self.pfs.asked and self.pfs.asked.read else "nothing is proven"
        return told + (". NOT PROVEN: " + "; ".join(missing) if missing else "") + "."

    def _taken(self) -> str:
        if not self.tiers:
            return f"no tiers, {size(self.wrote)} written"
        takers = [(p.name, p.engine.written) for p in self.tiers if p.engine and p.engine.written]
        movers = [(p.name, p.moved_in) for p in self.tiers if p.moved_in]
        told = f"{_percent(self.taken, self.wrote)} of {size(self.wrote)} acknowledged in {_listed(takers)}"
        return told + (f", moved on to {_listed(movers)}" if movers else "")

    def _received(self) -> str:
        if self.received is None:
            return ""
        told = f"; PFS received {size(self.received)}{', as scratch promises' * self._is_only_scratch()}"
        if self.storage is None:
            if isinstance(drain := self.stats.get("drain_s"), int | float):
                told += f" within {drain:.3g} s after the program's end"
            return f"{told} (the engine's own count: no storage log)"
        after = self._after_close()
        if after is None or not self.received:
            return told
        return told + (f" within {after:.3g} s after close" if after > 0 else " before the last close")

    def _after_close(self) -> float | None:
        """Seconds from the program's last close to the end of the last write on the PFS."""
        assert self.storage is not None
        if self.application is None:
            return None
        closed, written = _last(self.application, "close_end_s"), _last(self.storage, "write_end_s")
        return None if closed is None or written is None else written - closed

    def _served(self) -> str:
        """Of a program that only reads: from where."""
        assert self.pfs.asked
        read = self.pfs.asked.read
        givers = [(p.name, p.engine.read) for p in self.tiers if p.engine and p.engine.read]
        share = _percent(sum(count for _, count in givers), read)
        told = f"{share} of {size(read)} read from {_listed(givers) if givers else 'a tier'}"
        if not self.tiers:
            told = f"no tiers, {size(read)} read"
        return told + (f"; PFS was asked for {size(self.fetched)}" if self.fetched is not None else "")

    def _is_only_scratch(self) -> bool:
        return self.mode == "scratch" and not self.received

    def missing(self) -> Iterable[str]:
        """Each thing that keeps the proof from holding."""
        asked = self.pfs.asked
        if not asked or not (asked.written or asked.read):
            yield "no application log says what the program wrote or read on the PFS"
            return
        for side, traces in (("application", self.application), ("storage", self.storage)):
            if traces is not None and not traces.job["complete"].all():
                yield f"the {side} log is incomplete"
        yield from self._mapped()
        yield from self._not_apart()
        if not self.wrote:
            served = sum(p.engine.read for p in self.tiers if p.engine) + (self.fetched or 0)
            if served < asked.read:
                yield f"{size(asked.read - served)} came neither from a tier nor from the PFS"
            return
        if self.tiers:
            yield from self._not_taken()
        yield from self._not_received()

    def _not_apart(self) -> Iterable[str]:
        """A tier on the PFS's own file system, or in memory where a device is claimed."""
        names = [p.name for p in (self.pfs, *self.tiers)] if self.tiers else []
        places_on = {name: self.places_on[name] for name in names if name in self.places_on}
        for a, b, words in devices.shared(places_on):
            yield f"{a} and {b} share storage: {words}"
        for name, place in places_on.items():
            if words := devices.in_memory(place):
                yield f"{name} is in memory: {words}"

    def _mapped(self) -> Iterable[str]:
        """What a program moves through a mapping is in no counter of either side."""
        if self.application is None:
            return
        files = self.application.files
        mapped = files[(files["mmaps"].fillna(0) > 0) & ~files["place"].isin(["unknown", "streams"])]
        mapped = mapped[mapped["place"].isin([p.name for p in (*self.tiers, self.pfs)])]
        if len(mapped):
            counted = int(self.application.job["mapped"].fillna(0).sum())
            most = f"up to {size(counted)}" if counted else "bytes that the log does not count"
            yield f"{most} went through mappings, as of {mapped['file'].iloc[0]}"

    def _not_taken(self) -> Iterable[str]:
        if all(p.engine is None for p in self.tiers):
            yield "no counters of the engine say what its tiers acknowledged"
            return
        spilled, passed = int(self.stats.get("spilled", 0)), int(self.stats.get("passed", 0))
        if self.taken < self.wrote:
            yield f"{size(self.wrote - self.taken)} were not acknowledged by a tier"
        if spilled:
            yield f"{size(spilled)} found the tiers full and went straight to the PFS"
        if passed:
            yield f"{passed:,} opens passed through unbuffered (max_files)"
        if self.taken > self.wrote:
            yield f"the tiers took {size(self.taken - self.wrote)} that the application log does not hold"
        for p in self.tiers:
            if p.engine and p.storage and (lacks := p.engine.written - p.storage.written) > 0:
                yield f"{p.name} acknowledged {size(lacks)} more than its storage got"

    def _not_received(self) -> Iterable[str]:
        errors = self.stats.get("errors") or []
        dirty = sum(int(t.get("dirty", 0)) for t in self.stats.get("tiers", []))
        for e in errors[:3]:
            yield f"the flush of {e.get('path')} failed ({e.get('error')})"
        if self.mode == "scratch":
            return
        if dirty:
            yield f"{size(dirty)} are not on the PFS yet"
        if self.received is None:
            yield "nothing says what the PFS received"
        elif self.application is not None and (lacks := _distinct(self.application) - self.received) > 0:
            yield f"the PFS received {size(lacks)} less than was written (removed before its flush, or lost)"


def _last(traces: Traces, column: str) -> float | None:
    """The last such moment of a file on the PFS, in seconds since 1970."""
    last = -math.inf
    for _, job in traces.job.iterrows():
        files = traces.files[(traces.files["log"] == job["log"]) & (traces.files["place"] == "pfs")]
        if files[column].notna().any():
            last = max(last, job["start"].timestamp() + float(files[column].max()))
    return last if math.isfinite(last) else None


def _distinct(traces: Traces) -> int:
    """Bytes of PFS files that were written at least once: by segments, else at most up to the files' ends."""
    on_pfs = traces.files[(traces.files["place"] == "pfs") & traces.files["module"].isin(["POSIX", "STDIO"])]
    segments = traces.segments[traces.segments["module"] == "DXT_POSIX"]
    segments = segments[segments["access"] == "write"]
    total = 0
    by_file = on_pfs.groupby(on_pfs["file"].astype(str))
    for file, (written, end) in by_file.agg({"bytes_written": "sum", "end_written": "max"}).iterrows():
        mine = segments[segments["file"] == file]
        whole = int(mine["length"].sum()) == int(written)
        total += covered_bytes(mine) if whole else int(written if pd.isna(end) else min(written, end))
    return total


def _listed(places: list[tuple[str, int]]) -> str:
    """Names with their bytes, which one alone does not need."""
    names = [name if len(places) == 1 else f"{name} ({size(count)})" for name, count in places]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names or ["no tier"])


def _percent(part: int, whole: int) -> str:
    """Never rounded up to the whole."""
    return "100 %" if part >= whole else f"{math.floor(1000 * part / whole) / 10:g} %"
