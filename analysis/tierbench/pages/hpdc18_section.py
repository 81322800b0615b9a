"""The section of a report on the HPDC'18 evaluation: its claims, which policy wins where, how near the bound.

It is there where a run holds its workloads. The figures are those that a reader of the paper expects, the
published ratio beside the measured one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tierbench.base.text import times
from tierbench.judge import hpdc18
from tierbench.judge.hpdc18 import Claim, Efficiency, Ranked, Sample
from tierbench.judge.verdict import Row
from tierbench.layout.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    blank,
    interval,
)
from tierbench.runs.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BUFFERING = {
    "none": "no buffering",
    "datawarp": "DataWarp-like",
    "elevator": "Data-Elevator-like",
}
KINDS = {
    "alternating": "alternating compute and I/O",
    "repetitive": "repetitive read",
    "vpic": "VPIC-IO",
    "hacc": "HACC-IO",
}
AGAINST = {"none": "no buffering", "platforms": "DataWarp- and Data-Elevator-like, mean"}
COLOURS = {"write": BLUE, "read": GREEN, "flush": ORANGE, "open": GREY, "close": PURPLE, "drain": VERMILION}
LINES = {"none": GREY, "datawarp": SKY, "elevator": ORANGE, hpdc18.DEFAULT: BLUE}
SCALINGS = {"strong": ("vpic", "hacc"), "weak": ("alternating-balanced",)}
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # of ratios
DARK = 0.55  # of the heat map's colours, from which its text is white


@dataclass(frozen=True)
class Section:
    """What the page shows."""

    claims: list[Claim]
    policies: dict[str, list[Ranked]]
    efficiency: list[Efficiency]

    @property
    def names(self) -> list[str]:
        """The policies, as the columns of the table."""
        return list(dict.fromkeys(r.sample.buffering for ranked in self.policies.values() for r in ranked))

    @property
    def modelled(self) -> bool:
        """All of it was measured on device models."""
        return all(e.sample.modelled for e in self.efficiency) and bool(self.efficiency)


def of_run(run: Run) -> Section | None:
    """None: the run holds none of its workloads."""
    found = hpdc18.samples(run)
    if not found:
        return None
    return Section(hpdc18.claims(run, found), hpdc18.policies(found), hpdc18.efficiency(found))


def claim_words(claim: Claim) -> str:
    """In a sentence, for a terminal."""
    measured = times(claim.ratio.value) if claim.ratio else "not measured"
    verdict = {True: "reached", False: "NOT reached", None: "no run"}[claim.reached]
    versus = f"{KINDS[claim.kind]}, against {AGAINST[claim.against]}"
    return f"{versus}: published {times(claim.published)}, measured {measured} ({verdict})"


def buffering_words(sample: Sample) -> str:
    """A way of buffering as the paper's figures call it."""
    return BUFFERING.get(sample.buffering, f"Hermes, {sample.buffering}")


# --- figures -----------------------------------------------------------------------------------------------


def ratios(run: Run, _rows: Sequence[Row]) -> Figure | None:
    """The published ratio and the measured one, with its interval, side by side."""
    claims = [c for c in hpdc18.claims(run, hpdc18.samples(run)) if c.ratio]
    if not claims:
        return None
    figure = blank(0.9 + 0.42 * len(claims))
    axes = figure.add_subplot()
    for y, claim in enumerate(claims):
        assert claim.ratio
        axes.barh(y - 0.2, claim.published, height=0.36, color=GREY, label="published" if y == 0 else None)
        axes.barh(
            y + 0.2, claim.ratio.value, height=0.36, color=BLUE, label="measured, median" if y == 0 else None
        )
        interval(axes, claim.ratio, y + 0.2)
        axes.text(claim.published, y - 0.2, f" {times(claim.published)}", va="center", fontsize=8)
        axes.text(
            max(claim.ratio.high, claim.ratio.value),
            y + 0.2,
            f" {times(claim.ratio.value)}",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(claims)), [f"{KINDS[c.kind]}\nover {_short(c.against)}" for c in claims])
    axes.set_ylim(len(claims) - 0.4, -0.6)
    axes.set_xscale("log")
    most = max(max(c.published, c.ratio.high if c.ratio else 0) for c in claims)
    axes.set_xlim(1, 1.6 * most)
    ticks = [t for t in TICKS if t <= most]
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel("times faster under Hermes' tiers, logarithmic (line: interval)")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _short(against: str) -> str:
    return "no buffering" if against == hpdc18.NONE else "other platforms"


def stacked(run: Run, _rows: Sequence[Row]) -> Figure | None:
    """Where the time of each workload went, on the comparators and under the default policy."""
    shown = [*hpdc18.OTHERS, hpdc18.DEFAULT]
    found = [s for s in hpdc18.samples(run) if s.scaling == "none" and s.buffering in shown]
    workloads = list(dict.fromkeys(s.workload for s in found))
    if not found:
        return None
    columns = min(2, len(workloads))
    lines = -(-len(workloads) // columns)
    figure = blank(0.6 + 1.35 * lines)
    panels = figure.subplots(lines, columns, squeeze=False)
    for axes in panels.flat[len(workloads) :]:
        axes.set_axis_off()
    for axes, workload in zip(panels.flat, workloads, strict=False):
        _times(axes, workload, [s for s in found if s.workload == workload])
    handles = [panels.flat[0].barh([0], [0], color=COLOURS[part], label=part) for part in COLOURS]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(COLOURS), columnspacing=1.0)
    return figure


def _times(axes: Axes, workload: str, here: Sequence[Sample]) -> None:
    ordered = sorted(here, key=lambda s: [*hpdc18.OTHERS, hpdc18.DEFAULT].index(s.buffering))
    widest = max(max(s.values) for s in ordered)
    for y, sample in enumerate(ordered):
        left = 0.0
        for part, colour in COLOURS.items():
            axes.barh(y, sample.seconds[part], left=left, height=0.66, color=colour)
            left += sample.seconds[part]
        told = sample.median
        interval(axes, told, y, width=1.2)
        axes.text(max(left, told.high) + 0.02 * widest, y, f"{told.value:.3g} s", va="center", fontsize=7.5)
    if bound := next((s.bound for s in ordered if s.is_policy), None):
        axes.axvline(bound, color=INK, lw=0.9, ls=":")
    axes.set_yticks(range(len(ordered)), [BUFFERING.get(s.buffering, "Hermes") for s in ordered])
    axes.set_ylim(len(ordered) - 0.5, -0.5)
    axes.set_xlim(0, widest * 1.25)
    axes.set_title(workload, loc="left", fontsize=8.5)
    axes.grid(axis="x")


def scaling(run: Run, _rows: Sequence[Row]) -> Figure | None:
    """The time over ranks: the same bytes in all (strong) or of a rank (weak)."""
    found = [s for s in hpdc18.samples(run) if s.buffering in LINES]
    panels = [
        (kind, workload)
        for kind, workloads in SCALINGS.items()
        for workload in workloads
        if any(s.scaling.startswith(kind) and s.workload == workload for s in found)
    ]
    if not panels:
        return None
    figure = blank(2.6)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (kind, workload) in zip(drawn, panels, strict=True):
        here = [s for s in found if s.workload == workload and s.scaling.split("-")[0] in (kind, "none")]
        _lines(axes, f"{workload}\n{kind} scaling", here)
    drawn[0].set_ylabel("seconds")
    handles, labels = drawn[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(LINES), columnspacing=1.0)
    return figure


def _lines(axes: Axes, title: str, here: Sequence[Sample]) -> None:
    for buffering, colour in LINES.items():
        points = sorted((s for s in here if s.buffering == buffering), key=lambda s: s.ranks)
        if not points:
            continue
        told = [s.median for s in points]
        ends = [[t.value - t.low for t in told], [t.high - t.value for t in told]]
        label, ranks = BUFFERING.get(buffering, "Hermes"), [s.ranks for s in points]
        axes.errorbar(
            ranks, [t.value for t in told], yerr=ends, color=colour, label=label, marker="o", ms=3.5
        )
    ticks = sorted({s.ranks for s in here})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_title(title, loc="left", fontsize=8.5)
    axes.set_xlabel("ranks")
    axes.grid()


def winners(run: Run, _rows: Sequence[Row]) -> Figure | None:
    """Each policy's time over the fastest one's, by workload; a star where it is shown to be slower."""
    import matplotlib as mpl

    ranked = hpdc18.policies(hpdc18.samples(run))
    names = list(dict.fromkeys(r.sample.buffering for line in ranked.values() for r in line))
    if not names:
        return None
    values = np.full((len(ranked), len(names)), np.nan)
    for i, line in enumerate(ranked.values()):
        for r in line:
            values[i, names.index(r.sample.buffering)] = r.ratio.value
    figure = blank(0.75 + 0.33 * len(ranked))
    axes = figure.add_subplot()
    colours = mpl.colormaps["Blues"]
    most = max(2.0, float(np.nanmax(values)))
    axes.imshow(np.log(values) / np.log(most), cmap=colours, vmin=0, vmax=1, aspect="auto")
    for i, line in enumerate(ranked.values()):
        for r in line:
            x = names.index(r.sample.buffering)
            dark = np.log(r.ratio.value) / np.log(most) > DARK
            star = "*" if r.comparison and r.comparison.significant else ""
            axes.text(
                x,
                i,
                f"{times(r.ratio.value)}{star}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "#1e293b",
            )
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_yticks(range(len(ranked)), list(ranked))
    axes.tick_params(length=0)
    return figure
