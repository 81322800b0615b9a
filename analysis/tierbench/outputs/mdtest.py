"""Output of mdtest or tb-mdtest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tierbench.outputs.words import OutputError, notices, read_text, real, refuse


@dataclass(frozen=True)
class MdtestRow:
    """One line of a summary over the iterations; `unit` is `ops/s`, `s` or `ms/op`."""

    operation: str
    unit: str
    max: float
    min: float
    mean: float
    std_dev: float


@dataclass(frozen=True)
class MdtestIteration:
    """One phase of one iteration as verbose output (`-v`) prints it."""

    operation: str
    iteration: int
    seconds: float
    rate: float


@dataclass(frozen=True)
class MdtestOutput:
    """One invocation."""

    path: str
    driver: str
    command: str
    tasks: int
    repetitions: int
    rows: tuple[MdtestRow, ...]
    iterations: tuple[MdtestIteration, ...]
    warnings: tuple[str, ...] = ()


def read_mdtest(path: Path | str) -> MdtestOutput:
    """Read what mdtest or tb-mdtest printed."""
    return parse_mdtest(read_text(path), str(path))


_MDTEST_LAUNCH = re.compile(r"^(?P<driver>(?:tb-)?mdtest[- ]\S+) was launched with (?P<tasks>\d+) total task")
_MDTEST_SUMMARY = re.compile(
    r"^SUMMARY (?P<kind>rate|time)(?: \(in (?P<unit>\S+)\))?: \(of (?P<n>\d+) iterations\)"
)
_MDTEST_UNITS = {
    ("rate", None): "ops/s",
    ("rate", "ops/sec"): "ops/s",
    ("time", None): "s",
    ("time", "ms/op"): "ms/op",
}
_MDTEST_ROW = re.compile(r"^   (?P<operation>(?:Directory|File|Tree) \w+)\s+(?P<values>\S.*)$")
_MDTEST_PHASE = re.compile(
    r"(?P<operation>(?:Directory|File|Tree) \w+)\s*:\s+(?P<seconds>\S+) sec,\s+(?P<rate>\S+) ops/sec"
)


def parse_mdtest(text: str, path: str = "<text>") -> MdtestOutput:
    """Read mdtest's output from a string; `path` is only for messages."""
    if not text.strip():
        raise OutputError(path, 0, "is empty, expected output of mdtest")
    driver, command, unit = "", "", ""
    tasks = repetitions = iteration = 0
    rows: list[MdtestRow] = []
    phases: list[MdtestIteration] = []
    finished = False
    for number, line in enumerate(text.splitlines(), 1):
        if m := _MDTEST_LAUNCH.match(line):
            driver, tasks = m.group("driver"), int(m.group("tasks"))
        elif m := re.match(r"Command line used: (.*)", line):
            command = m.group(1).strip()
        elif m := re.search(r"main: \* iteration (\d+) \*", line):
            iteration = int(m.group(1)) - 1
        elif m := _MDTEST_SUMMARY.match(line):
            if (m.group("kind"), m.group("unit")) not in _MDTEST_UNITS:
                raise OutputError(path, number, f"unknown unit {m.group('unit')!r}")
            unit, repetitions = _MDTEST_UNITS[m.group("kind"), m.group("unit")], int(m.group("n"))
        elif unit and (m := _MDTEST_ROW.match(line)):
            rows.append(_mdtest_row(m, unit, path, number))
        elif not unit and (m := _MDTEST_PHASE.search(line)):
            phases.append(
                MdtestIteration(
                    m.group("operation"),
                    iteration,
                    real(m.group("seconds"), path, number, "duration"),
                    real(m.group("rate"), path, number, "rate"),
                )
            )
        elif line.startswith("-- finished at"):
            finished = True
    if not driver:
        refuse(text, path, "is not output of mdtest (no 'was launched with' line)")
    if not finished:
        length = len(text.splitlines())
        refuse(text, path, f"is cut off after line {length}: no '-- finished at' line")
    if not rows:
        refuse(text, path, "holds no result")
    return MdtestOutput(path, driver, command, tasks, repetitions, tuple(rows), tuple(phases), notices(text))


def _mdtest_row(m: re.Match[str], unit: str, path: str, number: int) -> MdtestRow:
    words = m.group("values").split()
    # With --showRankStatistics three columns over the ranks stand before the four over the iterations.
    if len(words) not in (4, 7):
        raise OutputError(path, number, f"{m.group('operation')} has {len(words)} values, expected 4 or 7")
    values = [real(w, path, number, m.group("operation")) for w in words]
    return MdtestRow(m.group("operation"), unit, *values[-4:])
