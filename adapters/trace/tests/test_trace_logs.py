"""Logs of traced runs, read back with PyDarshan: exact counts of known programs, whatever ends them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import darshan
import pytest
from darshan.backend import cffi_backend
from trace_runs import (
    CALLS,
    KILLED,
    RANKS,
    SECONDS,
    TIERCTL,
    Records,
    check,
    metadata,
    mpirun,
    records,
    traced,
)

from tierbench import trace
from tierbench.cli import main


def check_calls(found: Records) -> None:
    """What calls.c does, counted by hand."""
    patterns = found["POSIX", "patterns", 0]
    check(
        patterns,
        OPENS=1,
        MODE=0o640,
        READS=7,
        WRITES=15,
        SEEKS=1,
        STATS=2,
        FSYNCS=1,
        FDSYNCS=1,
        MMAPS=0,
        BYTES_READ=2548,
        BYTES_WRITTEN=44672,
        MAX_BYTE_READ=8691,
        MAX_BYTE_WRITTEN=110999,
        CONSEC_READS=4,
        CONSEC_WRITES=9,
        SEQ_READS=6,
        SEQ_WRITES=12,
        RW_SWITCHES=3,
        MEM_NOT_ALIGNED=3,
        MEM_ALIGNMENT=8,
        SIZE_WRITE_100_1K=5,
        SIZE_WRITE_1K_10K=10,
        SIZE_READ_0_100=6,
        SIZE_READ_1K_10K=1,
        ACCESS1_ACCESS=4096,
        ACCESS1_COUNT=10,
        ACCESS2_ACCESS=100,
        ACCESS2_COUNT=5,
        ACCESS3_ACCESS=1000,
        ACCESS3_COUNT=3,
        ACCESS4_ACCESS=2048,
        ACCESS4_COUNT=1,
        STRIDE1_STRIDE=4000,
        STRIDE1_COUNT=2,
    )
    if patterns["FILE_ALIGNMENT"] == 4096:
        check(patterns, FILE_NOT_ALIGNED=9)
    check(
        found["POSIX", "vectors", 0],
        OPENS=3,
        DUPS=2,
        READS=2,
        WRITES=4,
        BYTES_READ=8096,
        SEEKS=1,
        BYTES_WRITTEN=4096 + 4000 + (1 << 20) + 10,
        RENAME_SOURCES=1,
        SIZE_WRITE_100K_1M=1,
        RW_SWITCHES=2,
    )
    source = cffi_backend.ffi.cast("int64_t", int(found["POSIX", "vectors", 0]["ID"]))
    check(found["POSIX", "vectors2", 0], RENAME_TARGETS=1, RENAMED_FROM=int(source))
    check(
        found["STDIO", "stream", 0],
        OPENS=1,
        FDOPENS=0,
        READS=3,
        WRITES=10,
        SEEKS=2,
        FLUSHES=1,
        BYTES_WRITTEN=7016,
        BYTES_READ=5007,
        MAX_BYTE_WRITTEN=7015,
        MAX_BYTE_READ=7006,
    )
    check(found["POSIX", "stream", 0], OPENS=1, FILENOS=1, WRITES=1, BYTES_WRITTEN=33, READS=0)
    check(found["POSIX", "mapped", 0], OPENS=1, MMAPS=1, WRITES=0)
    check(found["POSIX", "aio", 0], WRITES=1, BYTES_WRITTEN=3000, MAX_BYTE_WRITTEN=8999)
    common = {f"ACCESS{i + 1}_ACCESS": size for i, size in enumerate((270, 200, 130, 60))}
    check(found["POSIX", "sizes", 0], WRITES=199, **common, **{f"ACCESS{i}_COUNT": 7 for i in range(1, 5)})
    check(
        found["POSIX", "appended", 0],
        OPENS=2,
        WRITES=3,
        BYTES_WRITTEN=1700,
        READS=4,
        BYTES_READ=150,
        SEEKS=3,
        RW_SWITCHES=1,
        MAX_BYTE_WRITTEN=1399,
        MAX_BYTE_READ=(1 << 20) - 1,
        CONSEC_WRITES=1,
    )
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
    assert tiers["bytes_written"].loc["nvme"] >= 1 << 20  # by fsync, and a record in the journal
    asked = trace.read([root / "t.darshan"], places).tiers.set_index("place")
    assert asked.loc["pfs", "bytes_written"] == 1 << 20 and "nvme" not in asked.index
    told = metadata(root / "t.storage.darshan")
    assert told["tierbench_fsync"] == "tier" and told["tierbench_mode"] == "persistent-async"
    assert len(told["tierbench_config"]) == 16 and told["tierbench_commit"]


def test_a_run_on_a_timeline(root: Path) -> None:
    """`tierbench trace --chrome`: a process for each layer, times in microseconds of the run."""
    write = "import os, sys; fd = os.open(sys.argv[1], 66); os.write(fd, bytes(1 << 20)); os.fsync(fd)"
    done = traced(root, sys.executable, "-c", write, root / "pfs" / "f", stats="s.json")
    assert done.returncode == 0, done.stderr
    out, logs = root / "timeline.json", [root / "t.darshan", root / "t.storage.darshan"]
    places = ["--tier", f"pfs={root}/pfs", "--tier", f"nvme={root}/nvme"]
    line = ["trace", *map(str, logs), *places, "--chrome", str(out), "--stats", str(root / "s.json")]
    assert main(line) == 0
    events = json.loads(out.read_text())
    processes = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert [name.split(" (")[0] for name in processes] == [
        "application",
        "engine: nvme",
        "storage: pfs",
        "tiers",
    ]
    threads = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    accesses = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in accesses} == {pid for name, pid in processes.items() if name != "tiers"}
    assert {(e["pid"], e["tid"]) for e in accesses} == threads
    run_us = trace.read(logs).job["run_s"].max() * 1e6
    assert all(0 <= e["ts"] <= e["ts"] + e.get("dur", 0) <= run_us for e in events if e["ph"] in "XC")
    (asked,) = (e for e in accesses if e["pid"] == 1 and e["args"]["fname"] == f"{root}/pfs/f")
    assert (asked["name"], asked["args"]["ret"]) == ("write", 1 << 20) and asked["dur"] > 0


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


def test_ranks_and_their_shared_file(root: Path) -> None:
    done = traced(root, mpirun(), "-n", "4", RANKS, root / "pfs", "well")
    assert done.returncode == 0, done.stderr
    found, sizes = records(root / "t.darshan"), {0: 8192, 1: 4096}
    shared = found["POSIX", "shared", -1]
    moved = [(10 + r) * sizes[r % 2] + (2000 if r == 2 else 10) * 8192 for r in range(4)]
    check(
        shared,
        OPENS=4,
        WRITES=46,
        READS=2030,
        BYTES_WRITTEN=sum((10 + r) * sizes[r % 2] for r in range(4)),
        BYTES_READ=2030 * 8192,
        MODE=0o644,
        ACCESS1_ACCESS=8192,
        ACCESS1_COUNT=2030 + 10 + 12,
        ACCESS2_ACCESS=4096,
        ACCESS2_COUNT=11 + 13,
    )
    slow, fast = int(shared["SLOWEST_RANK"]), int(shared["FASTEST_RANK"])
    assert slow != fast and shared["F_FASTEST_RANK_TIME"] < shared["F_SLOWEST_RANK_TIME"]
    assert (shared["SLOWEST_RANK_BYTES"], shared["FASTEST_RANK_BYTES"]) == (moved[slow], moved[fast])
    mean = sum(moved) / 4
    assert shared["F_VARIANCE_RANK_BYTES"] == pytest.approx(sum((m - mean) ** 2 for m in moved) / 4)
    for rank in range(4):
        check(found["POSIX", f"own.{rank}", rank], WRITES=1, BYTES_WRITTEN=100 * (rank + 1))
    check(
        found["MPI-IO", "mpiio", -1],
        COLL_OPENS=4,
        COLL_WRITES=4,
        INDEP_READS=4,
        BYTES_WRITTEN=4 * 8192,
        BYTES_READ=400,
        RW_SWITCHES=4,
        ACCESS1_ACCESS=8192,
        ACCESS1_COUNT=4,
        ACCESS2_ACCESS=100,
        MODE=9,
    )
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


def test_ranks_whose_shell_ends_well_are_complete(root: Path) -> None:
    """A shell leaves by _exit, as MPI_Abort does."""
    run = f"{RANKS} {root}/pfs well; exit 0"
    done = traced(root, mpirun(), "-n", "2", "dash", "-c", run)
    assert done.returncode == 0 and "incomplete" not in done.stderr, done.stderr


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
    [("t.txt", "ends in .darshan"), ("no/t.darshan", "allowed: a file in a directory that may be written")],
)
def test_bad_names_of_logs_are_refused_before_anything_runs(root: Path, out: str, said: str) -> None:
    done = traced(root, "/bin/touch", root / "pfs" / "f", out=out)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert not (root / "pfs" / "f").exists()


def test_nothing_is_left_behind(root: Path) -> None:
    """The run's own names in /dev/shm have the number of its tierctl."""
    command = ["sh", "-c", f"ls /dev/shm; exec {CALLS} {root}/pfs"]
    line = [str(TIERCTL), "run", "-c", f"{root}/c.yaml", "--trace", f"{root}/t.darshan", "--", *command]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        during, _ = run.communicate(timeout=SECONDS)
    assert run.returncode == 0
    own = f".run-{run.pid}-"
    assert any(own in name and name.endswith(".trace") for name in during.split())
    assert not [p for p in Path("/dev/shm").iterdir() if own in p.name]
    assert sorted(p.name for p in root.glob("*darshan*")) == ["t.darshan", "t.storage.darshan"]
