"""Both tracers in one run, where DARSHAN_LIB names a site's real runtime; and the real one alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from trace_runs import BUILD, CALLS, KILLED, RANKS, SECONDS, Records, check, metadata, mpirun, records, traced

from tierbench import trace


@pytest.fixture
def site() -> str:
    """The real runtime."""
    library = os.environ.get("DARSHAN_LIB")
    if not library:
        pytest.skip("DARSHAN_LIB is not set: no real Darshan runtime to compare with")
    return library


# Until 3.5.0 it does not see the calls that replaced __xstat in glibc 2.33, and mmap only as configured.
# Its own fclose asks for the descriptor, which ours counts where both see one run.
OWN = {"STATS", "MMAPS", "ID"}
# Two threads may pass one tracer in another order than the other: of their file these are each tracer's own.
ORDERED = ("CONSEC_", "SEQ_", "STRIDE", "RW_SWITCHES")
# The real one is in front: it sees an open take as long as ours makes a record.
FIRST_S = 10e-6
RUNS = 5  # a busy machine may interrupt a program between the clocks of both


Off = dict[tuple[str, str, int, str], tuple[float, float]]
"""Times that differ by more than they may: of a record and counter, ours and theirs."""
CALLS_OF = ("OPENS", "READS", "WRITES", "SEEKS", "SYNCS", "FLUSHES", "VIEWS")
"""Ends of the counters of calls."""


def compare(ours: Records, theirs: Records, wanted: Callable[[str, str], bool]) -> tuple[int, Off]:
    """Counters are alike; returns how many records were compared, and times that are not."""
    keys = {k for k in ours.keys() | theirs.keys() if wanted(*k[:2])}
    off: Off = {}
    for key in keys:
        a, b = ours[key], theirs[key]
        operations = sum(n for name, n in b.items() if name.endswith(CALLS_OF))
        seen = OWN if a.get("STATS") == b.get("STATS") else OWN | {"F_META_TIME"}  # which a stat adds to
        for name in a.keys() - seen:
            if key[1] == "threads" and name.startswith(ORDERED):
                continue
            if name in ("F_READ_TIME", "F_WRITE_TIME", "F_META_TIME"):
                opens = sum(n for opened, n in b.items() if opened.endswith("OPENS"))
                allowed = max(0.05 * b[name], 1e-6 * operations) + FIRST_S * opens
                if abs(a[name] - b[name]) > allowed:
                    off[(*key, name)] = (a[name], b[name])
            elif not name.startswith("F_") and "TIME_SIZE" not in name and "_RANK" not in name:
                assert a[name] == b[name], (key, name, a[name], b[name])
    return len(keys), off


def compare_ranks(a: dict[str, float], b: dict[str, float]) -> Off:
    """How far the ranks of a shared file are apart; rank 2 is the slowest unless another was held up."""
    assert a["F_VARIANCE_RANK_BYTES"] == pytest.approx(b["F_VARIANCE_RANK_BYTES"])
    far = {"F_SLOWEST_RANK_TIME": 0.05, "F_VARIANCE_RANK_TIME": 0.11}  # which goes with the square
    operations = 1e-6 * (b["READS"] + b["WRITES"])
    names = ("SLOWEST_RANK", "SLOWEST_RANK_BYTES")
    off: Off = {("POSIX", "shared", -1, n): (a[n], b[n]) for n in names if a[n] != b[n]}
    for name, part in far.items():
        if abs(a[name] - b[name]) > max(part * b[name], operations if "SLOWEST" in name else 0):
            off["POSIX", "shared", -1, name] = (a[name], b[name])
    return off


def beside(site: str, parser: str, log: Path) -> subprocess.CompletedProcess[str]:
    """Read a log with a parser that is installed beside the runtime: PyDarshan dies of broken ones."""
    program = Path(site).parents[1] / "bin" / parser
    if not program.exists():
        pytest.skip(f"{program} is not there")
    return subprocess.run([program, log], capture_output=True, text=True, timeout=SECONDS)


def transfers(site: str, log: Path) -> dict[tuple[str, str, int, str], list[tuple[int, int]]]:
    """Offset and length of all segments, by module, file, rank and access."""
    done = beside(site, "darshan-dxt-parser", log)
    assert done.returncode == 0, done.stderr
    found: dict[tuple[str, str, int, str], list[tuple[int, int]]] = {}
    name = ""
    for line in done.stdout.splitlines():
        if "file_name: " in line:
            name = Path(line.split("file_name: ")[1]).name
        elif line.lstrip().startswith("X_"):
            module, rank, access, _, offset, length = line.split()[:6]
            found.setdefault((module, name, int(rank), access), []).append((int(offset), int(length)))
    found.get(("X_POSIX", "threads", 0, "write"), []).sort()  # both see them in an order of their own
    return {k: v for k, v in found.items() if ".darshan" not in k[1] and k[1] != "aio"}


def both(root: Path, site: str, *command: str | Path) -> tuple[Records, Records]:
    """One run with both tracers, the real one in front."""
    libraries = ":".join(
        [site, *(str(BUILD / "lib" / f"libtierbench_{n}.so") for n in ("trace", "preload", "mpi"))]
    )
    launch, program = (list(command[:3]), command[3:]) if "mpirun" in str(command[0]) else ([], command)
    settings = {"DARSHAN_LOGFILE": str(root / "real.darshan"), "DXT_ENABLE_IO_TRACE": "1"}
    settings |= {} if launch else {"DARSHAN_ENABLE_NONMPI": "1"}
    for _ in range(RUNS):  # of 60 logs that 3.4.7 writes with MPI, all alone, one or two are broken
        done = traced(root, *launch, "/usr/bin/env", f"LD_PRELOAD={libraries}", *program, **settings)
        assert done.returncode == 0, done.stderr
        if beside(site, "darshan-parser", root / "real.darshan").returncode == 0:
            break
        (root / "real.darshan").unlink()
    return records(root / "t.darshan"), records(root / "real.darshan")


def not_aio(found: Records) -> Records:
    """All but what is fetched at a moment of each tracer's own, and the real one's own files."""
    return {k: v for k, v in found.items() if k[1] != "aio" and ".darshan" not in k[1]}


def test_the_same_run_has_the_same_counters(root: Path, site: str) -> None:
    off: Off | None = None  # in every run so far
    for _ in range(RUNS):
        ours, theirs = both(root, site, CALLS, root / "pfs")
        stream = ours["POSIX", "stream", 0]
        check(stream, FILENOS=2, OPENS=2)
        stream["FILENOS"] = stream["OPENS"] = 1
        n, now = compare(not_aio(ours), not_aio(theirs), lambda *_: True)
        off = now if off is None else {k: v for k, v in now.items() if k in off}
        assert n >= 10
        (root / "real.darshan").unlink()
        if not off:
            break
    assert not off


def test_the_same_run_has_the_same_segments(root: Path, site: str) -> None:
    both(root, site, CALLS, root / "pfs")
    ours, theirs = transfers(site, root / "t.darshan"), transfers(site, root / "real.darshan")
    assert ours == theirs
    assert sum(len(v) for v in ours.values()) > 500


def is_theirs(module: str, name: str) -> bool:
    """Of the program: not the MPI library's files, nor the runtime's log."""
    return (module, name) == ("MPI-IO", "mpiio") or name.startswith(("shared", "own."))


def test_ranks_have_the_same_counters(root: Path, site: str) -> None:
    off: Off | None = None
    for _ in range(RUNS):
        ours, theirs = both(root, site, mpirun(), "-n", "4", RANKS, root / "pfs", "well")
        n, now = compare(ours, theirs, is_theirs)
        now |= compare_ranks(ours["POSIX", "shared", -1], theirs["POSIX", "shared", -1])
        off = now if off is None else {k: v for k, v in now.items() if k in off}
        assert n == 6
        (root / "real.darshan").unlink()
        if not off:
            break
    assert not off


def test_the_sites_runtime_writes_the_application_side(root: Path, site: str) -> None:
    done = traced(root, CALLS, root / "pfs", DARSHAN_LIB=site)
    assert done.returncode == 0 and site in done.stderr, done.stderr
    assert "tierbench_side" not in metadata(root / "t.darshan")
    found = records(root / "t.darshan")
    check(found["POSIX", "patterns", 0], WRITES=15, BYTES_WRITTEN=44672, MAX_BYTE_WRITTEN=110999)
    assert trace.read([root / "t.storage.darshan"]).job["side"].tolist() == ["storage"]
    done = traced(root, sys.executable, "-c", KILLED, root / "pfs" / "k", "SIGKILL", DARSHAN_LIB=site)
    assert "left no log" in done.stderr
    check(records(root / "t.darshan")["POSIX", "k", 0], WRITES=1234)


def test_the_sites_runtime_writes_one_log_of_all_ranks(root: Path, site: str) -> None:
    done = traced(root, mpirun(), "-n", "2", RANKS, root / "pfs", "well", DARSHAN_LIB=site)
    assert done.returncode == 0 and "2 processes, by" in done.stderr, done.stderr
    check(records(root / "t.darshan")["POSIX", "shared", -1], WRITES=21, READS=20)
    assert sorted(p.name for p in root.glob("*.darshan")) == ["t.darshan", "t.storage.darshan"]
