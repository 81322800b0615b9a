"""What IOR, mdtest and the embedded drivers print, as typed values.

A reader returns exactly the numbers that stand in the file, or raises `OutputError` with file and line: a
truncated, interleaved or empty output is never half a result. Known flaws of the real programs are survived
and nothing else is: warnings between the lines of CSV and JSON, the second `]` of IOR 4.0.0's verbose JSON,
unescaped quotes in its strings, and headings that differ between versions.

Times are seconds, bandwidths MiB/s, sizes as the field names say.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn


class OutputError(Exception):
    """An output that cannot be trusted: `path`, 1-based `line` (0: the file as a whole) and what is wrong."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


@dataclass(frozen=True)
class IorResult:
    """One operation of one iteration; None where the program prints no number (`remove`)."""

    access: str
    test: int
    iteration: int
    bandwidth_mib_s: float | None
    iops: float | None
    latency_s: float | None
    block_kib: float | None
    transfer_kib: float | None
    open_s: float | None
    transfer_s: float | None
    close_s: float | None
    total_s: float


@dataclass(frozen=True)
class IorSummary:
    """One row of the summary; None where the program prints NA."""

    operation: str
    test: int
    tasks: int
    repetitions: int
    max_mib_s: float
    min_mib_s: float
    mean_mib_s: float
    stonewall_s: float | None
    moved_mib: float


@dataclass(frozen=True)
class IorOutput:
    """One invocation. `driver` is `tb-ior 0.1`, `IOR-4.0.0` or, where the format doesn't say (CSV), None."""

    path: str
    format: str
    driver: str | None
    command: str | None
    tasks: int | None
    results: tuple[IorResult, ...]
    summaries: tuple[IorSummary, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def select(self, access: str) -> tuple[IorResult, ...]:
        """The results of one operation, in the order they were printed."""
        return tuple(r for r in self.results if r.access == access)

    @property
    def data_errors(self) -> int:
        """Wrong transfers that the data check found (the exit status cannot be trusted: modulo 256)."""
        found = (re.search(r"Incorrect data on \w+ \((\d+) errors found\)", w) for w in self.warnings)
        return sum(int(m.group(1)) for m in found if m)

    @property
    def file_is_short(self) -> bool:
        """The file held fewer bytes than IOR counted: MPI-IO out of space exits 0 and prints a bandwidth."""
        sizes: dict[str, int] = {}
        for w in self.warnings:
            if m := re.match(r"WARNING: (Stat\(\)|Using actual) .*= *(\d+)$", w):
                sizes[m.group(1)] = int(m.group(2))
        return len(sizes) == 2 and sizes["Stat()"] < sizes["Using actual"]


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


def read_ior(path: Path | str) -> IorOutput:
    """Read a text, CSV or JSON output of IOR or tb-ior; the format is found from the content."""
    return parse_ior(_text(path), str(path))


def read_mdtest(path: Path | str) -> MdtestOutput:
    """Read what mdtest or tb-mdtest printed."""
    return parse_mdtest(_text(path), str(path))


def parse_ior(text: str, path: str = "<text>") -> IorOutput:
    """Read IOR's output from a string; `path` is only for messages."""
    for line in text.splitlines():
        if line.startswith("{"):
            return _parse_ior_json(text, path)
        if line.startswith("access,bw(MiB/s),"):
            return _parse_ior_csv(text, path)
        if _BANNER.match(line):
            return _parse_ior_text(text, path)
    if not text.strip():
        raise OutputError(path, 0, "is empty, expected output of IOR")
    _refuse_with_cause(text, path, "is not output of IOR (neither its text, CSV nor JSON begins here)")


# --- shared ------------------------------------------------------------------------------------------------

_BANNER = re.compile(r"^(?P<driver>(?:IOR|tb-ior|mdtest|tb-mdtest)[- ][0-9][^\s:]*)")
_NOTICE = re.compile(r"^(?:WARNING|ERROR):? ?.*")


def _text(path: Path | str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as e:
        raise OutputError(str(path), 0, f"cannot be read: {e.strerror}") from e


def _refuse_with_cause(text: str, path: str, problem: str) -> NoReturn:
    """Raise, naming the program's own error where it printed one."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("ERROR") or ": FAILED in " in line:
            raise OutputError(path, number, f"{problem}; the program said: {line.strip()}")
    raise OutputError(path, 0, problem)


def _number(word: str, path: str, line: int, column: str) -> float:
    """A finite, plain decimal number; anything else is damage, not data."""
    if not re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", word):
        raise OutputError(path, line, f"{column} is {word!r}, expected a number")
    value = float(word)
    if not math.isfinite(value):
        raise OutputError(path, line, f"{column} is {word!r}, expected a finite number")
    return value


def _optional(word: str, path: str, line: int, column: str) -> float | None:
    return None if word in ("-", "NA") else _number(word, path, line, column)


def _natural(word: str, path: str, line: int, column: str) -> int:
    if not re.fullmatch(r"\d+", word):
        raise OutputError(path, line, f"{column} is {word!r}, expected a whole number")
    return int(word)


def _notices(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if _NOTICE.match(line))


def _result(access: str, test: int, iteration: int, values: list[float | None], total_s: float) -> IorResult:
    """`values` in the order of every format: bandwidth to close time."""
    bandwidth, iops, latency, block, transfer, open_s, transfer_s, close_s = values
    return IorResult(
        access,
        test,
        iteration,
        bandwidth,
        iops,
        latency,
        block,
        transfer,
        open_s,
        transfer_s,
        close_s,
        total_s,
    )


def _check_iterations(results: list[IorResult], path: str) -> None:
    """Each operation of each test counts its iterations 0, 1, 2 ... without a gap."""
    seen: Counter[tuple[int, str]] = Counter()
    for r in results:
        if r.iteration != seen[r.test, r.access]:
            raise OutputError(path, 0, f"iteration {seen[r.test, r.access]} of {r.access} is missing")
        seen[r.test, r.access] += 1


# --- IOR: text ---------------------------------------------------------------------------------------------

# Versions before 3.3 print neither IOPS nor Latency(s) in the table, nor stonewall columns in the summary.
_TABLE_COLUMNS = (
    "access",
    "bw(MiB/s)",
    "IOPS",
    "Latency(s)",
    "block(KiB)",
    "xfer(KiB)",
    "open(s)",
    "wr/rd(s)",
    "close(s)",
    "total(s)",
    "iter",
)
_TABLE_MAY_LACK = {"IOPS", "Latency(s)"}
_SUMMARY_NEEDS = {"Operation", "Max(MiB)", "Min(MiB)", "Mean(MiB)", "Test#", "#Tasks", "reps", "aggs(MiB)"}
_OPERATIONS = ("write", "read", "remove")


def _parse_ior_text(text: str, path: str) -> IorOutput:
    driver = command = tasks = None
    results: list[IorResult] = []
    summaries: list[IorSummary] = []
    heading: list[str] = []
    part, test, lines = "head", 0, text.splitlines()
    for number, line in enumerate(lines, 1):
        words = line.split()
        if part == "head" and driver is None and (m := _BANNER.match(line)):
            driver = m.group("driver")
        elif m := re.match(r"Command line\s*: (.*)", line):
            command = command or m.group(1).strip()
        elif m := re.match(r"TestID\s*: (\d+)$", line):
            test = int(m.group(1))
        elif m := re.match(r"tasks\s*: (\d+)$", line):
            tasks = int(m.group(1))
        elif line.startswith("Summary of all tests:"):
            part = "summary"
        elif line.startswith("Finished") and ":" in line:
            part = "end"
        elif words[:2] == ["access", "bw(MiB/s)"]:
            part, heading = "table", _table_heading(words, path, number)
        elif part == "summary" and words[:1] == ["Operation"]:
            heading = _summary_heading(words, path, number)
        elif words and words[0] in _OPERATIONS and part in ("table", "summary"):
            cells = _cells(words, heading, path, number)
            if part == "table":
                results.append(_text_result(cells, test, path, number))
            else:
                summaries.append(_text_summary(cells, path, number))
    if part != "end":
        _refuse_with_cause(text, path, f"is cut off after line {len(lines)}: no 'Finished' line")
    if not results:
        _refuse_with_cause(text, path, "holds no result")
    _check_iterations(results, path)
    _check_summary(results, summaries, path)
    return IorOutput(
        path, "text", driver, command, tasks, tuple(results), tuple(summaries), warnings=_notices(text)
    )


def _table_heading(words: list[str], path: str, number: int) -> list[str]:
    if words != [c for c in _TABLE_COLUMNS if c in words or c not in _TABLE_MAY_LACK]:
        raise OutputError(path, number, f"unknown columns {' '.join(words)!r}")
    return words


def _summary_heading(words: list[str], path: str, number: int) -> list[str]:
    if missing := _SUMMARY_NEEDS - set(words):
        raise OutputError(path, number, f"the summary lacks {', '.join(sorted(missing))}")
    return words


def _cells(words: list[str], heading: list[str], path: str, number: int) -> dict[str, str]:
    if len(words) != len(heading):
        raise OutputError(
            path,
            number,
            f"has {len(words)} columns under a heading of {len(heading)}"
            " (cut off, or the lines of two programs mixed?)",
        )
    return dict(zip(heading, words, strict=True))


def _text_result(cells: dict[str, str], test: int, path: str, number: int) -> IorResult:
    values = [_optional(cells.get(c, "-"), path, number, c) for c in _TABLE_COLUMNS[1:9]]
    return _result(
        cells["access"],
        test,
        _natural(cells["iter"], path, number, "iter"),
        values,
        _number(cells["total(s)"], path, number, "total(s)"),
    )


def _text_summary(cells: dict[str, str], path: str, number: int) -> IorSummary:
    test, tasks, repetitions = (_natural(cells[c], path, number, c) for c in ("Test#", "#Tasks", "reps"))
    most, least, mean = (_number(cells[c], path, number, c) for c in ("Max(MiB)", "Min(MiB)", "Mean(MiB)"))
    return IorSummary(
        cells["Operation"],
        test,
        tasks,
        repetitions,
        most,
        least,
        mean,
        stonewall_s=_optional(cells.get("Stonewall(s)", "NA"), path, number, "Stonewall(s)"),
        moved_mib=_number(cells["aggs(MiB)"], path, number, "aggs(MiB)"),
    )


def _check_summary(results: list[IorResult], summaries: list[IorSummary], path: str) -> None:
    """Table and summary tell the same story, so that a lost or mangled line is noticed."""
    for s in summaries:
        rows = [r for r in results if r.access == s.operation and r.test == s.test]
        if len(rows) != s.repetitions:
            raise OutputError(
                path,
                0,
                f"the summary counts {s.repetitions} repetitions of {s.operation},"
                f" the table holds {len(rows)}",
            )
        values = [r.bandwidth_mib_s for r in rows if r.bandwidth_mib_s is not None]
        for name, told, found in (("largest", s.max_mib_s, max(values)), ("least", s.min_mib_s, min(values))):
            # The table prints at least four significant digits, the summary two decimals.
            if not math.isclose(told, found, rel_tol=1e-3, abs_tol=0.011):
                raise OutputError(
                    path,
                    0,
                    f"the {name} bandwidth of {s.operation} is {told} in the summary, {found} in the table",
                )


# --- IOR: CSV ----------------------------------------------------------------------------------------------

_CSV_COLUMNS = [
    "access",
    "bw(MiB/s)",
    "IOPS",
    "Latency",
    "block(KiB)",
    "xfer(KiB)",
    "open(s)",
    "wr/rd(s)",
    "close(s)",
    "total(s)",
    "numTasks",
    "iter",
]


def _parse_ior_csv(text: str, path: str) -> IorOutput:
    results: list[IorResult] = []
    tasks: int | None = None
    test = -1
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip().split(",")
        if words[0] == "access":
            if words != _CSV_COLUMNS:
                raise OutputError(path, number, f"unknown columns {line.strip()!r}")
        elif words[0] in _OPERATIONS:
            cells = _cells(words, _CSV_COLUMNS, path, number)
            values = [_optional(cells[c], path, number, c) for c in _CSV_COLUMNS[1:9]]
            tasks = _natural(cells["numTasks"], path, number, "numTasks")
            iteration = _natural(cells["iter"], path, number, "iter")
            # CSV has no test number: an operation that counts from 0 again belongs to the next test.
            if iteration == 0 and (test < 0 or any(r.access == words[0] and r.test == test for r in results)):
                test += 1
            total_s = _number(cells["total(s)"], path, number, "total(s)")
            results.append(_result(words[0], max(test, 0), iteration, values, total_s))
    if not results:
        _refuse_with_cause(text, path, "holds no result")
    if not text.endswith("\n"):
        raise OutputError(path, len(text.splitlines()), "is cut off: the last line does not end")
    if any(line.startswith("ERROR") for line in text.splitlines()):
        _refuse_with_cause(text, path, "is the output of a run that failed")
    _check_iterations(results, path)
    return IorOutput(path, "csv", None, None, tasks, tuple(results), warnings=_notices(text))


# --- IOR: JSON ---------------------------------------------------------------------------------------------

_JSON_LINE = re.compile(r'^\s*(?:[\]{}\[,"]|$)')
_JSON_STRING = re.compile(r'^(?P<head>\s*(?:,\s*)?"[^"]+"\s?:\s*")(?P<value>.*)(?P<tail>"\s*,?\s*)$')
_JSON_PATH = re.compile(r'(?P<head>.*, "Path": ")(?P<value>.*)(?P<tail>","Capacity": ".*)$')
_JSON_SECOND_BRACKET = re.compile(r"(\]\s*)\](\s*,\s*\"max\"\s*:)")


def _parse_ior_json(text: str, path: str) -> IorOutput:
    document = _load_json(text, path)
    if not isinstance(document, dict) or "tests" not in document or "Version" not in document:
        raise OutputError(path, 0, "is JSON but not IOR's: no 'Version' and 'tests'")
    if "Finished" not in document:
        raise OutputError(path, 0, "is cut off: no 'Finished'")
    results: list[IorResult] = []
    try:
        tests = document["tests"]
        for t in tests:
            seen: Counter[str] = Counter()
            for r in t["Results"]:
                results.append(_json_result(r, int(t["TestID"]), seen[r["access"]], path))
                seen[r["access"]] += 1
        summaries = tuple(_json_summary(s, path) for s in document.get("summary", []))
        parameters = dict(tests[0]["Parameters"]) if tests else {}
        tasks = int(tests[0]["Options"]["tasks"]) if tests else None
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise OutputError(path, 0, f"lacks what IOR writes: {type(e).__name__} {e}") from e
    if not results:
        _refuse_with_cause(text, path, "holds no result")
    _check_summary(results, list(summaries), path)
    version = str(document["Version"])
    driver = f"IOR-{version}" if version[:1].isdigit() else version
    return IorOutput(
        path,
        "json",
        driver,
        document.get("Command line"),
        tasks,
        tuple(results),
        summaries,
        parameters,
        _notices(text),
    )


def _load_json(text: str, path: str) -> Any:
    """JSON as it stands, or with exactly the known flaws repaired. Line numbers stay those of the file."""
    try:
        return json.loads(text, parse_constant=lambda c: _refuse_constant(c, path))
    except json.JSONDecodeError:
        pass
    kept = [line if _JSON_LINE.match(line) else "" for line in text.splitlines()]
    repaired = _JSON_SECOND_BRACKET.sub(r"\1 \2", "\n".join(_escape(line) for line in kept))
    try:
        return json.loads(repaired, parse_constant=lambda c: _refuse_constant(c, path))
    except json.JSONDecodeError as e:
        if '"Finished"' not in repaired:
            _refuse_with_cause(text, path, f"is cut off after line {len(text.splitlines())}: no 'Finished'")
        raise OutputError(path, e.lineno, f"is not valid JSON: {e.msg}") from e


def _refuse_constant(constant: str, path: str) -> NoReturn:
    raise OutputError(path, 0, f"holds {constant}, expected finite numbers")


def _escape(line: str) -> str:
    """Escape quotes and backslashes inside a string that IOR wrote as it was."""
    m = _JSON_PATH.match(line) or _JSON_STRING.match(line)
    if not m or '": "' in m.group("value") or not re.search(r'["\\]', m.group("value")):
        return line
    return m.group("head") + m.group("value").replace("\\", "\\\\").replace('"', '\\"') + m.group("tail")


def _json_number(record: dict[str, Any], key: str, path: str) -> float:
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OutputError(path, 0, f"{key} is {value!r}, expected a number")
    return float(value)


def _json_result(r: dict[str, Any], test: int, iteration: int, path: str) -> IorResult:
    keys = ("bwMiB", "iops", "latency", "blockKiB", "xferKiB", "openTime", "wrRdTime", "closeTime")
    partial = r["access"] == "remove"
    values = [None if partial and k not in r else _json_number(r, k, path) for k in keys]
    return _result(r["access"], test, iteration, values, _json_number(r, "totalTime", path))


def _json_summary(s: dict[str, Any], path: str) -> IorSummary:
    most, least, mean = (_json_number(s, key, path) for key in ("bwMaxMIB", "bwMinMIB", "bwMeanMIB"))
    return IorSummary(
        s["operation"],
        int(s["TestID"]),
        int(s["numTasks"]),
        int(s["repetitions"]),
        most,
        least,
        mean,
        stonewall_s=_json_number(s, "StoneWallTime", path) if "StoneWallTime" in s else None,
        moved_mib=_json_number(s, "xsizeMiB", path),
    )


# --- mdtest ------------------------------------------------------------------------------------------------

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
                    _number(m.group("seconds"), path, number, "duration"),
                    _number(m.group("rate"), path, number, "rate"),
                )
            )
        elif line.startswith("-- finished at"):
            finished = True
    if not driver:
        _refuse_with_cause(text, path, "is not output of mdtest (no 'was launched with' line)")
    if not finished:
        length = len(text.splitlines())
        _refuse_with_cause(text, path, f"is cut off after line {length}: no '-- finished at' line")
    if not rows:
        _refuse_with_cause(text, path, "holds no result")
    return MdtestOutput(path, driver, command, tasks, repetitions, tuple(rows), tuple(phases), _notices(text))


def _mdtest_row(m: re.Match[str], unit: str, path: str, number: int) -> MdtestRow:
    words = m.group("values").split()
    # With --showRankStatistics three columns over the ranks stand before the four over the iterations.
    if len(words) not in (4, 7):
        raise OutputError(path, number, f"{m.group('operation')} has {len(words)} values, expected 4 or 7")
    values = [_number(w, path, number, m.group("operation")) for w in words]
    return MdtestRow(m.group("operation"), unit, *values[-4:])
