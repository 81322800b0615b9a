"""IOR's text and CSV: a heading names the columns, every row has all of them."""

from __future__ import annotations

import re
from collections.abc import Callable

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
    reader = _TextReader(path)
    for number, line in enumerate(text.splitlines(), 1):
        reader.read(number, line)
    if reader.part != "end":
        refuse(text, path, "is cut off here: no 'Finished' line")
    if not reader.results:
        refuse(text, path, "holds no result")
    check_iterations(reader.results, path)
    check_summary(reader.results, reader.summaries, path)
    return IorOutput(
        path,
        "text",
        reader.driver,
        reader.command,
        reader.tasks,
        tuple(r for _, r in reader.results),
        tuple(s for _, s in reader.summaries),
        {},
        reader.options,
        reader.began,
        notices(text),
    )


class _TextReader:
    """What was read of the text format so far.

    Each line goes to the first handler of `_LINES` with a matching pattern. A handler that does not take
    the line in the present part of the text returns False; then the next one is asked.
    """

    def __init__(self, path: str) -> None:
        self.path, self.number = path, 0
        self.driver: str | None = None
        self.command: str | None = None
        self.began: str | None = None
        self.tasks: int | None = None
        self.options: dict[str, str] = {}
        self.results: list[tuple[int, IorResult]] = []
        self.summaries: list[tuple[int, IorSummary]] = []
        self.heading: list[str] = []
        self.part, self.test = "head", 0

    def read(self, number: int, line: str) -> None:
        """Take one line; a line that no handler takes is of no interest."""
        self.number = number
        for pattern, handle in _LINES:
            if (found := pattern.match(line)) and handle(self, found):
                return

    def on_banner(self, found: re.Match[str]) -> bool:
        if self.driver:
            told = "a second run begins here: one file holds one invocation"
            raise OutputError(self.path, self.number, told)
        self.driver = found["driver"]
        return True

    def on_command(self, found: re.Match[str]) -> bool:
        self.command = self.command or found[1].strip()
        return True

    def on_test(self, found: re.Match[str]) -> bool:
        self.test = int(found[1])
        return True

    def on_began(self, found: re.Match[str]) -> bool:
        self.began = found[1].strip()
        return True

    def on_options(self, _: re.Match[str]) -> bool:
        self.part = self.part if self.options else "options"  # of the first test: all have the same
        return True

    def on_results(self, _: re.Match[str]) -> bool:
        self.part = "head"
        return True

    def on_option(self, found: re.Match[str]) -> bool:
        if self.part != "options":
            return False
        self.options[found[1]] = found[2]
        if found[1] == "tasks" and found[2].isdigit():
            self.tasks = int(found[2])
        return True

    def on_tasks(self, found: re.Match[str]) -> bool:
        self.tasks = int(found[1])
        return True

    def on_summary(self, _: re.Match[str]) -> bool:
        self.part, self.heading = "summary", []
        return True

    def on_end(self, _: re.Match[str]) -> bool:
        self.part = "end"
        return True

    def on_table_heading(self, found: re.Match[str]) -> bool:
        self.part, self.heading = "table", _table_heading(found.string.split(), self.path, self.number)
        return True

    def on_summary_heading(self, found: re.Match[str]) -> bool:
        if self.part == "summary":
            self.heading = _summary_heading(found.string.split(), self.path, self.number)
        return self.part == "summary"

    def on_row(self, found: re.Match[str]) -> bool:
        if self.part not in ("table", "summary"):
            return False
        cells = _cells(found.string.split(), self.heading, self.path, self.number)
        if self.part == "table":
            self.results.append((self.number, _text_result(cells, self.test, self.path, self.number)))
        else:
            self.summaries.append((self.number, _text_summary(cells, self.path, self.number)))
        return True


# In this order: an option's line may look like a later one.
_LINES: list[tuple[re.Pattern[str], Callable[[_TextReader, re.Match[str]], bool]]] = [
    (BANNER, _TextReader.on_banner),
    (re.compile(r"Command line(?: used)?\s*: (.*)"), _TextReader.on_command),
    (re.compile(r"(?:TestID\s*: (?=\d+$)|Test (?=\d+ started: ))(\d+)"), _TextReader.on_test),
    (re.compile(r"(?:Began\s*: |Run began: )(.*)"), _TextReader.on_began),
    (re.compile(r"Options:"), _TextReader.on_options),
    (re.compile(r"Results:"), _TextReader.on_results),
    (_OPTION, _TextReader.on_option),
    (re.compile(r"(?:tasks\s*: (?=\d+$)|\tclients\s*= (?=\d+ ))(\d+)"), _TextReader.on_tasks),
    (re.compile(r"Summary of all tests:"), _TextReader.on_summary),
    (_FINISHED, _TextReader.on_end),
    (re.compile(r"\s*access\s+bw\(MiB/s\)(?:\s|$)"), _TextReader.on_table_heading),
    (re.compile(r"\s*Operation(?:\s|$)"), _TextReader.on_summary_heading),
    (re.compile(rf"\s*(?:{'|'.join(OPERATIONS)})(?:\s|$)"), _TextReader.on_row),
]


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
