"""A launch held against what was asked: real outputs agree with their command lines, changed ones do not."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.judge.launch import (
    Clock,
    clock_of,
    duration_disagreements,
    ior_disagreements,
    ior_unseen,
    mdtest_disagreements,
    size_as_printed,
)
from tierbench.outputs import OutputError, parse_ior, parse_mdtest

DATA = Path(__file__).parents[1] / "data"
SCRIPTS = {"json-two.summary.json", "tests-script-colon.out"}  # -f: the line does not say what is run
WHOLE = DATA / "ior-4.0.0" / "default.out"
LINE = "-w -r -o /scratch/ior.out -t 1m -b 16m -F -e"


def outputs(kind: str) -> list[Path]:
    """Whole outputs that say their command line, which CSV does not."""
    found = []
    for file in sorted(DATA.glob(f"{kind}-*/*")):
        text = file.read_text(errors="replace")
        try:
            told = parse_mdtest(text) if kind == "mdtest" else parse_ior(text)
        except OutputError:
            continue
        if told.command is not None and told.tasks is not None and file.name not in SCRIPTS:
            found.append(file)
    return found


@pytest.mark.parametrize("file", outputs("ior"), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_real_ior_agrees_with_its_own_command_line(file: Path) -> None:
    told = parse_ior(file.read_text(errors="replace"))
    assert told.command is not None and told.tasks is not None
    asked = IorAsked(tuple(told.command.split()[1:]), told.tasks)
    wrong = {"data"} if told.data_errors else {"file size"} if told.file_is_short else set()
    assert {x.what for x in ior_disagreements(asked, told, None)} == wrong


@pytest.mark.parametrize("file", outputs("mdtest"), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_real_mdtest_agrees_with_its_own_command_line(file: Path) -> None:
    told = parse_mdtest(file.read_text(errors="replace"))
    asked = MdtestAsked(tuple(shlex.split(told.command)[1:]), told.tasks)
    assert [str(x) for x in mdtest_disagreements(asked, told, None)] == []


def told_by(text: str, line: str = LINE, ranks: int = 2, clock: Clock | None = None) -> list[str]:
    return [
        str(x) for x in ior_disagreements(IorAsked(tuple(line.split()), ranks, 1), parse_ior(text), clock)
    ]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("-w -r -o /scratch/ior.out -t 1m -b 16m -F -e -z", "ordering in a file: asked for random"),
        (
            "-w -r -o /scratch/ior.out -t 1m -b 16m -F -e -C",
            "ordering inter file: asked for constant task offset",
        ),
        ("-w -r -o /scratch/ior.out -t 1m -b 16m -e", "access: asked for single-shared-file"),
        ("-w -r -o /scratch/ior.out -t 1m -b 16m -F -e -c", "type: asked for collective"),
        ("-w -r -o /scratch/ior.out -t 1m -b 16m -F -e -a MPIIO", "api: asked for MPIIO"),
        (
            "-w -r -o /scratch/ior.out -t 2m -b 16m -F -e",
            "xfersize: asked for 2 MiB, but the driver says 1 MiB",
        ),
        ("-w -r -o /scratch/ior.out -t 1m -b 32m -F -e", "bytes of write: asked for 64.0 MiB, but 32.0 MiB"),
        ("-w -r -o /scratch/ior.out -t 1m -b 16m -F -e -s 2", "segments: asked for 2"),
        ("-w -r -o /scratch/ior.out -t 1m -b 16m -F -e -D 2", "stonewallingTime: asked for 2"),
        ("-w -r -o /scratch/ior.out -t 1m -b 16m -F", "command line: asked for"),
    ],
)
def test_another_line_than_was_run_is_named_with_both(line: str, named: str) -> None:
    assert any(x.startswith(named) for x in told_by(WHOLE.read_text(), line))


def test_other_ranks_and_nodes() -> None:
    found = told_by(WHOLE.read_text(), ranks=4)
    assert "tasks: asked for 4, but the driver says 2" in found
    asked = IorAsked(tuple(LINE.split()), 2, nodes=2)
    told = [str(x) for x in ior_disagreements(asked, parse_ior(WHOLE.read_text()), None)]
    assert told == ["nodes: asked for 2, but the driver says 1"]


def test_only_json_says_fsync() -> None:
    text = (DATA / "ior-4.0.0" / "Y-json.out").read_text()
    line = str(parse_ior(text).command).partition(" ")[2]
    assert told_by(text, line) == []
    without = told_by(text.replace('"fsyncperwrite": 1', '"fsyncperwrite": 0'), line)
    assert without == ["fsyncperwrite: asked for 1, but the driver says 0"]


def test_a_rate_that_its_time_does_not_give() -> None:
    text = WHOLE.read_text().replace("574.60", "609.08")  # everywhere, times 1.06
    assert any(x.startswith("rate of write: 32.0 MiB were moved, but 609.08 MiB/s") for x in told_by(text))


def test_words_of_a_shell_may_be_any() -> None:
    text = WHOLE.read_text()
    assert told_by(text, LINE.replace("/scratch/ior.out", "$SCRATCH/ior.out")) == []


# --- clocks ------------------------------------------------------------------------------------------------


def at(hour: str, seconds: float) -> Clock:
    began = datetime.fromisoformat(f"2026-11-20T{hour}").replace(tzinfo=UTC).timestamp()
    return Clock(began, began + seconds)


def test_another_runs_output_began_at_another_time() -> None:
    text = WHOLE.read_text()  # of 18:18:09
    assert told_by(text, clock=at("18:18:08", 2)) == []
    found = told_by(text, clock=at("18:20:00", 2))
    assert found == [
        "began: launched at Fri Nov 20 18:20:00 2026, but the driver began at Fri Nov 20 18:18:09 2026"
    ]


def test_more_or_much_less_time_than_has_passed() -> None:
    text = WHOLE.read_text()
    assert any("took 0.010 s" in x for x in told_by(text, clock=at("18:18:09", 0.01)))
    assert any("took 40.000 s" in x for x in told_by(text, clock=at("18:18:09", 40)))
    drained = Clock(at("18:18:09", 40).began, at("18:18:09", 40).ended, besides_s=39)
    assert told_by(text, clock=drained) == []
    assert duration_disagreements(8.0, at("18:18:09", 40))


@pytest.mark.parametrize(("start_s", "allowed_s"), [(None, 10), (0.1, 4), (0.5, 4), (3.0, 24)])
def test_what_a_launch_may_take_besides_its_work(start_s: float | None, allowed_s: float) -> None:
    """Eight times what a launch without work took, and a tenth of its time."""
    for elapsed_s, named in ((allowed_s / 0.9 - 0.1, False), (allowed_s / 0.9 + 0.1, True)):
        clock = replace(at("18:18:09", elapsed_s), start_s=start_s)
        assert bool(duration_disagreements(0.0, clock)) is named
    (told,) = duration_disagreements(0.0, clock)
    assert f"and at most {clock.allowance_s + 0.1 * clock.elapsed_s:.3f} s to start and end, but" in str(told)


@pytest.mark.parametrize(
    ("launched", "elapsed_s", "besides_s", "start_s", "wrong", "unseen"),
    [
        ("18:18:09", 3, 0, 0.5, False, False),
        ("18:17:57", 30, 0, 0.5, False, True),  # 12 s to start, 17 s to end, on a node that was busy since
        ("18:17:39", 62, 0, None, False, True),
        ("18:18:08", 30, 0, 0.5, True, False),  # the ranks began at once: a clock that ran slow
        ("18:17:57", 60, 0, 0.5, True, False),  # a slow clock on that busy node
        ("18:17:57", 60, 59, 0.5, False, False),  # tierctl itself says that it took the time
    ],
)
def test_a_busy_node_is_no_cheat(
    launched: str, elapsed_s: float, besides_s: float, start_s: float | None, wrong: bool, unseen: bool
) -> None:
    """IOR began at 18:18:09 and measured 0.15 s; what can be explained by a slow launch is not shown."""
    clock = replace(at(launched, elapsed_s), besides_s=besides_s, start_s=start_s)
    asked, told = IorAsked(tuple(LINE.split()), 2, 1), parse_ior(WHOLE.read_text())
    assert ("time" in [x.what for x in ior_disagreements(asked, told, clock)]) is wrong
    said = ior_unseen(asked, told, clock)
    assert bool(said) is unseen
    assert not said or f"(it took {elapsed_s:.1f} s, " in said[0]


@pytest.mark.parametrize("option", ["-M 80%", "-d 30"])
def test_what_a_launch_does_besides_what_it_measures(option: str) -> None:
    line = f"{LINE} {option}"
    text = WHOLE.read_text().replace(LINE, line)
    assert told_by(text, line, clock=at("18:18:09", 40)) == []


def test_directories_are_measured_too() -> None:
    """Without -F half of the time is theirs."""
    text = (DATA / "mdtest-4.0.0" / "n200.out").read_text()
    told, began = parse_mdtest(text), datetime(2026, 11, 20, 18, 24, 40, tzinfo=UTC)
    rows = tuple(replace(r, max=10.0, min=10.0, mean=10.0) if r.unit == "ops/s" else r for r in told.rows)
    told = replace(told, rows=rows, began=f"{began:%m/%d/%Y %H:%M:%S}")
    asked = MdtestAsked(tuple("-n 200 -d /scratch/md".split()), 2, 1, 200)
    phases = sum(r.operation.startswith(("File", "Directory")) for r in rows)
    clock = Clock(began.timestamp(), began.timestamp() + 40 * phases + 1, start_s=0.5)
    assert phases == 8 and mdtest_disagreements(asked, told, clock) == []
    stonewalled = MdtestAsked((*asked.arguments, "-W", "5"), 2, 1, 200)
    found = [x.what for x in mdtest_disagreements(stonewalled, told, replace(clock, ended=clock.began + 20))]
    assert "time" not in found  # how many files there were only the times of -P tell


def test_the_moments_of_a_job() -> None:
    clock = clock_of("100.5 +0130", "107.25 +0130", 2.0)
    assert (clock.elapsed_s, clock.besides_s) == (6.75, 2.0)
    assert clock.zone.utcoffset(None).total_seconds() == 5400  # type: ignore[union-attr]


def test_mdtest_rates_and_numbers() -> None:
    text = (DATA / "mdtest-4.0.0" / "n200.out").read_text()
    told = parse_mdtest(text)
    asked = MdtestAsked(tuple("-n 200 -d /scratch/md".split()), 2, 1, 200)
    assert mdtest_disagreements(asked, told, None) == []
    more = MdtestAsked(asked.arguments, 2, 2, 400)
    assert [x.what for x in mdtest_disagreements(more, told, None)] == ["nodes", "files"]
    timed = (DATA / "mdtest-4.0.0" / "P.out").read_text().replace("(of 3 iterations)", "(of 1 iterations)")
    line = "-n 200 -d /scratch/md -i 3 -P".split()
    found = mdtest_disagreements(
        MdtestAsked(tuple(line), 2, 1, 200), parse_mdtest(timed.replace("777.636", "881.6")), None
    )
    assert "rate of File creation" in [x.what for x in found]


def test_sizes_as_ior_prints_them() -> None:
    told = [size_as_printed(n) for n in (4096, 47008, 1 << 20, 3 << 29, 5 << 40)]
    assert told == ["4096 bytes", "47008 bytes", "1 MiB", "1.50 GiB", "5 TiB"]
