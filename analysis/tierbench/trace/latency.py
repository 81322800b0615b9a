"""How long single accesses took: percentiles and their histogram, also apart for those made under flush.

The times are of DXT segments, one an access. An access is under flush where it overlaps a write of the
storage side to the PFS. A percentile is told where it is more than the slowest access: p99 from 100 accesses
on, p99.9 from 1,000 on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tierbench.layout import canvas
from tierbench.trace.drawings import Drawing
from tierbench.trace.frames import Traces

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHORTEST_S = 1e-7  # of the histogram: a time below the clock's grain is drawn there
_COLOURS = {"read": canvas.SKY, "write": canvas.ORANGE}
DRAWING = Drawing(
    "How long single accesses took",
    lambda traces: draw(traces, None),
    "Accesses by their time, on logarithmic axes; the dark part was made under flush to the PFS.",
)


@dataclass(frozen=True)
class Latency:
    """Percentiles of the times of some accesses, in seconds; None where there are too few for it."""

    access: str  # read or write
    when: str  # all, under flush, without flush
    count: int
    p50_s: float
    p99_s: float | None
    p999_s: float | None
    maximum_s: float

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return asdict(self)


@dataclass(frozen=True)
class Flushes:
    """Times, in seconds since the start of the application's job, in which the PFS was being written."""

    starts: NDArray[np.float64]  # in order; no two overlap
    ends: NDArray[np.float64]

    def overlap(self, starts: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each access is in one of them, in part or whole."""
        before = np.searchsorted(self.starts, ends, side="right")  # those that begin before it ends
        last_end = np.concatenate([[-np.inf], self.ends])[before]
        found: NDArray[np.bool_] = last_end > starts
        return found


def flushes(application: Traces | None, storage: Traces | None) -> Flushes | None:
    """From the storage side's writes to the PFS; None where a side or its segments are missing."""
    if application is None or storage is None or not len(storage.segments) or not len(application.job):
        return None
    places = storage.files.drop_duplicates("file").set_index(
        storage.files.drop_duplicates("file")["file"].astype(str)
    )
    written = _accesses(storage.segments, "write")
    to_pfs = written[places["place"].astype(str).reindex(written["file"].astype(str)).to_numpy() == "pfs"]
    if not len(to_pfs):
        return None
    apart_s = (storage.job["start"].iloc[0] - application.job["start"].iloc[0]).total_seconds()
    periods = to_pfs.sort_values("start_s")
    starts = periods["start_s"].to_numpy(float) + apart_s
    ends = np.maximum.accumulate(periods["end_s"].to_numpy(float) + apart_s)
    first = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Flushes(starts[first], ends[last])


def table(traces: Traces, periods: Flushes | None) -> list[Latency]:
    """Of writes and reads; apart under flush where both kinds are there."""
    found: list[Latency] = []
    for access in ("write", "read"):
        lines = _accesses(traces.segments, access)
        lasted = _lasted(lines)
        if not len(lasted):
            continue
        found.append(_latency(access, "all", lasted))
        under = _under(lines, periods)
        if under.any() and not under.all():
            found.append(_latency(access, "under flush", lasted[under]))
            found.append(_latency(access, "without flush", lasted[~under]))
    return found


def draw(traces: Traces, periods: Flushes | None) -> Figure | None:
    """Accesses by their time, in the report's style."""
    with canvas.style():
        return _histogram(traces, periods)


def _histogram(traces: Traces, periods: Flushes | None) -> Figure | None:
    some = {access: _accesses(traces.segments, access) for access in ("write", "read")}
    some = {access: lines for access, lines in some.items() if len(lines)}
    if not some:
        return None
    times = {access: np.maximum(_lasted(lines), _SHORTEST_S) for access, lines in some.items()}
    every = np.concatenate(list(times.values()))
    low, high = np.floor(np.log10(every.min()) * 5) / 5, np.ceil(np.log10(every.max()) * 5) / 5 + 0.2
    edges = 10 ** np.arange(low, high + 0.1, 0.2)
    figure = canvas.blank(1.5 * len(some) + 0.6)
    axes = figure.subplots(len(some), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (access, lasted) in zip(axes, times.items(), strict=True):
        axis.hist(lasted, edges, color=_COLOURS[access], label=f"{access}s")
        under = _under(some[access], periods)
        if under.any():
            axis.hist(lasted[under], edges, color=canvas.INK, alpha=0.55, label="under flush")
        axis.set_yscale("log")
        axis.set_ylim(bottom=0.7)
        axis.set_ylabel("accesses")
        axis.legend(loc="upper right")
    axes[-1].set_xscale("log")
    axes[-1].set_xlabel("seconds of one access")
    return figure


def _accesses(segments: pd.DataFrame, access: str) -> pd.DataFrame:
    """Those of the POSIX layer, with times that can be."""
    mine = segments[(segments["module"] == "DXT_POSIX") & (segments["access"] == access)]
    return mine[mine["end_s"] >= mine["start_s"]]


def _lasted(lines: pd.DataFrame) -> NDArray[np.float64]:
    return (lines["end_s"] - lines["start_s"]).to_numpy(float)


def _under(lines: pd.DataFrame, periods: Flushes | None) -> NDArray[np.bool_]:
    if periods is None:
        return np.zeros(len(lines), dtype=bool)
    return periods.overlap(lines["start_s"].to_numpy(float), lines["end_s"].to_numpy(float))


def _latency(access: str, when: str, lasted: NDArray[np.float64]) -> Latency:
    return Latency(
        access,
        when,
        len(lasted),
        float(np.median(lasted)),
        _percentile(lasted, 99, 100),
        _percentile(lasted, 99.9, 1000),
        float(lasted.max()),
    )


def _percentile(lasted: NDArray[np.float64], percent: float, least: int) -> float | None:
    return float(np.percentile(lasted, percent)) if len(lasted) >= least else None
