"""What is wrong with a program's accesses, in words: what was measured, the threshold it crosses, the remedy.

Thresholds are shares, so that they mean the same for a small run and a large one; what is too little to
matter (`LEAST_ACCESSES`, `LEAST_S`) is not judged. Each rule is a function from a log's frames to a finding,
or None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tierbench.base.text import size
from tierbench.trace.frames import OF_THE_ENGINE, Traces

LEAST_ACCESSES = 100
LEAST_S = 0.05
SMALL_BYTES = 100 << 10
SMALL_SHARE = 0.10
RANDOM_SHARE = 0.20
UNALIGNED_SHARE = 0.10
META_SHARE = 0.30
STRAGGLER = 0.15
CACHE_SHARE = 0.10
CACHE_SPEEDUP = 3.0


@dataclass(frozen=True)
class Finding:
    """One thing to know about a log; `files` are those it concerns most."""

    title: str
    measured: str
    threshold: str
    remedy: str
    files: tuple[str, ...] = ()


def find(traces: Traces) -> list[Finding]:
    """The findings of one log's frames (`Traces.of`), gravest kinds first."""
    traces, mixed = _without_own_files(traces)
    files = traces.files[traces.files["module"] == "POSIX"]
    found = [None if mixed else _small(traces), _random(files), _unaligned(files), _stragglers(traces)]
    found += [_metadata_bound(traces), _served_by_cache(files)]
    return [f for f in found if f]


def _without_own_files(traces: Traces) -> tuple[Traces, bool]:
    """On the storage side without slabs and journals: how the engine keeps bytes is not for a user to change.

    True where there were some: access sizes are of all files together, and say nothing of the others.
    """
    own = traces.files["file"].astype(str).str.contains(OF_THE_ENGINE)
    if "storage" not in set(traces.job["side"]) or not own.any():
        return traces, False
    return replace(traces, files=traces.files[~own]), True


def served_by_buffers(application: Traces, storage: Traces) -> Finding | None:
    """Reads that the program saw and the storage below did not: from buffers, or from a cache."""
    asked, served = _read_bytes(application), _read_bytes(storage)
    if not asked or served >= (1 - CACHE_SHARE) * asked:
        return None
    return Finding(
        "Reads did not reach the storage",
        f"the program read {size(asked)}, the storage was asked for {size(served)}"
        f" ({1 - served / asked:.0%} came from buffers)",
        f"more than {CACHE_SHARE:.0%} not asked of the storage",
        "This is what tiers are for; to measure the storage itself read in a run of its own, after a drain.",
    )


def _read_bytes(traces: Traces) -> int:
    below = traces.tiers[traces.tiers["place"] != "streams"]
    return int(below["bytes_read"].sum())


def _worst(files: pd.DataFrame, by: pd.Series[float], n: int = 3) -> tuple[str, ...]:
    top = by.groupby(files["file"].astype(str)).sum().nlargest(n)
    return tuple(str(name) for name, value in top.items() if value > 0)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _small(traces: Traces) -> Finding | None:
    bins = traces.sizes[(traces.sizes["kind"] == "bin") & (traces.sizes["module"] == "POSIX")]
    total, small = int(bins["count"].sum()), int(bins["count"][bins["high"] <= SMALL_BYTES].sum())
    if total < LEAST_ACCESSES or small <= SMALL_SHARE * total:
        return None
    files = traces.files[traces.files["module"] == "POSIX"]
    accesses = files["reads"] + files["writes"]
    pieces = (files["bytes_read"] + files["bytes_written"]) / accesses.where(accesses > 0)
    return Finding(
        "Small accesses",
        f"{small / total:.0%} of {total:,} accesses move at most {size(SMALL_BYTES)}",
        f"more than {SMALL_SHARE:.0%}",
        "Move larger pieces: buffer in the program, use collective MPI-IO, or put a RAM tier in front.",
        _worst(files, accesses.where(pieces < SMALL_BYTES, 0).fillna(0).astype(float)),
    )


def _random(files: pd.DataFrame) -> Finding | None:
    accesses = files["reads"] + files["writes"]
    # The first access of a record is never counted as sequential.
    scattered = (accesses - files["sequential_reads"] - files["sequential_writes"] - 1).clip(lower=0)
    total, share = int(accesses.sum()), _share(float(scattered.sum()), float(accesses.sum()))
    if total < LEAST_ACCESSES or share <= RANDOM_SHARE:
        return None
    return Finding(
        "Random accesses",
        f"{share:.0%} of {total:,} accesses go back in their file",
        f"more than {RANDOM_SHARE:.0%} not beyond the end of the access before",
        "Sort accesses by offset, stage the file in to a fast tier first, or hint that it is read at random.",
        _worst(files, scattered.astype(float)),
    )


def _unaligned(files: pd.DataFrame) -> Finding | None:
    accesses = files["reads"] + files["writes"]
    total, share = int(accesses.sum()), _share(float(files["unaligned"].sum()), float(accesses.sum()))
    if total < LEAST_ACCESSES or share <= UNALIGNED_SHARE:
        return None
    blocks = sorted({int(a) for a in files["alignment"].dropna() if a > 0})
    held = " or ".join(size(b) for b in blocks[:3]) or "the file's block"
    return Finding(
        "Unaligned accesses",
        f"{share:.0%} of {total:,} accesses do not begin at a multiple of {held}",
        f"more than {UNALIGNED_SHARE:.0%}",
        "Align records to the block or stripe: pad them, H5Pset_alignment in HDF5, striping_unit in MPI-IO.",
        _worst(files, files["unaligned"].astype(float)),
    )


def _metadata_bound(traces: Traces) -> Finding | None:
    files = traces.files[traces.files["module"].isin(["POSIX", "STDIO"])]
    meta, moving = float(files["meta_s"].sum()), float(files[["read_s", "write_s"]].sum().sum())
    share = _share(meta, meta + moving)
    if meta < LEAST_S or share <= META_SHARE:
        return None
    opens, stats = int(files["opens"].sum()), int(files["stats"].sum())
    return Finding(
        "Bound by metadata",
        f"{share:.0%} of the time in I/O ({meta:.3g} of {meta + moving:.3g} s, all ranks) went to open,"
        f" close, stat and seek: {opens:,} opens, {stats:,} stats",
        f"more than {META_SHARE:.0%}",
        "Keep files open, put small files together, stat once; a deferred namespace creates them later.",
        _worst(files, files["meta_s"].fillna(0)),
    )


def _stragglers(traces: Traces) -> Finding | None:
    slow = slowest(traces)
    if slow is None or slow.busy_s < LEAST_S or slow.beyond <= STRAGGLER:
        return None
    return Finding(
        "A straggler",
        f"rank {slow.rank} spent {slow.busy_s:.3g} s in I/O, {1 + slow.beyond:.3g} times {slow.compared}"
        f" ({slow.typical_s:.3g} s)",
        f"more than {1 + STRAGGLER:.3g} times",
        "Look at that rank's node and files first; spread bytes evenly and keep shared files off one target.",
        (slow.file,) if slow.file else (),
    )


def _served_by_cache(files: pd.DataFrame) -> Finding | None:
    both = files[(files["bytes_read"] > 0) & (files["bytes_written"] > 0)]
    read_s, write_s = float(both["read_s"].sum()), float(both["write_s"].sum())
    if read_s <= 0 or write_s < LEAST_S:
        return None
    reading = float(both["bytes_read"].sum()) / read_s
    writing = float(both["bytes_written"].sum()) / write_s
    if reading < CACHE_SPEEDUP * writing:
        return None
    return Finding(
        "Reads served by a cache",
        f"files written in this run were read back {reading / writing:.1f} times as fast as written"
        f" ({size(reading)}/s a rank)",
        f"{CACHE_SPEEDUP:g} times as fast or more",
        "To measure storage, read in a run of its own, shift ranks (IOR -C), or move more than memory holds.",
        _worst(both, both["bytes_read"].astype(float)),
    )


@dataclass(frozen=True)
class Slowest:
    """The rank with the most time in I/O; `beyond` is how much more that is than `compared` needs."""

    rank: int
    busy_s: float
    typical_s: float
    compared: str
    file: str | None

    @property
    def beyond(self) -> float:
        """0.5 where it needs half as much again."""
        return self.busy_s / self.typical_s - 1 if self.typical_s > 0 else 0.0


def slowest(traces: Traces) -> Slowest | None:
    """The slowest rank: by segments or records of single ranks, else by what merged records say of theirs.

    None on the storage side, where a daemon that flushes for all ranks is among them, and where the embedded
    runtime says that no process was a rank: processes of a pipeline or of a shim do different work.
    """
    if "storage" in set(traces.job["side"]) or 0 in set(traces.job["ranks"]):
        return None
    return _slowest_of_ranks(traces) or _slowest_of_merged(traces)


def _slowest_of_ranks(traces: Traces) -> Slowest | None:
    """From records unless most time is in merged ones, else from segments, which leave out flushes."""
    for modules in (["POSIX", "STDIO"], ["DXT_POSIX"]):
        ranks = traces.ranks[traces.ranks["module"].isin(modules)]
        spent = ranks[["read_s", "write_s", "meta_s"]].sum(axis=1)
        busy = spent[ranks["rank"] >= 0].groupby(ranks["rank"]).sum()
        if len(busy) > 1 and busy.sum() > spent[ranks["rank"] < 0].sum():
            rank = int(busy.index[int(np.argmax(busy))])
            file = _slow_file(traces, rank)
            return Slowest(rank, float(busy.max()), float(busy.median()), "the median rank", file)
    return None


def _slow_file(traces: Traces, rank: int) -> str | None:
    mine = traces.segments[(traces.segments["rank"] == rank) & (traces.segments["module"] == "DXT_POSIX")]
    if len(mine):
        lasted = (mine["end_s"] - mine["start_s"]).groupby(mine["file"].astype(str)).sum()
        return str(lasted.idxmax())
    files = traces.files[traces.files["rank"] == rank]
    busy = files["read_s"].fillna(0) + files["write_s"].fillna(0) + files["meta_s"].fillna(0)
    return str(files["file"].iloc[int(np.argmax(busy))]) if len(files) else None


def _slowest_of_merged(traces: Traces) -> Slowest | None:
    merged = traces.files[(traces.files["rank"] < 0) & (traces.files["module"] == "POSIX")]
    merged = merged.dropna(subset=["slowest_rank", "slowest_s", "fastest_rank", "fastest_s"])
    if not len(merged):
        return None
    worst = merged.iloc[int(np.argmax(merged["slowest_s"]))]
    fastest = f"the fastest, rank {int(worst['fastest_rank'])}"
    return Slowest(
        int(worst["slowest_rank"]),
        float(worst["slowest_s"]),
        float(worst["fastest_s"]),
        fastest,
        str(worst["file"]),
    )
