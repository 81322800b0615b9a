"""Output of mdtest or tb-mdtest."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tierbench.outputs.strict_numbers import OutputError, notices, read_text, real, refuse


@dataclass(frozen=True)
class MdtestRow:
    """One line of a summary over the iterations; `unit` is `ops/s`, `s` or `ms/op`.

    The last three are over ranks, with `--showRankStatistics`; else None.
    """

    operation: str
    unit: str
    max: float
    min: float
    mean: float
    std_dev: float
    rank_max: float | None = None
    rank_min: float | None = None
    rank_mean: float | None = None


@dataclass(frozen=True)
class MdtestIteration:
    """One phase of one iteration as verbose output (`-v`) prints it."""

    operation: str
    iteration: int
    seconds: float
    rate: float


@dataclass(frozen=True)
class MdtestOutput:
    """One invocation; `items`: of all ranks, as it says before it begins."""

    path: str
    driver: str
    command: str
    tasks: int
    repetitions: int
    rows: tuple[MdtestRow, ...]
    iterations: tuple[MdtestIteration, ...]
    nodes: int | None = None
    items: int | None = None
    began: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """What went wrong, in its own words: mdtest goes on, prints rates and exits 0."""
        return tuple(w for w in self.warnings if not _MDTEST_HARMLESS.match(w))


def read_mdtest(path: Path | str) -> MdtestOutput:
    """Read what mdtest or tb-mdtest printed."""
    return parse_mdtest(read_text(path), str(path))


_MDTEST_HARMLESS = re.compile(r"WARNING: Read bytes is 0")
_MDTEST_LAUNCH = re.compile(
    r"^(?P<driver>(?:tb-)?mdtest[- ]\S+) was launched with (?P<tasks>\d+) total task"
    r"(?:\(s\))?(?: on (?P<nodes>\d+) node)?"
)
_MDTEST_ITEMS = re.compile(r"^\d+ tasks, (\d+) (?:files|directories|files/directories)$")
_MDTEST_BEGAN = re.compile(r"^-- started at (\d\d/\d\d/\d{4} \d\d:\d\d:\d\d) --$")
_MDTEST_SUMMARY = re.compile(
    r"^SUMMARY(?: (?P<kind>rate|time))?(?: \(in (?P<unit>\S+)\))?: \(of (?P<n>\d+) iterations\)"
)
_MDTEST_FINISHED = re.compile(r"^-- finished at \d\d/\d\d/\d{4} \d\d:\d\d:\d\d --$")
_MDTEST_UNITS = {
    (None, None): "ops/s",  # before 3.3
    ("rate", None): "ops/s",
    ("rate", "ops/sec"): "ops/s",
    ("time", None): "s",
    ("time", "ms/op"): "ms/op",
}
_MDTEST_ROW = re.compile(r"^   (?P<operation>(?:Directory|File|Tree) [a-z]+)\s*:?\s+(?P<values>\S.*)$")
_MDTEST_PHASE = re.compile(
    r"(?P<operation>(?:Directory|File|Tree) [a-z]+)\s*:\s+(?P<seconds>\S+) sec,\s+(?P<rate>\S+) ops/sec"
)
# A table with one row of a kind has the others too. Versions differ in whether they rename.
_KINDS = {
    "Directory": {"creation", "stat", "removal"},
    "File": {"creation", "stat", "read", "removal"},
    "Tree": {"creation", "removal"},
}


@dataclass
class _Reading:
    """What has been read so far."""

    driver: str = ""
    command: str = ""
    unit: str = ""
    tasks: int = 0
    repetitions: int = 0
    iteration: int = 0
    finished: bool = False
    nodes: int | None = None
    items: int | None = None
    began: str | None = None
    table: list[MdtestRow] = field(default_factory=list)  # the one that is being read
    rows: list[MdtestRow] = field(default_factory=list)
    phases: list[MdtestIteration] = field(default_factory=list)


def parse_mdtest(text: str, path: str = "<text>") -> MdtestOutput:
    """Read mdtest's output from a string; `path` is only for messages."""
    if not text.strip():
        raise OutputError(path, 0, "is empty, expected output of mdtest")
    state = _Reading()
    for number, line in enumerate(text.splitlines(), 1):
        if state.unit:
            _read_summary_line(state, line, path, number)
        else:
            _read_line(state, line, path, number)
    if not state.driver:
        refuse(text, path, "is not output of mdtest (no 'was launched with' line)")
    if not state.finished:
        refuse(text, path, "is cut off here: no '-- finished at' line")
    if not state.rows:
        refuse(text, path, "holds no result")
    return MdtestOutput(
        path,
        state.driver,
        state.command,
        state.tasks,
        state.repetitions,
        tuple(state.rows),
        tuple(state.phases),
        state.nodes,
        state.items,
        state.began,
        notices(text),
    )


def _read_line(state: _Reading, line: str, path: str, number: int) -> None:
    """A line before the first summary."""
    if m := _MDTEST_LAUNCH.match(line):
        if state.driver:
            raise OutputError(path, number, "a second run begins here: one file holds one invocation")
        state.driver, state.tasks = m.group("driver"), int(m.group("tasks"))
        state.nodes = int(m.group("nodes")) if m.group("nodes") else None
    elif m := _MDTEST_BEGAN.match(line):
        state.began = m.group(1)
    elif m := _MDTEST_ITEMS.match(line):
        state.items = int(m.group(1))
    elif m := re.match(r"Command line used: (.*)", line):
        state.command = m.group(1).strip()
    elif m := re.search(r"main: \* iteration (\d+) \*", line):
        state.iteration = int(m.group(1)) - 1
    elif m := _MDTEST_SUMMARY.match(line):
        _begin_summary(state, m, path, number)
    elif m := _MDTEST_PHASE.search(line):
        seconds, rate = (real(m.group(k), path, number, k) for k in ("seconds", "rate"))
        state.phases.append(MdtestIteration(m.group("operation"), state.iteration, seconds, rate))


def _read_summary_line(state: _Reading, line: str, path: str, number: int) -> None:
    """A line of a summary or after it."""
    if m := _MDTEST_SUMMARY.match(line):
        _begin_summary(state, m, path, number)
    elif _MDTEST_FINISHED.match(line):
        _end_table(state, path, number)
        state.finished = True
    elif m := _MDTEST_ROW.match(line):
        if state.finished:
            raise OutputError(path, number, "a row after the end (the lines of two programs mixed?)")
        row = _mdtest_row(m, state.unit, path, number)
        if any(r.operation == row.operation for r in state.table):
            raise OutputError(path, number, f"{row.operation} is in its summary twice")
        state.table.append(row)
    elif _MDTEST_LAUNCH.match(line):
        raise OutputError(path, number, "a second run begins here: one file holds one invocation")
    elif re.match(r" {3}(?!Operation|-{9})\S", line):
        raise OutputError(path, number, f"unknown row {line.strip()!r}")


def _begin_summary(state: _Reading, m: re.Match[str], path: str, number: int) -> None:
    if (m.group("kind"), m.group("unit")) not in _MDTEST_UNITS:
        raise OutputError(path, number, f"unknown unit {m.group('unit')!r}")
    if state.unit:
        _end_table(state, path, number)
    state.unit, state.repetitions = _MDTEST_UNITS[m.group("kind"), m.group("unit")], int(m.group("n"))


def _end_table(state: _Reading, path: str, number: int) -> None:
    """A table is whole, so that a lost or mangled line is noticed; `number` is the line that ends it."""
    found: dict[str, set[str]] = {"Tree": set()}
    for r in state.table:
        kind, operation = r.operation.split()
        found.setdefault(kind, set()).add(operation)
    for kind, operations in found.items():
        if missing := _KINDS[kind] - operations:
            problem = f"the summary in {state.unit} above lacks {kind} {', '.join(sorted(missing))}"
            raise OutputError(path, number, problem)
    state.rows += state.table
    state.table = []


def _mdtest_row(m: re.Match[str], unit: str, path: str, number: int) -> MdtestRow:
    words = m.group("values").split()
    # With --showRankStatistics three columns over the ranks come before the four over the iterations.
    if len(words) not in (4, 7):
        raise OutputError(path, number, f"{m.group('operation')} has {len(words)} values, expected 4 or 7")
    values = [real(w, path, number, m.group("operation")) for w in words]
    most, least, mean, deviation = values[-4:]
    # All of them are rounded to three decimals.
    if not least - 0.0011 <= mean <= most + 0.0011 or deviation < 0:
        problem = "the mean is not between minimum and maximum"
        raise OutputError(path, number, f"{m.group('operation')}: {problem}")
    ranks = values[:3] if len(values) == 7 else (None, None, None)
    return MdtestRow(m.group("operation"), unit, most, least, mean, deviation, *ranks)
