"""The trace of a launch of mdtest as witness: how many files each rank made, looked at and removed, and when.

Our own runtime counts calls on names of all files, however many. Which rank looked at which other rank's
files is in the records of single files, of which a process keeps 4096.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from tierbench.judge.asked import MdtestAsked
from tierbench.judge.launch import Disagreement
from tierbench.outputs import MdtestOutput
from tierbench.trace.frames import Traces
from tierbench.trace.witness import LONGER_S, LONGER_SHARE, TIME_S, TIME_SHARE, Testimony, wrong_ranks

# What each phase calls for a file.
CALLS = {
    "File creation": "created",
    "File stat": "looked_at",
    "File read": "opened",
    "File removal": "removed",
}
_ITEM = r"/file\.mdtest\."


class Calls(NamedTuple):
    """Of a kind, on names of the configuration's files."""

    total: int
    least: int  # of a rank
    most: int
    lasted_s: float  # from the first to the last
    longest_s: float  # the same of the rank where that is longest; missing where the runtime does not say it


def calls_of(traces: Traces) -> dict[str, Calls]:
    """By kind; empty where the runtime does not count them."""
    rows = traces.calls.to_dict("records")
    return {
        str(r["call"]): Calls(r["count"], r["least"], r["most"], r["last_s"] - r["first_s"], r["longest_s"])
        for r in rows
    }


def mdtest_testimony(asked: MdtestAsked, told: MdtestOutput | None, application: Traces) -> Testimony:
    """Hold a launch of mdtest on files against its log."""
    launch = _Launch(asked, told, application)
    if not len(application.job):
        return Testimony((), ("there is no log of the application's side",))
    found = [
        *wrong_ranks(asked.ranks, application),
        *launch.counts(),
        *launch.times(),
        *launch.owners(),
        *launch.bytes_moved(),
        *wrong_directories(asked, application),
    ]
    return Testimony(tuple(found), tuple(dict.fromkeys(launch.unseen)))


def all_launches(asked: Sequence[MdtestAsked], application: Traces) -> Testimony:
    """Launches that one log holds together: each kind of call came as often as all their phases need it.

    `files` of each is what a rank worked on, from its own words where a stonewall decides.
    """
    calls = calls_of(application)
    if not calls or not asked:
        return Testimony((), ("how many files each rank made, looked at and removed",) if asked else ())
    found = []
    for phase, kind in CALLS.items():
        files = [a.files for a in asked if phase in a.operations]
        least = calls[kind].least
        if None not in files and least < (wanted := sum(n or 0 for n in files)):
            told = f"the trace holds {least:,} {kind}"
            found.append(Disagreement(f"{phase}s together", f"asked for {wanted:,} files of a rank", told))
    for one in asked:
        found += wrong_directories(one, application) if "File creation" in one.operations else []
    return Testimony(tuple(found), ("when each phase of mdtest was (one log of all)",))


def wrong_directories(asked: MdtestAsked, application: Traces) -> list[Disagreement]:
    """A directory that all ranks share is another test than one for each rank (-u), or a tree (-z, -b, -L).

    Where a process has not kept a record of each file, a tree may show fewer than there are.
    """
    folder, wanted = asked.folder, asked.directories
    once = (asked.options.count("i", 1) or 0) == 1
    if folder is None or wanted is None or not once or asked.files is None or asked.files < wanted:
        return []
    names = application.files["file"].astype(str)
    items = names[names.str.contains(_ITEM) & names.str.startswith(f"{os.path.normpath(folder)}/")]
    seen = items.str.rsplit("/", n=1).str[0].nunique()
    exact = bool(application.job["complete"].all()) or not asked.options.has("z")
    if not seen or seen == wanted or (seen < wanted and not exact):
        return []
    told = f"the trace holds files in {seen:,}"
    return [Disagreement("directories", f"asked for {wanted:,} with files (-u, -z, -b, -L)", told)]


class _Launch:
    """One launch; `files` of a rank in all iterations, None where only the stonewall knows."""

    def __init__(self, asked: MdtestAsked, told: MdtestOutput | None, traces: Traces) -> None:
        self.asked, self.told, self.traces = asked, told, traces
        self.iterations = asked.options.count("i", 1) or 1
        known = asked.files is not None and not asked.stonewall_s
        self.files = (asked.files or 0) * self.iterations if known else None
        self.unseen: list[str] = []
        posix = traces.files[traces.files["module"] == "POSIX"]
        self.items = posix[posix["file"].astype(str).str.contains(_ITEM)]
        self.whole = bool(traces.job["complete"].all())

    def _calls(self) -> Iterator[tuple[str, str, Calls]]:
        """Phase, kind and counts of each phase that was asked for."""
        calls = calls_of(self.traces)
        if not calls:
            self.unseen.append("how many files each rank made, looked at and removed")
            return
        for phase in self.asked.operations:
            if phase == "File creation" and self.asked.options.has("k"):
                self.unseen.append("files made by mknod (-k)")
                continue
            yield phase, CALLS[phase], calls[CALLS[phase]]

    def counts(self) -> Iterator[Disagreement]:
        """Each rank does to each of its files what the phase is about; a stonewall's number is not known."""
        for phase, kind, found in self._calls():
            if self.files is None:
                self.unseen.append(f"how many files of {phase} there should be")
                continue
            if self._of_one_rank(phase):
                if found.total < self.files * self.asked.ranks:
                    wanted = f"asked for {self.files * self.asked.ranks:,} files, of one rank (-c)"
                    yield Disagreement(phase, wanted, f"the trace holds {found.total:,} {kind}")
            elif found.least < self.files:
                each = f"{found.least:,}" + (f" to {found.most:,}" if found.most > found.least else "")
                wanted = f"asked for {self.files:,} files of a rank"
                yield Disagreement(phase, wanted, f"the trace holds {each} {kind}")
            elif self.whole and phase != "File removal":
                yield from self._distinct(phase)
        if not self.whole:
            self.unseen.append("that each file was another one (a process keeps records of 4096)")

    def _of_one_rank(self, phase: str) -> bool:
        """With -c the first rank makes and removes the files of all."""
        return self.asked.options.has("c") and phase in ("File creation", "File removal")

    def _distinct(self, phase: str) -> Iterator[Disagreement]:
        """The same file over and over is not as many files; to read one opens it once more."""
        assert self.files is not None
        makes = "File creation" in self.asked.operations and not self.asked.options.has("k")
        least = 2 if phase == "File read" and makes else 1
        calls = self._by_file("stats" if phase == "File stat" else "opens")
        touched = int((calls >= least).sum())
        if touched < self.files * self.asked.ranks:
            wanted = f"asked for {self.files * self.asked.ranks:,} files"
            yield Disagreement(f"files of {phase}", wanted, f"the trace holds {touched:,} different ones")

    def _by_file(self, column: str) -> pd.Series[int]:
        """All ranks together."""
        return self.items[column].fillna(0).groupby(self.items["file"].astype(str)).sum()

    def times(self) -> Iterator[Disagreement]:
        """A phase takes at least what one rank took, and no longer than all; iterations are not told apart.

        Ranks leave the barrier before a phase one after the other on a busy node: what passes between them
        is in no rank's time, and on several nodes their clocks differ.
        """
        rates = {r.operation: r.mean for r in self.told.rows if r.unit == "ops/s"} if self.told else {}
        if self.iterations != 1 or self.files is None or self.asked.options.has("c"):
            self.unseen.append("the times of phases")
            return
        for phase, _, found in self._calls():
            if phase == "File stat" and not self.asked.options.has("F"):
                self.unseen.append("the time of File stat (directories are looked at, too)")
                continue
            if not found.total or not rates.get(phase):
                continue
            printed = found.total / rates[phase]
            shorter = printed < (1 - TIME_SHARE) * found.longest_s - TIME_S
            if shorter or printed > (1 + LONGER_SHARE) * found.lasted_s + LONGER_S:
                seen = found.longest_s if shorter else found.lasted_s
                yield Disagreement(
                    f"time of {phase}", f"{seen:.4g} s by the trace", f"its rate says {printed:.4g} s"
                )

    def owners(self) -> Iterator[Disagreement]:
        """With -N a rank looks at files of the rank N further on, else at its own."""
        asked = self.asked
        stride = asked.options.count("N", 0)
        both = {"File creation", "File stat"} <= set(asked.operations) and not asked.options.has("c")
        if asked.ranks == 1 or "File stat" not in asked.operations:
            return
        if not both or stride is None or asked.options.has("R") or not len(self.items) or not self.whole:
            self.unseen.append("which rank looked at what which rank made")
            return
        looked, made = self.items["stats"].fillna(0) > 0, self.items["opens"].fillna(0) > 0
        # The records of a file that every rank used are one, of rank -1.
        own = int((looked & made & (self.items["rank"] >= 0)).sum())
        others = int((looked & ~made & (self.items["rank"] >= 0)).sum())
        merged = int((looked & made & (self.items["rank"] < 0)).sum())
        if stride % asked.ranks and own:
            wanted = f"asked for files of the rank {stride} further on (-N)"
            told_own = f"{own:,} files were looked at by their own ranks"
            yield Disagreement("which rank looks at what", wanted, told_own)
        elif not stride % asked.ranks and others + merged:
            told = f"{others + merged:,} were looked at by another rank than made them"
            yield Disagreement("which rank looks at what", "asked for a rank's own files", told)

    def bytes_moved(self) -> Iterator[Disagreement]:
        """-w: bytes that each new file gets; -e: that are read of it; not all of them in one file."""
        if self.files is None or not self.whole:
            return
        for letter, phase, column in (
            ("w", "File creation", "bytes_written"),
            ("e", "File read", "bytes_read"),
        ):
            each = self.asked.options.size(letter, "0")
            if not each or phase not in self.asked.operations:
                continue
            files, moved = self.files * self.asked.ranks, self._by_file(column)
            counted, whole = int(moved.sum()), int((moved >= each).sum())
            what, flag = f"bytes of {phase}", f"(-{letter})"
            if counted < each * files:
                yield Disagreement(what, f"asked for {each * files:,} {flag}", f"the trace holds {counted:,}")
            elif whole < files:
                told = f"the trace holds {whole:,} such files"
                yield Disagreement(what, f"asked for {each:,} of each of {files:,} files {flag}", told)
