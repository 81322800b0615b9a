"""How far did the ranks of a launch come? From its Darshan log, no matter which program wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from tierbench.trace import Traces


def furthest(log: Path, base: str, access: str, ranks: int, *, scattered: bool) -> tuple[int, str]:
    """Bytes of its data after which the rank that came furthest has stopped, and in words what shows it.

    In sequence that is the largest offset of a rank. At random offsets, each of which comes once, it is the
    number of bytes that a rank moved. `ValueError` where the log does not show it of every rank.
    """
    from tierbench.trace import read  # takes longer to load than the whole suite

    traces = read([log])
    if traces.errors:
        raise ValueError(traces.errors[0])
    if not bool(traces.job["complete"].all()):
        raise ValueError(f"{log.name} is incomplete")
    by_rank = _by_rank(traces, base, access, scattered=scattered)
    if len(by_rank) != ranks:
        raise ValueError(f"{log.name} holds {access}s of {len(by_rank)} ranks, expected {ranks}")
    shown = f"bytes {access} at random offsets" if scattered else f"largest offset {access}"
    return int(by_rank.max()), f"the trace, {shown.replace('write', 'written')}, rank {by_rank.idxmax()}"


def _by_rank(traces: Traces, base: str, access: str, *, scattered: bool) -> pd.Series[int]:
    """By rank; of a file of all ranks the counters are merged, and only its segments tell ranks apart."""
    files = traces.files[traces.files["module"] == "POSIX"]
    files = files[_is_data(files["file"], base)]
    ends, sums = {"read": ("end_read", "bytes_read"), "write": ("end_written", "bytes_written")}[access]
    column = sums if scattered else ends
    moved = files[files[column].fillna(0) > 0]
    if (moved["rank"] >= 0).all():
        by_rank = moved.groupby("rank")[column]
        return by_rank.sum() if scattered else by_rank.max()
    segments = traces.segments[traces.segments["module"] == "DXT_POSIX"]
    segments = segments[_is_data(segments["file"], base) & (segments["access"] == access)]
    if scattered:
        return segments.groupby("rank")["length"].sum()
    return (segments["offset"] + segments["length"]).groupby(segments["rank"]).max()


def _is_data(files: pd.Series[str], base: str) -> pd.Series[bool]:
    """`base` is what -o names: with several names (FILE1@FILE2) ranks take turns on them."""
    names, bases = files.astype(str), [name for name in base.split("@") if name]
    return names.isin(bases) | names.str.startswith(tuple(f"{name}." for name in bases))
