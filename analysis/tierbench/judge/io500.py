"""IO500: the numbers of its phases, whether the run is valid, and the score.

A phase is read from what its program printed. The score is the root of two geometric means multiplied: of the
four bandwidths in GiB/s and of the eight rates in kIOPS. What IO500's rules ask of a run is checked phase by
phase; any deviation invalidates the score, and a phase without a number leaves none: it never drops out of a
mean.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from tierbench.outputs import IorOutput, MdtestOutput, OutputError, parse_ior, parse_mdtest

BANDWIDTH, METADATA = "bandwidth", "metadata"
PHASES = {
    "ior-easy-write": BANDWIDTH,
    "mdtest-easy-write": METADATA,
    "ior-hard-write": BANDWIDTH,
    "mdtest-hard-write": METADATA,
    "find": METADATA,
    "ior-easy-read": BANDWIDTH,
    "mdtest-easy-stat": METADATA,
    "ior-hard-read": BANDWIDTH,
    "mdtest-hard-stat": METADATA,
    "mdtest-easy-delete": METADATA,
    "mdtest-hard-read": METADATA,
    "mdtest-hard-delete": METADATA,
}
UNITS = {BANDWIDTH: "GiB/s", METADATA: "kIOPS"}
LEAST_STONEWALL_S = 300


@dataclass(frozen=True)
class Phase:
    """One phase: its number (None where it has none), its time, and what the rules say against it.

    `amount` is what it worked on: MiB of a bandwidth, files of a rate.
    """

    name: str
    value: float | None
    seconds: float | None
    amount: float | None
    driver: str
    problems: tuple[str, ...]

    @property
    def unit(self) -> str:
        """GiB/s or kIOPS."""
        return UNITS[PHASES[self.name]]


@dataclass(frozen=True)
class Outcome:
    """A run: its phases in order, the two means and the score, None where a phase has no number.

    `problems` is what went wrong; `invalid` says that too, and where a stonewall was too short for the rules.
    """

    phases: tuple[Phase, ...]
    bandwidth: float | None
    metadata: float | None
    score: float | None
    problems: tuple[str, ...]
    invalid: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """What is left of a phase: its command line, exit status, standard output and error."""

    arguments: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    files_per_rank: int | None = None  # that the status file of mdtest holds


# --- phases ------------------------------------------------------------------------------------------------


_SAID = re.compile(r"^(?:tb-\w+|ior|mdtest|ERROR)\b.*$", re.MULTILINE)  # a program's own words, not MPI's


def phase(name: str, ran: Ran) -> Phase:
    """Read one phase; what can't be read is a problem of the phase, not an error."""
    problems = list(option_problems(name, ran.arguments))
    if ran.status:
        said = _SAID.search(ran.stderr)
        problems.append(f"ended with status {ran.status}" + (f" ({said[0]})" if said else ""))
    read = _find if name == "find" else _ior if PHASES[name] == BANDWIDTH else _mdtest
    try:
        value, seconds, amount, driver, told = read(name, ran)
    except OutputError as e:
        return Phase(name, None, None, None, "", (*problems, f"printed no number: {e.problem}"))
    problems += told
    stonewall = stonewall_of(ran.arguments)
    if stonewall is not None and seconds < stonewall:
        problems.append(f"wrote for {seconds:.1f} s, less than its stonewall of {stonewall} s")
    return Phase(name, None if ran.status else value, seconds, amount, driver, tuple(problems))


_Read = tuple[float, float, float, str, list[str]]


def _ior(name: str, ran: Ran) -> _Read:
    output: IorOutput = parse_ior(ran.stdout, "stdout")
    access = name.rpartition("-")[2]
    found, summaries = output.select(access), [s for s in output.summaries if s.operation == access]
    if len(found) != 1 or len(summaries) != 1 or not found[0].bandwidth_mib_s or not summaries[0].moved_mib:
        raise OutputError("stdout", 0, f"holds {len(found)} results of {access}, expected 1")
    return (
        found[0].bandwidth_mib_s / 1024,
        found[0].total_s,
        summaries[0].moved_mib,
        output.driver or "unknown",
        list(output.failures),
    )


_OPERATIONS = {"write": "File creation", "stat": "File stat", "delete": "File removal", "read": "File read"}


def _mdtest(name: str, ran: Ran) -> _Read:
    output: MdtestOutput = parse_mdtest(ran.stdout, "stdout")
    wanted = _OPERATIONS[name.rpartition("-")[2]]
    rate, seconds = (
        next((r.mean for r in output.rows if (r.operation, r.unit) == (wanted, unit)), 0.0)
        for unit in ("ops/s", "s")
    )
    if not rate or not seconds:
        raise OutputError("stdout", 0, f"holds no rate and time of {wanted}")
    return rate / 1000, seconds, rate * seconds, output.driver, list(output.failures)


_MATCHED = re.compile(r"^MATCHED (\d+)/(\d+)$", re.MULTILINE)


def _find(name: str, ran: Ran) -> _Read:
    matched, time = _MATCHED.findall(ran.stdout), re.findall(r"^Duration: +([\d.]+)$", ran.stdout, re.M)
    driver = re.search(r"^(\S+) was launched", ran.stdout, re.MULTILINE)
    if len(matched) != 1 or len(time) != 1 or not float(time[0]):
        raise OutputError("stdout", 0, f"{name} holds {len(matched)} lines 'MATCHED', expected 1")
    found, files = (int(n) for n in matched[0])
    problems = [] if found else ["found nothing"]
    return files / float(time[0]) / 1000, float(time[0]), files, driver[1] if driver else "find", problems


def matches_expected(ranks: int, files_per_rank: int) -> int:
    """How many files of mdtest-hard (`file.mdtest.RANK.NUMBER`) have a name that holds 01."""
    holding = _numbers_with_01(files_per_rank)
    return sum(files_per_rank if "01" in str(rank) else holding for rank in range(ranks))


@cache
def _numbers_with_01(count: int) -> int:
    """Of the numbers from 0 to below `count`, those with 01 among their digits, without looking at each."""
    digits = str(count)
    total = sum(_endings(length) for length in range(1, len(digits)))
    # Of the same length: those that leave `count`'s digits at place i for a smaller one.
    for i, digit in enumerate(digits):
        for smaller in range(1 if i == 0 else 0, int(digit)):
            before = digits[:i] + str(smaller)
            total += _with_01(before, len(digits) - i - 1)
    return total


def _endings(length: int) -> int:
    """Numbers of that many digits without a leading zero (0 itself has one digit)."""
    return sum(_with_01(str(first), length - 1) for first in range(0 if length == 1 else 1, 10))


def _with_01(before: str, free: int) -> int:
    """Of the 10**free ways to go on, those that hold 01 somewhere."""
    if "01" in before:
        return int(10**free)
    return int(10**free) - _without_01(before[-1] == "0", free)


@cache
def _without_01(zero: bool, free: int) -> int:
    """Ways to go on without ever writing 01, after a zero or not."""
    if not free:
        return 1
    return _without_01(True, free - 1) + (8 if zero else 9) * _without_01(False, free - 1)


# --- rules -------------------------------------------------------------------------------------------------

_IOR = "-C -Q 1 -g -k -e"
_WEAR_OUT = "-O stoneWallingWearOut=1"
_HARD = "-t -w 3901 -e 3901 -P -N 1 -F"
_FIXED = {
    "ior-easy-write": f"{_IOR} {_WEAR_OUT} -w",
    "mdtest-easy-write": "-u -L -F -P -N 1 -C -Y",
    "ior-hard-write": f"{_IOR} {_WEAR_OUT} -t 47008 -b 47008 -w",
    "mdtest-hard-write": f"{_HARD} -C -Y",
    "find": "-size 3901c -name *01*",
    "ior-easy-read": f"{_IOR} -r -R",
    "mdtest-easy-stat": "-u -L -F -P -N 1 -T",
    "ior-hard-read": f"{_IOR} -t 47008 -b 47008 -r -R",
    "mdtest-hard-stat": f"{_HARD} -T",
    "mdtest-easy-delete": "-u -L -F -P -N 1 -r",
    "mdtest-hard-read": f"{_HARD} -X -E",
    "mdtest-hard-delete": f"{_HARD} -r",
}
# What a site chooses, with its value. Directories, counts beyond reach, signatures, the interface.
_CHOSEN = {"-o", "-d", "-x", "-G", "-a", "-s", "-n", "-newer"}
_STONEWALLS = {"-D", "-W"}
_CHOSEN_EASY = {"-t", "-b"}
_FLAGS = {"ior-easy": {"-F", "-u", "-c"}, "ior-hard": {"-c"}}


def option_problems(name: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Where a command line is not the rules'."""
    left = _fixed_words(name, arguments)
    wanted = _pairs(_FIXED[name].split())
    missing = [w for w in wanted if w not in left]
    flags = _FLAGS.get(name[:8], set()) | {"--posix.odirect"}
    added = [w for w in left if w not in wanted and w not in flags]
    return (*(f"lacks {w}" for w in missing), *(f"has {w}" for w in added))


def _fixed_words(name: str, arguments: Sequence[str]) -> list[str]:
    """Options with their values, without what a site chooses."""
    chosen = _CHOSEN | (_CHOSEN_EASY if name.startswith("ior-easy") else set())
    chosen |= _STONEWALLS if name.endswith("-write") else set()
    pairs = _pairs(arguments[1:] if name == "find" else arguments)
    return [p for p in pairs if p.split()[0] not in chosen and "stoneWallingStatusFile=" not in p]


def _pairs(words: Sequence[str]) -> list[str]:
    """Options, each with its value."""
    found: list[str] = []
    for word in words:
        if word.startswith("-") or not found or " " in found[-1]:
            found.append(word)
        else:
            found[-1] += f" {word}"
    return found


def stonewall_of(arguments: Sequence[str]) -> int | None:
    """Seconds of -D or -W; None where a phase has none."""
    for option in ("-D", "-W"):
        if option in arguments[:-1]:
            return int(arguments[list(arguments).index(option) + 1])
    return None


def command_of(output: str) -> tuple[str, ...]:
    """The arguments of the program as its output has them."""
    said = re.search(r"^Command line(?: used)?\s*: (.*)$", output, re.MULTILINE)
    return tuple(shlex.split(said[1])[1:]) if said else ()


# --- the run -----------------------------------------------------------------------------------------------

_SAME = {
    "ior-easy-read": "ior-easy-write",
    "ior-hard-read": "ior-hard-write",
    "mdtest-easy-stat": "mdtest-easy-write",
    "mdtest-easy-delete": "mdtest-easy-write",
    "mdtest-hard-stat": "mdtest-hard-write",
    "mdtest-hard-read": "mdtest-hard-write",
    "mdtest-hard-delete": "mdtest-hard-write",
}
_PRINTED_TO = 0.01  # times are printed to a millisecond


def outcome(ran: dict[str, Ran], ranks: int) -> Outcome:
    """All twelve phases; one that is missing has no number."""
    phases = {
        name: phase(name, ran[name]) if name in ran else Phase(name, None, None, None, "", ("did not run",))
        for name in PHASES
    }
    for name, before in _SAME.items():
        phases[name] = _same_amount(phases[name], phases[before])
    files = ran["mdtest-hard-write"].files_per_rank if "mdtest-hard-write" in ran else None
    phases["find"] = _all_found(phases["find"], ran.get("find"), ranks, files)
    bandwidth, metadata = (
        geometric_mean([p.value for p in phases.values() if PHASES[p.name] == group])
        for group in (BANDWIDTH, METADATA)
    )
    score = math.sqrt(bandwidth * metadata) if bandwidth and metadata else None
    problems = tuple(f"{p.name}: {problem}" for p in phases.values() for problem in p.problems)
    short = tuple(_too_short(name, ran[name]) for name in PHASES if name.endswith("-write") and name in ran)
    return Outcome(
        tuple(phases.values()), bandwidth, metadata, score, problems, (*problems, *filter(None, short))
    )


def _too_short(name: str, ran: Ran) -> str:
    seconds = stonewall_of(ran.arguments) or 0
    if seconds >= LEAST_STONEWALL_S:
        return ""
    return f"{name}: stonewall of {seconds} s, at least {LEAST_STONEWALL_S} s are asked for"


def _same_amount(now: Phase, before: Phase) -> Phase:
    """A later phase works on all that was written."""
    if now.amount is None or before.amount is None:
        return now
    if abs(now.amount / before.amount - 1) <= _PRINTED_TO:
        return now
    told = f"worked on {now.amount:.0f}, where {before.name} left {before.amount:.0f}"
    return replace(now, problems=(*now.problems, told))


def _all_found(found: Phase, ran: Ran | None, ranks: int, files_per_rank: int | None) -> Phase:
    """`find` finds exactly the files of mdtest-hard with names that match."""
    counts = _MATCHED.findall(ran.stdout) if ran else []
    if len(counts) != 1 or files_per_rank is None:
        return found
    expected = matches_expected(ranks, files_per_rank)
    if int(counts[0][0]) == expected:
        return found
    return replace(found, problems=(*found.problems, f"found {counts[0][0]} files, {expected} are there"))


def geometric_mean(values: Sequence[float | None]) -> float | None:
    """None where any is missing: a phase that failed leaves no score, rather than a mean of the others."""
    known = [v for v in values if v]
    if len(known) != len(values):
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))


def as_json(made: Outcome) -> dict[str, Any]:
    """For scripts and the report."""
    phases = [{**asdict(p), "unit": p.unit, "group": PHASES[p.name]} for p in made.phases]
    return {**asdict(made), "phases": phases, "valid": not made.invalid}


def lines(made: Outcome) -> list[str]:
    """The summary in IO500's own form, its reasons below."""
    told = []
    for p in made.phases:
        value, seconds = (f"{p.value:14.6f}" if p.value else f"{'none':>14}"), p.seconds or 0
        told.append(f"[RESULT] {p.name:>20} {value} {p.unit:<5} : time {seconds:.3f} seconds")
    parts = [f"{v:.6f}" if v else "none" for v in (made.bandwidth, made.metadata, made.score)]
    word = "SCORE INVALID" if made.invalid else "SCORE"
    told.append(f"[{word}] Bandwidth {parts[0]} GiB/s : IOPS {parts[1]} kiops : TOTAL {parts[2]}")
    return [*told, *(f"[INVALID] {reason}" for reason in made.invalid)]
