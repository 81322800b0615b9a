"""What a trial shows: each configuration against the PFS alone, one sentence of advice, and what limits it.

Wall times are compared by exact tests, adjusted for all configurations (`judge.stats`). A configuration is
advised only where it is shown to be faster and its runs left the same bytes as those on the PFS alone.
`base/schemas/trial-answer.schema.json` is the contract of `answer.json`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tierbench.base.errors import RunError
from tierbench.base.text import counted, seconds, size
from tierbench.judge import independence, stats
from tierbench.trial import results
from tierbench.trial.plan import PFS, Trial
from tierbench.trial.results import OneRun

VERSION = 1
SHORT_S = 1.0  # a run below that is mostly start and end
CLOSE = 1.05  # a simpler configuration this near to the fastest is advised in its place
_TRACE_GAP = 0.999  # of the asked bytes, below which they are said to have passed the tiers by


@dataclass(frozen=True)
class Row:
    """A configuration: medians over its runs, times in seconds; `saved` is the share of the PFS's wall time.

    `same_outputs` is None where runs on the PFS alone differ among themselves, or left no file. `needs_n` is
    how many runs could show a difference, where there are fewer.
    """

    name: str
    file: str
    runs: int
    wall: stats.Interval
    durable_s: float
    io_s: float | None
    ratio: stats.Interval | None
    p: float | None
    shown: bool
    needs_n: int | None
    same_outputs: bool | None
    fsync: str | None
    fsyncs: int
    written_bytes: int | None
    read_bytes: int | None
    tier_read_share: float | None
    peak_share: Mapping[str, float]
    spilled_bytes: int

    @property
    def saved(self) -> tuple[float, float, float] | None:
        """Share of the wall time that is saved, with the ends of its interval; negative: it takes longer."""
        return (1 - self.ratio.value, 1 - self.ratio.high, 1 - self.ratio.low) if self.ratio else None


@dataclass(frozen=True)
class Answer:
    """All of it; `advice` is one sentence, `limits` what keeps it from being more."""

    trial: Trial
    rows: tuple[Row, ...]
    advised: str | None
    advice: str
    limits: tuple[str, ...]
    failures: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The document of `answer.json`."""
        return {
            "version": VERSION,
            "command": list(self.trial.command),
            "repetitions": self.trial.repetitions,
            "bare_s": self.trial.bare_s,
            "advice": self.advice,
            "advised": self.advised,
            "limits": list(self.limits),
            "failures": list(self.failures),
            "rows": [_row_json(row) for row in self.rows],
        }


def _row_json(row: Row) -> dict[str, Any]:
    told = asdict(row)
    saved = row.saved
    return {
        **told,
        "saved": None if saved is None else dict(zip(("value", "low", "high"), saved, strict=True)),
    }


def make(trial: Trial, folder: Path) -> Answer:
    """Read the runs and answer; `RunError` where the PFS alone has no good run to be held against."""
    good, failures = results.read_all(trial, folder)
    if not good[PFS]:
        told = f"; {failures[0]}" if failures else ""
        raise RunError(f"{folder / 'runs' / PFS}: holds no run that ended well{told}")
    rows = _rows(trial, good)
    advised = _advised(rows)
    limits = tuple(_limits(trial, rows, good))
    return Answer(
        trial, rows, advised.name if advised else None, _advice(rows, advised), limits, tuple(failures)
    )


def _rows(trial: Trial, good: Mapping[str, Sequence[OneRun]]) -> tuple[Row, ...]:
    there = {name: runs for name, runs in good.items() if runs}
    others = [name for name in there if name != PFS]
    base = [r.wall_s for r in there[PFS]]
    tests = dict(
        zip(others, stats.compare([([r.wall_s for r in there[n]], base) for n in others]), strict=True)
    )
    return tuple(_row(trial, name, there, tests.get(name)) for name in there)


def _row(
    trial: Trial, name: str, there: Mapping[str, Sequence[OneRun]], test: stats.Comparison | None
) -> Row:
    runs, base = there[name], there[PFS]
    walls, base_s = [r.wall_s for r in runs], [r.wall_s for r in base]
    order, base_order = independence.look(walls), independence.look(base_s)
    asked_read = _median(runs, lambda r: r.asked_read_bytes)
    served = _median(runs, lambda r: sum(t["read_bytes"] for t in r.tiers.values()))
    return Row(
        name=name,
        file=trial.configurations[name],
        runs=len(runs),
        wall=independence.claimed(stats.median(walls), order),
        durable_s=statistics.median(r.durable_s for r in runs),
        io_s=_median(runs, lambda r: r.io_s),
        ratio=independence.claimed(stats.ratio(walls, base_s), order, base_order) if test else None,
        p=test.p if test else None,
        shown=bool(test and test.significant),
        needs_n=test.needs_n if test else None,
        same_outputs=_same_outputs(runs, base),
        fsync="pfs" if name == PFS else runs[0].fsync,
        fsyncs=max(r.fsyncs for r in runs),
        written_bytes=_whole(_median(runs, lambda r: r.asked_written_bytes)),
        read_bytes=_whole(asked_read),
        tier_read_share=min(1.0, (served or 0) / asked_read) if asked_read and name != PFS else None,
        peak_share=_peaks(runs),
        spilled_bytes=max(r.spilled_bytes for r in runs),
    )


def _median(runs: Sequence[OneRun], value: Callable[[OneRun], float | None]) -> float | None:
    """Over the runs that have the value."""
    found = [v for r in runs if (v := value(r)) is not None]
    return statistics.median(found) if found else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _peaks(runs: Sequence[OneRun]) -> dict[str, float]:
    """The fullest that each tier was, as a share of its capacity."""
    names = runs[0].tiers
    return {
        n: max(r.tiers[n]["peak_bytes"] / max(1, r.tiers[n]["capacity_bytes"]) for r in runs) for n in names
    }


def _same_outputs(runs: Sequence[OneRun], base: Sequence[OneRun]) -> bool | None:
    if not base[0].outputs or any(r.outputs != base[0].outputs for r in base):
        return None
    return all(r.outputs == base[0].outputs for r in runs)


def _advised(rows: Sequence[Row]) -> Row | None:
    """The fastest that is shown to be faster and safe; a simpler one where it is as good within 5 %."""
    fit = [r for r in rows if r.shown and r.ratio and r.ratio.value < 1 and r.same_outputs is not False]
    if not fit:
        return None
    best = min(r.wall.value for r in fit)
    near = [r for r in fit if r.wall.value <= CLOSE * best]
    return min(near, key=lambda r: (len(r.peak_share), r.wall.value))


def _advice(rows: Sequence[Row], advised: Row | None) -> str:
    """One sentence, with the ratio's interval or `not shown to differ` for each configuration."""
    others = [r for r in rows if r.name != PFS and r is not advised]
    told = "; ".join(f"{called(r)} {difference(r)}" for r in others)
    if others and all(r.needs_n for r in others) and advised is None:
        return f"Nothing can be advised yet: {told_too_few(others)}."
    if advised is None:
        return f"No tier configuration is shown to save time: keep the PFS alone{told and f' ({told})'}."
    return f"{called(advised)} {difference(advised)}{told and f'; {told}'}; use this file: {advised.file}"


def told_too_few(rows: Sequence[Row]) -> str:
    """That the runs of these can show nothing, and how many could."""
    needed = max(r.needs_n or 0 for r in rows)
    return f"{counted(min(r.runs for r in rows), 'run')} of a configuration can show nothing (needs {needed})"


def called(row: Row) -> str:
    """As people write it: the tiers (RAM + NVMe) where it is named after these, else its name."""
    words = {"ram": "RAM", "nvme": "NVMe", "bb": "burst buffer"}
    if row.name == PFS:
        return "PFS alone"
    tiers = list(row.peak_share)
    return " + ".join(words.get(t, t) for t in tiers) if row.name == "-".join(tiers) else row.name


def difference(row: Row) -> str:
    """`saves 31 % [27, 35] of the run`, `takes ... longer`, or that no difference is shown."""
    if row.same_outputs is False:
        return "leaves other bytes than the PFS alone, so it is not advised"
    saved = row.saved
    if row.needs_n:
        return f"has {counted(row.runs, 'run')} to compare, too few to show anything (needs {row.needs_n})"
    if saved is None or not row.shown:
        return "is not shown to differ"
    value, low, high = (100 * s for s in saved)
    if value >= 0:
        return f"saves {value:.0f} % [{low:.0f}, {high:.0f}] of the run"
    return f"takes {-value:.0f} % [{-high:.0f}, {-low:.0f}] longer"


def _limits(trial: Trial, rows: Sequence[Row], good: Mapping[str, Sequence[OneRun]]) -> list[str]:
    """What makes this less than a measurement, each with what to change."""
    base, faster = rows[0], [r for r in rows if r.shown and r.ratio and r.ratio.value < 1]
    told = [
        *trial.notes,
        _few_runs(rows),
        *_little_to_save(base),
        _cost_of_looking(trial, faster) if faster else None,
        _unsure_outputs(base, good),
        _processes_left(good),
        _missed_by_the_trace(base, good),
        *(line for row in rows for line in _limits_of(row, good[row.name])),
        independence.assumed((r.runs for r in rows), "runs"),
    ]
    return [line for line in told if line]


def _few_runs(rows: Sequence[Row]) -> str | None:
    fewest, compared = min(r.runs for r in rows), len(rows) - 1
    if not compared or stats.can_show(fewest, fewest, compared):
        return None
    return (
        f"{counted(fewest, 'run')} of each can show no difference between "
        f"{counted(compared, 'configuration')} and the PFS alone: use -n {stats.least_n(compared)}"
    )


def _little_to_save(base: Row) -> list[str]:
    told = []
    if base.wall.value < SHORT_S:
        told.append(
            f"a run takes {seconds(base.wall.value)} s, mostly start and end: give it work for 10 s or more"
        )
    if base.io_s is not None and base.runs and base.io_s < 0.05 * base.wall.value:
        told.append(
            f"I/O is {seconds(base.io_s)} s of {seconds(base.wall.value)} s on the PFS alone: "
            "tiers can save no more than that"
        )
    return told


def _unsure_outputs(base: Row, good: Mapping[str, Sequence[OneRun]]) -> str | None:
    if not good[PFS][0].outputs:
        return "the program left no file: that outputs are right cannot be told"
    if base.same_outputs is None:
        return (
            "two runs on the PFS alone left different bytes: that outputs are right cannot be told from them"
        )
    return None


def _processes_left(good: Mapping[str, Sequence[OneRun]]) -> str | None:
    names = sorted({name for runs in good.values() for r in runs for name in r.left_processes})
    if not names:
        return None
    return (
        f"processes that the program started went on after its end and were ended ({', '.join(names)}): "
        "what they had not written is not there; let the program wait for them"
    )


def _missed_by_the_trace(base: Row, good: Mapping[str, Sequence[OneRun]]) -> str | None:
    made = max(r.new_bytes or 0 for r in good[PFS])
    if base.written_bytes is None or base.written_bytes >= _TRACE_GAP * made:
        return None
    return (
        f"the trace saw {size(base.written_bytes)} written, of files of {size(made)} that the program "
        "made: copies inside the kernel, mapped memory and libc's standard output are not counted "
        "(docs/testing/trace.md)"
    )


def _cost_of_looking(trial: Trial, faster: Sequence[Row]) -> str | None:
    """The PFS alone runs under the adapter and its trace, so a tier may only save what these cost."""
    best = min(faster, key=lambda r: r.wall.value)
    if trial.bare_s is None or trial.bare_s > best.wall.value:
        return None
    return (
        f"without Tierbench the program took {seconds(trial.bare_s)} s, once, and {called(best)} takes "
        f"{seconds(best.wall.value)} s: what is saved may be what adapter and trace cost on the PFS alone; "
        "time the program by hand under this configuration and without it"
    )


def _limits_of(row: Row, runs: Sequence[OneRun]) -> list[str]:
    order = independence.look([r.wall_s for r in runs]).words("runs")
    told = [f"{row.name}: {order}"] if order else []
    if row.spilled_bytes:
        told.append(f"{row.name}: the tiers were full, {size(row.spilled_bytes)} went straight to the PFS")
    if passed := max(r.passed for r in runs):
        told.append(f"{row.name}: {passed} opens were not buffered: max_files of {row.file} was reached")
    if fallbacks := max(r.fallbacks for r in runs):
        told.append(
            f"{row.name}: {counted(fallbacks, 'file')} fell back to the PFS: mapped memory, standard input "
            "or output there, or handed to another program (docs/compatibility.md)"
        )
    taken = _median(runs, lambda r: sum(t["written_bytes"] for t in r.tiers.values())) or 0
    taken += row.spilled_bytes
    if row.name != PFS and row.written_bytes and taken < _TRACE_GAP * row.written_bytes:
        told.append(
            f"{row.name}: {size(row.written_bytes - taken)} of {size(row.written_bytes)} that were written "
            "passed the tiers by (a file that fell back, or a program without the adapter)"
        )
    return told
