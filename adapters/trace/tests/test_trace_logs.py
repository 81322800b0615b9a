"""Logs of traced runs, read back with PyDarshan: exact counts of known programs, whatever ends them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import darshan
import pytest
from darshan.backend import cffi_backend

from tierbench import trace

BUILD = Path(__file__).resolve().parents[3] / "build"
TIERCTL = BUILD / "bin" / "tierctl"
CALLS, RANKS = BUILD / "bin" / "test_trace_calls", BUILD / "bin" / "test_trace_ranks"
MODULES = ("POSIX", "MPI-IO", "STDIO")
CONFIG = """version: 1
max_files: 8192
pfs: {{path: {root}/pfs}}
fsync: tier
allow_volatile: true
tiers:
  - {{name: ram, medium: memory, capacity: 48MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
  - name: nvme
    medium: directory
    path: {root}/nvme
    capacity: 16MiB
    block: 64KiB
    slabs: [{{units: 1, share: 1.0}}]
"""
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
SECONDS = 60

Records = dict[tuple[str, str, int], dict[str, float]]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder with the places of a configuration; not in /dev or /var, which Darshan leaves out."""
    folder = BUILD / "trace-tests" / tmp_path.name
    shutil.rmtree(folder, ignore_errors=True)
    for place in ("pfs", "nvme"):
        (folder / place).mkdir(parents=True)
    (folder / "c.yaml").write_text(CONFIG.format(root=folder))
    yield folder
    shutil.rmtree(folder)


def traced(
    root: Path, *command: str | Path, mode: str = "persistent-async", out: str = "t.darshan", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command under `tierctl run --trace`."""
    run = [TIERCTL, "run", "-c", root / "c.yaml", "--mode", mode, "--trace", root / out, "--", *command]
    environment = {k: v for k, v in os.environ.items() if k != "DARSHAN_LIB"} | MPI | more
    return subprocess.run(run, capture_output=True, text=True, timeout=SECONDS, env=environment)


def records(log: Path) -> Records:
    """Every counter by module, last part of the file's name, and rank; PyDarshan's own reader."""
    handle = cffi_backend.log_open(str(log))
    names = cffi_backend.log_get_name_records(handle)
    cffi_backend.log_close(handle)
    handle, found = cffi_backend.log_open(str(log)), {}
    for module in {*MODULES} & cffi_backend.log_get_modules(handle).keys():
        while record := cffi_backend.log_get_record(handle, module, "dict"):
            values = {**record["counters"], **record["fcounters"]}
            short = {k.split("_", 1)[1]: v for k, v in values.items()}
            found[module, Path(names[record["id"]]).name, int(record["rank"])] = short | {"ID": record["id"]}
    cffi_backend.log_close(handle)
    return found


def metadata(log: Path) -> dict[str, str]:
    return trace.read_log(log).metadata


def check(values: dict[str, float], **expected: float) -> None:
    assert {name: values[name] for name in expected} == expected


def check_calls(found: Records) -> None:
    """What calls.c does, counted by hand."""
    patterns = found["POSIX", "patterns", 0]
    check(
        patterns, OPENS=1, MODE=0o640, READS=7, WRITES=15, SEEKS=1, STATS=2, FSYNCS=1, FDSYNCS=1, MMAPS=0,
        BYTES_READ=2548, BYTES_WRITTEN=44672, MAX_BYTE_READ=8691, MAX_BYTE_WRITTEN=110999, CONSEC_READS=4,
        CONSEC_WRITES=9, SEQ_READS=6, SEQ_WRITES=12, RW_SWITCHES=3, MEM_NOT_ALIGNED=3, MEM_ALIGNMENT=8,
        SIZE_WRITE_100_1K=5, SIZE_WRITE_1K_10K=10, SIZE_READ_0_100=6, SIZE_READ_1K_10K=1, ACCESS1_ACCESS=4096,
        ACCESS1_COUNT=10, ACCESS2_ACCESS=100, ACCESS2_COUNT=5, ACCESS3_ACCESS=1000, ACCESS3_COUNT=3,
        ACCESS4_ACCESS=2048, ACCESS4_COUNT=1, STRIDE1_STRIDE=4000, STRIDE1_COUNT=2,
    )  # fmt: skip
    if patterns["FILE_ALIGNMENT"] == 4096:
        check(patterns, FILE_NOT_ALIGNED=9)
    check(
        found["POSIX", "vectors", 0], OPENS=3, DUPS=2, READS=2, WRITES=4, BYTES_READ=8096, SEEKS=1,
        BYTES_WRITTEN=4096 + 4000 + (1 << 20) + 10, RENAME_SOURCES=1, SIZE_WRITE_100K_1M=1, RW_SWITCHES=2,
    )  # fmt: skip
    source = cffi_backend.ffi.cast("int64_t", int(found["POSIX", "vectors", 0]["ID"]))
    check(found["POSIX", "vectors2", 0], RENAME_TARGETS=1, RENAMED_FROM=int(source))
    check(
        found["STDIO", "stream", 0], OPENS=1, FDOPENS=0, READS=3, WRITES=10, SEEKS=2, FLUSHES=1,
        BYTES_WRITTEN=7016, BYTES_READ=5007, MAX_BYTE_WRITTEN=7015, MAX_BYTE_READ=7006,
    )  # fmt: skip
    check(found["POSIX", "stream", 0], OPENS=1, FILENOS=1, WRITES=1, BYTES_WRITTEN=33, READS=0)
    check(found["POSIX", "mapped", 0], OPENS=1, MMAPS=1, WRITES=0)
    check(found["POSIX", "aio", 0], WRITES=1, BYTES_WRITTEN=3000, MAX_BYTE_WRITTEN=8999)
    common = {f"ACCESS{i + 1}_ACCESS": size for i, size in enumerate((270, 200, 130, 60))}
    check(found["POSIX", "sizes", 0], WRITES=199, **common, **{f"ACCESS{i}_COUNT": 7 for i in range(1, 5)})
    check(
        found["POSIX", "appended", 0], OPENS=2, WRITES=3, BYTES_WRITTEN=1700, READS=4, BYTES_READ=150,
        SEEKS=3, RW_SWITCHES=1, MAX_BYTE_WRITTEN=1399, MAX_BYTE_READ=(1 << 20) - 1, CONSEC_WRITES=1,
    )  # fmt: skip
    check(found["POSIX", "threads", 0], OPENS=1, WRITES=300, BYTES_WRITTEN=300 * 512, ACCESS1_COUNT=300)
    check(found["POSIX", "at", 0], OPENS=1, BYTES_WRITTEN=77)
    check(found["POSIX", "relative", 0], OPENS=1, BYTES_WRITTEN=78)


@pytest.mark.parametrize("mode", ["persistent-async", "persistent-sync", "scratch", "bypass"])
def test_counts_of_a_known_program(root: Path, mode: str) -> None:
    done = traced(root, CALLS, root / "pfs", mode=mode)
    assert done.returncode == 0, done.stderr
    check_calls(records(root / "t.darshan"))
    traces = trace.read([root / "t.darshan"])
    assert traces.job["complete"].tolist() == [True] and traces.job["problems"].tolist() == [""]
    patterns = traces.segments[traces.segments["file"].str.endswith("/patterns")]
    writes = patterns[patterns["access"] == "write"]
    assert writes["offset"].tolist()[:12] == [*range(0, 40960, 4096), 0, 100000]
    assert writes["length"].sum() == 44672 and (patterns["access"] == "read").sum() == 7
    assert (writes["end_s"] >= writes["start_s"]).all() and writes["start_s"].is_monotonic_increasing


def test_storage_side_says_what_reached_each_place(root: Path) -> None:
    write = "import os, sys; fd = os.open(sys.argv[1], 66); os.write(fd, bytes(1 << 20)); os.fsync(fd)"
    done = traced(root, sys.executable, "-c", write, root / "pfs" / "f")
    assert done.returncode == 0, done.stderr
    job = trace.read([root / "t.storage.darshan"]).job
    assert job["side"].tolist() == ["storage"] and job["complete"].tolist() == [True]
    places = {str(root / "pfs"): "pfs", str(root / "nvme"): "nvme"}
    tiers = trace.read([root / "t.storage.darshan"], places).tiers.set_index("place")
    assert tiers.loc["pfs", "bytes_written"] == 1 << 20  # at close
    assert tiers.loc["nvme", "bytes_written"] >= 1 << 20  # by fsync, and a record in the journal
    asked = trace.read([root / "t.darshan"], places).tiers.set_index("place")
    assert asked.loc["pfs", "bytes_written"] == 1 << 20 and "nvme" not in asked.index
    told = metadata(root / "t.storage.darshan")
    assert told["tierbench_fsync"] == "tier" and told["tierbench_mode"] == "persistent-async"
    assert len(told["tierbench_config"]) == 16 and told["tierbench_commit"]


def test_pydarshan_reads_it_without_a_word(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert traced(root, CALLS, root / "pfs").returncode == 0
    for name in ("t.darshan", "t.storage.darshan"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = darshan.DarshanReport(str(root / name), read_all=True)
        assert report.metadata["job"]["nprocs"] >= 1 and "POSIX" in report.records
        assert len(report.records["DXT_POSIX"]) > 0
    assert capfd.readouterr().err == ""
    summary = [
        sys.executable,
        "-m",
        "darshan",
        "summary",
        str(root / "t.darshan"),
        "--output",
        str(root / "s.html"),
    ]
    done = subprocess.run(summary, capture_output=True, text=True, timeout=SECONDS, cwd=root)
    assert done.returncode == 0 and "rror" not in done.stderr, done.stderr
    assert "Darshan Summary Report" in (root / "s.html").read_text()


@pytest.mark.parametrize("parser", ["darshan-parser", "darshan-dxt-parser"])
def test_darshans_own_parsers(root: Path, parser: str) -> None:
    program = shutil.which(parser)
    if program is None:
        pytest.skip(f"{parser} is not on PATH")
    assert traced(root, CALLS, root / "pfs").returncode == 0
    for name in ("t.darshan", "t.storage.darshan"):
        done = subprocess.run([program, root / name], capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0 and done.stderr == "" and "patterns" in done.stdout


KILLED = """
import os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
for i in range(1234):
    os.pwrite(fd, b"x" * 100, i * 100)
os.kill(os.getpid(), getattr(signal, sys.argv[2]))
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGABRT", "SIGSEGV"])
def test_a_killed_program_leaves_all_it_did_marked_incomplete(root: Path, how: str) -> None:
    done = traced(root, sys.executable, "-c", KILLED, root / "pfs" / "f", how)
    assert done.returncode > 128 and "incomplete" in done.stderr
    check(records(root / "t.darshan")["POSIX", "f", 0], WRITES=1234, BYTES_WRITTEN=123400)
    traces = trace.read([root / "t.darshan", root / "t.storage.darshan"])
    assert len(traces.segments[traces.segments["file"].str.endswith("pfs/f")]) >= 1234
    assert traces.job["complete"].tolist() == [False, False]
    assert metadata(root / "t.darshan")["tierbench_incomplete"] == "1"


FAMILY = """
import os, subprocess, sys, threading
folder = sys.argv[1]
def write(number):
    fd = os.open(f"{folder}/thread", os.O_RDWR | os.O_CREAT, 0o600)
    for i in range(500):
        os.pwrite(fd, b"t" * 64, (number * 500 + i) * 64)
threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
fd = os.open(f"{folder}/inherited", os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b"p" * 10)
if os.fork() == 0:
    for _ in range(3):
        os.write(fd, b"c" * 20)
    os._exit(0)
os.wait()
os.write(fd, b"p" * 10)
try:
    os.execv("/nowhere", ["x"])
except OSError:
    os.write(fd, b"p")
child = f"import os; fd = os.open('{folder}/child', 66); os.write(fd, b'e' * 7)"
os.execv(sys.executable, [sys.executable, "-c", child])
"""


def test_threads_children_and_programs_that_are_executed(root: Path) -> None:
    done = traced(root, sys.executable, "-c", FAMILY, root / "pfs")
    assert done.returncode == 0 and "incomplete" not in done.stderr, done.stderr
    found = records(root / "t.darshan")
    check(found["POSIX", "thread", 0], OPENS=4, WRITES=2000, BYTES_WRITTEN=128000)
    check(found["POSIX", "inherited", 0], OPENS=1, WRITES=3, BYTES_WRITTEN=21)
    check(found["POSIX", "inherited", 1], OPENS=0, WRITES=3, BYTES_WRITTEN=60)
    check(found["POSIX", "child", 2], OPENS=1, WRITES=1, BYTES_WRITTEN=7)
    assert trace.read([root / "t.darshan"]).job["nprocs"].tolist() == [3]


def mpirun() -> str:
    program = shutil.which("mpirun")
    if program is None:
        pytest.skip("mpirun is not on PATH")
    return program


def test_ranks_and_their_shared_file(root: Path) -> None:
    done = traced(root, mpirun(), "-n", "4", RANKS, root / "pfs", "well")
    assert done.returncode == 0, done.stderr
    found, sizes = records(root / "t.darshan"), {0: 8192, 1: 4096}
    shared = found["POSIX", "shared", -1]
    moved = [(10 + r) * sizes[r % 2] + (2000 if r == 2 else 10) * 8192 for r in range(4)]
    check(
        shared, OPENS=4, WRITES=46, READS=2030, BYTES_WRITTEN=sum((10 + r) * sizes[r % 2] for r in range(4)),
        BYTES_READ=2030 * 8192, MODE=0o644, ACCESS1_ACCESS=8192, ACCESS1_COUNT=2030 + 10 + 12,
        ACCESS2_ACCESS=4096, ACCESS2_COUNT=11 + 13,
    )  # fmt: skip
    slow, fast = int(shared["SLOWEST_RANK"]), int(shared["FASTEST_RANK"])
    assert slow != fast and shared["F_FASTEST_RANK_TIME"] < shared["F_SLOWEST_RANK_TIME"]
    assert (shared["SLOWEST_RANK_BYTES"], shared["FASTEST_RANK_BYTES"]) == (moved[slow], moved[fast])
    mean = sum(moved) / 4
    assert shared["F_VARIANCE_RANK_BYTES"] == pytest.approx(sum((m - mean) ** 2 for m in moved) / 4)
    for rank in range(4):
        check(found["POSIX", f"own.{rank}", rank], WRITES=1, BYTES_WRITTEN=100 * (rank + 1))
    check(
        found["MPI-IO", "mpiio", -1], COLL_OPENS=4, COLL_WRITES=4, INDEP_READS=4, BYTES_WRITTEN=4 * 8192,
        BYTES_READ=400, RW_SWITCHES=4, ACCESS1_ACCESS=8192, ACCESS1_COUNT=4, ACCESS2_ACCESS=100, MODE=9,
    )  # fmt: skip
    traces = trace.read([root / "t.darshan"])
    assert traces.job["nprocs"].tolist() == [4] and traces.job["complete"].tolist() == [True]
    segments = traces.segments[traces.segments["file"].str.endswith("pfs/shared")]
    lasted = (segments["end_s"] - segments["start_s"]).groupby(segments["rank"]).sum()
    assert shared["F_SLOWEST_RANK_TIME"] >= lasted.max() and shared["F_FASTEST_RANK_TIME"] >= lasted[fast]
    assert segments.groupby("rank").size().tolist() == [20, 21, 2012, 23]


@pytest.mark.parametrize("how", ["abort", "kill"])
def test_a_job_that_dies_leaves_a_log_of_every_rank(root: Path, how: str) -> None:
    done = traced(root, mpirun(), "-n", "3", RANKS, root / "pfs", how)
    assert done.returncode != 0 and "incomplete" in done.stderr
    shared = [v for (_, name, _), v in records(root / "t.darshan").items() if name == "shared"]
    assert sum(v["WRITES"] for v in shared) >= 10
    job = trace.read([root / "t.darshan"]).job
    assert job["complete"].tolist() == [False] and job["nprocs"].tolist() == [3]


def test_one_rank_that_aborts_is_incomplete(root: Path) -> None:
    done = traced(root, mpirun(), "-n", "1", RANKS, root / "pfs", "abort")
    assert done.returncode == 3 and not trace.read([root / "t.darshan"]).job["complete"][0]


def test_programs_beside_an_mpi_job_count_where_they_touched_our_files(root: Path) -> None:
    script = f"'{mpirun()}' -n 2 '{RANKS}' '{root}/pfs' well && dd if='{root}/pfs/shared' of='{root}/copy'"
    done = traced(root, "/bin/sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert trace.read([root / "t.darshan"]).job["nprocs"].tolist() == [3]
    assert records(root / "t.darshan")["POSIX", "shared", 2]["READS"] > 0


MANY = """
import os, sys
for i in range(4200):
    fd = os.open(f"{sys.argv[1]}/many{i}", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b"1")
    os.close(fd)
fd = os.open(f"{sys.argv[1]}/many0", os.O_RDWR)
for i in range(300000):
    os.pread(fd, 1, 0)
"""


def test_what_no_longer_fits_is_said(root: Path) -> None:
    done = traced(root, sys.executable, "-c", MANY, root / "pfs", mode="bypass")
    assert done.returncode == 0 and "calls are missing" in done.stderr
    log = trace.read_log(root / "t.darshan")
    assert {"POSIX", "DXT_POSIX"} <= set(log.partial)
    found = records(root / "t.darshan")
    assert 4000 < sum(name.startswith("many") for _, name, _ in found) <= 4096
    check(found["POSIX", "many0", 0], READS=300000, OPENS=2)
    assert not trace.read([root / "t.darshan"]).job["complete"][0]


def test_a_name_is_bytes(root: Path) -> None:
    name = b"\xff\xfe<b>\x01 \xc3\xa4"
    write = "import os, sys; os.close(os.open(os.fsencode(sys.argv[1]) + bytes.fromhex(sys.argv[2]), 66))"
    assert traced(root, sys.executable, "-c", write, f"{root}/pfs/", name.hex()).returncode == 0
    assert any(
        n.endswith(name.decode("utf-8", "replace")) for n in trace.read_log(root / "t.darshan").names.values()
    )


@pytest.mark.parametrize(
    ("out", "said"),
    [("t.txt", "ends in .darshan"), ("no/t.darshan", "cannot write there")],
)
def test_bad_names_of_logs_are_refused_before_anything_runs(root: Path, out: str, said: str) -> None:
    done = traced(root, "/bin/touch", root / "pfs" / "f", out=out)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert not (root / "pfs" / "f").exists()


def test_nothing_is_left_behind(root: Path) -> None:
    before = {p.name for p in Path("/dev/shm").iterdir()}
    assert traced(root, CALLS, root / "pfs").returncode == 0
    left = {p.name for p in Path("/dev/shm").iterdir()} - before
    assert not [n for n in left if str(os.getpid()) in n or (n.endswith(".trace") and not _alive(n))]
    assert sorted(p.name for p in root.glob("*darshan*")) == ["t.darshan", "t.storage.darshan"]


def _alive(folder: str) -> bool:
    return Path(f"/proc/{folder.split('-')[-1].split('.')[0]}").exists()


# --- against the site's runtime ----------------------------------------------------------------------------


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
# The real one is in front: it sees an open take as long as ours makes a record.
FIRST_S = 10e-6
RUNS = 5  # a busy machine may interrupt a program between the clocks of both


Off = dict[tuple[str, str, int, str], tuple[float, float]]
"""Times that differ by more than they may: of a record and counter, ours and theirs."""


def compare(ours: Records, theirs: Records, wanted: Callable[[str], bool]) -> tuple[int, Off]:
    """Counters are alike; returns how many records were compared, and times that are not."""
    keys = {k for k in ours.keys() | theirs.keys() if wanted(k[1])}
    off: Off = {}
    for key in keys:
        a, b = ours[key], theirs[key]
        operations = sum(
            b.get(n, 0) for n in ("OPENS", "READS", "WRITES", "SEEKS", "FSYNCS", "FDSYNCS", "FLUSHES")
        )
        seen = OWN if a.get("STATS") == b.get("STATS") else OWN | {"F_META_TIME"}  # which a stat adds to
        for name in a.keys() - seen:
            if name in ("F_READ_TIME", "F_WRITE_TIME", "F_META_TIME"):
                allowed = max(0.05 * b[name], 1e-6 * operations) + FIRST_S * b.get("OPENS", 1)
                if abs(a[name] - b[name]) > allowed:
                    off[(*key, name)] = (a[name], b[name])
            elif not name.startswith("F_") and "TIME_SIZE" not in name and "_RANK" not in name:
                assert a[name] == b[name], (key, name, a[name], b[name])
    return len(keys), off


def both(root: Path, site: str, *command: str | Path) -> tuple[Records, Records]:
    """One run with both tracers, the real one in front."""
    libraries = ":".join([site, *(str(BUILD / "lib" / f"libtierbench_{n}.so") for n in ("trace", "preload"))])
    launch, program = (list(command[:3]), command[3:]) if "mpirun" in str(command[0]) else ([], command)
    settings = {"DARSHAN_LOGFILE": str(root / "real.darshan"), "DXT_ENABLE_IO_TRACE": "1"}
    settings |= {} if launch else {"DARSHAN_ENABLE_NONMPI": "1"}
    done = traced(root, *launch, "/usr/bin/env", f"LD_PRELOAD={libraries}", *program, **settings)
    assert done.returncode == 0, done.stderr
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
        n, now = compare(not_aio(ours), not_aio(theirs), bool)
        off = now if off is None else {k: v for k, v in now.items() if k in off}
        assert n >= 8
        segments = trace.read([root / "t.darshan", root / "real.darshan"]).segments
        columns = ["file", "access", "offset", "length"]
        lists = [
            segments[(segments["log"] == name) & ~segments["file"].str.contains(r"\.darshan")][columns]
            .astype({"file": str, "access": str})
            .sort_values(["file", "access"], kind="stable")
            .to_numpy()
            .tolist()
            for name in ("t.darshan", "real.darshan")
        ]
        assert lists[0] == lists[1] or not lists[1]  # a runtime of DXT version 2 can't be read
        (root / "real.darshan").unlink()
        if not off:
            break
    assert not off


def test_ranks_have_the_same_counters(root: Path, site: str) -> None:
    off: Off | None = None
    for _ in range(RUNS):
        ours, theirs = both(root, site, mpirun(), "-n", "4", RANKS, root / "pfs", "well")
        n, now = compare(ours, theirs, lambda name: name == "shared" or name.startswith("own."))
        off = now if off is None else {k: v for k, v in now.items() if k in off}
        assert n == 5
        (root / "real.darshan").unlink()
        if not off:
            break
    assert not off


def test_the_sites_runtime_writes_the_application_side(root: Path, site: str) -> None:
    done = traced(root, CALLS, root / "pfs", DARSHAN_LIB=site)
    assert done.returncode == 0 and site in done.stderr, done.stderr
    assert "tierbench_side" not in metadata(root / "t.darshan")
    found: Any = records(root / "t.darshan")
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
