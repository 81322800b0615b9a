"""The figures of a trace, each drawn from one log's frames, or None where they hold nothing to draw.

Bandwidth over time shares every segment's bytes out evenly over the time it lasted. Times are binned into at
most `BINS` bins, so that a log of a million segments and one of ten cost the reader the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tierbench.base.sizes import MIB
from tierbench.base.text import size
from tierbench.layout import canvas
from tierbench.layout.canvas import QUIET
from tierbench.trace.frames import LONGEST_S, MOMENTS, Traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 120
ROWS = 128  # lines of a heat map; more ranks are put together
_READ, _WRITE, _META, _FLUSH = "#2563eb", "#dc6803", "#64748b", "#0d9488"
_PHASES = {"open": "#7c3aed", "read": _READ, "write": _WRITE, "close": _META}
_BIN_LABELS = ("≤100 B", "≤1 K", "≤10 K", "≤100 K", "≤1 M", "≤4 M", "≤10 M", "≤100 M", "≤1 G", ">1 G")


@dataclass(frozen=True)
class Drawing:
    """A figure of a log: its title, how it is drawn, and what to see in it."""

    title: str
    draw: Callable[[Traces], Figure | None]
    caption: str


@dataclass(frozen=True)
class Flow:
    """Bytes by rank (line) and time bin (column), reading and writing; `edges_s` are the bins' ends."""

    ranks: NDArray[np.int64]
    edges_s: NDArray[np.float64]
    read: NDArray[np.float64]
    written: NDArray[np.float64]

    @property
    def both(self) -> NDArray[np.float64]:
        """Read and written together."""
        total: NDArray[np.float64] = self.read + self.written
        return total

    @property
    def rates(self) -> NDArray[np.float64]:
        """Bytes as MiB/s."""
        rates: NDArray[np.float64] = self.both / np.diff(self.edges_s) / MIB
        return rates


def flow(traces: Traces) -> Flow | None:
    """From DXT segments of the POSIX layer, else from the runtime's heat map."""
    segments = traces.segments[traces.segments["module"] == "DXT_POSIX"]
    if len(segments):
        return _spread(
            segments["rank"],
            segments["start_s"],
            segments["end_s"],
            np.where(segments["access"] == "read", segments["length"], 0),
            np.where(segments["access"] == "write", segments["length"], 0),
        )
    heat = traces.heat[traces.heat["layer"].isin(["POSIX", "STDIO"])]
    if len(heat):
        return _spread(
            heat["rank"], heat["start_s"], heat["end_s"], heat["bytes_read"], heat["bytes_written"]
        )
    return None


def _spread(ranks: Any, starts: Any, ends: Any, read: Any, written: Any) -> Flow | None:
    starts, ends = np.asarray(starts, dtype=float), np.asarray(ends, dtype=float)
    usable = (starts >= 0) & (ends >= starts) & (ends < LONGEST_S)
    if not usable.any() or ends[usable].max() < 1e-9:
        return None
    starts, ends = starts[usable], ends[usable]
    known, lines = np.unique(np.asarray(ranks)[usable], return_inverse=True)
    edges = np.linspace(0, ends.max(), BINS + 1)
    parts = [
        _share_out(
            lines, len(known), starts, ends, np.clip(np.asarray(b, dtype=float)[usable], 0, None), edges
        )
        for b in (read, written)
    ]
    return Flow(known, edges, *parts)


def _share_out(
    lines: NDArray[np.intp], n: int, starts: Any, ends: Any, amounts: Any, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share each amount out over the bins between its start and end.

    Instead of walking every bin of every segment: the amount moved until a time is a sum of ramps, so two
    differences at each end (slope and its intercept) and a running sum give it at all edges at once.
    """
    width = edges[1]
    lasted = np.maximum(ends - starts, width * 1e-6)
    slope = amounts / lasted
    total = np.zeros((n, len(edges)))
    for times, sign in ((starts, 1.0), (starts + lasted, -1.0)):
        after = np.minimum(np.ceil(times / width).astype(int), len(edges) - 1)
        slopes, offsets = np.zeros_like(total), np.zeros_like(total)
        beyond = times > edges[-1]
        np.add.at(slopes, (lines[~beyond], after[~beyond]), sign * slope[~beyond])
        np.add.at(offsets, (lines[~beyond], after[~beyond]), -sign * (slope * times)[~beyond])
        total += np.cumsum(slopes, axis=1) * edges + np.cumsum(offsets, axis=1)
    return np.maximum(np.diff(total, axis=1), 0.0)


def over_time(traces: Traces) -> Figure | None:
    """Bandwidth in total, and of single ranks in front of that."""
    moved = flow(traces)
    if moved is None:
        return None
    figure = canvas.blank(2.6)
    axes = figure.add_subplot()
    middles = (moved.edges_s[:-1] + moved.edges_s[1:]) / 2
    width = np.diff(moved.edges_s)
    for name, colour, amounts in (("read", _READ, moved.read), ("written", _WRITE, moved.written)):
        if amounts.any():
            axes.step(
                middles, amounts.sum(axis=0) / width / MIB, where="mid", color=colour, lw=1.5, label=name
            )
    shown = _some(moved.both.sum(axis=1), 16)
    for line in shown if len(moved.ranks) > 1 else []:
        axes.step(middles, moved.rates[line], where="mid", color=QUIET, lw=0.5, alpha=0.5)
    if len(moved.ranks) > 1:
        axes.plot([], [], color=QUIET, lw=0.7, label=f"single ranks ({len(shown)} of {len(moved.ranks)})")
    axes.set_xlim(0, moved.edges_s[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds from the start of the job")
    axes.set_ylabel("MiB/s")
    axes.grid(axis="y")
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper left", ncols=3)
    return figure


def _some(amounts: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Lines spread evenly from the least to the most."""
    order = np.argsort(amounts, kind="stable")
    return np.unique(order[np.linspace(0, len(order) - 1, min(n, len(order))).astype(int)])


def heat_map(traces: Traces) -> Figure | None:
    """Rank by time, with the sums of lines and columns at its margins."""
    moved = flow(traces)
    if moved is None:
        return None
    rates, labels = moved.rates, [int(r) for r in moved.ranks]
    each = -(-len(labels) // ROWS)
    rates = np.add.reduceat(rates, np.arange(0, len(labels), each), axis=0)
    figure = canvas.blank(min(4.6, 2.1 + 0.055 * len(rates)))
    grid = figure.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 3.2 if len(rates) > 8 else 1.6))
    middle, top, right = (figure.add_subplot(grid[at]) for at in ((1, 0), (0, 0), (1, 1)))
    shown = canvas.heat(middle, rates[::-1], (0, moved.edges_s[-1], -0.5, len(rates) - 0.5))
    middles = (moved.edges_s[:-1] + moved.edges_s[1:]) / 2
    top.fill_between(middles, rates.sum(axis=0), step="mid", color=_META, lw=0)
    amounts = np.add.reduceat(moved.both.sum(axis=1), np.arange(0, len(labels), each)) / MIB
    right.barh(np.arange(len(rates)), amounts, height=1.0 if len(rates) > 30 else 0.8, color=_META)
    top.set_xlim(middle.get_xlim())
    right.set_ylim(middle.get_ylim())
    _label_ranks(middle, labels, each, len(rates))
    middle.set_xlabel("seconds from the start of the job")
    middle.set_ylabel("rank" if each == 1 else f"ranks, {each} a line")
    top.set_ylabel("MiB/s")
    right.set_xlabel("MiB")
    right.tick_params(labelleft=False)
    top.tick_params(labelbottom=False)
    figure.colorbar(shown, ax=right, location="right", label="MiB/s", fraction=0.3)
    return figure


def _label_ranks(axes: Axes, labels: Sequence[int], each: int, lines: int) -> None:
    ticks = np.unique(np.linspace(0, lines - 1, min(lines, 9)).astype(int))
    axes.set_yticks(ticks, [str(labels[t * each]) for t in ticks])


def access_sizes(traces: Traces) -> Figure | None:
    """How many accesses of each size, reading and writing."""
    bins = traces.sizes[(traces.sizes["kind"] == "bin") & (traces.sizes["module"] == "POSIX")]
    if not len(bins) or not bins["count"].sum():
        return None
    figure = canvas.blank(2.4)
    axes = figure.add_subplot()
    table = bins.pivot_table(index="low", columns="access", values="count", aggfunc="sum", observed=True)
    at = np.arange(len(table))
    for i, (access, colour) in enumerate((("read", _READ), ("write", _WRITE))):
        if access in table and table[access].sum():
            axes.bar(at + 0.4 * i - 0.2, table[access], width=0.38, color=colour, label=access)
    axes.set_xticks(at, _BIN_LABELS)
    axes.set_xlabel("size of an access (K, M, G: powers of 1024)")
    axes.set_ylabel("accesses")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


_ALIGNMENTS = tuple(1 << n for n in (0, 9, 12, 16, 20, 22))


def alignment(traces: Traces) -> Figure | None:
    """To which power of two the offsets are aligned: from segments; without them what the counters say."""
    segments = traces.segments[traces.segments["module"] == "DXT_POSIX"]
    if not len(segments):
        return _counted_alignment(traces)
    offsets = segments["offset"].to_numpy()
    level = np.zeros(len(offsets), dtype=int)
    for i, step in enumerate(_ALIGNMENTS):
        level[offsets % step == 0] = i
    figure = canvas.blank(2.0)
    axes = figure.add_subplot()
    reading = (segments["access"] == "read").to_numpy()
    for i, (name, colour, mask) in enumerate((("read", _READ, reading), ("write", _WRITE, ~reading))):
        if mask.any():
            counts = np.bincount(level[mask], minlength=len(_ALIGNMENTS))
            axes.bar(
                np.arange(len(_ALIGNMENTS)) + 0.4 * i - 0.2, counts, width=0.38, color=colour, label=name
            )
    axes.set_xticks(range(len(_ALIGNMENTS)), ["none", *(size(step) for step in _ALIGNMENTS[1:])])
    axes.set_xlabel("largest of these that divides the offset")
    axes.set_ylabel("accesses")
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _counted_alignment(traces: Traces) -> Figure | None:
    files = traces.files[(traces.files["module"] == "POSIX") & (traces.files["alignment"] > 0)]
    accesses = int((files["reads"] + files["writes"]).sum()) if len(files) else 0
    if not accesses:
        return None
    unaligned = min(int(files["unaligned"].sum()), accesses)
    figure = canvas.blank(1.3)
    axes = figure.add_subplot()
    axes.barh([1, 0], [accesses - unaligned, unaligned], color=[_META, _WRITE], height=0.6)
    axes.set_yticks([1, 0], ["aligned", "unaligned"])
    axes.set_xlabel("accesses, against the alignment of their file system")
    axes.grid(axis="x")
    return figure


def breakdown(traces: Traces) -> Figure | None:
    """Where the time in I/O went, for the files that took most of it."""
    files = traces.files[traces.files["module"].isin(["POSIX", "STDIO"])]
    parts = files.groupby(files["file"].astype(str))[["meta_s", "read_s", "write_s"]].sum()
    spent = parts.sum(axis=1)
    parts = _flushes_apart(parts.loc[spent[spent > 0.002 * spent.sum()].nlargest(10).index], traces)
    if not len(parts) or not parts.to_numpy().sum() > 0:
        return None
    figure = canvas.blank(0.27 * len(parts) + 0.95)
    axes = figure.add_subplot()
    left = np.zeros(len(parts))
    kinds = (
        ("open, close, stat, seek", "meta_s", _META),
        ("read", "read_s", _READ),
        ("write" if parts["flush_s"].any() else "write and flush", "write_s", _WRITE),
        ("flush", "flush_s", _FLUSH),
    )
    for name, column, colour in kinds if parts["flush_s"].any() else kinds[:-1]:
        axes.barh(np.arange(len(parts)), parts[column], left=left, color=colour, height=0.66, label=name)
        left = left + parts[column].to_numpy()
    axes.set_yticks(np.arange(len(parts)), [plain(short(str(name))) for name in parts.index])
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.set_xlabel("seconds, all ranks together")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=4)
    return figure


def _flushes_apart(parts: pd.DataFrame, traces: Traces) -> pd.DataFrame:
    """Darshan counts flushes as writing; segments are of writes alone, so that the rest was flushing."""
    writes = traces.segments[traces.segments["module"] == "DXT_POSIX"]
    writes = writes[writes["access"] == "write"]
    names = writes["file"].astype(str)
    lasted = (writes["end_s"] - writes["start_s"]).groupby(names).sum().reindex(parts.index)
    bytes_of = traces.files.groupby(traces.files["file"].astype(str))["bytes_written"].sum()
    whole = writes["length"].groupby(names).sum().reindex(parts.index) == bytes_of.reindex(parts.index)
    flush = (parts["write_s"] - lasted).where(whole, 0).clip(lower=0).fillna(0)
    return parts.assign(flush_s=flush, write_s=parts["write_s"] - flush)


def when(traces: Traces) -> Figure | None:
    """From when to when each phase of a file ran: the first start to the last end."""
    files = traces.files[traces.files["module"].isin(["POSIX", "STDIO"])]
    names = files["file"].astype(str)
    spans = files.groupby(names)[list(MOMENTS)].agg(
        {m: "min" if m.endswith("start_s") else "max" for m in MOMENTS}
    )
    moved = (files["bytes_read"].fillna(0) + files["bytes_written"].fillna(0)).groupby(names).sum()
    moved = moved[~moved.index.str.startswith("<")]
    longest = spans.loc[moved[moved > 0].nlargest(10).index].dropna(how="all").index
    if not len(longest):
        return None
    figure = canvas.blank(0.3 * len(longest) + 0.95)
    axes = figure.add_subplot()
    for i, (name, colour) in enumerate(_PHASES.items()):
        starts, ends = (spans.loc[longest, f"{name}_{end}_s"].to_numpy() for end in ("start", "end"))
        known = ~np.isnan(starts) & ~np.isnan(ends)
        at = np.arange(len(longest))[known] + 0.19 * (i - 1.5)
        axes.barh(at, (ends - starts)[known], left=starts[known], height=0.17, color=colour, label=name)
        axes.plot(starts[known], at, "|", color=colour, ms=4, mew=1.5)  # a short one is seen too
    axes.set_yticks(np.arange(len(longest)), [plain(short(name)) for name in longest])
    axes.set_ylim(len(longest) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds from the start of the job")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=4)
    return figure


def short(name: str, length: int = 34) -> str:
    """The end of a long name."""
    return name if len(name) <= length else "…" + name[1 - length :]


def plain(name: str) -> str:
    """A stranger's name as text of a figure: no mathematics, no control or private characters."""
    return "".join(c if c.isprintable() else "?" for c in name).replace("$", r"\$")


def draw(drawing: Drawing, traces: Traces) -> Figure | None:
    """The drawing in the report's style."""
    with canvas.style():
        return drawing.draw(traces)


DRAWINGS = (
    Drawing(
        "Bandwidth over time",
        over_time,
        "In total, and single ranks from the least to the most bytes, in the background.",
    ),
    Drawing(
        "Ranks over time",
        heat_map,
        "Read and written by every rank; above in total, at the right each rank's bytes.",
    ),
    Drawing("Access sizes", access_sizes, "Accesses of the POSIX layer; the scale is logarithmic."),
    Drawing("Alignment", alignment, "Offsets of the POSIX layer; without segments, what the counters say."),
    Drawing(
        "Where the time went",
        breakdown,
        "The ten files that took most time. Flushes are shown apart where segments tell them from writes.",
    ),
    Drawing(
        "When it was opened, read, written and closed",
        when,
        "From the first rank's start to the last one's end, for the ten files that moved most.",
    ),
)
