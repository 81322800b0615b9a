"""Results of IOR, and the checks that every format of its output must pass."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tierbench.outputs.strict_numbers import OutputError

OPERATIONS = ("write", "read", "remove")


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
    """One row of the summary; None where the program prints NA, or nothing (IOR 3.0)."""

    operation: str
    test: int
    tasks: int
    repetitions: int
    max_mib_s: float
    min_mib_s: float
    mean_mib_s: float
    stonewall_s: float | None
    moved_mib: float | None


@dataclass(frozen=True)
class IorOutput:
    """One invocation. `driver` is `tb-ior 0.1`, `IOR-4.0.0` or, where the format doesn't say (CSV), None.

    `options` are the lines of the first test's "Options", `parameters` what JSON says beyond them; `began` is
    the moment that the driver names, in the words of its output.
    """

    path: str
    format: str
    driver: str | None
    command: str | None
    tasks: int | None
    results: tuple[IorResult, ...]
    summaries: tuple[IorSummary, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    began: str | None = None
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

    @property
    def failures(self) -> tuple[str, ...]:
        """What went wrong although the run came to its end and printed numbers."""
        found = [f"read {self.data_errors} wrong transfers"] if self.data_errors else []
        return (*found, *(["the file holds fewer bytes than were written"] if self.file_is_short else []))


def result(access: str, test: int, iteration: int, values: list[float | None], total_s: float) -> IorResult:
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


def check_iterations(results: list[tuple[int, IorResult]], path: str) -> None:
    """Each operation of each test counts its iterations 0, 1, 2 ... without a gap; rows have their lines."""
    seen: Counter[tuple[int, str]] = Counter()
    for line, r in results:
        if r.iteration != seen[r.test, r.access]:
            problem = f"is iteration {r.iteration} of {r.access}, expected {seen[r.test, r.access]}"
            raise OutputError(path, line, problem)
        seen[r.test, r.access] += 1


def check_summary(
    results: list[tuple[int, IorResult]], summaries: list[tuple[int, IorSummary]], path: str
) -> None:
    """Table and summary tell the same story, so that a lost or mangled line is noticed.

    Both come with their lines. IOR leaves a read that only checks (`-R` without `-r`) out of the summary.
    """
    told: set[tuple[int, str]] = set()
    for line, s in summaries:
        if (s.test, s.operation) in told:
            raise OutputError(path, line, f"the summary of {s.operation} of test {s.test} comes twice")
        told.add((s.test, s.operation))
        _check_row(line, s, [r for _, r in results if (r.test, r.access) == (s.test, s.operation)], path)
    for line, r in results:
        if r.access == "write" and (r.test, r.access) not in told:
            raise OutputError(path, line, f"{r.access} of test {r.test} is missing in the summary")


def _check_row(line: int, s: IorSummary, rows: list[IorResult], path: str) -> None:
    if len(rows) != s.repetitions:
        problem = (
            f"the summary counts {s.repetitions} repetitions of {s.operation}, the table holds {len(rows)}"
        )
        raise OutputError(path, line, problem)
    values = [r.bandwidth_mib_s for r in rows if r.bandwidth_mib_s is not None]
    if not values:
        problem = f"the summary counts {s.operation}, which the table does not have"
        raise OutputError(path, line, problem)
    for name, summed, found in (("largest", s.max_mib_s, max(values)), ("least", s.min_mib_s, min(values))):
        # The table prints at least four significant digits, the summary two decimals.
        if not math.isclose(summed, found, rel_tol=1e-3, abs_tol=0.011):
            problem = (
                f"the {name} bandwidth of {s.operation} is {summed} in the summary, {found} in the table"
            )
            raise OutputError(path, line, problem)
