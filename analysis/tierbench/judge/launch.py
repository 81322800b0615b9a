"""One launch held against what was asked: its command line, its options, its bytes, its times.

A driver's numbers have to agree with the words it was given, with each other, and with the suite's own clock
around the launch. What does not is a `Disagreement` that names both values. A driver that is wrong in all
of these at once is seen by the trace alone (`tierbench.trace.witness`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from tierbench.base.sizes import GIB, MIB, TIB
from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.outputs import IorOutput, IorResult, MdtestOutput

# A launch may go unmeasured for so many times what one without work takes, which does not even call MPI_Init:
# 6 times were seen where seven processes wanted each processor.
STARTS, LEAST_START_S = 8, 4.0
UNKNOWN_START_S = 10.0  # for so long where that was not measured
UNMEASURED_SHARE = 0.1  # of the launch's time that may go unmeasured besides: files removed, logs written
# What is slow to begin, as on a busy node, is slow to end: twice was seen under the idle scheduling class.
SLOW_END = 3
SHORTEST, SHORTER_S = 0.95, 0.05  # of a deadline, which a rank counts from a moment before the first open
CLOCK_S = 2.0  # the moments that drivers print are whole seconds
_OLD = ("IOR-2.", "IOR-3.0")  # print other options


@dataclass(frozen=True)
class Disagreement:
    """What was asked for, or known otherwise, and what the launch says instead."""

    what: str
    asked: str
    told: str

    def __str__(self) -> str:
        return f"{self.what}: {self.asked}, but {self.told}"


@dataclass(frozen=True)
class Clock:
    """The suite's own clock around a launch, seconds since 1970, and the zone of its machine.

    `besides_s` is what is known to have passed besides the driver's work: the tiers' start, drain and end;
    `start_s` what a launch of a program that does nothing took in the same job, None where there was none.
    """

    began: float
    ended: float
    zone: tzinfo = UTC
    besides_s: float = 0.0
    start_s: float | None = None

    @property
    def allowance_s(self) -> float:
        """What a launch may take besides its work: to start its ranks, to make its directories, to end."""
        return UNKNOWN_START_S if self.start_s is None else max(LEAST_START_S, STARTS * self.start_s)

    @property
    def elapsed_s(self) -> float:
        """From the beginning to the end."""
        return self.ended - self.began


def ior_disagreements(asked: IorAsked, told: IorOutput, clock: Clock | None) -> list[Disagreement]:
    """All that IOR's output contradicts."""
    found = [*_command(asked.arguments, told.command), *_ior_options(asked, told), *_parameters(asked, told)]
    for result in told.results:
        found += _of_result(asked, told, result)
    if told.data_errors:
        found.append(Disagreement("data", "read back as written", f"{told.data_errors} transfers are wrong"))
    if told.file_is_short:
        found.append(Disagreement("file size", "all bytes that were moved", "the file holds fewer"))
    if clock:
        found += [*_clocked(_ior_clock(asked, told, clock)), *_dated(told.began, clock)]
    return found


def mdtest_disagreements(asked: MdtestAsked, told: MdtestOutput, clock: Clock | None) -> list[Disagreement]:
    """All that mdtest's output contradicts."""
    found = [*_command(asked.arguments, told.command), *_equal("tasks", asked.ranks, told.tasks)]
    if asked.nodes is not None and told.nodes is not None:
        found += _equal("nodes", asked.nodes, told.nodes)
    items = None if asked.files is None else asked.files * asked.ranks
    if items is not None:
        found += _equal("files", items, told.items)
    found += _mdtest_rows(asked, told, items)
    if clock:
        found += [*_clocked(_mdtest_clock(asked, told, clock)), *_dated(told.began, clock)]
    return found


def ior_unseen(asked: IorAsked, told: IorOutput, clock: Clock | None) -> list[str]:
    """What the suite's clock could not show of IOR's times."""
    return _not_clocked(_ior_clock(asked, told, clock)) if clock else []


def mdtest_unseen(asked: MdtestAsked, told: MdtestOutput, clock: Clock | None) -> list[str]:
    """The same of mdtest's."""
    return _not_clocked(_mdtest_clock(asked, told, clock)) if clock else []


def duration_disagreements(seconds: float, clock: Clock | None) -> list[Disagreement]:
    """Of a program that prints one duration."""
    return list(_clocked(_Measured(seconds, clock))) if clock else []


# --- words -------------------------------------------------------------------------------------------------


def _command(asked: Sequence[str], told: str | None) -> Iterator[Disagreement]:
    """Word by word, without the program's own; a word with a shell's `$` may be any."""
    if told is None:
        return
    wanted, printed = _words(" ".join(asked)), _words(told)[1:]
    same = len(wanted) == len(printed) and all(
        "$" in a or a == b for a, b in zip(wanted, printed, strict=True)
    )
    if not same and not any("$" in a and " " in a for a in asked):
        yield Disagreement("command line", f"asked for {_shown(wanted)}", f"{_shown(printed)} was run")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _shown(words: Iterable[str]) -> str:
    return repr(" ".join(words))


def _equal(what: str, asked: object, told: object) -> Iterator[Disagreement]:
    if str(asked).casefold() != str(told).casefold():
        yield Disagreement(what, f"asked for {asked}", f"the driver says {told}")


# --- IOR's options -----------------------------------------------------------------------------------------


def size_as_printed(size: int) -> str:
    """Bytes as IOR writes them."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB")):
        if size >= unit:
            return f"{size // unit} {name}" if size % unit == 0 else f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def _ior_options(asked: IorAsked, told: IorOutput) -> Iterator[Disagreement]:
    if told.format == "csv" or (told.driver or "").startswith(_OLD):
        yield from _equal("tasks", asked.ranks, told.tasks)
        return
    for name, value in _printed(asked).items():
        if value is not None:
            yield from _equal(name, value, told.options.get(name, "nothing of it"))
    if not asked.deadline_s and "stonewallingTime" in told.options:
        yield from _equal("stonewallingTime", "none", told.options["stonewallingTime"])


def _printed(asked: IorAsked) -> dict[str, str | int | None]:
    """The option lines that a command line makes; None where only a shell knows."""
    has = asked.options.has
    order = "random task offset" if has("Z") else "constant task offset" if has("C") else "no tasks offsets"
    sizes = {"xfersize": asked.transfer, "blocksize": asked.block, "aggregate filesize": asked.total_bytes}
    offset = asked.options.count("Q", 1) if has("C") or has("Z") else None
    stonewall = {"stonewallingTime": asked.deadline_s, "stoneWallingWearOut": int(asked.wears_out)}
    return {
        "api": asked.api,
        "access": "file-per-process" if asked.own_files else "single-shared-file",
        "type": "collective" if asked.collective else "independent",
        "segments": asked.segments,
        "ordering in a file": "random" if asked.random else "sequential",
        "ordering inter file": order,
        "task offset": offset,
        "nodes": asked.nodes,
        "tasks": asked.ranks,
        "repetitions": asked.repetitions,
        **{name: None if size is None else size_as_printed(size) for name, size in sizes.items()},
        **(stonewall if asked.deadline_s else {}),
    }


def _parameters(asked: IorAsked, told: IorOutput) -> Iterator[Disagreement]:
    """What only JSON says."""
    has = asked.options.has
    wanted: dict[str, object] = {
        "fsync": int(has("e")),
        "fsyncperwrite": int(has("Y")),
        "filePerProc": int(asked.own_files),
        "randomOffset": int(asked.random),
        "reorderTasks": int(has("C")),
        "collective": int(asked.collective),
        "deadlineForStonewall": asked.deadline_s,
        "segmentCount": asked.segments,
        "transferSize": asked.transfer,
        "blockSize": asked.block,
    }
    for name, value in wanted.items():
        if value is not None and name in told.parameters:
            yield from _equal(name, value, told.parameters[name])


# --- IOR's numbers -----------------------------------------------------------------------------------------


def _of_result(asked: IorAsked, told: IorOutput, r: IorResult) -> Iterator[Disagreement]:
    for name, size, printed in (
        ("block(KiB)", asked.block, r.block_kib),
        ("xfer(KiB)", asked.transfer, r.transfer_kib),
    ):
        if size is not None and printed is not None and abs(printed - size / 1024) > 0.01 + 1e-6 * printed:
            yield Disagreement(
                f"{name} of {r.access}", f"asked for {size / 1024:g}", f"the driver says {printed:g}"
            )
    if r.bandwidth_mib_s is None:
        return
    if not r.bandwidth_mib_s > 0 or not r.total_s > 0:
        yield Disagreement(
            f"rate of {r.access}", "above 0 is possible", f"{r.bandwidth_mib_s:g} MiB/s in {r.total_s:g} s"
        )
        return
    moved = next((s.moved_mib for s in told.summaries if (s.operation, s.test) == (r.access, r.test)), None)
    yield from _moved(asked, r, moved)
    yield from _rates(asked, told, r, moved)
    also_wrote = asked.writes and asked.reads and r.access == "read"
    # a rank that has moved all its bytes before the deadline may end
    whole = moved is not None and asked.total_bytes is not None and moved >= asked.total_bytes / MIB - 0.051
    early = asked.deadline_s and r.total_s < SHORTEST * asked.deadline_s - SHORTER_S
    if early and not also_wrote and not whole:
        yield Disagreement(
            f"duration of {r.access}", f"asked for {asked.deadline_s} s (-D)", f"it lasted {r.total_s:g} s"
        )


def _moved(asked: IorAsked, r: IorResult, moved_mib: float | None) -> Iterator[Disagreement]:
    if moved_mib is None or asked.total_bytes is None:
        return
    whole = asked.total_bytes / MIB
    reads_what_was_stonewalled = "stonewallingstatusfile" in asked.directives and r.access == "read"
    fits = abs(moved_mib - whole) <= 0.051
    if asked.deadline_s or reads_what_was_stonewalled:
        fits = 0 < moved_mib <= whole + 0.051
    if not fits:
        yield Disagreement(
            f"bytes of {r.access}", f"asked for {whole:.1f} MiB", f"{moved_mib:.1f} MiB were moved"
        )


def _rates(asked: IorAsked, told: IorOutput, r: IorResult, moved_mib: float | None) -> Iterator[Disagreement]:
    """Bandwidth times time is what was moved, to the digits that are printed."""
    assert r.bandwidth_mib_s is not None
    if moved_mib is None or (asked.repetitions or 0) != 1:
        moved_mib = None if asked.deadline_s or asked.total_bytes is None else asked.total_bytes / MIB
    if moved_mib is None:
        return
    product = r.bandwidth_mib_s * r.total_s
    slack = 0.002 + _step(told, r.total_s) / r.total_s + _step(told, r.bandwidth_mib_s) / r.bandwidth_mib_s
    if abs(product - moved_mib) > slack * max(product, moved_mib) + 0.06:
        rate = f"{r.bandwidth_mib_s:g} MiB/s for {r.total_s:g} s are {product:.1f} MiB"
        yield Disagreement(f"rate of {r.access}", f"{moved_mib:.1f} MiB were moved", rate)
    if r.iops and r.transfer_s and asked.transfer and asked.api != "MPIIO":
        count, operations = moved_mib * MIB / asked.transfer, r.iops * r.transfer_s
        slack = 0.002 + _step(told, r.transfer_s) / r.transfer_s + _step(told, r.iops) / r.iops
        if abs(operations - count) > slack * max(operations, count) + 0.06 * MIB / asked.transfer:
            rate = f"{r.iops:g} op/s for {r.transfer_s:g} s are {operations:.0f}"
            yield Disagreement(f"IOPS of {r.access}", f"{count:.0f} transfers were made", rate)
    for name, part in (("open", r.open_s), ("wr/rd", r.transfer_s), ("close", r.close_s)):
        if part is not None and part > r.total_s + 2 * _step(told, part) + 2 * _step(told, r.total_s):
            yield Disagreement(f"{name} of {r.access}", f"{r.total_s:g} s in all", f"{part:g} s of it")


def _step(told: IorOutput, value: float) -> float:
    """Half of the last digit that is printed of a value, and as much again for what was rounded before."""
    if told.format != "text":
        return 1e-4
    return 1e-6 if value < 1 else 0.01 if value < 3600 else 1.0


# --- mdtest's numbers --------------------------------------------------------------------------------------


def _mdtest_rows(asked: MdtestAsked, told: MdtestOutput, items: int | None) -> Iterator[Disagreement]:
    rates = {r.operation: r for r in told.rows if r.unit == "ops/s"}
    times = {r.operation: r.mean for r in told.rows if r.unit == "s"}
    for name in asked.operations:
        rate = rates[name].mean if name in rates else 0.0
        if rates and not rate > 0:
            yield Disagreement(name, "asked for", f"its rate is {rate:g}")
        seconds, stonewalled = times.get(name), asked.stonewall_s and name == "File creation"
        if stonewalled and seconds is not None and seconds + 0.002 < asked.stonewall_s:
            yield Disagreement(
                f"duration of {name}", f"asked for {asked.stonewall_s} s (-W)", f"it lasted {seconds:g} s"
            )
        if seconds and rate and items and not asked.stonewall_s and told.repetitions == 1:
            made, slack = rate * seconds, 0.002 + 0.001 / seconds
            if abs(made - items) > slack * max(made, items) + 1:
                rate_told = f"{rate:g} op/s for {seconds:g} s are {made:.0f}"
                yield Disagreement(f"rate of {name}", f"{items} files", rate_told)


_ITEMS = ("File", "Directory")  # of which there are as many; a tree has fewer


def _mdtest_seconds(told: MdtestOutput, items: int | None) -> float:
    """Of all phases together: as printed (-P), else what their rates make of the files."""
    times = [r.mean * told.repetitions for r in told.rows if r.unit == "s"]
    if times or not items:
        return sum(times)
    rates = [r.mean for r in told.rows if r.unit == "ops/s" and r.mean > 0 and r.operation.startswith(_ITEMS)]
    return sum(items / rate for rate in rates) * told.repetitions


# --- the suite's clock -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measured:
    """What a driver measured of a launch; `before_s`: what had passed when it began, by its own words.

    `all_of_it`: it measures all that it does, except for what a launch is allowed.
    """

    seconds: float
    clock: Clock
    before_s: float = 0.0
    all_of_it: bool = True

    @property
    def ran_s(self) -> float:
        """What the suite's clock says of the driver's launcher."""
        return self.clock.elapsed_s - self.clock.besides_s

    @property
    def allowed_s(self) -> float:
        """What may go unmeasured."""
        return self.clock.allowance_s + UNMEASURED_SHARE * self.clock.elapsed_s

    @property
    def too_much_is_missing(self) -> bool:
        """More than is allowed goes unmeasured."""
        return self.all_of_it and self.ran_s - self.seconds > self.allowed_s

    @property
    def slow_to_begin(self) -> bool:
        """What is missing passed before the driver began, or after it and no longer than the end may take."""
        after_s = self.ran_s - self.seconds - self.before_s
        return after_s <= max(self.allowed_s, SLOW_END * self.before_s)


def _ior_clock(asked: IorAsked, told: IorOutput, clock: Clock) -> _Measured:
    # Checks (-W, -R), waits (-d) and memory that is filled (-M) are not measured.
    whole = not any(map(asked.options.has, "WRdM"))
    return _Measured(sum(r.total_s for r in told.results), clock, _before_s(told.began, clock), whole)


def _mdtest_clock(asked: MdtestAsked, told: MdtestOutput, clock: Clock) -> _Measured:
    items = None if asked.files is None or asked.stonewall_s else asked.files * asked.ranks
    seconds = _mdtest_seconds(told, items)
    whole = seconds > 0 and not asked.options.has("p")  # which waits
    return _Measured(seconds, clock, _before_s(told.began, clock), whole)


def _clocked(measured: _Measured) -> Iterator[Disagreement]:
    """A driver measures no more than has passed, and not much less."""
    clock, told = measured.clock, f"the driver measured {measured.seconds:.3f} s"
    took = f"the launch took {clock.elapsed_s:.3f} s by the suite's clock"
    if clock.besides_s:
        took += f", {clock.besides_s:.3f} s of them the tiers' start and drain"
    if measured.seconds > measured.ran_s + 0.05:
        yield Disagreement("time", took, told)
    if measured.too_much_is_missing and not measured.slow_to_begin:
        yield Disagreement("time", f"{took} and at most {measured.allowed_s:.3f} s to start and end", told)


def _not_clocked(measured: _Measured) -> list[str]:
    """Of a launch on a busy node, or of one with a slow launcher, the suite's clock shows less."""
    if not (measured.too_much_is_missing and measured.slow_to_begin):
        return []
    took = f"took {measured.clock.elapsed_s:.1f} s, {measured.before_s:.0f} s of them before the driver began"
    return [f"its times by the suite's clock (it {took}, and measured {measured.seconds:.1f} s)"]


_FORMS = ("%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S")


def _moment(began: str, clock: Clock) -> float | None:
    """Seconds since 1970 of a date as drivers print it; None of anything else."""
    for form in _FORMS:
        try:
            return datetime.strptime(began, form).replace(tzinfo=clock.zone).timestamp()
        except ValueError:
            continue
    return None


def _before_s(began: str | None, clock: Clock) -> float:
    """What had passed when the driver began; 0 where it does not say."""
    moment = _moment(began, clock) if began else None
    return min(max(0.0, moment - clock.began), clock.elapsed_s) if moment is not None else 0.0


def _dated(began: str | None, clock: Clock) -> Iterator[Disagreement]:
    """A driver begins when it was launched: another moment is another run's output."""
    if began is None:
        return
    moment = _moment(began, clock)
    if moment is None:
        yield Disagreement("began", "a date", f"the driver says {began!r}")
    elif not clock.began - CLOCK_S <= moment <= clock.ended + CLOCK_S:
        launched = datetime.fromtimestamp(clock.began, clock.zone).strftime(_FORMS[0])
        yield Disagreement("began", f"launched at {launched}", f"the driver began at {began}")


def clock_of(begins: str, ends: str, besides_s: float = 0.0) -> Clock:
    """Of two moments as `date '+%s.%N %z'` writes them."""
    (began, zone), (ended, _) = begins.split(), ends.split()
    hours, minutes = int(zone[1:3]), int(zone[3:5])
    offset = timedelta(hours=hours, minutes=minutes)
    return Clock(float(began), float(ended), timezone(-offset if zone[0] == "-" else offset), besides_s)
