"""Launches held against what was asked of them: by their words, by the suite's clock, by their traces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierbench.base.devices import in_memory, shared
from tierbench.base.strict_json import read_fitting
from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.judge.launch import (
    Clock,
    Disagreement,
    duration_disagreements,
    ior_disagreements,
    ior_unseen,
    mdtest_disagreements,
    mdtest_unseen,
)
from tierbench.outputs import IorOutput, parse_mdtest

from ..sites.site import Site
from .launch_numbers import LaunchOutput
from .mpi_seen import sees_mpi_io

if TYPE_CHECKING:
    from tierbench.trace import Traces

Asked = IorAsked | MdtestAsked
RUN = "run"  # the run's own folder, in places.json
TRACE_COST_S = 90e-9  # of a transfer (docs/testing/trace.md)
COSTLY = 0.01


@dataclass(frozen=True)
class Held:
    """What disagrees, each with the launch in front, and in words what the launches were held against."""

    disagreements: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def __add__(self, other: Held) -> Held:
        return Held(
            self.disagreements + other.disagreements,
            tuple(dict.fromkeys(self.against + other.against)),
            tuple(dict.fromkeys(self.unseen + other.unseen)),
        )

    def record(self) -> dict[str, Any]:
        """The fields of a case."""
        shown = f"; not shown: {', '.join(self.unseen)}" if self.unseen else ""
        return {"disagreements": self.disagreements, "witness": ", ".join(self.against) + shown}


def ior(
    name: str, asked: IorAsked, output: LaunchOutput, told: IorOutput, stage: Path, *, bypass: bool
) -> Held:
    """A launch of IOR; its counters and logs are in `stage` as `stats-NAME.json` and `trace-NAME.darshan`."""
    found = ior_words(name, asked, output, told, stage)
    log = stage / f"trace{_dash(name)}.darshan"
    return found + (
        _witnessed(name, asked, told, log, output.clock, bypass=bypass)
        if log.exists()
        else _untraced(name, log)
    )


def ior_words(name: str, asked: IorAsked, output: LaunchOutput, told: IorOutput, stage: Path) -> Held:
    """A launch of IOR by its words and the clock."""
    clock = output.clock and besides(output.clock, stage / f"stats{_dash(name)}.json")
    return _held(name, ior_disagreements(asked, told, clock), output, ior_unseen(asked, told, clock))


def mdtest(name: str, asked: MdtestAsked, output: LaunchOutput, log: Path) -> Held:
    """A launch of mdtest; `log` is of this launch alone."""
    found = mdtest_words(name, asked, output)
    if not log.exists():
        return found + Held(
            unseen=(f"how many files launch {name} made and looked at, and of which rank (no trace)",)
        )
    from tierbench.trace import read  # takes longer to load than the whole suite
    from tierbench.trace.names_witness import mdtest_testimony
    from tierbench.trace.witness import wrong_time

    application = read([log])
    if application.errors:
        return found + _unread(application)
    seen = mdtest_testimony(asked, parse_mdtest(output.text, "stdout"), application)
    named = [*wrong_time([output.clock] if output.clock else [], application), *seen.disagreements]
    return found + Held(_named(name, named), ("the trace",), seen.unseen)


def mdtest_words(name: str, asked: MdtestAsked, output: LaunchOutput) -> Held:
    """A launch of mdtest by its words and the clock."""
    told, clock = parse_mdtest(output.text, "stdout"), output.clock
    return _held(name, mdtest_disagreements(asked, told, clock), output, mdtest_unseen(asked, told, clock))


def phases(lines: Mapping[str, Asked], outputs: Mapping[str, LaunchOutput], log: Path) -> Held:
    """Launches under one `tierctl run`, one after the other: IOR's each by itself, mdtest's all together.

    One log holds them; a site's own runtime leaves one of each, `trace.2.darshan` and so on beside the first.
    """
    if not log.exists():
        return Held(unseen=(f"what the launches did to which files ({_why_none(log)})",))
    from tierbench.trace import read  # takes longer to load than the whole suite
    from tierbench.trace.names_witness import all_launches
    from tierbench.trace.window import launch_of
    from tierbench.trace.witness import testimony, wrong_time

    application = read([log, *sorted(log.parent.glob(f"{log.stem}.[0-9]*.darshan"))])
    if application.errors:
        return _unread(application)
    clocks = [output.clock for output in outputs.values() if output.clock]
    found = Held(_named("", [*wrong_time(clocks, application)]), ("the trace",))
    for name, asked in lines.items():
        clock = outputs[name].clock if name in outputs else None
        if isinstance(asked, IorAsked) and not clock:
            found += Held(unseen=(f"what {name} did to which files (no moments of it)",))
        elif isinstance(asked, IorAsked) and clock:
            part = launch_of(application, clock.began, clock.ended)
            told = outputs[name].ior()
            seen = testimony(asked, told, part, of_several=True, sees_mpi_io=_sees_mpi_io(part))
            found += Held(_named(name, seen.disagreements), (), tuple(f"{x} of {name}" for x in seen.unseen))
    seen = all_launches([asked for asked in lines.values() if isinstance(asked, MdtestAsked)], application)
    return found + Held(tuple(map(str, seen.disagreements)), (), seen.unseen)


def timed(name: str, seconds: float, output: LaunchOutput, stats: Path) -> Held:
    """A launch of a program that prints one duration; `stats`: tierctl's counters, if there are any."""
    clock = output.clock and besides(output.clock, stats)
    return _held(name, duration_disagreements(seconds, clock), output)


def places(stage: Path, site: Site) -> Held:
    """Real places that are one thing, or in memory: then nothing shows that one is faster than the other.

    A site that says so itself (`apart: False`) is measured, and nothing is claimed of its tiers.
    """
    if site.modelled or site.published:
        return Held()
    file = stage / "places.json"
    if not file.exists():
        return Held(("places: what they are on should be known, but the job has not looked at it",))
    found = read_fitting(file, "places")
    led_away = _led_away(found.get("pfs"), found.pop(RUN, None))
    told = [(f"{a} and {b} apart", f"both share storage: {words}") for a, b, words in shared(found)]
    memory = {name: words for name, place in found.items() if (words := in_memory(place))}
    told += [(f"{name} on a device", f"it is in memory: {words}") for name, words in memory.items()]
    if site.apart:
        return led_away + Held(tuple(str(Disagreement("places", f"asked for {a}", b)) for a, b in told))
    return led_away + Held(unseen=tuple(f"{asked} ({words})" for asked, words in told))


def _led_away(pfs: Mapping[str, Any] | None, run: Mapping[str, Any] | None) -> Held:
    """The folder of the run, by a link or a mount that was there before it."""
    if pfs is None or run is None:
        return Held()
    inside = Path(run["real"]).is_relative_to(pfs["real"]) and pfs["lies_on"].keys() == run["lies_on"].keys()
    if inside:
        return Held()
    told = f"{run['path']} is {run['real']} ({'; '.join(run['lies_on'].values())})"
    asked = f"asked for a folder of the run in {pfs['path']}"
    return Held((str(Disagreement("places", asked, told)),))


def besides(clock: Clock, stats: Path) -> Clock:
    """The clock, with what tierctl says that it took itself: to start the tiers, to drain and to end them."""
    found = json.loads(stats.read_text()) if stats.exists() else {}
    program_s = found.get("program_s")
    if program_s is None:
        return replace(clock, besides_s=float(found.get("drain_s") or 0))
    return replace(clock, besides_s=max(0.0, clock.elapsed_s - float(program_s)))


def _dash(name: str) -> str:
    return f"-{name}" if name else ""


def _held(name: str, found: Sequence[Disagreement], output: LaunchOutput, unseen: Sequence[str] = ()) -> Held:
    against = ["the driver's own words", *(["the suite's clock"] if output.clock else [])]
    of = f" of launch {name}" if name else ""
    return Held(_named(name, found), tuple(against), tuple(f"{words}{of}" for words in unseen))


def _named(name: str, found: Sequence[Disagreement]) -> tuple[str, ...]:
    return tuple(f"launch {name}: {x}" if name else str(x) for x in found)


def _untraced(name: str, log: Path) -> Held:
    of = f" of launch {name}" if name else ""
    return Held(unseen=(f"fsync, order of offsets and which rank read what{of} ({_why_none(log)})",))


def _why_none(log: Path) -> str:
    """What was measured before the launch, where that decided against a trace."""
    file = log.with_name(f"{log.stem}-cost.json")
    found = json.loads(file.read_text()) if file.exists() else {}
    if "share" in found:
        return f"no trace: it takes {found['share']:.1%} of a call of {found['call_s'] * 1e6:.3g} us"
    return f"no trace: {found['problem']}" if "problem" in found else "no trace"


def _unread(*logs: Traces | None) -> Held:
    """A log that cannot be read shows nothing."""
    errors = [e for traces in logs if traces for e in traces.errors]
    return Held(unseen=tuple(f"what the trace shows ({e})" for e in errors))


def _witnessed(
    name: str, asked: IorAsked, told: IorOutput, log: Path, clock: Clock | None, *, bypass: bool
) -> Held:
    from tierbench.trace import read  # takes longer to load than the whole suite
    from tierbench.trace.witness import testimony, wrong_time

    below = log.with_name(f"{log.stem}.storage.darshan")
    application = read([log])
    storage = read([below]) if below.exists() else None
    if application.errors or (storage and storage.errors):
        return _unread(application, storage)
    sees = _sees_mpi_io(application)
    found = testimony(asked, told, application, storage, bypass=bypass, sees_mpi_io=sees)
    seconds = sum(r.total_s for r in told.results) * asked.ranks
    cost = TRACE_COST_S * len(application.segments) / seconds if seconds else 0.0
    costly = f" (about {cost:.1%} of the time)" if cost > COSTLY else ""
    named = [*wrong_time([clock] if clock else [], application), *found.disagreements]
    return Held(_named(name, named), (f"the trace{costly}",), found.unseen)


def _sees_mpi_io(application: Traces) -> bool:
    """Of the log's own program."""
    return len(application.job) > 0 and sees_mpi_io(str(application.job["executable"].iloc[0]))
