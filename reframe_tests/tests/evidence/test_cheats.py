"""Each cheat of a driver is a test: what it does, and what catches it (docs/testing/evidence.md has the table).

A driver that prints what it likes is a text with other words in it. A driver that does something else than it
prints is a launch of another command line under a trace, held against the words of the right one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from cheat_launches import AS_ROOT, BIN, launch
from darshan_logs import Made, accesses

from common.outcome.mpi_seen import sees_mpi_io
from common.outcome.verify_bytes import check
from common.sites.tiers import ROOT
from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.judge.launch import Clock, ior_disagreements, mdtest_disagreements
from tierbench.outputs import IorOutput, OutputError, parse_ior, parse_mdtest
from tierbench.trace import Traces, read, witness
from tierbench.trace.window import between

DATA = ROOT / "analysis" / "tests" / "data"
MIB = 1 << 20
HONEST = (DATA / "ior-4.0.0" / "default.out").read_text()
LINE = "-w -r -o /scratch/ior.out -t 1m -b 16m -F -e"
STONEWALLED = (DATA / "ior-4.0.0" / "stonewall-D2.out").read_text()
STONEWALL_LINE = "-w -o /scratch/ior.out -t 4k -b 8g -F -e -Y -D 2 -v"
BEGAN = datetime(2026, 11, 20, 18, 18, 9, tzinfo=UTC).timestamp()

# ruff: noqa: E501 - texts of drivers are whole lines

# --- what a driver prints ----------------------------------------------------------------------------------


def times(text: str, access: str, factor: float, *, seconds: bool = False) -> str:
    """The bandwidth of an access in table and summary times a factor, and its times divided by it."""

    def row(match: re.Match[str]) -> str:
        words = match[0].split()
        rates = (1, 2) if len(words) == 11 else range(1, 9)
        lasted = (6, 7, 8, 9) if len(words) == 11 else (9,)
        for at in rates:
            words[at] = f"{float(words[at]) * factor:.2f}"
        for at in lasted if seconds else ():
            words[at] = f"{float(words[at]) / factor:.6f}"
        return " ".join(words)

    return re.sub(rf"^{access} .*$", row, text, flags=re.MULTILINE)


def both(text: str, factor: float) -> str:
    """Rates and times of write and read, which agree with each other."""
    return times(times(text, "write", factor, seconds=True), "read", factor, seconds=True)


def put(before: str, after: str) -> Callable[[str], str]:
    """Other words; that they were there is part of the test."""

    def change(text: str) -> str:
        assert before in text
        return text.replace(before, after)

    return change


@dataclass(frozen=True)
class Printed:
    """A cheat in what is printed; `named`: of what the disagreement is, or the refusal's words."""

    change: Callable[[str], str]
    named: str
    elapsed_s: float = 1.0
    stonewall: bool = False


PRINTED = {
    "another command line": Printed(put("-F -e\nMachine", "-F\nMachine"), "command line"),
    "another file": Printed(put("-o /scratch/ior.out -t", "-o /dev/shm/ior.out -t"), "command line"),
    "another interface": Printed(put("api                 : POSIX", "api                 : MMAP"), "api"),
    "one shared file": Printed(put("file-per-process", "single-shared-file"), "access"),
    "collective": Printed(put(": independent", ": collective"), "type"),
    "random instead of in sequence": Printed(put(": sequential", ": random"), "ordering in a file"),
    "reordered ranks": Printed(put(": no tasks offsets", ": constant task offset"), "ordering inter file"),
    "fewer tasks": Printed(put("tasks               : 2", "tasks               : 1"), "tasks"),
    "GiB in place of MiB": Printed(
        lambda t: times(times(t, "write", 1 / 1024), "read", 1 / 1024), "rate of write"
    ),
    "MB in place of MiB": Printed(
        lambda t: times(times(t, "write", 1.048576), "read", 1.048576), "rate of write"
    ),
    "more nodes": Printed(put("nodes               : 1", "nodes               : 2"), "nodes"),
    "enlarged -t, as printed": Printed(
        put("xfersize            : 1 MiB", "xfersize            : 4 MiB"), "xfersize"
    ),
    "short dataset, as printed": Printed(put("      32.0 POSIX", "       4.0 POSIX"), "bytes of write"),
    "no options": Printed(lambda t: re.sub(r"Options:.*Results:", "Results:", t, flags=re.S), "access"),
    "-D shortened": Printed(
        put("stonewallingTime    : 2", "stonewallingTime    : 1"), "stonewallingTime", 3, True
    ),
    "-D shortened in secret": Printed(
        lambda t: times(t, "write", 2, seconds=True), "duration of write", 3, True
    ),
    "doubled in the table only": Printed(
        put("write     574.60     575.00", "write     1149.20    575.00"),
        "the largest bandwidth of write is 574.6 in the summary",
    ),
    "numbers times 1.06": Printed(lambda t: times(times(t, "write", 1.06), "read", 1.06), "rate of write"),
    "more time than has passed": Printed(lambda t: both(t, 0.01), "time", 1),
    "zeros": Printed(lambda t: times(times(t, "write", 0), "read", 0), "rate of write"),
    "NaN": Printed(put("574.60", "nan"), "expected a number"),
    "cut off": Printed(lambda t: t[: t.index("Summary")], "is cut off"),
    "another run's output": Printed(lambda t: t.replace("18:18:09", "11:02:33"), "began"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_driver_that_prints(name: str) -> None:
    cheat = PRINTED[name]
    line, text, ranks = (STONEWALL_LINE, STONEWALLED, 2) if cheat.stonewall else (LINE, HONEST, 2)
    asked = IorAsked(tuple(line.split()), ranks, 1)
    began = BEGAN + 12 if cheat.stonewall else BEGAN
    assert ior_disagreements(asked, parse_ior(text), Clock(began, began + max(cheat.elapsed_s, 3))) == []
    changed = cheat.change(text)
    assert changed != text
    try:
        told = parse_ior(changed)
    except OutputError as e:
        assert cheat.named in str(e)
        return
    found = ior_disagreements(asked, told, Clock(began, began + cheat.elapsed_s))
    assert cheat.named in [x.what for x in found], [str(x) for x in found]


@pytest.mark.parametrize(
    ("factor", "lasts_s", "start_s"),
    [
        (2, 11, 0.3),
        (4, 7, 0.3),
        (2, 25, None),
        (4, 16, None),
    ],
)
def test_a_driver_whose_rates_and_times_agree_with_each_other(
    factor: float, lasts_s: float, start_s: float | None
) -> None:
    """Doubled, or by a slow clock: an honest driver of the same launch is not named."""
    asked, honest_s = IorAsked(tuple(LINE.split()), 2, 1), sum(r.total_s for r in parse_ior(HONEST).results)
    honest = both(HONEST, honest_s / lasts_s)
    clock = Clock(BEGAN, BEGAN + lasts_s + 0.5, start_s=start_s)
    assert [str(x) for x in ior_disagreements(asked, parse_ior(honest), clock)] == []
    found = ior_disagreements(asked, parse_ior(both(honest, factor)), clock)
    assert [x.what for x in found] == ["time"], [str(x) for x in found]


def test_a_pfs_that_fills_while_the_driver_goes_on() -> None:
    told = parse_ior((DATA / "ior-4.0.0" / "err-enospc-mpiio.out").read_text())
    asked = IorAsked(tuple(str(told.command).split()[1:]), told.tasks or 0)
    assert "file size" in [x.what for x in ior_disagreements(asked, told, None)]


MDTEST = (DATA / "mdtest-4.0.0" / "P.out").read_text().replace("(of 3 iterations)", "(of 1 iterations)")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (put("2 tasks, 400 files", "2 tasks, 40 files"), "files"),
        (put("with 2 total", "with 1 total"), "tasks"),
        (
            put("892.881        588.239        777.636", "1785.762        588.239       1555.272"),
            "rate of File creation",
        ),
        (
            put("1176522.861      24475.136     792506.953", "0.000          0.000          0.000"),
            "File stat",
        ),
        (put("'-i' '3' '-P'", "'-P'"), "command line"),
    ],
)
def test_an_mdtest_that_prints(change: Callable[[str], str], named: str) -> None:
    asked = MdtestAsked(tuple("-n 200 -d /scratch/md -i 3 -P".split()), 2, 1, 200)
    found = mdtest_disagreements(asked, parse_mdtest(change(MDTEST)), None)
    assert named in [x.what for x in found], [str(x) for x in found]


def test_files_of_holes_are_not_data(tmp_path: Path) -> None:
    for rank in (0, 1):
        with (tmp_path / f"ior.out.{rank:08d}").open("wb") as file:
            file.truncate(MIB)
    assert check(tmp_path / "ior.out", 2, 4096, MIB, shared=False).right == 0


RANK = "echo $$ >> pids; exec sleep 600"
MPIRUN = "mpirun --oversubscribe -n 2 bash -c"
HUNG = {
    "ranks hang": f"{MPIRUN} '{RANK}'",
    "a rank hangs in the middle of a line": f"{MPIRUN} 'printf unfinished; {RANK}'",
    "ranks have sessions of their own and hear no TERM": (
        f'{MPIRUN} \'trap "" TERM; setsid -w sh -c "echo \\$\\$ >> pids; exec sleep 600"\''
    ),
    "a rank is stopped": f"{MPIRUN} 'echo $$ >> pids; kill -STOP $$'",
    "the launcher is stopped, its parent ends": f"{MPIRUN} '{RANK}' & sleep 2; kill -STOP $!; wait",
}


def limited(place: Path, command: str) -> subprocess.CompletedProcess[str]:
    """A launch that may take 3 s."""
    script = ROOT / "reframe_tests" / "common" / "jobs" / "limited.sh"
    words = [str(script), "1", "3", "why", "bash", "-c", command]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=AS_ROOT, cwd=place)


@pytest.mark.parametrize("hung", HUNG.values(), ids=HUNG)
def test_a_launch_that_hangs_is_ended_with_its_ranks(hung: str, tmp_path: Path) -> None:
    done = limited(tmp_path, hung)
    assert done.returncode == 124 and "\ntierbench: launch 1 was ended after 3 s: why\n" in done.stdout
    ranks = (tmp_path / "pids").read_text().split()
    for _ in range(100):  # the launcher has told them to end, and need not wait for it
        if not any(map(runs, ranks)):
            break
        time.sleep(0.1)
    assert len(ranks) == 2 and not any(map(runs, ranks))


@pytest.mark.parametrize("status", [124, 137])
def test_a_launch_that_ends_itself_was_not_ended_by_the_limit(status: int, tmp_path: Path) -> None:
    """137 is what is left of a program that the kernel killed for memory."""
    done = limited(tmp_path, f"exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def runs(process: str) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- what a driver does ------------------------------------------------------------------------------------


RIGHT = "-w -r -e -z -F -t 4k -b 1m -k"
DONE = {
    "-e dropped": ("-w -r -z -F -t 4k -b 1m -k", "fsync"),
    "-z dropped": ("-w -r -e -F -t 4k -b 1m -k", "order of write"),
    "enlarged -t": ("-w -r -e -z -F -t 64k -b 1m -k", "transfers"),
    "short dataset": ("-w -r -e -z -F -t 4k -b 256k -k", "bytes of write"),
    "reads of an eighth": ("-w -r -e -z -F -t 4k -b 128k -k", "bytes of read"),
    "no read at all": ("-w -e -z -F -t 4k -b 1m -k", "bytes of read"),
    "mapped, with the interface's name": ("-a MMAP -w -r -z -F -t 4k -b 1m -k", "mappings"),
    "other files": ("-w -r -e -z -F -t 4k -b 2m -k -o ELSEWHERE", "other files"),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, IorOutput]:
    """The launch that was asked for: its place and what it printed."""
    place = tmp_path_factory.mktemp("honest")
    line = f"{RIGHT} -o {place}/pfs/data"
    out, application, storage = launch(place, str(BIN / "tb-ior"), *line.split())
    told, asked = parse_ior(out), IorAsked(tuple(line.split()), 2, 1)
    assert ior_disagreements(asked, told, None) == []
    found = witness.testimony(asked, told, application, storage, bypass=True)
    assert (found.disagreements, found.unseen) == ((), ())
    return place, told


@pytest.mark.parametrize("name", DONE)
def test_a_driver_that_does_something_else(name: str, honest: tuple[Path, IorOutput]) -> None:
    (place, told), (line, named) = honest, DONE[name]
    (place / "elsewhere").mkdir(exist_ok=True)
    file = "" if "ELSEWHERE" in line else f" -o {place}/pfs/data"
    done = line.replace("ELSEWHERE", f"{place}/elsewhere/data") + file
    _, application, storage = launch(place, str(BIN / "tb-ior"), *done.split())
    asked = IorAsked((*RIGHT.split(), "-o", f"{place}/pfs/data"), 2, 1)
    found = witness.testimony(asked, told, application, storage, bypass=True)
    assert named in [x.what for x in found.disagreements], [str(x) for x in found.disagreements]


_SHARED = "-w -e -t 64k -b 1m -k"
IN_SECRET = {
    "-F dropped": ("-w -e -F -t 64k -b 1m -k", "-w -e -t 64k -b 1m -k", "access"),
    "-F added": ("-w -e -t 64k -b 1m -k", "-w -e -F -t 64k -b 1m -k", "access"),
    "small blocks by turns": ("-w -e -t 4k -b 64k -k", "-w -e -t 4k -b 4k -s 16 -k", "places of write"),
    "-Y dropped": ("-w -Y -F -t 64k -b 1m -k", "-w -F -t 64k -b 1m -k", "fsync"),
    "-c dropped": (f"-a MPIIO -c {_SHARED}", f"-a MPIIO {_SHARED}", "type"),
    "-c added": (f"-a MPIIO {_SHARED}", f"-a MPIIO -c {_SHARED}", "type"),
    "POSIX for MPI-IO": (f"-a MPIIO -c {_SHARED}", _SHARED, "interface"),
    "MPI-IO for POSIX": (_SHARED, f"-a MPIIO {_SHARED}", "interface"),
    "-t enlarged under MPI-IO": (
        f"-a MPIIO -c {_SHARED}",
        f"-a MPIIO -c {_SHARED.replace('64k', '128k')}",
        "transfers",
    ),
    "-e dropped under MPI-IO": (
        f"-a MPIIO -c {_SHARED}",
        f"-a MPIIO -c {_SHARED.replace('-e ', '')}",
        "fsync",
    ),
    "-z dropped under MPI-IO": (f"-a MPIIO -F -z {_SHARED}", f"-a MPIIO -F {_SHARED}", "order of write"),
    "a file view, honest": (f"-a MPIIO -c {_SHARED}", f"-a MPIIO -c {_SHARED} --mpiio.useFileView", ""),
}


@pytest.mark.parametrize("name", IN_SECRET)
def test_a_driver_that_lays_out_its_data_otherwise(name: str, tmp_path: Path) -> None:
    """What was asked for is not named, what was done in its place is."""
    right, done, named = IN_SECRET[name]
    asked = IorAsked((*right.split(), "-o", f"{tmp_path}/pfs/data"), 2, 1)
    for line, expected in ((right, []), (done, [named] if named else [])):
        shutil.rmtree(tmp_path / "pfs", ignore_errors=True)
        words = (*line.split(), "-o", f"{tmp_path}/pfs/data")
        _, application, _ = launch(tmp_path, str(BIN / "tb-ior"), *words)
        found = witness.testimony(asked, None, application, sees_mpi_io=True).disagreements
        assert [x.what for x in found] == expected, [str(x) for x in found]


HDF5 = "-a HDF5 -c -w -t 64k -b 1m -k"


@pytest.mark.parametrize(
    ("right", "done", "named"),
    [
        (HDF5, HDF5, ""),
        (HDF5, HDF5.replace("-c ", ""), "type"),
        (HDF5, HDF5.replace("HDF5", "MPIIO"), "interface"),
        (HDF5.replace("HDF5", "MPIIO"), HDF5, "bytes of write"),
    ],
)
def test_hdf5_and_mpi_io_in_the_place_of_each_other(
    right: str, done: str, named: str, tmp_path: Path
) -> None:
    place = ("-o", f"{tmp_path}/pfs/data")
    _, application, _ = launch(tmp_path, str(BIN / "tb-ior"), *done.split(), *place)
    asked = IorAsked((*right.split(), *place), 2, 1)
    found = [x.what for x in witness.testimony(asked, None, application, sees_mpi_io=True).disagreements]
    assert named in found if named else not found, found


def test_ior_opens_a_file_of_mpi_io_once_more_after_what_it_times(tmp_path: Path) -> None:
    """To ask for its size; a driver that prints half of the transfers' time is still named."""
    line = (*f"-a MPIIO -r {_SHARED}".split(), "-o", f"{tmp_path}/pfs/data")
    out, application, _ = launch(tmp_path, str(BIN / "tb-ior"), *line)
    files = application.files.assign(close_end_s=application.files["close_end_s"] + 5)
    asked = IorAsked(line, 2, 1)
    assert not witness.testimony(asked, parse_ior(out), replace(application, files=files)).disagreements
    files = files.assign(read_end_s=files["read_start_s"] + 60)
    found = witness.testimony(asked, parse_ior(out), replace(application, files=files)).disagreements
    assert [x.what for x in found] == ["time of read"]


def test_mpi_io_that_no_trace_sees_is_said_to_be_unseen(tmp_path: Path) -> None:
    line = (*_SHARED.split(), "-o", f"{tmp_path}/pfs/data")
    _, application, _ = launch(tmp_path, str(BIN / "tb-ior"), *line)
    found = witness.testimony(IorAsked(("-a", "MPIIO", *line), 2, 1), None, application)
    assert found.disagreements == ()
    assert "by which interface the bytes went (calls of this MPI library are in no trace)" in found.unseen


def test_which_programs_calls_of_mpi_io_are_in_a_trace(tmp_path: Path) -> None:
    """A script is taken to start what our own driver is linked with."""
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "script").chmod(0o755)
    for executable, seen in ((BIN / "tb-ior", True), ("/bin/true", False), (tmp_path / "script", True)):
        assert sees_mpi_io(f"{executable} -w") is seen


def test_mpi_io_of_one_launch_among_several(tmp_path: Path) -> None:
    """The part of a log has its calls, and does not know whether they were collective."""
    line = (*f"-a MPIIO -c {_SHARED}".split(), "-o", f"{tmp_path}/pfs/data")
    _, application, _ = launch(tmp_path, str(BIN / "tb-ior"), *line)
    began = application.job["start"].iloc[0].timestamp()
    part = between(application, began, began + 60)
    found = witness.testimony(IorAsked(line, 2, 1), None, part, of_several=True, sees_mpi_io=True)
    assert (found.disagreements, "whether transfers were collective" in found.unseen) == ((), True)
    other = IorAsked(line[3:], 2, 1)  # without -a MPIIO -c
    assert "interface" in [
        x.what for x in witness.testimony(other, None, part, of_several=True).disagreements
    ]


RANK_PROGRAM = """import ctypes, os
rank, base, n, t = int(os.environ['OMPI_COMM_WORLD_RANK']), 'PLACE/pfs/data', 1 << 20, 1 << 16
def write(file):
    fd = os.open(file, os.O_CREAT | os.O_RDWR)
    for i in range(n // t):
        os.write(fd, b'x' * t)
    os.fsync(fd)
    os.close(fd)
class Aiocb(ctypes.Structure):
    _fields_ = [('fd', ctypes.c_int), ('op', ctypes.c_int), ('prio', ctypes.c_int), ('buf', ctypes.c_void_p),
                ('n', ctypes.c_size_t), ('rest', ctypes.c_char * 4000)]
def aio(file):
    libc, data = ctypes.CDLL(None), ctypes.create_string_buffer(n)
    one = Aiocb(fd=os.open(file, os.O_CREAT | os.O_RDWR), buf=ctypes.addressof(data), n=n)
    assert libc.aio_write64(ctypes.byref(one)) == 0
    while libc.aio_error64(ctypes.byref(one)) == 115:
        pass
    assert libc.aio_return64(ctypes.byref(one)) == n
    os.fsync(one.fd)
mine = f'{base}.{rank:08d}'
"""
RANK_CHEATS = {
    "honest": ("write(mine)", ""),
    "one rank writes for both": (
        "[write(f'{base}.{i:08d}') for i in (0, 1) if rank == 0]",
        "bytes of write by rank",
    ),
    "written elsewhere and renamed": (
        "write(f'PLACE/pfs/x{rank}'); os.rename(f'PLACE/pfs/x{rank}', mine)",
        "bytes of write",
    ),
    "room is reserved, nothing written": (
        "fd = os.open(mine, os.O_CREAT | os.O_RDWR); os.posix_fallocate(fd, 0, n); os.fsync(fd)",
        "bytes of write",
    ),
    "all bytes in one call of aio": ("aio(mine)", "transfers"),
    "another file is synced": (
        "fsync = os.fsync; os.fsync = lambda fd: None; write(mine); fsync(os.open(f'PLACE/e{rank}', os.O_CREAT | os.O_RDWR))",
        "fsync",
    ),
}


@pytest.mark.parametrize("name", RANK_CHEATS)
def test_a_program_in_the_place_of_ior(name: str, tmp_path: Path) -> None:
    did, named = RANK_CHEATS[name]
    (tmp_path / "p.py").write_text((RANK_PROGRAM + did).replace("PLACE", str(tmp_path)))
    asked = IorAsked((*"-w -e -F -t 64k -b 1m -k -o".split(), f"{tmp_path}/pfs/data"), 2, 1)
    _, application, _ = launch(tmp_path, shutil.which("python3") or "python3", str(tmp_path / "p.py"))
    found = [x.what for x in witness.testimony(asked, None, application).disagreements]
    assert [x for x in found if x != "other files"][:1] == ([named] if named else [])  # Python reads its own


@pytest.mark.parametrize("later_s", [0.0, 0.2])
@pytest.mark.parametrize(("factor", "access"), [(1.06, "write"), (2, "write"), (1.06, "read"), (0.1, "read")])
def test_numbers_that_agree_with_each_other_and_not_with_the_trace(
    factor: float, access: str, later_s: float, tmp_path: Path
) -> None:
    """`later_s`: a rank left the barrier after which IOR compares clocks that much later: honest all the same."""
    made, asked, seconds = (
        Made(nprocs=2),
        IorAsked(tuple(f"-{access[0]} -t 1m -b 16m -F -o /pfs/d".split()), 2, 1),
        4.0,
    )
    for rank in (0, 1):
        late = later_s * rank
        starts = late + np.arange(16) * seconds / 16
        moved, none = accesses(np.arange(16) * MIB, MIB, starts, seconds / 16), accesses([], 0, [], 0)
        pair = (moved, none) if access == "write" else (none, moved)
        made.dxt(f"/pfs/d.{rank:08d}", rank, *pair)
        counted = {f"{access.upper()}S": 16, f"BYTES_{'WRITTEN' if access == 'write' else 'READ'}": 16 * MIB}
        made.counters(
            "POSIX",
            f"/pfs/d.{rank:08d}",
            rank,
            **counted,
            F_OPEN_START_TIMESTAMP=late + 0.001,
            F_CLOSE_END_TIMESTAMP=late + seconds + 0.001,
        )
    traces = read([made.write(tmp_path / "t.darshan")])
    rows = f"{access} {32 / seconds:.2f} {32 / seconds:.2f} 0.1 16384 1024.00 0.001000 {seconds:.2f} 0.001000 {seconds:.2f} 0"
    head = "IOR-4.0.0: x\naccess bw(MiB/s) IOPS Latency(s) block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter\n"
    summary = (
        "Summary of all tests:\nOperation Max(MiB) Min(MiB) Mean(MiB) Test# #Tasks reps aggs(MiB)\n"
        f"{access} 8.00 8.00 8.00 0 2 1 32.0\n"
    )
    end = "Finished            : Mon Jan  1 00:00:00 2024\n"
    told = parse_ior(f"{head}{rows}\n{summary}{end}")
    assert "time of" not in str(witness.testimony(asked, told, traces).disagreements)
    words = rows.split()
    words[1] = f"{8 * factor:.2f}"
    words[9] = f"{seconds / factor:.4f}"
    faster = summary.replace("8.00 8.00 8.00", " ".join([words[1]] * 3))
    lying = parse_ior(f"{head}{' '.join(words)}\n{faster}{end}")
    assert f"time of {access}" in [x.what for x in witness.testimony(asked, lying, traces).disagreements]


@pytest.mark.parametrize("nodes", [1, 2])
def test_all_ranks_on_one_node_where_two_were_asked_for(nodes: int, tmp_path: Path) -> None:
    made = Made(nprocs=2)
    for rank in (0, 1):
        file = f"/pfs/d.{rank:08d}"
        made.dxt(file, rank, accesses([0], MIB, [0.1], 0.1), accesses([], 0, [], 0), f"n{rank % nodes}")
        made.counters("POSIX", file, rank, WRITES=1, BYTES_WRITTEN=MIB)
    traces = read([made.write(tmp_path / "t.darshan")])
    asked = IorAsked(tuple("-w -F -t 1m -b 1m -o /pfs/d".split()), 2, 2)
    found = [str(x) for x in witness.testimony(asked, None, traces).disagreements]
    assert found == ["nodes: asked for 2, but the trace holds ranks on 1"] * (nodes == 1)


def test_bytes_that_are_written_after_the_clock_has_stopped(tmp_path: Path) -> None:
    """A driver that gives its last transfers to a thread, and prints before they are written."""
    line = (*"-w -F -k -t 64k -b 1m -o".split(), f"{tmp_path}/pfs/data")
    out, application, _ = launch(tmp_path, str(BIN / "tb-ior"), *line)
    files = application.files
    late = files["bytes_written"].fillna(0) > 0
    longer = files.assign(close_end_s=files["close_end_s"].where(~late, files["close_end_s"] + 1))
    asked = IorAsked(line, 2, 1)
    assert witness.testimony(asked, parse_ior(out), application).disagreements == ()
    found = witness.testimony(asked, parse_ior(out), replace(application, files=longer)).disagreements
    assert [x.what for x in found] == ["time of write"]


def shared(readers: list[int], tmp_path: Path) -> Traces:
    """Two ranks and files; rank i reads the file of `readers[i]`."""
    made = Made(nprocs=2, metadata="lib_ver=3.5.0\ntierbench_unsynced=2\n")
    for rank, owner in enumerate(readers):
        made.counters("POSIX", f"/pfs/d.{rank:08d}", rank, WRITES=1, BYTES_WRITTEN=MIB, FSYNCS=1)
        made.counters("POSIX", f"/pfs/d.{owner:08d}", rank, READS=1, BYTES_READ=MIB)
    return read([made.write(tmp_path / "t.darshan")])


@pytest.mark.parametrize(
    ("line", "readers", "right"),
    [
        ("-w -r -C", [1, 0], True),
        ("-w -r -C", [0, 1], False),
        ("-w -r", [0, 1], True),
        ("-w -r", [1, 0], False),
    ],
)
def test_who_reads_what_whom_wrote(line: str, readers: list[int], right: bool, tmp_path: Path) -> None:
    asked = IorAsked((*line.split(), "-F", "-t", "1m", "-b", "1m", "-o", "/pfs/d"), 2, 2)
    found = witness.testimony(asked, None, shared(readers, tmp_path)).disagreements
    assert ("rank shift" in [x.what for x in found]) is not right


def test_an_fsync_that_came_before_the_last_write(tmp_path: Path) -> None:
    asked = IorAsked(tuple("-w -e -F -t 1m -b 1m -o /pfs/d".split()), 2, 1)
    found = [str(x) for x in witness.testimony(asked, None, shared([0, 1], tmp_path)).disagreements]
    assert "fsync: asked for after the last write (-e), but 2 files were written after it" in found


def test_our_runtime_tells_of_late_writes_and_of_mappings(tmp_path: Path) -> None:
    script = "import mmap, os\nfd = os.open('data', os.O_RDWR | os.O_CREAT)\nos.write(fd, b'x' * 8192)\n"
    script += "os.fsync(fd)\nEARLY\nmmap.mmap(fd, 4096)[0] = 1\nos.close(fd)\n"
    python = shutil.which("python3") or "python3"
    for late, unsynced in (("", 0), ("os.write(fd, b'y')", 1)):
        (tmp_path / "p.py").write_text(
            f"import os; os.chdir('{tmp_path}/pfs')\n" + script.replace("EARLY", late)
        )
        job = launch(tmp_path, python, str(tmp_path / "p.py"), ranks=0)[1].job
        assert (job["unsynced"].iloc[0], job["mapped"].iloc[0]) == (unsynced, 4096)
