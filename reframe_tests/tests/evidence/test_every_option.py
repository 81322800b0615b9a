"""Each thing that a launch is asked for: an output that says another is named, for IOR, mdtest and IO500."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from darshan_logs import Made, accesses

from common.sites.tiers import ROOT
from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.judge.launch import Clock, ior_disagreements, mdtest_disagreements
from tierbench.outputs import IorOutput, parse_ior, parse_mdtest, read_ior
from tierbench.recipes.rules import read_rules
from tierbench.trace import read, witness

DATA, MIB = ROOT / "analysis" / "tests" / "data", 1 << 20
FIELDS = {"dir": "/pfs", "status": "/status", "files": "10", "seconds": "3", "ppn": "2"}
# What IOR prints of a command line, with what a driver that does otherwise would print.
OTHER = {
    "api": "MMAP",
    "access": "another",
    "type": "another",
    "segments": "7",
    "ordering in a file": "another",
    "ordering inter file": "another",
    "task offset": "9",
    "nodes": "3",
    "tasks": "5",
    "repetitions": "2",
    "xfersize": "3 MiB",
    "blocksize": "5 GiB",
    "aggregate filesize": "1 bytes",
    "stonewallingTime": "1",
    "stoneWallingWearOut": "7",
}


def lines() -> Iterator[str]:
    """A launch with everything, and IO500's."""
    yield "-a MPIIO -c -C -Q 3 -e -t 1m -b 4m -s 2 -w -r -i 1 -D 9 -O stoneWallingWearOut=1 -o /pfs/data"
    yield "-w -r -o /pfs/data -t 1m -b 16m -F -z -e"
    for recipe in read_rules():
        for launch in recipe.launches if recipe.suite == "io500" else ():
            if launch.program == "ior":
                yield shlex.join(launch.arguments(FIELDS))


def printed(asked: IorAsked) -> dict[str, str]:
    """The options as an honest IOR prints them: those that are asked for, found out one by one."""
    told: dict[str, str] = {}
    for _ in range(30):
        wrong = [x for x in ior_disagreements(asked, output(told), None) if x.told.endswith("nothing of it")]
        if not wrong:
            break
        told[wrong[0].what] = wrong[0].asked.removeprefix("asked for ")
    return told


def output(options: dict[str, str]) -> IorOutput:
    """Of a launch that says these options and no results."""
    honest = parse_ior((DATA / "ior-4.0.0" / "default.out").read_text())
    return replace(honest, options=options, results=(), summaries=(), command=None, parameters={})


@pytest.mark.parametrize("line", list(lines()))
def test_every_printed_option_is_held_against_the_line(line: str) -> None:
    asked = IorAsked(tuple(shlex.split(line)), 4, 2)
    right = printed(asked)
    assert ior_disagreements(asked, output(right), None) == []
    least = set(OTHER) - {"task offset", "stonewallingTime", "stoneWallingWearOut"}
    assert least <= right.keys() <= OTHER.keys()
    assert ("task offset" in right) is ("-C" in asked.arguments)
    assert ("stonewallingTime" in right) is ("-D" in asked.arguments)
    for name in right:
        found = ior_disagreements(asked, output({**right, name: OTHER[name]}), None)
        assert [x.what for x in found] == [name] and OTHER[name] in found[0].told, name


def test_a_stonewall_that_nobody_asked_for_is_named() -> None:
    asked = IorAsked(tuple("-w -o /pfs/data -F".split()), 2, 1)
    right = printed(asked)
    found = ior_disagreements(asked, output({**right, "stonewallingTime": "5"}), None)
    assert [x.what for x in found] == ["stonewallingTime"]


PARAMETERS = (
    "fsync",
    "fsyncperwrite",
    "filePerProc",
    "randomOffset",
    "reorderTasks",
    "collective",
    "deadlineForStonewall",
    "segmentCount",
    "transferSize",
    "blockSize",
)


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_of_json_is_held_against_the_line(name: str) -> None:
    asked = IorAsked(tuple("-w -o /pfs/data -F -e -z -C -t 4k -b 1m -s 3 -D 5".split()), 2, 1)
    right = {
        "fsync": 1,
        "fsyncperwrite": 0,
        "filePerProc": 1,
        "randomOffset": 1,
        "reorderTasks": 1,
        "collective": 0,
        "deadlineForStonewall": 5,
        "segmentCount": 3,
        "transferSize": 4096,
        "blockSize": MIB,
    }
    honest = output(printed(asked))
    assert ior_disagreements(asked, replace(honest, parameters=right), None) == []
    wrong = {**right, name: int(right[name]) + 1}
    found = ior_disagreements(asked, replace(honest, parameters=wrong), None)
    assert [x.what for x in found] == [name]


def test_a_real_json_has_these_parameters() -> None:
    files = sorted((DATA / "ior-4.0.0").glob("*.json"))
    assert any(set(PARAMETERS) <= read_ior(f).parameters.keys() for f in files)


def test_a_rank_that_moves_less_than_the_others(tmp_path: Path) -> None:
    """All bytes are there; the first rank has left its half to the second."""
    asked = IorAsked(tuple("-w -t 1m -b 2m -F -o /pfs/d".split()), 2, 1)
    for counts, named in (((2, 2), False), ((1, 3), True)):
        made = Made(nprocs=2)
        for rank, n in enumerate(counts):
            file = f"/pfs/d.{rank:08d}"
            none = accesses([], 0, [], 0)
            made.dxt(
                file,
                rank,
                accesses([i * MIB for i in range(n)], MIB, [0.1 * i for i in range(n)], 0.05),
                none,
            )
            made.counters("POSIX", file, rank, WRITES=n, BYTES_WRITTEN=n * MIB)
        found = witness.testimony(asked, None, read([made.write(tmp_path / f"{counts[0]}.darshan")]))
        assert ("bytes of write by rank" in [x.what for x in found.disagreements]) is named


def test_ranks_that_take_turns_on_two_names(tmp_path: Path) -> None:
    """-o a@b is honest: the data are in both; with one of them alone half is missing."""
    made = Made(nprocs=2)
    for rank, name in enumerate(("a", "b")):
        none, written = accesses([], 0, [], 0), accesses([0, MIB], MIB, [0.0, 0.1], 0.05)
        made.dxt(f"/pfs/{name}.{rank:08d}", rank, written, none)
        made.counters("POSIX", f"/pfs/{name}.{rank:08d}", rank, WRITES=2, BYTES_WRITTEN=2 * MIB)
    log = read([made.write(tmp_path / "a.darshan")])
    for names, told in (("/pfs/a@/pfs/b", False), ("/pfs/a", True)):
        asked = IorAsked(tuple(f"-w -t 1m -b 2m -F -o {names}".split()), 2, 1)
        found = witness.testimony(asked, None, log).disagreements
        assert ("bytes of write" in [x.what for x in found]) is told
        assert told or not found


MDTEST = (DATA / "mdtest-4.0.0" / "P.out").read_text()
BEGAN = datetime(2026, 11, 20, 18, 24, 40, tzinfo=UTC).timestamp()


LINE = "-n 200 -d /scratch/md -i 3 -P"


def mdtest_names(text: str, clock: Clock | None = None, *, line: str = LINE, nodes: int = 1) -> list[str]:
    asked = MdtestAsked(tuple(line.split()), 2, nodes, 200)
    return [x.what for x in mdtest_disagreements(asked, parse_mdtest(text), clock)]


def test_what_mdtest_prints_of_nodes_and_times() -> None:
    assert mdtest_names(MDTEST) == []
    assert "nodes" in mdtest_names(MDTEST, nodes=2)
    assert mdtest_names(MDTEST, Clock(BEGAN, BEGAN + 7)) == []
    assert "began" in mdtest_names(MDTEST, Clock(BEGAN + 100, BEGAN + 107))
    assert "time" in mdtest_names(MDTEST, Clock(BEGAN, BEGAN + 1))  # measured more than has passed
    assert "time" in mdtest_names(MDTEST, Clock(BEGAN, BEGAN + 90))  # and much less


def test_an_mdtest_whose_stonewall_was_shortened() -> None:
    text = MDTEST.replace("'-P'", "'-P' '-W' '5'")
    assert "duration of File creation" in mdtest_names(text, line=f"{LINE} -W 5")
