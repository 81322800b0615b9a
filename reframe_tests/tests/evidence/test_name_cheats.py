"""Cheats of mdtest and of IO500, by true launches under a trace, held against the words of the right one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cheat_launches import BIN, launch
from darshan_logs import Made

from common.outcome import held
from common.outcome.launch_numbers import LaunchOutput
from common.sites.tiers import ROOT
from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.judge.launch import Clock, mdtest_disagreements
from tierbench.outputs import MdtestOutput, parse_mdtest
from tierbench.trace import Traces
from tierbench.trace.names_witness import all_launches, calls_of, mdtest_testimony

DATA = ROOT / "analysis" / "tests" / "data"
RIGHT = "-F -C -T -E -r -n 60 -N 1 -w 100 -e 100"
DONE = {
    "fewer files": ("-F -C -T -E -r -n 30 -N 1 -w 100 -e 100", "File creation"),
    "no stat": ("-F -C -E -r -n 60 -N 1 -w 100 -e 100", "File stat"),
    "no read": ("-F -C -T -r -n 60 -N 1 -w 100 -e 100", "File read"),
    "nothing removed": ("-F -C -T -E -n 60 -N 1 -w 100 -e 100", "File removal"),
    "a rank looks at its own files": ("-F -C -T -E -r -n 60 -w 100 -e 100", "which rank looks at what"),
    "smaller files": ("-F -C -T -E -r -n 60 -N 1 -w 10 -e 10", "bytes of File creation"),
    "files are opened, not read": ("-F -C -T -E -r -n 60 -N 1 -w 100", "bytes of File read"),
}


def asked_for(line: str, files: int, place: Path) -> MdtestAsked:
    return MdtestAsked((*line.split(), "-d", f"{place}/pfs/md"), 2, 1, files)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MdtestOutput, Traces]:
    """The launch that was asked for: its place, what it printed and its trace."""
    place = tmp_path_factory.mktemp("honest")
    asked = asked_for(RIGHT, 60, place)
    out, application, _ = launch(place, str(BIN / "tb-mdtest"), *asked.arguments)
    told = parse_mdtest(out)
    assert mdtest_disagreements(asked, told, None) == []
    found = mdtest_testimony(asked, told, application)
    assert (found.disagreements, found.unseen) == ((), ())
    return place, told, application


@pytest.mark.parametrize("line", ["-n 60 -P", "-F -n 60 -c -P", "-F -n 60 -u -w 10", "-n 60 -u -z 1"])
def test_an_honest_launch_of_other_options_is_not_named(line: str, tmp_path: Path) -> None:
    """Directories beside the files; files that one rank makes for all (-c)."""
    asked = asked_for(line, 60, tmp_path)
    out, application, _ = launch(tmp_path, str(BIN / "tb-mdtest"), *asked.arguments)
    assert mdtest_testimony(asked, parse_mdtest(out), application).disagreements == ()


def test_a_rank_that_makes_fewer_files_for_all(tmp_path: Path) -> None:
    done, asked = asked_for("-F -n 30 -c", 30, tmp_path), asked_for("-F -n 60 -c", 60, tmp_path)
    _, application, _ = launch(tmp_path, str(BIN / "tb-mdtest"), *done.arguments)
    found = mdtest_testimony(asked, None, application).disagreements
    assert {"File creation", "File removal"} <= {x.what for x in found}


TREE = "-F -C -T -n 24"


@pytest.mark.parametrize(
    ("right", "done"),
    [
        (f"{TREE} -u", TREE),
        (TREE, f"{TREE} -u"),
        (f"{TREE} -z 1 -b 3", TREE),
        (f"{TREE} -u -L -z 2 -b 2", f"{TREE} -u -z 2 -b 2"),
    ],
)
def test_other_directories_than_were_asked_for(right: str, done: str, tmp_path: Path) -> None:
    """One of all ranks, one of each (-u), a tree: what was asked for is not named."""
    for line, named in ((right, []), (done, ["directories"])):
        shutil.rmtree(tmp_path / "pfs", ignore_errors=True)
        asked = asked_for(line, 24, tmp_path)
        _, application, _ = launch(tmp_path, str(BIN / "tb-mdtest"), *asked.arguments)
        found = mdtest_testimony(asked_for(right, 24, tmp_path), None, application).disagreements
        assert [x.what for x in found if x.what == "directories"] == named, found


def test_directories_of_several_launches_in_one_log(honest: tuple[Path, MdtestOutput, Traces]) -> None:
    """IO500's easy and hard tests differ in -u."""
    place, _, application = honest
    for line, named in ((RIGHT, []), (f"{RIGHT} -u", ["directories"])):
        found = all_launches([asked_for(line, 60, place)], application).disagreements
        assert [x.what for x in found] == named


@pytest.mark.parametrize("name", DONE)
def test_an_mdtest_that_does_something_else(name: str, honest: tuple[Path, MdtestOutput, Traces]) -> None:
    (place, told, _), (line, named) = honest, DONE[name]
    shutil.rmtree(place / "pfs" / "md", ignore_errors=True)
    _, application, _ = launch(place, str(BIN / "tb-mdtest"), *line.split(), "-d", f"{place}/pfs/md")
    found = mdtest_testimony(asked_for(RIGHT, 60, place), told, application)
    assert named in [x.what for x in found.disagreements], [str(x) for x in found.disagreements]


# A rank's program in the place of mdtest: it makes, looks at, reads and removes its files. What is written to
# a file and which file is read is put in.
OWN_PROGRAM = """import os
rank, files = os.environ['OMPI_COMM_WORLD_RANK'], 60
folder = 'PLACE/pfs/md'
os.makedirs(folder, exist_ok=True)
names = [f'{folder}/file.mdtest.{rank}.{i}' for i in range(files)]
for i, name in enumerate(names):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, b'x' * (WRITTEN))
    os.close(fd)
for name in names:
    os.stat(name)
for i in range(files):
    fd = os.open(names[READ], os.O_RDONLY)
    os.read(fd, 100 * files)
    os.close(fd)
for name in names:
    os.unlink(name)
"""
NO_SHIFT = RIGHT.replace("-N 1 ", "")


OWN = {
    "honest": ("100", "i", NO_SHIFT, []),
    "one file is read over and over": ("100", "0", NO_SHIFT, ["files of File read", "bytes of File read"]),
    "one file is opened": ("100", "0", NO_SHIFT.replace(" -e 100", ""), ["files of File read"]),
    "all bytes in one file": (
        "0 if i else 6000",
        "i",
        NO_SHIFT,
        ["bytes of File creation", "bytes of File read"],
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_a_program_of_its_own(name: str, tmp_path: Path) -> None:
    """As many calls and bytes as were asked for, on other files."""
    written, read, line, named = OWN[name]
    program = tmp_path / "own.py"
    text = OWN_PROGRAM.replace("PLACE", str(tmp_path)).replace("WRITTEN", written).replace("READ", read)
    program.write_text(text)
    python = shutil.which("python3") or "python3"
    _, application, _ = launch(tmp_path, python, str(program))
    found = mdtest_testimony(asked_for(line, 60, tmp_path), None, application)
    assert [x.what for x in found.disagreements] == named


def test_another_ranks_files_where_a_rank_shall_look_at_its_own(
    honest: tuple[Path, MdtestOutput, Traces],
) -> None:
    place, told, application = honest
    found = mdtest_testimony(asked_for(RIGHT.replace("-N 1", "-N 2"), 60, place), told, application)
    assert [x.what for x in found.disagreements] == ["which rank looks at what"]


def test_one_file_made_and_looked_at_over_and_over(honest: tuple[Path, MdtestOutput, Traces]) -> None:
    place, told, application = honest
    one = application.files[application.files["file"].astype(str).str.endswith("mdtest.0.1")]
    found = mdtest_testimony(asked_for(RIGHT, 60, place), told, replace(application, files=one))
    named = [x.what for x in found.disagreements]
    assert "files of File creation" in named and "files of File stat" in named


@pytest.mark.parametrize("phase", ["File creation", "File stat", "File read", "File removal"])
def test_rates_of_mdtest_that_the_trace_does_not_show(
    phase: str, honest: tuple[Path, MdtestOutput, Traces]
) -> None:
    """Twice as fast, of a launch that is long enough to tell: its trace is stretched to a second a phase."""
    place, told, application = honest
    assert (
        application.calls["longest_s"] <= application.calls["last_s"] - application.calls["first_s"] + 2e-6
    ).all()
    calls = application.calls.assign(
        first_s=1.0, last_s=2.2, longest_s=1.0
    )  # a rank began 0.2 s late: honest
    right = tuple(replace(r, mean=120.0) if r.unit == "ops/s" else r for r in told.rows)
    twice = tuple(replace(r, mean=240.0) if r.operation == phase and r.unit == "ops/s" else r for r in right)
    asked, stretched = asked_for(RIGHT, 60, place), replace(application, calls=calls)
    assert mdtest_testimony(asked, replace(told, rows=right), stretched).disagreements == ()
    found = mdtest_testimony(asked, replace(told, rows=twice), stretched).disagreements
    assert [x.what for x in found] == [f"time of {phase}"]


def test_a_log_that_counts_no_names_shows_nothing(honest: tuple[Path, MdtestOutput, Traces]) -> None:
    place, told, application = honest
    blind = replace(application, calls=application.calls.iloc[:0])
    assert calls_of(blind) == {}
    found = mdtest_testimony(asked_for(RIGHT, 60, place), told, blind)
    assert "how many files each rank made, looked at and removed" in found.unseen


# --- several launches under one instance, as IO500's -------------------------------------------------------

IOR_WRITE, IOR_READ = "-w -k -e -C -F -t 4k -b 256k", "-r -k -C -F -t 4k -b 256k"
MDTESTS = ("-F -C -n 20 -N 1", "-F -T -n 20 -N 1", "-F -r -n 20 -N 1")


def several(
    place: Path, *, write: str = IOR_WRITE, read: str = IOR_READ, stat: str = MDTESTS[1]
) -> list[str]:
    """All launches in one script, with the moments around them; returns outputs and the log."""
    script, mpirun = place / "all.sh", "mpirun --oversubscribe -n 2"
    lines = [f"{mpirun} {BIN}/tb-ior {line} -o {place}/pfs/data" for line in (write, read)]
    lines += [f"{mpirun} {BIN}/tb-mdtest {line} -d {place}/pfs/md" for line in (MDTESTS[0], stat, MDTESTS[2])]
    script.write_text(
        "".join(f"date +%s.%N >> times\n{x} > out.{i}\ndate +%s.%N >> times\n" for i, x in enumerate(lines))
    )
    # The script touches the place itself, as the suite's own does: that is no rank.
    return ["bash", "-ec", f"cd {place}; rm -f times; mkdir -p pfs/made; rmdir pfs/made; . ./all.sh"]


NAMES = ("ior-write", "ior-read", "mdtest-create", "mdtest-stat", "mdtest-remove")


def hold(place: Path, line: list[str], *, later_s: float = 0.0, without: tuple[str, ...] = ()) -> held.Held:
    """All of it as the suite holds it; `later_s`: on its clock; `without`: launches without an output."""
    launch(place, *line, ranks=0)
    moments = [float(word) + later_s for word in (place / "times").read_text().split()]
    asked: dict[str, held.Asked] = {
        name: IorAsked((*words.split(), "-o", f"{place}/pfs/data"), 2, 1)
        for name, words in zip(NAMES, (IOR_WRITE, IOR_READ), strict=False)
    }
    asked |= dict(zip(NAMES[2:], (asked_for(words, 20, place) for words in MDTESTS), strict=True))
    outputs = {
        name: LaunchOutput((place / f"out.{i}").read_text(), "", Clock(moments[2 * i], moments[2 * i + 1]))
        for i, name in enumerate(NAMES)
        if name not in without
    }
    return held.phases(asked, outputs, place / "t.darshan")


def test_honest_launches_one_after_the_other(tmp_path: Path) -> None:
    found = hold(tmp_path, several(tmp_path))
    assert (found.disagreements, found.against) == ((), ("the trace",))
    assert set(found.unseen) <= {
        "when each phase of mdtest was (one log of all)",
        *(f"whether fsync came after the last write of {name}" for name in NAMES[:2]),
    }


@pytest.mark.parametrize(
    ("write", "read", "stat", "named"),
    [
        (IOR_WRITE.replace(" -e", ""), IOR_READ, MDTESTS[1], "launch ior-write: fsync: "),
        (
            IOR_WRITE.replace("256k", "128k"),
            IOR_READ.replace("256k", "128k"),
            MDTESTS[1],
            "launch ior-write: bytes of write: ",
        ),
        (IOR_WRITE, IOR_READ.replace("256k", "32k"), MDTESTS[1], "launch ior-read: bytes of read: "),
        (IOR_WRITE.replace("-t 4k", "-t 64k"), IOR_READ, MDTESTS[1], "launch ior-write: transfers: "),
        (IOR_WRITE, IOR_READ, "-F -T -n 10 -N 1", "File stats together: "),
    ],
)
def test_a_phase_that_does_something_else(
    write: str, read: str, stat: str, named: str, tmp_path: Path
) -> None:
    found = hold(tmp_path, several(tmp_path, write=write, read=read, stat=stat)).disagreements
    assert any(x.startswith(named) for x in found), found


def test_a_log_of_launches_of_another_hour(tmp_path: Path) -> None:
    found = hold(tmp_path, several(tmp_path), later_s=3600)
    assert any(x.startswith("log: launched at ") for x in found.disagreements), found


def test_a_phase_without_an_output_is_said_not_to_be_seen(tmp_path: Path) -> None:
    found = hold(tmp_path, several(tmp_path), without=("ior-read",))
    assert "what ior-read did to which files (no moments of it)" in found.unseen


@pytest.mark.parametrize(("read_bytes", "named"), [(1 << 20, False), (1 << 18, True)])
def test_a_sites_own_runtime_leaves_a_log_of_each_launch(
    read_bytes: int, named: bool, tmp_path: Path
) -> None:
    """Without segments, which the runtime leaves out where it is not asked for them."""
    began, outputs, asked = 1_700_000_000, {}, {}
    text = (DATA / "ior-4.0.0" / "default.out").read_text()
    for number, (name, line) in enumerate((("ior-write", "-w -F -e"), ("ior-read", "-r -F"))):
        made, at = Made(nprocs=2, run_s=2.0, began=began + 10 * number), f"-t 1m -b 1m -o {tmp_path}/data"
        for rank in range(2):
            counted = {"WRITES": 1, "BYTES_WRITTEN": 1 << 20, "FSYNCS": 1}
            counted = {"READS": 1, "BYTES_READ": read_bytes} if number else counted
            made.counters("POSIX", f"{tmp_path}/data.{rank:08d}", rank, OPENS=1, **counted)
        made.write(tmp_path / ("t.2.darshan" if number else "t.darshan"))
        asked[name] = IorAsked((*line.split(), *at.split()), 2, 1)
        clock = Clock(made.began - 1.0, made.began + 4.0)
        outputs[name] = LaunchOutput(text, "", clock)
    found = held.phases(asked, outputs, tmp_path / "t.darshan").disagreements
    wrong = "launch ior-read: bytes of read: asked for 2 MiB, but the trace holds 512 KiB"
    assert (wrong in found) is named
    assert not [x for x in found if "bytes" in x or "fsync" in x or "log:" in x if x != wrong], found


def test_without_a_log_nothing_is_shown_of_any_phase(tmp_path: Path) -> None:
    found = held.phases({}, {}, tmp_path / "none.darshan")
    assert found == held.Held(unseen=("what the launches did to which files (no trace)",))


def test_the_runtime_counts_names_however_many_files(tmp_path: Path) -> None:
    """More than a process keeps records of, removed in two ways; directories are no files."""
    program = f"import os\nos.chdir('{tmp_path}/pfs')\n"
    program += "for i in range(5000):\n os.close(os.open(f'f{i}', os.O_CREAT | os.O_WRONLY, 0o600))\n"
    program += "for i in range(5000):\n os.stat(f'f{i}')\n os.unlink(f'f{i}')\n"
    program += "os.mkdir('d'); os.rmdir('d')\nd = os.open('.', os.O_RDONLY)\n"
    program += "open('g', 'w').close(); os.unlink('g', dir_fd=d)\n"
    (tmp_path / "p.py").write_text(program)
    python = shutil.which("python3") or "python3"
    _, application, _ = launch(tmp_path, python, str(tmp_path / "p.py"), ranks=0)
    calls = calls_of(application)
    assert (calls["created"].total, calls["looked_at"].total, calls["removed"].total) == (5001, 5000, 5001)
    assert calls["created"].most == 5001 and calls["removed"].lasted_s > 0
