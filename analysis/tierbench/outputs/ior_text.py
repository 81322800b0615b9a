"""IOR's text and CSV: a heading names the columns, every row has all of them."""

from __future__ import annotations

import re

from tierbench.outputs.ior_types import (
    OPERATIONS,
    IorOutput,
    IorResult,
    IorSummary,
    check_iterations,
    check_summary,
    result,
)
from tierbench.outputs.strict_numbers import OutputError, natural, notices, optional, real, refuse

BANNER = re.compile(r"^(?:IOR-compatible )?(?P<driver>(?:IOR|tb-ior)[- ][0-9][^\s:]*)")


_OPTION = re.compile(r"(\S(?:.*\S)?)\s*: (.*?)\s*$")
_FINISHED = re.compile(r"^Finished *: \w{3} \w{3} +\d+ [\d:]{8} \d{4}$")
# Versions before 3.3 print neither IOPS nor Latency(s) in the table, nor stonewall columns in the summary;
# 3.0 has `name: value` for `name : value`, `Test N started` for TestID, and the bytes moved instead of MiB.
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
_SUMMARY_NEEDS = {"Operation", "Max(MiB)", "Min(MiB)", "Mean(MiB)", "Test#", "#Tasks", "reps"}


def parse_text(text: str, path: str) -> IorOutput:
    """Read the text format: the table of iterations and the summary, which must agree."""
    driver = command = tasks = began = None
    options: dict[str, str] = {}
    results: list[tuple[int, IorResult]] = []
    summaries: list[tuple[int, IorSummary]] = []
    heading: list[str] = []
    part, test = "head", 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if m := BANNER.match(line):
            if driver:
                raise OutputError(path, number, "a second run begins here: one file holds one invocation")
            driver = m.group("driver")
        elif m := re.match(r"Command line(?: used)?\s*: (.*)", line):
            command = command or m.group(1).strip()
        elif m := re.match(r"(?:TestID\s*: (?=\d+$)|Test (?=\d+ started: ))(\d+)", line):
            test = int(m.group(1))
        elif m := re.match(r"(?:Began\s*: |Run began: )(.*)", line):
            began = m.group(1).strip()
        elif line.startswith("Options:"):
            part = "options" if not options else part
        elif line.startswith("Results:"):
            part = "head"
        elif part == "options" and (m := _OPTION.match(line)):
            options[m.group(1)] = m.group(2)
            tasks = int(m.group(2)) if m.group(1) == "tasks" and m.group(2).isdigit() else tasks
        elif m := re.match(r"(?:tasks\s*: (?=\d+$)|\tclients\s*= (?=\d+ ))(\d+)", line):
            tasks = int(m.group(1))
        elif line.startswith("Summary of all tests:"):
            part, heading = "summary", []
        elif _FINISHED.match(line):
            part = "end"
        elif words[:2] == ["access", "bw(MiB/s)"]:
            part, heading = "table", _table_heading(words, path, number)
        elif part == "summary" and words[:1] == ["Operation"]:
            heading = _summary_heading(words, path, number)
        elif words and words[0] in OPERATIONS and part in ("table", "summary"):
            cells = _cells(words, heading, path, number)
            if part == "table":
                results.append((number, _text_result(cells, test, path, number)))
            else:
                summaries.append((number, _text_summary(cells, path, number)))
    if part != "end":
        refuse(text, path, "is cut off here: no 'Finished' line")
    if not results:
        refuse(text, path, "holds no result")
    check_iterations(results, path)
    check_summary(results, summaries, path)
    rows, sums = tuple(r for _, r in results), tuple(s for _, s in summaries)
    return IorOutput(path, "text", driver, command, tasks, rows, sums, {}, options, began, notices(text))


def _table_heading(words: list[str], path: str, number: int) -> list[str]:
    if words != [c for c in _TABLE_COLUMNS if c in words or c not in _TABLE_MAY_LACK]:
        raise OutputError(path, number, f"unknown columns {' '.join(words)!r}")
    return words


def _summary_heading(words: list[str], path: str, number: int) -> list[str]:
    if missing := _SUMMARY_NEEDS - set(words):
        raise OutputError(path, number, f"the summary lacks {', '.join(sorted(missing))}")
    return words


def _cells(words: list[str], heading: list[str], path: str, number: int) -> dict[str, str]:
    """A row by its column names; a row with other columns than its heading is refused."""
    if len(words) != len(heading):
        raise OutputError(
            path,
            number,
            f"has {len(words)} columns under a heading of {len(heading)}"
            " (cut off, or the lines of two programs mixed?)",
        )
    return dict(zip(heading, words, strict=True))


def _text_result(cells: dict[str, str], test: int, path: str, number: int) -> IorResult:
    values = [optional(cells.get(c, "-"), path, number, c) for c in _TABLE_COLUMNS[1:9]]
    return result(
        cells["access"],
        test,
        natural(cells["iter"], path, number, "iter"),
        values,
        real(cells["total(s)"], path, number, "total(s)"),
    )


def _text_summary(cells: dict[str, str], path: str, number: int) -> IorSummary:
    test, tasks, repetitions = (natural(cells[c], path, number, c) for c in ("Test#", "#Tasks", "reps"))
    most, least, mean = (real(cells[c], path, number, c) for c in ("Max(MiB)", "Min(MiB)", "Mean(MiB)"))
    return IorSummary(
        cells["Operation"],
        test,
        tasks,
        repetitions,
        most,
        least,
        mean,
        stonewall_s=optional(cells.get("Stonewall(s)", "NA"), path, number, "Stonewall(s)"),
        moved_mib=optional(cells.get("aggs(MiB)", "NA"), path, number, "aggs(MiB)"),
    )


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


def parse_csv(text: str, path: str) -> IorOutput:
    """Read the CSV format, which does not name the driver; each test begins with the heading."""
    results: list[tuple[int, IorResult]] = []
    tasks: int | None = None
    test = -1
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip().split(",")
        if words[0] == "access":
            if words != _CSV_COLUMNS:
                raise OutputError(path, number, f"unknown columns {line.strip()!r}")
            if test >= 0 and (not results or results[-1][1].test < test):
                raise OutputError(path, number, "the heading comes twice without a row between")
            test += 1
        elif words[0] in OPERATIONS:
            if test < 0:
                raise OutputError(path, number, "a row without a heading above")
            cells = _cells(words, _CSV_COLUMNS, path, number)
            tasks = natural(cells["numTasks"], path, number, "numTasks")
            iteration = natural(cells["iter"], path, number, "iter")
            results.append((number, _csv_result(cells, test, iteration, path, number)))
    if not results:
        refuse(text, path, "holds no result")
    if not text.endswith("\n"):
        raise OutputError(path, len(text.splitlines()), "is cut off: the last line does not end")
    if results[-1][1].test < test:
        refuse(text, path, "is cut off here: the last heading has no row")
    if any(line.startswith("ERROR") for line in text.splitlines()):
        refuse(text, path, "is the output of a run that failed")
    check_iterations(results, path)
    rows = tuple(r for _, r in results)
    return IorOutput(path, "csv", None, None, tasks, rows, warnings=notices(text))


def _csv_result(cells: dict[str, str], test: int, iteration: int, path: str, number: int) -> IorResult:
    values = [optional(cells[c], path, number, c) for c in _CSV_COLUMNS[1:9]]
    return result(cells["access"], test, iteration, values, real(cells["total(s)"], path, number, "total(s)"))
