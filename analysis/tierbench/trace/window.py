"""Of several launches, what one did: by the log that it left alone, or by its segments in one of all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from tierbench.trace.frames import MOMENTS, Traces

_COUNTED = ("reads", "writes", "bytes_read", "bytes_written")
_COUNTED_BY = {"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPI-IO"}
SLACK_S = 0.05  # by which the clock of marks and that of the log may differ


def launch_of(traces: Traces, began: float, ended: float) -> Traces:
    """The one log that began and ended between the moments (seconds since 1970), else the part of all.

    A site's own runtime leaves a log of each launch, ours one of all that `tierctl run` started.
    """
    starts = traces.job["start"].map(pd.Timestamp.timestamp)
    inside = (starts >= began - SLACK_S) & (starts + traces.job["run_s"] <= ended + SLACK_S)
    own = list(traces.job["log"][inside])
    return traces.of(str(own[0])) if len(own) == 1 else between(traces, began, ended)


def between(traces: Traces, began: float, ended: float) -> Traces:
    """The accesses between two moments (seconds since 1970), by rank and file.

    Counts, bytes and times of records are those of the segments; opens and closes are taken from the first
    and the last of these. Flushes and mappings of a file are those of the whole log. What no segment tells
    (calls on names, writes after an fsync) is missing.
    """
    start = float(traces.job["start"].min().timestamp())
    low, high = began - start - SLACK_S, ended - start + SLACK_S
    all_segments = traces.segments
    mine = all_segments[(all_segments["start_s"] >= low) & (all_segments["end_s"] <= high)]
    job = traces.job.assign(unsynced=pd.array([pd.NA] * len(traces.job), dtype="Int64"))
    return replace(
        traces, job=job, segments=mine, files=_records(traces.files, mine), calls=traces.calls.iloc[:0]
    )


def _records(files: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    groups: Any = segments.groupby(["module", "file", "rank"], observed=True)
    rows = [_record(_COUNTED_BY[str(m)], str(file), rank, part) for (m, file, rank), part in groups]
    found = pd.DataFrame(rows, columns=files.columns)
    kinds = {n: k for n, k in files.dtypes.items() if n in _COUNTED or n in MOMENTS}
    return _with_whole_counts(found.astype(kinds), files)


def _record(module: str, file: str, rank: int, part: pd.DataFrame) -> dict[str, object]:
    row: dict[str, object] = {"module": module, "file": file, "rank": rank}
    for access, moved in (("read", "bytes_read"), ("write", "bytes_written")):
        some = part[part["access"] == access]
        row |= {f"{access}s": len(some), moved: int(some["length"].sum())}
        row |= {f"{access}_start_s": some["start_s"].min(), f"{access}_end_s": some["end_s"].max()}
    return row | {"open_start_s": part["start_s"].min(), "close_end_s": part["end_s"].max()}


def _with_whole_counts(found: pd.DataFrame, files: pd.DataFrame) -> pd.DataFrame:
    """A file's flushes and mappings are in its first record."""
    keys = ["module", "file"]
    sums = files.astype(dict.fromkeys(keys, str)).groupby(keys)[["flushes", "mmaps"]].sum().reset_index()
    whole = found.drop(columns=["flushes", "mmaps"]).merge(sums, "left", keys)
    first = ~whole.duplicated(keys)
    for name in ("flushes", "mmaps"):
        whole[name] = whole[name].where(first, 0).astype("Int64")
    return whole[found.columns]
