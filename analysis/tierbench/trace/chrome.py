"""Segments as Chrome trace events: what Perfetto, chrome://tracing and DFTracer's dfanalyzer open.

Every access of a DXT module is a complete event (`X`) with its bytes as `ret` (DFTracer's word), its offset
and its file. A process of the picture is the application, or of one place as the storage side saw it the
engine (its slabs and journal) or the storage (all else); a thread is a rank in a module, and as many lanes as
it had accesses at once, since events of one thread may not overlap. Samples of the engine
(`tierctl run --stats`) become counters (`C`) of a process `tiers`. Times are microseconds from the start of
the first job; samples count from the instance's start, which `tierctl run` makes just before its job.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tierbench.base.atomic_write import replace_all
from tierbench.base.errors import RunError
from tierbench.trace.frames import OF_THE_ENGINE, Traces

Event = dict[str, Any]


def write(traces: Traces, stats: Mapping[str, Any], path: Path) -> int:
    """Write the events, one a line, and return how many segments had no time that makes sense.

    The file is a JSON array. Where its name ends in `.pfw`, DFTracer's, no commas are between the lines,
    since dfanalyzer reads each line for itself.
    """
    if not len(traces.segments) and not stats.get("samples"):
        raise RunError(f"{path}: the logs hold no segments (DXT), and no samples are given")
    made, left_out = events(traces, stats)
    between = "\n" if path.name.endswith(".pfw") else ",\n"
    text = "[\n" + between.join(json.dumps(e, separators=(",", ":")) for e in made) + "\n]\n"
    replace_all(path.parent, {path.name: text.encode()})
    return left_out


def events(traces: Traces, stats: Mapping[str, Any]) -> tuple[list[Event], int]:
    """All events, names of processes and threads first; and how many segments are left out."""
    sane = _with_sane_times(traces)
    names: list[Event] = []
    made: list[Event] = []
    for number, (process, mine) in enumerate(_processes(traces, sane), 1):
        names.append(_named("process_name", number, 0, process))
        for thread, (label, lines) in enumerate(_threads(mine), 1):
            names.append(_named("thread_name", number, thread, label))
            made += _accesses(lines, number, thread)
    if samples := stats.get("samples"):
        names.append(_named("process_name", 0, 0, "tiers"))
        made += _counters(samples)
    return names + made, len(traces.segments) - len(sane)


def _with_sane_times(traces: Traces) -> pd.DataFrame:
    """With `start_ns` and `end_ns` from the start of the first job: whole numbers, so that ends meet."""
    segments = traces.segments
    started = (traces.job["start"] - traces.job["start"].min()).dt.total_seconds()
    offsets = segments["log"].astype(str).map(dict(zip(traces.job["log"].astype(str), started, strict=True)))
    mine = segments[(segments["end_s"] >= segments["start_s"]) & offsets.notna()]  # NaN is not
    start_ns, end_ns = (
        ((mine[c] + offsets[mine.index]) * 1e9).round().astype("int64") for c in ("start_s", "end_s")
    )
    return mine.assign(start_ns=start_ns, end_ns=end_ns)


def _named(kind: str, process: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _processes(traces: Traces, segments: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Name and segments of the application, and of the engine and the storage in each place."""
    for _, job in traces.job.sort_values("side", key=lambda s: s.astype(str), kind="stable").iterrows():
        mine = segments[segments["log"] == job["log"]]
        if job["side"] == "application":
            yield f"application ({job['log']})", mine
            continue
        files = traces.files[traces.files["log"] == job["log"]]
        place_of = dict(zip(files["file"].astype(str), files["place"].astype(str), strict=True))
        names = mine["file"].astype(str)
        of_engine = names.str.contains(OF_THE_ENGINE)
        layers = of_engine.map({True: "engine: ", False: "storage: "}) + names.map(place_of).fillna("unknown")
        for layer in sorted(layers.unique()):
            yield f"{layer} ({job['log']})", mine[layers == layer]


def _threads(segments: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Of each rank and module, its segments in lanes in which none overlap."""
    ordered = segments.sort_values(["start_ns", "end_ns"], kind="stable")
    for (rank, module), mine in ordered.groupby(["rank", "module"], observed=True, sort=True):
        lanes = _lanes(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        for lane in range(int(lanes.max()) + 1):
            more = f", lane {lane + 1}" if lane else ""
            yield f"rank {rank} {str(module).removeprefix('DXT_')}{more}", mine[lanes == lane]


def _lanes(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of the intervals, which are in order of their start, the lowest lane that is free."""
    busy: list[tuple[int, int]] = []  # by their end
    free: list[int] = []
    made = np.zeros(len(starts), dtype=np.int64)
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        made[i] = lane
    return made


def _accesses(lines: pd.DataFrame, process: int, thread: int) -> Iterable[Event]:
    columns = ("module", "access", "start_ns", "end_ns", "file", "host", "offset", "length")
    for module, access, start_ns, end_ns, file, host, offset, length in zip(
        *(lines[c].tolist() for c in columns), strict=True
    ):
        yield {
            "name": access,
            "cat": module.removeprefix("DXT_"),
            "ph": "X",
            "ts": start_ns / 1000,
            "dur": (end_ns - start_ns) / 1000,
            "pid": process,
            "tid": thread,
            "args": {"ret": length, "offset": offset, "fname": file, "hostname": host},
        }


def _counters(samples: Mapping[str, Any]) -> Iterable[Event]:
    """Of each tier what is in it, and how many bytes a second moved since the sample before."""
    seconds = np.asarray(samples["seconds"], dtype=float)
    if not len(seconds):
        return
    for tier in samples.get("used", {}):
        used, dirty, *moved = (
            _series(samples, key, tier) for key in ("used", "dirty", "bytes_in", "bytes_out", "flushed")
        )
        for at, held, not_flushed in zip(seconds, used.tolist(), dirty.tolist(), strict=True):
            clean = max(held - not_flushed, 0)  # counters are of different moments
            yield _counter(f"{tier} bytes", at, {"dirty": not_flushed, "clean": clean})
        totals = dict(zip(("written", "read", "flushed"), moved, strict=True))
        yield from _rates(f"{tier} bytes/s", seconds, totals)
    pfs = {n: _series(samples, f"pfs_bytes_{n}") for n in ("written", "read")}
    yield from _rates("pfs bytes/s", seconds, pfs)


def _series(samples: Mapping[str, Any], key: str, tier: str | None = None) -> NDArray[np.float64]:
    """A value for each sample; what is not counted is 0."""
    n, place = len(samples["seconds"]), f"samples.{key}" + f".{tier}" * (tier is not None)
    values = samples.get(key, {}) if tier is None else samples.get(key, {}).get(tier, {})
    if values and len(values) != n:
        raise RunError(f"{place}: {len(values)} values; allowed: {n}, as many as samples.seconds")
    return np.asarray(values or [0] * n, dtype=float)


def _rates(
    name: str, seconds: NDArray[np.float64], totals: Mapping[str, NDArray[np.float64]]
) -> Iterable[Event]:
    """Shown from the sample before on, since a counter holds its value until the next one."""
    lasted = np.diff(seconds)
    per_s = {n: np.diff(t) / np.where(lasted > 0, lasted, np.inf) for n, t in totals.items()}
    for i, at in enumerate(seconds[:-1]):
        yield _counter(name, at, {n: float(rate[i]) for n, rate in per_s.items()})
    yield _counter(name, seconds[-1], dict.fromkeys(totals, 0))


def _counter(name: str, at_s: float, values: Mapping[str, Any]) -> Event:
    return {
        "name": name,
        "ph": "C",
        "ts": round(float(at_s) * 1e6, 3),
        "pid": 0,
        "tid": 0,
        "args": dict(values),
    }
