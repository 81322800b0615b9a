"""The section of a report on the engine's components: a table, the memory for a million files, bars.

It is there where a run holds measurements of components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierbench.judge import components
from tierbench.judge.components import Beside, Measured, Memory
from tierbench.judge.verdict import Row
from tierbench.layout.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION, blank, interval
from tierbench.runs.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "memory": "Buffers of 4 to 128 KiB, taken and given back",
    "streams": "fwrite of 64 bytes to 16 KiB",
    "metadata": "Records of files",
    "messages": "Messages of clients to the daemon",
}
COLOURS = {
    "engine": BLUE,
    "glibc": GREY,
    "jemalloc": SKY,
    "mimalloc": PURPLE,
    "files": INK,
    "redis": VERMILION,
    "memcached": ORANGE,
    "nats": GREEN,
}
BAR = 0.8  # of the room of a group


@dataclass(frozen=True)
class Section:
    """What the page shows."""

    beside: list[Beside]
    memory: list[Memory]
    latencies: list[Measured]
    operations: int
    parts: int

    @property
    def missed(self) -> list[Beside]:
        """Where a networked system is not five times slower."""
        return [b for b in self.beside if b.reached is False]

    @property
    def asked(self) -> int:
        """How many comparisons five times is asked of."""
        return sum(b.is_asked for b in self.beside)


def of_run(run: Run) -> Section | None:
    """None: the run measured no component."""
    measured = components.of_run(run)
    if not measured:
        return None
    return Section(
        beside=components.beside(measured),
        memory=components.memory(measured),
        latencies=[m for m in measured if m.latency_us and m.depth == 1],
        operations=max(m.operations for m in measured),
        parts=max(len(m.rates) for m in measured),
    )


def words(point: Measured) -> str:
    """What was measured, in words."""
    requests = f"{point.depth} requests at once" if point.depth > 1 else "one request at a time"
    asked = f", {requests}" if point.component in ("metadata", "messages") else ""
    return f"{point.operation}, {point.processes} process{'es' if point.processes > 1 else ''}{asked}"


def bars(run: Run, _rows: Sequence[Row]) -> Figure | None:
    """Operations a second of each system, a panel a component."""
    measured = components.of_run(run)
    if not measured:
        return None
    kinds = [c for c in TITLES if any(m.component == c for m in measured)]
    groups = {c: list(dict.fromkeys(words(m) for m in measured if m.component == c)) for c in kinds}
    figure = blank(0.62 + sum(0.42 + 0.46 * len(g) for g in groups.values()))
    heights = [len(groups[c]) + 0.5 for c in kinds]
    panels = figure.subplots(len(kinds), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, kind in zip(panels, kinds, strict=True):
        _panel(axes, TITLES[kind], groups[kind], [m for m in measured if m.component == kind])
    panels[-1].set_xlabel("operations a second, logarithmic (bar: median, line: its interval)")
    systems = [s for s in COLOURS if any(m.system == s for m in measured)]
    handles = [panels[0].barh([0], [0], color=COLOURS[s], label=s) for s in systems]
    figure.legend(
        handles=handles, loc="outside upper left", ncols=len(systems), columnspacing=1.0, handlelength=1.0
    )
    return figure


def _panel(axes: Axes, title: str, groups: list[str], measured: list[Measured]) -> None:
    from matplotlib.ticker import NullLocator

    for y, group in enumerate(groups):
        inside = sorted(
            (m for m in measured if words(m) == group), key=lambda m: list(COLOURS).index(m.system)
        )
        height = BAR / len(inside)
        for i, m in enumerate(inside):
            at, median = y - BAR / 2 + (i + 0.5) * height, m.median
            axes.barh(at, median.value, height=0.9 * height, color=COLOURS[m.system])
            interval(axes, median, at, width=1)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(range(len(groups)), groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_title(title, loc="left", fontsize=9)
    axes.grid(axis="x")
