"""Logs as tidy pandas frames.

Sizes are bytes, times seconds (`_s`); times without a date count from the job's start. Every frame's first
column `log` is the log's label: its file name, or its path where names repeat. A rank of -1 means all ranks
together: Darshan merges the records of a file that every rank opened. A number that a module does not count
is missing (NA), never zero.

==========  ================================================================================================
job         one line a log: `side` (`application`, or `storage` for what the engine asked of the storage
            below it), `log_version`, `runtime_version`, `job_id`, `uid`, `nprocs`, `start` (UTC), `run_s`,
            `executable`, `modules` and their record versions, `complete` (False: some records are missing,
            the runtime ran out of memory, or the run died), `ranks` of MPI (0: none; other processes are in
            `nprocs`, too), `unsynced` (records of the configuration's files
            that were written after their last fsync) and `mapped` (bytes of mappings of these): these three
            only our own runtime counts, `problems` in words, `path`
files       one line a record: `module`, `file`, `rank`, `place` (as in `tiers`); counts `opens reads writes
            seeks stats mmaps flushes`; `collective` (of MPI-IO: reads and writes that were);
            `bytes_read bytes_written`, `end_read end_written` (highest
            offset + 1);
            `sequential_*` and `consecutive_*` (offset after, and exactly at, the end of the last access);
            `unaligned` accesses and the `alignment` they were held against; `read_s write_s meta_s` (a
            flush counts as writing, open, close, stat and seek as meta); when the first open, read, write and
            close began and the last ended, `open_start_s open_end_s read_start_s read_end_s write_start_s
            write_end_s close_start_s close_end_s`; and for merged records `fastest_rank fastest_bytes
            fastest_s slowest_rank slowest_bytes slowest_s`
ranks       one line a module and rank: `files opens reads writes bytes_read bytes_written read_s write_s
            meta_s`; with DXT the modules `DXT_POSIX` and `DXT_MPIIO` give it for merged records too
sizes       access sizes: `kind` `bin` (a histogram's bin: `low` <= size <= `high`, the last is open) or
            `common` (`low` == `high` is one of the most frequent sizes of a file), `access` (`read`,
            `write`, or `any` where Darshan does not tell them apart), `count`
segments    DXT: one line an access: `module`, `file`, `rank`, `host`, `access`, `offset`, `length`,
            `start_s`, `end_s`
calls       calls on names of the configuration's files that went well, which only our own runtime counts,
            also of files that it keeps no record of: one line a kind, `call` (`created`, `opened`,
            `looked_at`, `removed`), `count` of all ranks, of a rank the `least` and the `most`, `first_s` and
            `last_s`, when the first began and the last ended, and `longest_s`, the longest that a rank took
            from its first to its last
heat        HEATMAP: `layer`, `rank`, `start_s`, `end_s`, `bytes_read`, `bytes_written` of each bin that is
            not empty
tiers       one line a log and place: `place` (a tier, `pfs`, or a mount point with its file system), `files
            reads writes bytes_read bytes_written read_s write_s meta_s` of its POSIX and STDIO records
==========  ================================================================================================
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tierbench.trace.log import Counters, Heat, Log, Segments, TraceError, read_logs

_COUNTS = (
    "opens",
    "reads",
    "writes",
    "collective",
    "seeks",
    "stats",
    "mmaps",
    "flushes",
    "bytes_read",
    "bytes_written",
    "end_read",
    "end_written",
    "sequential_reads",
    "sequential_writes",
    "consecutive_reads",
    "consecutive_writes",
    "unaligned",
    "alignment",
    "fastest_rank",
    "fastest_bytes",
    "slowest_rank",
    "slowest_bytes",
)
MOMENTS = tuple(f"{what}_{end}_s" for what in ("open", "read", "write", "close") for end in ("start", "end"))
_TIMES = ("read_s", "write_s", "meta_s", *MOMENTS, "fastest_s", "slowest_s")
_OF_MERGED = ("fastest_rank", "fastest_bytes", "fastest_s", "slowest_rank", "slowest_bytes", "slowest_s")
_SUMMED = ("opens", "reads", "writes", "bytes_read", "bytes_written", "read_s", "write_s", "meta_s")
# Which counters of a module make up a column; several are added, those the module lacks are left out.
_SOURCES = {
    "opens": ("OPENS", "FDOPENS", "INDEP_OPENS", "COLL_OPENS"),
    "reads": ("READS", "INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"),
    "writes": ("WRITES", "INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"),
    "collective": ("COLL_READS", "COLL_WRITES"),
    "seeks": ("SEEKS",),
    "stats": ("STATS",),
    "mmaps": ("MMAPS",),
    "flushes": ("FSYNCS", "FDSYNCS", "FLUSHES", "SYNCS"),
    "bytes_read": ("BYTES_READ",),
    "bytes_written": ("BYTES_WRITTEN",),
    "sequential_reads": ("SEQ_READS",),
    "sequential_writes": ("SEQ_WRITES",),
    "consecutive_reads": ("CONSEC_READS",),
    "consecutive_writes": ("CONSEC_WRITES",),
    "unaligned": ("FILE_NOT_ALIGNED",),
    "alignment": ("FILE_ALIGNMENT",),
    "fastest_rank": ("FASTEST_RANK",),
    "fastest_bytes": ("FASTEST_RANK_BYTES",),
    "slowest_rank": ("SLOWEST_RANK",),
    "slowest_bytes": ("SLOWEST_RANK_BYTES",),
    "read_s": ("F_READ_TIME",),
    "write_s": ("F_WRITE_TIME",),
    "meta_s": ("F_META_TIME",),
    "fastest_s": ("F_FASTEST_RANK_TIME",),
    "slowest_s": ("F_SLOWEST_RANK_TIME",),
}
_BINS = (
    "0_100",
    "100_1K",
    "1K_10K",
    "10K_100K",
    "100K_1M",
    "1M_4M",
    "4M_10M",
    "10M_100M",
    "100M_1G",
    "1G_PLUS",
)
_K, _M, _G = 1 << 10, 1 << 20, 1 << 30
# A bin holds sizes above the end of the one before, up to and with its own end.
_BIN_ENDS = (100, _K, 10 * _K, 100 * _K, _M, 4 * _M, 10 * _M, 100 * _M, _G, np.iinfo(np.int64).max)
BINS = tuple(zip((0, *(end + 1 for end in _BIN_ENDS[:-1])), _BIN_ENDS, strict=True))

LONGEST_S = 1e9  # thirty years; longer times in a log are nonsense, and missing
MOST = 1 << 56  # 72 PB; larger counts of a record are nonsense, and missing

# In names on the storage side: an instance's directory in a tier, or that of names that wait on the PFS.
OF_THE_ENGINE = r"/\.?tierbench\.\d+\."

# The place of a file: given its name, the place's name, or None for the log's own mount table.
Places = Mapping[str, str]


@dataclass(frozen=True)
class Traces:
    """The frames of some logs, and one line for each log that could not be read."""

    job: pd.DataFrame
    files: pd.DataFrame
    ranks: pd.DataFrame
    sizes: pd.DataFrame
    segments: pd.DataFrame
    calls: pd.DataFrame
    heat: pd.DataFrame
    tiers: pd.DataFrame
    errors: tuple[str, ...] = ()

    def frames(self) -> dict[str, pd.DataFrame]:
        """Every frame by its name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "errors"}

    def of(self, label: str) -> Traces:
        """The same of one log."""
        mine: dict[str, Any] = {name: f[f["log"] == label] for name, f in self.frames().items()}
        return Traces(**mine)


def read(paths: Iterable[Path | str], places: Places | None = None) -> Traces:
    """Read logs into frames; `places` names path prefixes (`{"/scratch/nvme": "nvme"}`)."""
    listed = [Path(p) for p in paths]
    repeated = {name for name, n in Counter(p.name for p in listed).items() if n > 1}
    tables = {name: _Table(kinds) for name, kinds in _COLUMNS.items()}
    errors = []
    for path, log in zip(listed, read_logs(listed), strict=True):
        if isinstance(log, TraceError):
            errors.append(str(log))
            continue
        label = os.fspath(path) if path.name in repeated else path.name
        _add_log(tables, label.encode("utf-8", "backslashreplace").decode(), log, places or {})
    made: dict[str, Any] = {name: table.frame() for name, table in tables.items()}
    files = made["files"]
    ranks = _ranks(files, made["segments"])
    tiers = _sums(files[files["module"].isin(["POSIX", "STDIO"])], ["log", "side", "place"])
    made["files"] = files.drop(columns="side")
    return Traces(**made, ranks=_typed(ranks, _RANKS), tiers=_typed(tiers, _TIERS), errors=tuple(errors))


class _Table:
    """A frame in the making: columns as lists of arrays, texts as codes into one list of their own."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = {"log": _C, **kinds}
        self._parts: dict[str, list[Any]] = {name: [] for name in self._kinds}
        self._texts: dict[str, dict[str, int]] = {n: {} for n, kind in self._kinds.items() if kind == _C}

    def codes(self, column: str, texts: Iterable[str]) -> NDArray[np.int32]:
        """The numbers that `column` has for `texts`."""
        known = self._texts[column]
        return np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int32)

    def add(self, lines: int, columns: Mapping[str, Any]) -> None:
        """Add lines; a single value is put into each of them."""
        assert columns.keys() == self._kinds.keys()
        for name, values in columns.items():
            if name in self._texts and isinstance(values, str):
                values = self.codes(name, [values])[0]
            kind = object if isinstance(values, str | pd.Timestamp) else None
            self._parts[name].append(np.full(lines, values, dtype=kind) if np.ndim(values) == 0 else values)

    def frame(self) -> pd.DataFrame:
        """All lines; the parts are let go column by column, so that they are never there twice."""
        return pd.DataFrame({name: self._column(name, kind) for name, kind in self._kinds.items()})

    def _column(self, name: str, kind: str) -> Any:
        parts, self._parts[name] = self._parts[name], []
        if name in self._texts:
            codes: Any = np.concatenate([np.zeros(0, dtype=np.int32), *parts])
            return pd.Categorical.from_codes(codes, pd.Index(list(self._texts[name]), dtype=object))
        if kind == _I:  # a count of -1 is missing
            counts = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
            return pd.arrays.IntegerArray(counts, counts < 0)
        empty: Any = np.zeros(0, dtype=object if kind in (_S, _TIME) else kind)
        return pd.Series(np.concatenate([empty, *parts])).astype(pd.api.types.pandas_dtype(kind))


def _typed(frame: pd.DataFrame, kinds: Mapping[str, str]) -> pd.DataFrame:
    """The columns of a kind of frame, in order; those that are not there are missing."""
    whole = frame.reindex(columns=["log", *kinds])
    for name, kind in kinds.items():
        whole[name] = whole[name].astype(pd.api.types.pandas_dtype(kind))
    return whole.reset_index(drop=True)


def side_of(log: Log) -> str:
    """The log's side: what the runtime wrote into the job's metadata, else the end of its file name."""
    told = log.metadata.get("tierbench_side")
    if told in ("application", "storage"):
        return told
    return "storage" if Path(log.path).name.endswith("storage.darshan") else "application"


def _add_log(tables: Mapping[str, _Table], label: str, log: Log, places: Places) -> None:
    place_of = _place_finder(log, places)
    doubts: list[str] = []
    for module, counters in log.counters.items():
        _add_files(tables["files"], label, log, module, counters, place_of, doubts)
        _add_sizes(tables["sizes"], label, module, counters)
    for module, records in log.segments.items():
        _add_segments(tables["segments"], label, log, module, records)
    if log.heat is not None:
        _add_heat(tables["heat"], label, log.heat)
    _add_calls(tables["calls"], label, log)
    problems = [*log.problems, *(f"{m} is partial: its memory ran out" for m in log.partial)]
    _add_job(tables["job"], label, log, problems + doubts)


def _add_job(table: _Table, label: str, log: Log, problems: Sequence[str]) -> None:
    start = pd.Timestamp(min(max(log.job["start_s"], 0.0), 2.0**33), unit="s", tz="UTC").floor("us")
    modules = ", ".join(f"{name}:{version}" for name, version in log.modules.items())
    incomplete = log.metadata.get("tierbench_incomplete", "0") not in ("0", "false")
    table.add(
        1,
        {
            "log": label,
            "side": side_of(log),
            "log_version": log.version,
            "runtime_version": log.metadata.get("lib_ver", ""),
            **{name: log.job[name] for name in ("job_id", "uid", "nprocs", "run_s")},
            "start": start,
            "executable": log.executable,
            "modules": modules,
            "complete": not log.partial and not incomplete,
            **{name: _told(log, f"tierbench_{name}") for name in ("ranks", "unsynced", "mapped")},
            "problems": "; ".join(problems),
            "path": log.path,
        },
    )


def _told(log: Log, key: str) -> NDArray[np.int64]:
    """A number of the job's metadata; -1 where it says none."""
    given = log.metadata.get(key, "")
    return np.array([int(given) if given.isdigit() and int(given) <= MOST else -1])


def _add_calls(table: _Table, label: str, log: Log) -> None:
    for call in CALLS:
        told = _CALLS_TOLD.fullmatch(log.metadata.get(f"tierbench_{call}", ""))
        if told:
            counts = {name: int(told[name]) for name in ("count", "least", "most")}
            moments = {name: float(told[name] or "nan") for name in ("first_s", "last_s", "longest_s")}
            table.add(1, {"log": label, "call": call, **counts, **moments})


def _names(log: Log, ids: Iterable[Any]) -> list[str]:
    return [log.names.get(int(i), f"<unnamed {int(i):x}>") for i in ids]


def _add_files(
    table: _Table,
    label: str,
    log: Log,
    module: str,
    counters: Counters,
    place_of: Callable[[str], str],
    doubts: list[str],
) -> None:
    prefix = module.replace("-", "") + "_"
    ints = {n.removeprefix(prefix): counters.values[:, i] for i, n in enumerate(counters.names)}
    floats = {n.removeprefix(prefix): counters.floats[:, i] for i, n in enumerate(counters.float_names)}
    n, names = len(counters.ids), _names(log, counters.ids)
    columns: dict[str, Any] = {name: _count(name, ints, n) for name in _COUNTS}
    columns |= {name: _time(name, floats, n) for name in _TIMES}
    doubts += [
        f"{said.format(module)} and not shown" for said in _without_nonsense(columns, log.job["nprocs"])
    ]
    for name in _OF_MERGED:
        columns[name] = np.where(counters.ranks < 0, columns[name], np.nan if name in _TIMES else -1)
    texts = {"file": table.codes("file", names), "place": table.codes("place", map(place_of, names))}
    fixed = {"log": label, "side": side_of(log), "module": module, "rank": counters.ranks}
    table.add(n, {**fixed, **texts, **columns})


def _without_nonsense(columns: dict[str, Any], nprocs: int) -> list[str]:
    """Make values missing that no program can have; say in words, for `str.format` of the module, which."""
    wrong = {
        "{} times of {{}} are negative": [(name, columns[name] < 0) for name in _TIMES],
        f"{{}} counts of {{{{}}}} are above {MOST}": [
            (name, columns[name] > MOST) for name in _COUNTS if not name.endswith("rank")
        ],
        f"{{}} ranks of {{{{}}}} are outside 0 to {nprocs - 1}": [
            (name, columns[name] >= nprocs) for name in ("fastest_rank", "slowest_rank")
        ],
    }
    for found in wrong.values():
        for name, lines in found:
            columns[name] = np.where(lines, np.nan if name in _TIMES else -1, columns[name])
    amounts = {said: sum(int(lines.sum()) for _, lines in found) for said, found in wrong.items()}
    return [said.format(n) for said, n in amounts.items() if n]


def _count(name: str, ints: Mapping[str, Any], n: int) -> NDArray[np.int64]:
    """A column of counts; -1 where the module or the runtime that wrote the log does not count it."""
    if name in ("end_read", "end_written"):
        highest = ints.get("MAX_BYTE_READ" if name == "end_read" else "MAX_BYTE_WRITTEN")
        moved = ints.get("BYTES_READ" if name == "end_read" else "BYTES_WRITTEN")
        if highest is None or moved is None:
            return np.full(n, -1, dtype=np.int64)
        ends: NDArray[np.int64] = np.where(moved > 0, highest + 1, np.minimum(moved, 0))
        return ends
    found = [ints[source] for source in _SOURCES[name] if source in ints]
    if not found:
        return np.full(n, -1, dtype=np.int64)
    counted: NDArray[np.int64] = np.where(np.min(found, axis=0) < 0, -1, np.sum(found, axis=0))
    return counted


def _time(name: str, floats: Mapping[str, Any], n: int) -> NDArray[np.float64]:
    """Seconds; NaN where the module does not count them or the log holds nonsense."""
    missing = np.full(n, np.nan)
    if name in MOMENTS:
        moment = floats.get(f"F_{name[:-2].upper()}_TIMESTAMP")
        values = missing if moment is None else np.where(moment == 0, np.nan, moment)  # 0: it never happened
    else:
        found = [floats[source] for source in _SOURCES[name] if source in floats]
        values = found[0] if found else missing
    return _sane(values)


def _add_sizes(table: _Table, label: str, module: str, counters: Counters) -> None:
    prefix = module.replace("-", "") + "_"
    at = {n.removeprefix(prefix): i for i, n in enumerate(counters.names)}
    for access in ("read", "write"):
        columns = [
            at.get(f"SIZE_{access.upper()}_{n}", at.get(f"SIZE_{access.upper()}_AGG_{n}")) for n in _BINS
        ]
        if None not in columns:
            counted = counters.values[:, [c for c in columns if c is not None]]
            counts = np.where((counted > 0) & (counted <= MOST), counted, 0).sum(axis=0)
            low, high = (np.array(ends) for ends in zip(*BINS, strict=True))
            kind = {"log": label, "module": module, "kind": "bin", "access": access}
            table.add(len(BINS), {**kind, "low": low, "high": high, "count": counts})
    if "ACCESS1_COUNT" in at:
        sizes = counters.values[:, [at[f"ACCESS{i}_ACCESS"] for i in range(1, 5)]].ravel()
        counts = counters.values[:, [at[f"ACCESS{i}_COUNT"] for i in range(1, 5)]].ravel()
        known = (counts > 0) & (counts <= MOST)
        distinct, inverse = np.unique(sizes[known], return_inverse=True)
        total = np.bincount(inverse, weights=counts[known], minlength=len(distinct)).astype(np.int64)
        kind = {"log": label, "module": module, "kind": "common", "access": "any"}
        table.add(len(distinct), {**kind, "low": distinct, "high": distinct, "count": total})


def _add_segments(table: _Table, label: str, log: Log, module: str, records: Segments) -> None:
    totals = records.writes + records.reads
    split = np.stack([records.writes, records.reads], axis=1).ravel()
    kinds = np.tile(table.codes("access", ["write", "read"]), len(totals))
    columns = {
        "log": label,
        "module": module,
        "file": np.repeat(table.codes("file", _names(log, records.ids)), totals),
        "rank": np.repeat(records.ranks, totals),
        "host": np.repeat(table.codes("host", records.hosts), totals),
        "access": np.repeat(kinds, split),
    }
    columns |= {n: records.segments[n] for n in ("offset", "length")}
    columns |= {n: _sane(records.segments[n]) for n in ("start_s", "end_s")}
    table.add(len(records.segments), columns)


def _sane(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """NaN where the log holds nonsense."""
    return np.where(np.abs(times) < LONGEST_S, times, np.nan)


def _add_heat(table: _Table, label: str, heat: Heat) -> None:
    for layer, rank, bin_s, written, read in zip(
        heat.layers, heat.ranks, heat.bin_s, heat.written, heat.read, strict=True
    ):
        used = np.flatnonzero((written > 0) | (read > 0))
        times = {"start_s": used * bin_s, "end_s": (used + 1) * bin_s}
        columns = {"log": label, "layer": layer, "rank": rank, **times, "bytes_read": read[used]}
        table.add(len(used), {**columns, "bytes_written": written[used]})


def _sums(files: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    grouped = files.groupby(keys, observed=True, sort=True)
    return grouped[list(_SUMMED)].sum(min_count=1).assign(files=grouped["file"].nunique()).reset_index()


def _ranks(files: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    counted = _sums(files, ["log", "module", "rank"])
    if not len(segments):
        return counted
    traced = _ranks_of_segments(segments[segments["rank"] >= 0])
    both = [counted.astype({"log": str, "module": str}), traced.astype({"log": str, "module": str})]
    return pd.concat(both, ignore_index=True).astype({"log": _C, "module": _C})


def _ranks_of_segments(known: pd.DataFrame) -> pd.DataFrame:
    reading = (known["access"] == "read").to_numpy()
    lasted = (known["end_s"] - known["start_s"]).to_numpy()
    moved = known[["log", "module", "rank"]].assign(
        reads=reading.astype(np.int64),
        writes=(~reading).astype(np.int64),
        bytes_read=np.where(reading, known["length"], 0),
        bytes_written=np.where(reading, 0, known["length"]),
        read_s=np.where(reading, lasted, 0.0),
        write_s=np.where(reading, 0.0, lasted),
    )
    keys = ["log", "module", "rank"]
    files = known.groupby(keys, observed=True)["file"].nunique()
    return moved.groupby(keys, observed=True).sum().assign(files=files).reset_index()


def _place_finder(log: Log, places: Places) -> Callable[[str], str]:
    """The longest prefix wins: first of the places given, then of the log's mount table."""
    given = sorted(((p.rstrip("/"), name) for p, name in places.items()), key=lambda p: -len(p[0]))
    mounted = sorted(((p.rstrip("/"), f"{p} ({kind})") for p, kind in log.mounts), key=lambda p: -len(p[0]))

    def find(file: str) -> str:
        for prefix, name in (*given, *mounted):
            if file == prefix or file.startswith(prefix + "/"):
                return name
        return "streams" if file.startswith("<") else "unknown"

    return find


_CALLS_TOLD = re.compile(
    r"(?P<count>\d{1,16})/(?P<least>\d{1,16})/(?P<most>\d{1,16})/(?P<first_s>\d{1,9}\.\d+)/(?P<last_s>\d{1,9}\.\d+)"
    r"(?:/(?P<longest_s>\d{1,9}\.\d+))?"
)
CALLS = ("created", "opened", "looked_at", "removed")
_I, _F, _S, _C, _TIME = "Int64", "float64", "object", "category", "datetime64[us, UTC]"
_JOB = {
    "side": _C,
    "log_version": _C,
    "runtime_version": _C,
    "job_id": "int64",
    "uid": "int64",
    "nprocs": "int64",
    "start": _TIME,
    "run_s": _F,
    "executable": _S,
    "modules": _S,
    "complete": "bool",
    "ranks": _I,
    "unsynced": _I,
    "mapped": _I,
    "problems": _S,
    "path": _S,
}
_FILES = {
    "module": _C,
    "file": _C,
    "rank": "int64",
    **dict.fromkeys(_COUNTS, _I),
    **dict.fromkeys(_TIMES, _F),
}
# What a rank, and what a place, moved and waited for.
_MOVED = {
    "reads": _I,
    "writes": _I,
    "bytes_read": _I,
    "bytes_written": _I,
    "read_s": _F,
    "write_s": _F,
    "meta_s": _F,
}
_RANKS = {
    "module": _C,
    "rank": "int64",
    "files": "int64",
    "opens": _I,
    **_MOVED,
}
_SIZES = {"module": _C, "kind": _C, "access": _C, "low": "int64", "high": "int64", "count": "int64"}
_SEGMENTS = {
    "module": _C,
    "file": _C,
    "rank": "int64",
    "host": _C,
    "access": _C,
    "offset": "int64",
    "length": "int64",
    "start_s": _F,
    "end_s": _F,
}
_CALLS = {
    "call": _C,
    "count": "int64",
    "least": "int64",
    "most": "int64",
    "first_s": _F,
    "last_s": _F,
    "longest_s": _F,
}
_HEAT = {
    "layer": _C,
    "rank": "int64",
    "start_s": _F,
    "end_s": _F,
    "bytes_read": "int64",
    "bytes_written": "int64",
}
_TIERS = {
    "side": _C,
    "place": _C,
    "files": "int64",
    **_MOVED,
}
# What logs add lines to; `ranks` and `tiers` are sums over these.
_COLUMNS = {
    "job": _JOB,
    "files": {**_FILES, "side": _C, "place": _C},
    "sizes": _SIZES,
    "segments": _SEGMENTS,
    "calls": _CALLS,
    "heat": _HEAT,
}
