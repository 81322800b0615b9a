"""What the launches of a job printed, as numbers: the value, its times, and whether it was sustained."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tierbench.base.sizes import MIB
from tierbench.judge.launch import Clock, clock_of
from tierbench.outputs import IorOutput, parse_ior

from ..scales.scale import segments_of, size_of, value_of
from .rank_progress import furthest
from .verify_bytes import Content, check

START = "start"  # the launch of a program that does nothing, which says what any launch takes
_MARK = re.compile(r"^tierbench: launch ([\w-]+) (begins|ends)(?: at ([\d.]+ [+-]\d{4}))?$")
_PAIRS = re.compile(r"^stonewalling pairs accessed min: (\d+) max: (\d+)", re.MULTILINE)
_DATASET = re.compile(r"^tierbench: dataset: \d+ of \d+ files, (\d+) to (\d+) bytes each", re.MULTILINE)


@dataclass(frozen=True)
class LaunchOutput:
    """Standard output of one launch, what was said of its dataset before it began, and when it ran."""

    text: str
    before: str
    clock: Clock | None = None

    def ior(self) -> IorOutput:
        """As IOR's."""
        return parse_ior(self.text, "stdout")

    def moved_bytes(self) -> int:
        """Bytes that the driver says it wrote, to the tenth of a MiB that it prints."""
        moved = [s.moved_mib for s in self.ior().summaries if s.operation == "write"]
        if len(moved) != 1 or moved[0] is None:
            raise ValueError(f"stdout: says {moved} of the bytes written, expected one number")
        return round(moved[0] * MIB)


def _why_ended(name: str, lines: list[str]) -> str:
    """What limited.sh says of a launch that took too long; nothing of others."""
    said = next((line for line in lines if line.startswith(f"tierbench: launch {name} was ended")), "")
    return said.removeprefix("tierbench: ")


class _Marked:
    """The launches of a job's output, as far as it was read. Between launches `name` is empty."""

    def __init__(self) -> None:
        self.found: dict[str, LaunchOutput] = {}
        self.name = self.began = ""
        self.lines: list[str] = []
        self.before: list[str] = []

    def begin(self, name: str, moment: str) -> None:
        """What was printed since the last launch is kept with this one."""
        self.name, self.began = name, moment
        self.lines, self.before = [], self.lines

    def end(self, moment: str) -> None:
        """Keep what the launch printed; a launch that was ended is an error."""
        if why := _why_ended(self.name, self.lines):
            raise ValueError(why)
        clock = clock_of(self.began, moment) if self.began and moment else None
        text, before = "\n".join(self.lines) + "\n", "\n".join(self.before) + "\n"
        self.found[self.name] = LaunchOutput(text, before, clock)
        self.name, self.lines = "", []

    def read(self, line: str) -> None:
        """One line: a mark of the suite, or the program's."""
        mark = _MARK.match(line)
        if not mark:
            self.lines.append(line)
            return
        name, what, moment = mark[1], mark[2], mark[3] or ""
        in_turn = not self.name if what == "begins" else self.name == name
        if name in self.found or not in_turn:
            raise ValueError(f"stdout: launch {name} {what} out of turn: {line!r} is not the suite's own")
        if what == "begins":
            self.begin(name, moment)
        else:
            self.end(moment)


def outputs_of(text: str) -> dict[str, LaunchOutput]:
    """The launches of a job by name, from the marks between them."""
    marked = _Marked()
    for line in text.splitlines():
        marked.read(line)
    if marked.name:
        ended = _why_ended(marked.name, marked.lines)
        raise ValueError(ended or f"stdout: launch {marked.name} began and did not end")
    started = marked.found.pop(START, None)
    if not started or not started.clock:
        return marked.found
    known = started.clock.elapsed_s
    return {n: replace(x, clock=x.clock and replace(x.clock, start_s=known)) for n, x in marked.found.items()}


def measured(
    output: LaunchOutput, access: str, metric: str, arguments: tuple[str, ...], ranks: int, log: Path
) -> dict[str, Any]:
    """Value, times, driver, and what shows that the rate was sustained: the trace or the driver."""
    if metric == "time":
        return _duration(output)
    report = output.ior()
    results = report.select(access)
    if len(results) != 1:
        raise ValueError(f"stdout: holds {len(results)} results of {access}, expected 1")
    result = results[0]
    best = next((s.max_mib_s for s in report.summaries if s.operation == access), None)
    bandwidth = best if best is not None else result.bandwidth_mib_s
    if bandwidth is None:
        raise ValueError(f"stdout: holds no bandwidth of {access}")
    iops = result.iops or bandwidth * MIB / size_of(arguments, "-t")
    return {
        "value": bandwidth if metric == "bandwidth" else iops,
        "open_s": result.open_s,
        "write_s": result.transfer_s,
        "close_s": result.close_s,
        "total_s": result.total_s,
        "driver": report.driver or "unknown",
        **_sustained(output, access, arguments, ranks, log),
    }


def duration_of(text: str) -> float:
    """The one duration that a program prints."""
    found = re.findall(r"^\s*Duration:\s*([\d.]+)\s*$", text, re.MULTILINE)
    if len(found) != 1:
        raise ValueError(f"stdout: holds {len(found)} lines 'Duration:', expected 1")
    return float(found[0])


def _duration(output: LaunchOutput) -> dict[str, Any]:
    seconds = duration_of(output.text)
    named = re.search(r"^(tb-metadata-\S+):", output.text, re.MULTILINE)
    times = dict.fromkeys(("open_s", "write_s", "close_s"))
    return {"value": seconds, **times, "total_s": seconds, "driver": named[1] if named else "metadata"}


def _sustained(
    output: LaunchOutput, access: str, arguments: tuple[str, ...], ranks: int, log: Path
) -> dict[str, Any]:
    """With a deadline: did every rank still have data when it came? The trace tells before the driver."""
    if not value_of(arguments, "-D"):
        return {"sustained": None, "sustained_by": "no deadline"}
    transfer = size_of(arguments, "-t")
    there = size_of(arguments, "-b") * segments_of(arguments)
    dataset = _DATASET.search(output.before)
    if dataset and "-F" in arguments:
        there = min(there, int(dataset[1]))
    pairs = _PAIRS.search(output.text)
    if log.exists():
        base = value_of(arguments, "-o") or ""
        reached, told = furthest(log, base, access, ranks, scattered="-z" in arguments)
    elif pairs:
        reached, told = int(pairs[2]) * transfer, "the driver's counts"
    else:
        unknown = "not shown: the driver prints no counts of ranks, and there is no trace"
        return {"sustained": None, "sustained_by": unknown}
    told = f"{told}: at most {reached} of {there} bytes of a rank"
    return {"sustained": reached < there, "sustained_by": told}


def content_of(base: Path, ranks: int, arguments: tuple[str, ...]) -> Content:
    """The bytes that a command line left on the PFS."""
    return check(
        base, ranks, size_of(arguments, "-t"), size_of(arguments, "-b"), shared="-F" not in arguments
    )
