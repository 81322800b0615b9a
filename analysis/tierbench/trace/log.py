"""One Darshan log as plain arrays, read by PyDarshan's libdarshan-util in a child process.

The library is C and trusts its input: a damaged log may end or stall it. So a child process reads, one log
after the other, and sends back arrays; when it dies, runs too long or wants too much memory, that log gets
one message and a new child goes on with the next. What the library prints on stderr becomes part of the
message. Obvious strangers (empty, no log at all, shorter than its own regions) are refused before.

PyDarshan's own record functions are not used: they end on names that are not UTF-8, make one dict a segment
and report a record they cannot read as the end of the records.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import signal
import stat
import struct
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tierbench.base.text import shown

SECONDS_PER_LOG = 60
MEMORY_PER_LOG = 2 << 30  # address space that the child may add while it reads, in bytes, at most
LEAST_MEMORY, MEMORY_PER_BYTE = 512 << 20, 4096  # of a small log: so much, and so much for each of its bytes
LARGEST_LOG = 4 << 30  # bytes of the compressed file
ALLOWED = f"allowed: a Darshan log of at most {LARGEST_LOG >> 30} GiB"
_MAGIC = 6567223
COUNTER_MODULES = ("POSIX", "MPI-IO", "STDIO", "H5F", "H5D")
DXT_MODULES = ("DXT_POSIX", "DXT_MPIIO")
_KNOWN_AND_NOT_SHOWN = (
    "LUSTRE",
    "PNETCDF_FILE",
    "PNETCDF_VAR",
    "BG/Q",
    "MDHIM",
    "APXC",
    "APMPI",
    "DFS",
    "DAOS",
)
SEGMENT = np.dtype([("offset", "<i8"), ("length", "<i8"), ("start_s", "<f8"), ("end_s", "<f8")])


class TraceError(Exception):
    """A log that cannot be read: one line that names the file and what is wrong with it."""


@dataclass(frozen=True)
class Counters:
    """All records of one counter module: record i is line i of every array."""

    ids: NDArray[np.uint64]
    ranks: NDArray[np.int64]
    names: tuple[str, ...]
    values: NDArray[np.int64]
    float_names: tuple[str, ...]
    floats: NDArray[np.float64]


@dataclass(frozen=True)
class Segments:
    """Records of a DXT module; each has `writes` then `reads` segments, one record after the other."""

    ids: NDArray[np.uint64]
    ranks: NDArray[np.int64]
    hosts: tuple[str, ...]
    writes: NDArray[np.int64]
    reads: NDArray[np.int64]
    segments: NDArray[Any]


@dataclass(frozen=True)
class Heat:
    """Records of the HEATMAP module: bytes per time bin, one array pair a rank and a layer."""

    layers: tuple[str, ...]
    ranks: NDArray[np.int64]
    bin_s: NDArray[np.float64]
    written: tuple[NDArray[np.int64], ...]
    read: tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class Log:
    """What a log says; `problems` says in words what could not be read, and why."""

    path: str
    version: str
    job: dict[str, Any]
    metadata: dict[str, str]
    executable: str
    mounts: tuple[tuple[str, str], ...]
    modules: dict[str, int]
    partial: tuple[str, ...]
    names: dict[int, str]
    counters: dict[str, Counters] = field(default_factory=dict)
    segments: dict[str, Segments] = field(default_factory=dict)
    heat: Heat | None = None
    problems: tuple[str, ...] = ()


def read_logs(paths: Iterable[Path | str]) -> Iterator[Log | TraceError]:
    """Each log in turn, or why it cannot be read."""
    reader = _Reader()
    try:
        for path in paths:
            try:
                yield reader.read(Path(path))
            except TraceError as e:
                yield e
    finally:
        reader.close()


def read_log(path: Path | str) -> Log:
    """One log; `TraceError` where it cannot be read."""
    got = next(iter(read_logs([path])))
    if isinstance(got, TraceError):
        raise got
    return got


# --- before the library sees it ----------------------------------------------------------------------------


def check(path: Path) -> str:
    """The format version of a file that looks like a Darshan log; `TraceError` where it does not."""
    name = shown(path)
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise TraceError(f"{name}: is not a Darshan log (no regular file); {ALLOWED}")
        if about.st_size > LARGEST_LOG:
            raise TraceError(f"{name}: has {about.st_size} bytes; {ALLOWED}")
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError as e:
        raise TraceError(f"{name}: cannot be read: {e.strerror}; {ALLOWED}") from e
    except ValueError as e:
        raise TraceError(f"{name}: cannot be read: {e}; {ALLOWED}") from e
    if not head:
        raise TraceError(f"{name}: is empty; {ALLOWED}")
    magic = head[8:16]
    if magic not in (struct.pack("<q", _MAGIC), struct.pack(">q", _MAGIC)):
        raise TraceError(
            f"{name}: is not a Darshan log (wrong magic {magic.hex() or 'number'} at byte 8); {ALLOWED}"
        )
    version = head[:8].split(b"\0")[0].decode("ascii", "replace")
    if version >= "3.41":
        _check_regions(head, about.st_size, name)
    return version


def _check_regions(head: bytes, size: int, name: str) -> None:
    """The header of version 3.41 holds (offset, length) of the name map and of 64 modules."""
    if len(head) < 1328:
        raise TraceError(f"{name}: is truncated: {size} bytes, the header alone has 1328; {ALLOWED}")
    order = "<" if head[8] == _MAGIC & 0xFF else ">"
    for index, (offset, length) in enumerate(struct.iter_unpack(order + "QQ", head[32 : 32 + 65 * 16])):
        if offset + length > size:
            what = "names" if index == 0 else f"module {index - 1}"
            raise TraceError(
                f"{name}: is truncated: {what} ends at byte {offset + length} of {size}; {ALLOWED}"
            )


# --- the child and its keeper ------------------------------------------------------------------------------


class _Reader:
    """Keeps one child alive across logs and replaces it when a log kills it."""

    def __init__(self) -> None:
        self._child: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the reader

    def read(self, path: Path) -> Log:
        version = check(path)
        if self._child is None:
            self._start()
        assert self._child is not None and self._pipe is not None
        self._stderr.seek(0)
        self._stderr.truncate()
        said: Any = None
        try:
            self._pipe.send(os.fspath(path))
            if self._pipe.poll(SECONDS_PER_LOG):
                said = self._pipe.recv()
            else:
                self._stop()
                raise TraceError(f"{shown(path)}: reading took more than {SECONDS_PER_LOG} s")
        except (EOFError, ConnectionError):
            raise TraceError(f"{shown(path)}: is damaged: {self._how_it_died()}") from None
        if isinstance(said, str):
            raise TraceError(f"{shown(path)}: {said}{self._words()}")
        assert isinstance(said, dict)
        words = self._words()
        problems = [p + (words if i == 0 else "") for i, p in enumerate(said.pop("problems"))]
        return Log(path=os.fspath(path), version=version, problems=tuple(problems), **said)

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        import darshan.backend.cffi_backend  # noqa: F401 - once here, so that no child pays for it

        self._child = context.Process(target=_serve, args=(theirs, self._stderr.fileno()), daemon=True)
        self._child.start()
        theirs.close()
        self._pipe = ours

    def _how_it_died(self) -> str:
        assert self._child is not None
        self._child.join(5)
        code = self._child.exitcode
        self._stop()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"status {code}"
        return f"libdarshan-util ended on it ({how}){self._words()}"

    def _words(self) -> str:
        """What the library printed since, shortened to its last two lines."""
        self._stderr.seek(0)
        lines = self._stderr.read(65536).decode("utf-8", "replace").splitlines()
        lines = [shown(line.strip()) for line in lines if line.strip()]
        return f" ({'; '.join(lines[-2:])})" if lines else ""

    def _stop(self) -> None:
        if self._child is not None and self._pipe is not None:
            self._pipe.close()
            self._child.kill()
            self._child.join()
        self._child = self._pipe = None

    def close(self) -> None:
        self._stop()
        self._stderr.close()


def _serve(pipe: Connection, stderr: int) -> None:
    """The child: reads what it is told to until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.disable()
    os.dup2(stderr, 2)
    os.dup2(stderr, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            path = pipe.recv()
        except EOFError:
            os._exit(0)
        allowed = 0
        try:
            allowed = _limit_memory(path)
            answer: dict[str, Any] | str = _Library().log(path)
        except MemoryError:
            answer = f"needs more than {allowed >> 20} MiB of memory to be read"
        except OSError as e:
            answer = f"cannot be read: {e.strerror}"
        except _UnreadableError as e:
            answer = str(e)
        pipe.send(answer)


def _limit_memory(path: str) -> int:
    """Bytes that the log may take: what a record of it claims is not believed beyond that."""
    allowed = min(MEMORY_PER_LOG, LEAST_MEMORY + MEMORY_PER_BYTE * Path(path).stat().st_size)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = used + allowed if hard == resource.RLIM_INFINITY else min(used + allowed, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    return allowed


# --- in the child ------------------------------------------------------------------------------------------


class _UnreadableError(Exception):
    """Why a whole log cannot be read."""


class _Library:
    """libdarshan-util's calls on one log."""

    def __init__(self) -> None:
        from darshan.backend import cffi_backend

        self.backend = cffi_backend
        self.ffi, self.lib = cffi_backend.ffi, cffi_backend.libdutil
        self.handle: Any = None
        self.index: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self.problems: list[str] = []

    def log(self, path: str) -> dict[str, Any]:
        self.handle = self.lib.darshan_log_open(os.fsencode(path))
        if self.handle == self.ffi.NULL:
            raise _UnreadableError("cannot be opened as a Darshan log")
        try:
            return self._contents()
        finally:
            self.lib.darshan_log_close(self.handle)

    def _contents(self) -> dict[str, Any]:
        job, metadata = self._job()
        versions, partial = self._modules()
        read: dict[str, Any] = {"job": job, "metadata": metadata, "executable": self._executable()}
        read |= {"mounts": self._mounts(), "modules": versions, "partial": partial, "names": self._names()}
        read["counters"] = {m: c for m in COUNTER_MODULES if m in versions and (c := self._counters(m))}
        read["segments"] = {m: s for m in DXT_MODULES if m in versions and (s := self._segments(m))}
        read["heat"] = self._heat(read["names"]) if "HEATMAP" in versions else None
        for name in versions:
            if name not in (*COUNTER_MODULES, *DXT_MODULES, "HEATMAP", *_KNOWN_AND_NOT_SHOWN):
                self.problems.append(f"module {name} is unknown to this version of PyDarshan and not shown")
        return read | {"problems": self.problems}

    def _text(self, chars: Any, size: int = -1) -> str:
        return cast("bytes", self.ffi.string(chars, size)).decode("utf-8", "replace")

    def _job(self) -> tuple[dict[str, Any], dict[str, str]]:
        record, run_s = self.ffi.new("struct darshan_job *"), self.ffi.new("double *")
        if self.lib.darshan_log_get_job(self.handle, record) < 0:
            raise _UnreadableError("is damaged: its job record cannot be read")
        self.lib.darshan_log_get_job_runtime(self.handle, record[0], run_s)
        r = record[0]
        job = {
            "uid": r.uid,
            "job_id": r.jobid,
            "nprocs": r.nprocs,
            "start_s": r.start_time_sec + r.start_time_nsec / 1e9,
            "run_s": float(run_s[0]),
        }
        if not 0 < r.nprocs < 1 << 31 or not 0 <= job["run_s"] < 1e12:
            raise _UnreadableError(
                f"is damaged: its job has {r.nprocs} processes and ran {job['run_s']:.6g} s"
            )
        lines = self._text(r.metadata, 1024).split("\n")
        return job, dict(line.split("=", 1) for line in lines if "=" in line)

    def _executable(self) -> str:
        chars = self.ffi.new("char[]", 1 << 16)
        if self.lib.darshan_log_get_exe(self.handle, chars) < 0:
            raise _UnreadableError("is damaged: its command line cannot be read")
        return self._text(chars)

    def _mounts(self) -> tuple[tuple[str, str], ...]:
        mounts, count = self.ffi.new("struct darshan_mnt_info **"), self.ffi.new("int *")
        if self.lib.darshan_log_get_mounts(self.handle, mounts, count) < 0:
            raise _UnreadableError("is damaged: its mount table cannot be read")
        at = mounts[0]
        found = [
            (self._text(at[i].mnt_path, 3015), self._text(at[i].mnt_type, 3015)) for i in range(count[0])
        ]
        self.lib.darshan_free(at)
        return tuple(found)

    def _modules(self) -> tuple[dict[str, int], tuple[str, ...]]:
        modules, count = self.ffi.new("struct darshan_mod_info **"), self.ffi.new("int *")
        self.lib.darshan_log_get_modules(self.handle, modules, count)
        partial = []
        for i in range(count[0]):
            m = modules[0][i]
            name = self._text(m.name) if m.name != self.ffi.NULL else f"number {m.idx}"
            self.versions[name], self.index[name] = m.ver, m.idx
            if m.partial_flag:
                partial.append(name)
        self.lib.darshan_free(modules[0])
        return self.versions, tuple(partial)

    def _names(self) -> dict[int, str]:
        records, count = self.ffi.new("struct darshan_name_record **"), self.ffi.new("int *")
        self.lib.darshan_log_get_name_records(self.handle, records, count)
        names = {}
        for i in range(count[0]):
            names[int(records[0][i].id)] = self._text(records[0][i].name)
            self.lib.darshan_free(records[0][i].name)
        self.lib.darshan_free(records[0])
        return names

    def _records(self, module: str) -> Iterator[Any]:
        """Buffers of the module's records; a failure, or a module without any, becomes a problem in words."""
        buffer, number = self.ffi.new("void **"), 0
        while True:
            buffer[0] = self.ffi.NULL
            got = self.lib.darshan_log_get_record(self.handle, self.index[module], buffer)
            if got < 1:
                break
            number += 1
            try:
                yield buffer[0]
            finally:
                self.lib.darshan_free(buffer[0])
        if got < 0 or not number:
            version = self.versions[module]
            self.problems.append(
                f"{module} version {version}: PyDarshan {self._text(self.lib.darshan_log_get_lib_version())} "
                + (f"stops after {number} records" if number else "cannot read any of its records")
            )

    def _counters(self, module: str) -> Counters | None:
        kind = self.ffi.typeof(self.backend._structdefs[module].replace("**", "*"))
        ids, ranks, values, floats = [], [], [], []
        for buffer in self._records(module):
            record = self.ffi.cast(kind, buffer)
            ids.append(int(record.base_rec.id))
            ranks.append(int(record.base_rec.rank))
            values.append(bytes(self.ffi.buffer(record.counters)))
            floats.append(bytes(self.ffi.buffer(record.fcounters)))
        if not ids:
            return None
        return Counters(
            np.array(ids, dtype=np.uint64),
            np.array(ranks, dtype=np.int64),
            tuple(self.backend.counter_names(module)),
            np.frombuffer(b"".join(values), dtype="<i8").reshape(len(ids), -1),
            tuple(self.backend.fcounter_names(module)),
            np.frombuffer(b"".join(floats), dtype="<f8").reshape(len(ids), -1),
        )

    def _segments(self, module: str) -> Segments | None:
        ids, ranks, hosts, writes, reads, pieces = [], [], [], [], [], []
        header = self.ffi.sizeof("struct dxt_file_record")
        for buffer in self._records(module):
            record = self.ffi.cast("struct dxt_file_record *", buffer)
            count = record.write_count + record.read_count
            if record.write_count < 0 or record.read_count < 0 or count * SEGMENT.itemsize > MEMORY_PER_LOG:
                raise _UnreadableError(f"is damaged: a record of {module} claims {count} segments")
            ids.append(int(record.base_rec.id))
            ranks.append(int(record.base_rec.rank))
            hosts.append(self._text(record.hostname, 64))
            writes.append(int(record.write_count))
            reads.append(int(record.read_count))
            start = self.ffi.cast("char *", buffer) + header
            pieces.append(bytes(self.ffi.buffer(start, count * SEGMENT.itemsize)))
        if not ids:
            return None
        return Segments(
            np.array(ids, dtype=np.uint64),
            np.array(ranks, dtype=np.int64),
            tuple(hosts),
            np.array(writes, dtype=np.int64),
            np.array(reads, dtype=np.int64),
            np.frombuffer(b"".join(pieces), dtype=SEGMENT),
        )

    def _heat(self, names: dict[int, str]) -> Heat | None:
        layers, ranks, bins, written, read = [], [], [], [], []
        for buffer in self._records("HEATMAP"):
            record = self.ffi.cast("struct darshan_heatmap_record *", buffer)
            if not 0 <= record.nbins <= 1 << 20:
                raise _UnreadableError(f"is damaged: a record of HEATMAP claims {record.nbins} bins")
            layers.append(names.get(int(record.base_rec.id), "HEATMAP").removeprefix("heatmap:"))
            ranks.append(int(record.base_rec.rank))
            bins.append(float(record.bin_width_seconds))
            size = 8 * record.nbins
            written.append(np.frombuffer(bytes(self.ffi.buffer(record.write_bins, size)), dtype="<i8"))
            read.append(np.frombuffer(bytes(self.ffi.buffer(record.read_bins, size)), dtype="<i8"))
        if not ranks:
            return None
        return Heat(
            tuple(layers), np.array(ranks, dtype=np.int64), np.array(bins), tuple(written), tuple(read)
        )
