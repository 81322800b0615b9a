"""The trace of a launch as witness: did the program do what it was asked, and in the time that it says?

A driver may print what it likes. Its log shows which bytes it moved, in which order, which rank read another
rank's bytes, whether fsync was called, and when the first file was opened and the last one closed.
`testimony` compares that with the command line and the driver's numbers. What a log cannot show is named,
never assumed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd

from tierbench.base.sizes import MIB
from tierbench.base.text import size, sizes
from tierbench.judge.asked import IorAsked
from tierbench.judge.launch import CLOCK_S, Clock, Disagreement
from tierbench.outputs import IorOutput
from tierbench.trace.frames import Traces
from tierbench.trace.interfaces import BY_MPI_IO, MPI_IO, wrong_interface
from tierbench.trace.segments import covered_bytes

TIME_SHARE, TIME_S = 0.02, 0.005  # by which a driver's time may be shorter than the trace's
LONGER_SHARE, LONGER_S = 0.25, 1.0  # by which it may be longer: barriers, start of ranks
RANDOM_SHARE, SEQUENTIAL_SHARE = 0.2, 0.02  # of accesses that go back: at least with -z, at most without
WHOLE_SHARE = 0.99  # of the transfers that have the asked size, of the bytes that the storage is asked for
OUTSIDE_SHARE, OUTSIDE_BYTES = 0.01, MIB  # of other files that a program may move besides its data
_MODULES = ["POSIX", "STDIO"]


@dataclass(frozen=True)
class Testimony:
    """What the trace contradicts, and what it could not show."""

    disagreements: tuple[Disagreement, ...]
    unseen: tuple[str, ...]


def testimony(
    asked: IorAsked,
    told: IorOutput | None,
    application: Traces,
    storage: Traces | None = None,
    *,
    bypass: bool = False,
    of_several: bool = False,
    sees_mpi_io: bool = False,
) -> Testimony:
    """Hold a launch of IOR against its logs; `bypass`: nothing is between it and the PFS.

    `of_several`: the logs are a part of one that holds other launches, too (`tierbench.trace.window`).
    `sees_mpi_io`: what the program does by MPI-IO is in its log.
    """
    if not len(application.job):
        return Testimony((), ("there is no log of the application's side",))
    if asked.file is None:
        return Testimony((), ("which files are the data's",))
    launch = _Launch(asked, told, application, of_several=of_several)
    found = [
        *launch.ranks(),
        *launch.interface(sees_mpi_io),
        *launch.bytes_moved(),
        *launch.transfers(),
        *launch.order(),
        *launch.layout(),
        *launch.owners(),
        *launch.syncs(),
        *launch.maps(),
        *launch.outside(),
        *launch.times(),
    ]
    if bypass and storage is not None:
        found += launch.below(storage)
    return Testimony(tuple(found), tuple(dict.fromkeys(launch.unseen)))


class _Launch:
    """The records of the data files of one launch."""

    def __init__(
        self, asked: IorAsked, told: IorOutput | None, traces: Traces, *, of_several: bool = False
    ) -> None:
        self.asked, self.told, self.traces, self.of_several = asked, told, traces, of_several
        self.unseen: list[str] = []
        # IOR lets ranks take turns on the names between the @.
        self.bases = [os.path.normpath(name) for name in str(asked.file).split("@") if name]
        posix = traces.files[traces.files["module"] == "POSIX"]
        self.data = posix[_is_data(posix["file"], self.bases)]
        self.others = traces.files[
            traces.files["module"].isin(_MODULES) & ~_is_data(traces.files["file"], self.bases)
        ]
        library = traces.files[traces.files["module"] == MPI_IO]
        self.library = library[_is_data(library["file"], self.bases)]
        # What the driver itself asked for: of MPI-IO, or of POSIX.
        by_library = asked.api == "MPIIO" and len(self.library) > 0
        self.calls = self.library if by_library else self.data
        module = "DXT_MPIIO" if by_library else "DXT_POSIX"
        segments = traces.segments[traces.segments["module"] == module]
        self.segments = segments[_is_data(segments["file"], self.bases)]
        self.exact = by_library or self.plain
        self.whole = self._segments_are_whole()
        if not traces.job["complete"].all():
            self.unseen.append("all of the launch: the log is incomplete")

    def _segments_are_whole(self) -> bool:
        counted = int(self.calls[["bytes_read", "bytes_written"]].sum().sum())
        placed = bool((self.segments["offset"] >= 0).all())  # Darshan has none of MPI-IO
        return placed and int(self.segments["length"].sum()) == counted

    @property
    def plain(self) -> bool:
        """Ranks move their own bytes in their own transfers, which no library joins."""
        return self.asked.api in ("POSIX", "MMAP") and not self.asked.collective

    def _accesses(self) -> Iterator[str]:
        for access, wanted in (("write", self.asked.writes), ("read", self.asked.reads)):
            if wanted:
                yield access

    def ranks(self) -> Iterator[Disagreement]:
        """As many as were asked for, on as many nodes."""
        yield from wrong_ranks(self.asked.ranks, self.traces)
        hosts = self.segments["host"].nunique()
        if self.asked.nodes and self.exact and self.whole and 0 < hosts != self.asked.nodes:
            told = f"the trace holds ranks on {hosts}"
            yield Disagreement("nodes", f"asked for {self.asked.nodes}", told)

    def interface(self, sees_mpi_io: bool) -> Iterator[Disagreement]:
        """By MPI-IO or without it, collective or not."""
        found, unseen = wrong_interface(self.asked, self.library, self.traces, sees_mpi_io=sees_mpi_io)
        self.unseen += unseen
        yield from found

    # --- bytes -----------------------------------------------------------------------------------------

    def bytes_moved(self) -> Iterator[Disagreement]:
        """All of them, by each rank; with a deadline what the driver says."""
        if self.asked.api == "MMAP":
            self.unseen.append("bytes through mappings")
            return
        for access in self._accesses():
            counted = int(self.calls[_bytes_of(access)].sum())
            wanted = self._wanted(access)
            if wanted is None:
                self.unseen.append(f"how many bytes of {access} there should be")
            elif counted + wanted[1] < wanted[0] or (self.exact and counted - wanted[1] > wanted[0]):
                # What is not exact may move more: sieving, collective buffers.
                right, found = sizes(wanted[0], counted)
                yield Disagreement(f"bytes of {access}", f"{wanted[2]} {right}", f"the trace holds {found}")
            else:
                yield from self._of_each_rank(access)
                yield from self._different(access)

    def _wanted(self, access: str) -> tuple[int, int, str] | None:
        """Bytes, by how much they may be off, and which source says so."""
        asked, repetitions = self.asked, self.asked.repetitions or 1
        checks = repetitions * (1 + (access == "read" and asked.options.has("W")))
        status = "stonewallingstatusfile" in asked.directives
        if asked.deadline_s or (status and access == "read"):
            moved = self._moved(access)
            return None if moved is None else (round(moved * MIB) * checks, MIB // 16, "the driver says")
        if asked.total_bytes is None:
            return None
        return asked.total_bytes * checks, 0, "asked for"

    def _moved(self, access: str) -> float | None:
        found = [s.moved_mib for s in self.told.summaries if s.operation == access] if self.told else []
        return found[0] if len(found) == 1 else None

    def _of_each_rank(self, access: str) -> Iterator[Disagreement]:
        asked = self.asked
        fixed = self.exact and not asked.deadline_s and not (asked.random and not asked.own_files)
        if not fixed or asked.bytes_of_rank is None or "stonewallingstatusfile" in asked.directives:
            return
        by_rank = self._by_rank(access)
        if by_rank is None:
            self.unseen.append(f"which rank moved which bytes of {access}")
        elif len(by_rank) != asked.ranks or by_rank.min() != by_rank.max():
            shown = ", ".join(f"rank {rank}: {size(int(n))}" for rank, n in by_rank.items())
            yield Disagreement(
                f"bytes of {access} by rank", f"asked for {size(asked.bytes_of_rank)} of each", shown
            )

    def _different(self, access: str) -> Iterator[Disagreement]:
        """The same place over and over is not as many bytes."""
        at_random = access == "read" and self.asked.options.has("Z")  # two ranks may read one rank's data
        if not self.exact or at_random or not (self.whole and len(self.segments)):
            return
        mine = self.segments[self.segments["access"] == access]
        passes = (self.asked.repetitions or 1) * (1 + (access == "read" and self.asked.options.has("W")))
        moved = int(mine["length"].sum()) / passes
        covered = sum(covered_bytes(part) for _, part in mine.groupby("file", observed=True))
        if covered < WHOLE_SHARE * moved:
            all_of_it, different = sizes(int(moved), covered)
            told = f"the trace holds {different} of the files"
            yield Disagreement(f"different bytes of {access}", f"{all_of_it} were moved", told)

    def _by_rank(self, access: str) -> pd.Series[int] | None:
        if self.whole and len(self.segments):
            mine = self.segments[self.segments["access"] == access]
            return mine.groupby("rank")["length"].sum()
        moved = self.calls[self.calls[_bytes_of(access)].fillna(0) > 0]
        return moved.groupby("rank")[_bytes_of(access)].sum() if (moved["rank"] >= 0).all() else None

    def transfers(self) -> Iterator[Disagreement]:
        """Each of the size of -t."""
        if not self.exact or self.asked.api == "MMAP" or self.asked.transfer is None:
            return
        if not (self.whole and len(self.segments)):
            self.unseen.append("the size of each transfer")
            return
        other = self.segments[self.segments["length"] != self.asked.transfer]
        if len(other) > (1 - WHOLE_SHARE) * len(self.segments):
            first = size(int(other["length"].iloc[0]))
            told = f"{len(other)} of {len(self.segments)} have other sizes, as {first}"
            yield Disagreement("transfers", f"asked for {size(self.asked.transfer)} (-t)", told)

    # --- order and owners ------------------------------------------------------------------------------

    def order(self) -> Iterator[Disagreement]:
        """At random offsets about half of the accesses go back; in sequence none."""
        if not self.exact or self.asked.api == "MMAP":
            return
        for access in self._accesses():
            back = self._share_that_goes_back(access)
            if back is None:
                self.unseen.append(f"the order of offsets of {access}")
            elif self.asked.random and back < RANDOM_SHARE:
                yield Disagreement(
                    f"order of {access}",
                    "asked for random offsets (-z)",
                    f"{back:.0%} of the accesses go back",
                )
            elif not self.asked.random and back > SEQUENTIAL_SHARE:
                yield Disagreement(
                    f"order of {access}",
                    "asked for offsets in sequence",
                    f"{back:.0%} of the accesses go back",
                )

    def _share_that_goes_back(self, access: str) -> float | None:
        if not (self.whole and len(self.segments)):
            return None
        mine = self.segments[self.segments["access"] == access].sort_values("start_s", kind="stable")
        passes = (self.asked.repetitions or 1) * (1 + (access == "read" and self.asked.options.has("W")))
        back = steps = 0
        for _, part in mine.groupby(["rank", "file"], observed=True):
            offsets = part["offset"].to_numpy()
            back += max(0, int((np.diff(offsets) < 0).sum()) - passes + 1)
            steps += len(offsets) - 1
        few = self.asked.random and steps < 8  # a permutation of so few may be in order
        return None if few else back / steps if steps > 0 else 0.0

    def layout(self) -> Iterator[Disagreement]:
        """A file of each rank (-F), or one of all in which a rank has its blocks (-b, -s)."""
        asked = self.asked
        named_apart = len(self.bases) > 1 or asked.options.has("m") or asked.options.has("Z")
        if not self.exact or asked.ranks == 1 or named_apart or not (self.whole and len(self.segments)):
            return
        for access in self._accesses():
            mine = self.segments[self.segments["access"] == access]
            ranks = mine.groupby("file", observed=True)["rank"].nunique()
            if asked.own_files and (ranks > 1).any():
                told = f"{int(ranks.max())} ranks {access} one file"
                yield Disagreement("access", "asked for a file of each rank (-F)", told)
            elif not asked.own_files and len(ranks) > 1 and (ranks == 1).all():
                told = (
                    f"each of {len(ranks)} files is {'written' if access == 'write' else 'read'} by one rank"
                )
                yield Disagreement("access", "asked for one file of all ranks", told)
            elif not asked.own_files and not asked.random and not asked.deadline_s:
                yield from self._blocks(access, mine)

    def _blocks(self, access: str, mine: pd.DataFrame) -> Iterator[Disagreement]:
        """How far the data of a rank reach in the file, from its first block to the end of its last."""
        asked = self.asked
        if asked.block is None or asked.segments is None or "stonewallingstatusfile" in asked.directives:
            return
        wanted = ((asked.segments - 1) * asked.ranks + 1) * asked.block
        by_rank = mine.assign(end=mine["offset"] + mine["length"]).groupby("rank")
        reach = by_rank["end"].max() - by_rank["offset"].min()
        if (reach != wanted).any():
            right, found = sizes(wanted, int(reach[reach != wanted].iloc[0]))
            blocks = f"blocks of {size(asked.block)} (-b), {asked.segments} of a rank (-s)"
            told = f"they reach over {found}"
            yield Disagreement(f"places of {access}", f"asked for {blocks}: over {right}", told)

    def owners(self) -> Iterator[Disagreement]:
        """Which rank wrote the bytes that a rank reads: itself, or with -C a rank of another node."""
        asked = self.asked
        dealt = asked.random and not asked.own_files  # any rank may write any transfer
        if not self.exact or dealt or asked.ranks == 1 or not asked.reads or asked.shift is None:
            return
        shifts = self._shifts()
        if shifts is None:
            self.unseen.append("which rank read what which rank wrote")
            return
        if shifts != [asked.shift]:
            told = ", ".join("its own data" if s == 0 else f"that of {s} ranks on" for s in shifts)
            wanted = f"the data of {asked.shift} ranks on (-C)" if asked.shift else "its own data"
            yield Disagreement("rank shift", f"asked for {wanted}", f"a rank reads {told}")

    def _shifts(self) -> list[int] | None:
        """All distances from a reader to the writer of what it reads."""
        asked, found = self.asked, None
        if asked.own_files:
            moved = self.calls[self.calls["bytes_read"].fillna(0) > 0]
            if (moved["rank"] >= 0).all() and len(moved):
                found = moved["rank"].to_numpy(), _file_numbers(moved["file"])
        if found is None and self.whole and len(self.segments):
            mine = self.segments[self.segments["access"] == "read"]
            if asked.own_files:
                found = mine["rank"].to_numpy(), _file_numbers(mine["file"])
            elif asked.block:
                found = mine["rank"].to_numpy(), (mine["offset"].to_numpy() // asked.block) % asked.ranks
        if found is None or not len(found[0]) or (found[1] < 0).any():
            return None
        return sorted({int(d) for d in (found[1] - found[0]) % asked.ranks})

    # --- fsync, mappings, other files ------------------------------------------------------------------

    def syncs(self) -> Iterator[Disagreement]:
        """-e: at least one of each rank and file; -Y: one of each write."""
        asked = self.asked
        if (
            not asked.writes
            or not (asked.options.has("e") or asked.options.has("Y"))
            or asked.api not in ("POSIX", "MPIIO")
        ):
            return
        written = self.data[self.data["bytes_written"].fillna(0) > 0]
        called = self.calls[self.calls["bytes_written"].fillna(0) > 0]
        flushes, writes = int(called["flushes"].fillna(0).sum()), int(called["writes"].fillna(0).sum())
        wanted = writes if asked.options.has("Y") else asked.ranks if self.exact else 1
        if flushes < wanted:
            flag = "-Y, one a write" if asked.options.has("Y") else "-e, one a rank"
            yield Disagreement("fsync", f"asked for {wanted} ({flag})", f"the trace holds {flushes}")
        unsynced = self._files_without_a_sync(written)
        if flushes >= wanted and unsynced:
            yield Disagreement("fsync", "asked for one of each file (-e)", f"{unsynced} files have none")
        late = self._written_after_the_sync(written)
        if flushes >= wanted and late:
            yield Disagreement(
                "fsync", "asked for after the last write (-e)", f"{late} files were written after it"
            )

    def _files_without_a_sync(self, written: pd.DataFrame) -> int:
        by_file = written["flushes"].fillna(0).groupby(written["file"].astype(str)).sum()
        return int((by_file == 0).sum())

    def _written_after_the_sync(self, written: pd.DataFrame) -> int:
        """Files that were written after their last fsync; what a runtime does not tell is unseen."""
        del written
        told = self.traces.job["unsynced"].iloc[0]
        if pd.isna(told):
            self.unseen.append("whether fsync came after the last write")
            return 0
        return int(told)

    def maps(self) -> Iterator[Disagreement]:
        """Bytes through a mapping are in no counter."""
        mapped = self.data[self.data["mmaps"].fillna(0) > 0]
        if len(mapped) and self.asked.api != "MMAP":
            count = int(mapped["mmaps"].sum())
            yield Disagreement(
                "mappings",
                f"{self.asked.api} maps no file",
                f"{mapped['file'].iloc[0]} was mapped ({count} times)",
            )

    def outside(self) -> Iterator[Disagreement]:
        """Other files are not where the data goes."""
        moved = self.others[["bytes_read", "bytes_written"]].fillna(0).sum(axis=1)
        real = ~self.others["file"].astype(str).str.startswith("<") & (self.others["rank"] < self.asked.ranks)
        total = int(moved[real].sum())
        whole = int(self.data[["bytes_read", "bytes_written"]].sum().sum())
        if total > OUTSIDE_BYTES and total > OUTSIDE_SHARE * whole:
            worst = str(self.others["file"].iloc[int(np.argmax(moved.where(real, 0)))])
            yield Disagreement(
                "other files",
                f"{size(whole)} of the data were moved",
                f"{size(total)} of others, most of {worst}",
            )

    # --- times -----------------------------------------------------------------------------------------

    def times(self) -> Iterator[Disagreement]:
        """A driver's time is what passed between the first open and the last close."""
        if self.told is None or (self.asked.repetitions or 0) != 1 or self.asked.options.has("W"):
            return
        for access in self._accesses():
            results, spans = self.told.select(access), self._spans_s(access)
            if len(results) != 1 or spans is None:
                self.unseen.append(f"the time of {access}")
                continue
            printed, (of_a_rank, of_all) = results[0].total_s, spans
            shorter = printed < (1 - TIME_SHARE) * of_a_rank - TIME_S
            # Of a part the segments tell when bytes moved, and not when a flush or a close ended.
            longer = self.plain and not self.of_several and printed > (1 + LONGER_SHARE) * of_all + LONGER_S
            if shorter or longer:
                seen = of_a_rank if shorter else of_all
                yield Disagreement(
                    f"time of {access}", f"{seen:.4g} s by the trace", f"the driver says {printed:.4g} s"
                )

    def _spans_s(self, access: str) -> tuple[float, float] | None:
        """From the first open to the last close: of the rank where that is longest, and of all ranks.

        No total is shorter than what one rank took. It may be shorter than from one rank's open to another's
        close: drivers compare clocks after a barrier, and what leaving that takes, up to 28 ms where 13
        processes wait for a processor, is missing between two ranks. Where the launch does both accesses,
        what is certainly of one. By MPI-IO and HDF5 transfers alone: IOR opens such a file once more before
        and after what it times.
        """
        both = self.asked.writes and self.asked.reads
        by_library = self.asked.api in BY_MPI_IO
        first = f"{access}_start_s" if by_library or (both and access == "read") else "open_start_s"
        last = f"{access}_end_s" if by_library or (both and access == "write") else "close_end_s"
        moved = self.calls[self.calls[_bytes_of(access)].fillna(0) > 0]
        if moved[first].isna().all() or moved[last].isna().all():
            return None
        by_rank = moved.groupby("rank")
        of_a_rank = float((by_rank[last].max() - by_rank[first].min()).max())
        of_calls = self._longest_rank_s(moved, access)
        return max(of_a_rank, of_calls), max(float(moved[last].max() - moved[first].min()), of_calls)

    def _longest_rank_s(self, moved: pd.DataFrame, access: str) -> float:
        """In calls of this access, an fsync among them; of a record of all ranks their mean."""
        calls = moved[f"{access}_s"].fillna(0.0)
        each = calls.where(moved["rank"] >= 0, calls / self.asked.ranks)
        return float(each.groupby(moved["rank"]).sum().max())

    # --- the storage below -----------------------------------------------------------------------------

    def below(self, storage: Traces) -> Iterator[Disagreement]:
        """Without tiers the storage is asked for what the program asks for."""
        files = storage.files[storage.files["module"] == "POSIX"]
        files = files[_is_data(files["file"], self.bases)]
        for access in self._accesses():
            asked, got = int(self.data[_bytes_of(access)].sum()), int(files[_bytes_of(access)].sum())
            if got < WHOLE_SHARE * asked:
                yield Disagreement(
                    f"storage of {access}",
                    f"the program moved {size(asked)}",
                    f"the storage was asked for {size(got)}",
                )


def wrong_ranks(asked: int, traces: Traces) -> Iterator[Disagreement]:
    """Of MPI, where the log tells them from other processes, as of the script that starts them."""
    job = traces.job
    told = int(job["ranks"].where(job["ranks"].fillna(0) > 0, job["nprocs"]).max())
    if told != asked:
        yield Disagreement("ranks", f"asked for {asked}", f"the trace holds {told}")


def wrong_time(clocks: Iterable[Clock], traces: Traces) -> Iterator[Disagreement]:
    """The log of these launches begins before each ends, and ends after each began, or is another run's."""
    starts = traces.job["start"].map(pd.Timestamp.timestamp)
    start, ended = float(starts.min()), float((starts + traces.job["run_s"]).max())
    for clock in clocks:
        if start > clock.ended + CLOCK_S or ended < clock.began - CLOCK_S:
            moments = (datetime.fromtimestamp(t, clock.zone) for t in (clock.began, start))
            launched, logged = (f"{moment:%a %b %d %H:%M:%S %Y}" for moment in moments)
            yield Disagreement("log", f"launched at {launched}", f"the log's program began at {logged}")
            return


def _bytes_of(access: str) -> str:
    return "bytes_written" if access == "write" else "bytes_read"


def _is_data(files: pd.Series[str], bases: Sequence[str]) -> pd.Series[bool]:
    names, last = files.astype(str), files.astype(str).str.rsplit("/", n=1).str[-1]
    found = names.isin(bases)
    for base in bases:
        folder, name = os.path.split(base)
        below = names.str.startswith(f"{folder}/") & last.str.startswith(f"{name}.")
        found |= names.str.startswith(f"{base}.") | below
    return found


def _file_numbers(files: pd.Series[str]) -> np.ndarray:
    """The rank in the name of a file of one rank; -1 where there is none."""
    found = files.astype(str).str.extract(r"\.(\d{8})(?:\.\d+)?$")[0]
    return found.fillna("-1").astype(int).to_numpy()
