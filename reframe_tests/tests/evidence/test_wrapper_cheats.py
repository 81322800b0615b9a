"""True launches of a driver inside a script that cheats: it does one thing, and prints another.

The script is each rank's program. Where it can, it lets the driver do the wrong thing and prints the output
that an honest launch left before, dated now. `IOR` names another driver, as everywhere in the suite:

    IOR=/path/to/ior pytest reframe_tests/tests/evidence/test_wrapper_cheats.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from cheat_launches import BIN, launch

from common.outcome.held import besides
from common.outcome.mpi_seen import sees_mpi_io
from common.outcome.verify_bytes import check
from tierbench.judge.asked import IorAsked
from tierbench.judge.launch import Clock, ior_disagreements
from tierbench.outputs import parse_ior
from tierbench.trace import witness

DRIVER = os.environ.get("IOR", str(BIN / "tb-ior"))
RIGHT = "-w -r -e -z -F -k -t 4k -b 4m"
SHARED = "-w -r -e -k -t 64k -b 1m"
KIB, MIB = 1 << 10, 1 << 20
# Of a rank: the driver as $driver, the words as "$@", the honest output as honest.out beside the script.
SCRIPT = """#!/bin/bash
here=${{0%/*}} driver={driver}
rank=${{OMPI_COMM_WORLD_RANK:-0}} now=$(date '+%a %b %e %T %Y')
honest() {{ [ $rank != 0 ] || sed "s/^Began .*/Began               : $now/" "$here/honest.out"; }}
without() {{ drop=$1; shift; kept=(); for w; do [ "$w" = "$drop" ] || kept+=("$w"); done; }}
with() {{
    flag=$1 value=$2; shift 2; kept=()
    for w; do [ "$last" = "$flag" ] && w=$value; kept+=("$w"); last=$w; done
}}
{body}
"""
SLOW_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
/* Time passes at an eighth of its speed, for all ranks from one moment on. */
static long long slow(long long now, const char *from)
{
    long long first = from ? atoll(from) * 1000000000LL : 0;
    return first + (now - first) / 8;
}
static long long real(clockid_t id)
{
    static int (*next)(clockid_t, struct timespec *);
    struct timespec t;
    if (!next)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    next(id, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
int clock_gettime(clockid_t id, struct timespec *t)
{
    long long now = id == CLOCK_MONOTONIC ? slow(real(id), 0) : real(id);
    *t = (struct timespec){now / 1000000000, now % 1000000000};
    return 0;
}
int gettimeofday(struct timeval *t, void *zone)
{
    long long now = slow(real(CLOCK_REALTIME), getenv("SLOW_FROM"));
    (void)zone;
    *t = (struct timeval){now / 1000000000, now % 1000000000 / 1000};
    return 0;
}
"""
NO_SYNC = """
int fsync(int fd)
{
    (void)fd;
    return 0;
}
"""


# Programs of their own in the place of the driver: each rank writes what was asked for, and not as it was.
_WRITES = """python3 - "$here/pfs/data.0000000$rank" $rank <<'.'
import os, sys
fd, rank = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), int(sys.argv[2])
for i in range(1024):
    os.pwrite(fd, b'x' * 4096, PLACE)
SYNC
.
"""
ONE_PLACE = _WRITES.replace("PLACE", "0").replace("SYNC", "os.fsync(fd)")
ONE_SYNC = _WRITES.replace("PLACE", "4096 * i").replace("SYNC", "rank or [os.fsync(fd) for _ in range(2)]")


@dataclass(frozen=True)
class Cheat:
    """What the script does, and what is named, or its beginning; `line` is what was asked for."""

    body: str
    named: str
    line: str = RIGHT
    nodes: int = 1


# Long enough that what two ranks' clocks differ by is little of it.
LONGER = RIGHT.replace("-b 4m", "-b 64m")
SLOW = '$here/slow.so" SLOW_FROM=$(stat -c %Y "$here/slow.so") $driver "$@"'
CHEATS = {
    "-e dropped": Cheat('without -e "$@"; honest; $driver "${kept[@]}" > /dev/null', "fsync"),
    "-z dropped": Cheat('without -z "$@"; honest; $driver "${kept[@]}" > /dev/null', "order of write"),
    "-D shortened": Cheat(
        'with -D 1 "$@"; $driver "${kept[@]}" | sed "s/-D 1/-D 2/; s/\\(stonewallingTime *: \\)1/\\12/"',
        "duration of write",
        "-w -F -k -t 4k -b 64g -D 2",
    ),
    "an eighth is read": Cheat(
        'with -b 512k "$@"; honest; $driver "${kept[@]}" > /dev/null',
        "bytes of read",
        RIGHT.replace("-w ", ""),
    ),
    "reordered ranks, own data is read": Cheat(
        'without -C "$@"; honest; $driver "${kept[@]}" > /dev/null', "rank shift", f"{RIGHT} -C", nodes=2
    ),
    "files of holes": Cheat(
        'honest; truncate -s 0 "$here/pfs/data.0000000$rank"; truncate -s 4M "$here/pfs/data.0000000$rank"; '
        'without -w "$@"; $driver "${kept[@]}" > /dev/null',
        "bytes of write",
    ),
    "a file of another run is read": Cheat(
        'honest; without -w "$@"; $driver "${kept[@]}" > /dev/null', "bytes of write"
    ),
    "numbers times eight": Cheat(
        '$driver "$@" | awk \'/^(write|read) / {to = NF == 11 ? 3 : 9; for (i = 2; i <= to; i++) $i *= 8}'
        " /^(write|read) / {for (i = 7; i <= 10 && NF == 11; i++) $i /= 8; if (NF > 11) $10 /= 8} {print}'",
        "time of write",
    ),
    "another run's output": Cheat('[ $rank != 0 ] || cat "$here/old.out"; $driver "$@" > /dev/null', "began"),
    "a clock that runs slow": Cheat(f'LD_PRELOAD="$LD_PRELOAD:{SLOW}', "time of", LONGER),
    "a clock that runs slow for the tracer, too": Cheat(
        f'LD_PRELOAD="{SLOW.replace(".so", ".so:$LD_PRELOAD", 1)}', "time of", LONGER
    ),
    "the PFS fills mid-run": Cheat(
        'honest; dd if=/dev/urandom "of=$here/pfs/data.0000000$rank" bs=4k count=1024 2> /dev/null; true',
        "bytes of write",
    ),
    "the best of three": Cheat('honest; $driver "$@" -i 3 > /dev/null', "bytes of write"),
    "nothing in front of the program": Cheat(
        'honest; env -u LD_PRELOAD $driver "$@" > /dev/null', "bytes of write"
    ),
    "an fsync that does nothing": Cheat(
        'honest; LD_PRELOAD="$here/nosync.so:$LD_PRELOAD" $driver "$@" > /dev/null', "fsync"
    ),
    "every transfer at one place": Cheat(
        f"honest; {ONE_PLACE}", "different bytes of write", RIGHT.replace("-r ", "").replace("-z ", "")
    ),
    "one file synced for both": Cheat(
        f"honest; {ONE_SYNC}", "fsync", RIGHT.replace("-r ", "").replace("-z ", "")
    ),
    "-c dropped": Cheat(
        'without -c "$@"; $driver "${kept[@]}" | sed "s/: independent/: collective/; s/IIO -w/IIO -c -w/"',
        "type",
        f"-a MPIIO -c {SHARED}",
    ),
    "POSIX for MPI-IO": Cheat(
        'with -a POSIX "$@"; $driver "${kept[@]}" | sed "s/: POSIX/: MPIIO/; s/-a POSIX/-a MPIIO/"',
        "interface",
        f"-a MPIIO {SHARED}",
    ),
    "nothing is done": Cheat("honest; sleep 0.5", "bytes of write"),
}


def script(place: Path, body: str) -> Path:
    made = place / "driver"
    made.write_text(SCRIPT.format(driver=DRIVER, body=body))
    made.chmod(0o755)
    return made


def asked_for(line: str, place: Path, nodes: int = 1) -> IorAsked:
    return IorAsked((*line.split(), "-o", f"{place}/pfs/data"), 2, nodes)


def told_of(place: Path, cheat: Cheat) -> list[str]:
    """All that the suite would say of this launch."""
    asked, began = asked_for(cheat.line, place, cheat.nodes), time.time()
    out, application, storage = launch(place, str(script(place, cheat.body)), *asked.arguments)
    clock = Clock(began, time.time(), start_s=float((place / "start_s").read_text()))
    told, clock = parse_ior(out), besides(clock, place / "stats.json")
    found = [x.what for x in ior_disagreements(asked_for(cheat.line, place), told, clock)]
    sees = sees_mpi_io(str(application.job["executable"].iloc[0]))
    seen = witness.testimony(asked, told, application, storage, bypass=True, sees_mpi_io=sees)
    return found + [x.what for x in seen.disagreements]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an honest launch has left its files and output, after one that does nothing, as in each job."""
    made = tmp_path_factory.mktemp("place")
    (made / "pfs").mkdir()
    began = time.time()
    launch(made, "/bin/true")
    (made / "start_s").write_text(f"{time.time() - began}")
    asked = asked_for(RIGHT, made)
    out, *_ = launch(made, DRIVER, *asked.arguments)
    (made / "honest.out").write_text(out)
    shutil.copytree(made / "pfs", made / "kept")
    lines = out.splitlines()
    old = [
        f"Began               : Mon Jan  5 {8 + i:02}:00:00 2026" if x.startswith("Began") else x
        for i, x in enumerate(lines[:10])
    ]
    (made / "old.out").write_text("\n".join(old + lines[10:]) + "\n")
    return made


@pytest.mark.parametrize("line", [RIGHT, f"-a MPIIO -c {SHARED}", f"-a MPIIO -F -z {SHARED}"])
def test_an_honest_script_is_not_named(line: str, place: Path) -> None:
    assert told_of(place, Cheat('exec $driver "$@"', "", line)) == []


@pytest.mark.parametrize("name", CHEATS)
def test_a_script_that_cheats(name: str, place: Path) -> None:
    cheat = CHEATS[name]
    shutil.copytree(place / "kept", place / "pfs", dirs_exist_ok=True)
    for library, source in (("slow.so", SLOW_CLOCK), ("nosync.so", NO_SYNC)):
        if library in cheat.body:
            compiled(place / library, source)
    if name == "the PFS fills mid-run":
        small(place)
    try:
        found = told_of(place, cheat)
    finally:
        subprocess.run(["umount", "-q", place / "pfs"], check=False, capture_output=True)
    assert any(x.startswith(cheat.named) for x in found), found
    if name == "files of holes":
        assert check(place / "pfs" / "data", 2, 4 * KIB, 4 * MIB, shared=False).right == 0


def compiled(library: Path, source: str) -> None:
    """A library that is between a program and libc."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("needs cc")
    text = library.with_suffix(".c")
    text.write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, text, "-ldl"], check=True)


def small(place: Path) -> None:
    """A PFS with room for less than half."""
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m", "none", place / "pfs"], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("needs root, for a mount")
