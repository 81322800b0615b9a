"""The report's figures, each an SVG string or None where the run holds nothing to draw.

`paper` is what they are drawn on.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tierbench.base.sizes import MIB
from tierbench.base.text import seconds
from tierbench.judge.verdict import PHASES, Row
from tierbench.layout.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    QUIET,
    SKY,
    VERMILION,
    blank,
    interval,
    style,
)
from tierbench.pages import components_section, flows, hpdc18_section, stage_section
from tierbench.runs.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 24  # of one figure
PROMISE_COLOURS = {"pfs": GREY, "tier": BLUE, "none": ORANGE}
PROMISE_WORDS = {
    "pfs": "fsync: on the PFS",
    "tier": "fsync: safe in a tier",
    "none": "scratch: fsync promises nothing",
}
TIER_COLOURS = {"ram": ORANGE, "nvme": BLUE, "bb": GREEN}
_OTHER_COLOURS = [PURPLE, SKY, VERMILION]


@dataclass(frozen=True)
class Drawing:
    """A figure of the report: where it is shown, how it is drawn and what to see in it."""

    title: str
    draw: Callable[[Run, Sequence[Row]], Figure | None]
    caption: str


def draw(drawing: Drawing, run: Run, rows: Sequence[Row]) -> Figure | None:
    """The drawing's figure in the report's style."""
    with style():
        figure = drawing.draw(run, rows)
        if figure is not None:
            figure.text(0.003, 0.004, devices_words(rows), color=QUIET, fontsize=7.5, va="bottom")
        return figure


def devices_words(rows: Sequence[Row]) -> str:
    """Whether what is drawn was measured on device models; in every picture."""
    modelled = sum(bool(r.key["modelled"]) for r in rows)
    return {0: "real devices", len(rows): "modelled devices"}.get(modelled, "modelled and real devices")


def alternative(drawing: Drawing, rows: Sequence[Row]) -> str:
    """The drawing in words."""
    told = f"{drawing.title}, {devices_words(rows)}. {drawing.caption} "
    return f"{told}The numbers are in the tables of report.html and in report.json."


def bars(_run: Run, rows: Sequence[Row]) -> Figure | None:
    """Every row's median with interval and single repetitions, grouped by what an fsync promises."""
    rows = [r for r in rows if (r.key["metric"], r.key["unit"]) == ("bandwidth", "MiB/s")]
    if not rows:
        return None
    figure = blank(0.31 * len(rows) + 1.25)
    axes = figure.add_subplot()
    positions = _grouped_positions([r.key["fsync"] for r in rows])
    widest = max(_furthest(r) for r in rows)
    for y, row in zip(positions, rows, strict=True):
        _bar(axes, y, row, widest)
    for promise, colour in PROMISE_COLOURS.items():
        if any(r.key["fsync"] == promise for r in rows):
            axes.barh([0], [0], color=colour, label=PROMISE_WORDS[promise])
    if any(r.published for r in rows):
        axes.plot([], [], "D", mfc="white", mec=INK, ms=4.5, label="published")
    if any(r.prediction for r in rows):
        axes.plot([], [], "|", color=INK, ms=11, mew=1.6, label="predicted")
    axes.set_yticks(positions, [r.label for r in rows])
    axes.set_ylim(positions[-1] + 0.7, -0.7)
    axes.set_xlim(0, widest * 1.24)
    axes.set_xlabel("MiB/s (bar: median, line: its interval, dots: repetitions)")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handlelength=1.2)
    return figure


def _grouped_positions(groups: Sequence[str]) -> list[float]:
    """One apart, with a gap where the group changes."""
    positions, y = [], 0.0
    for i, group in enumerate(groups):
        y += 0.0 if i == 0 else 1.0 if group == groups[i - 1] else 1.45
        positions.append(y)
    return positions


def _bar(axes: Axes, y: float, row: Row, widest: float) -> None:
    colour = PROMISE_COLOURS[row.key["fsync"]]
    axes.barh(y, row.median.value, height=0.66, color=colour, alpha=0.85)
    interval(axes, row.median, y)
    axes.plot(row.values, [y] * len(row.values), "o", color="white", mec=colour, mew=0.8, ms=3, zorder=3)
    if row.prediction:
        axes.plot(row.prediction.bandwidth_mib_s, y, "|", color=INK, ms=13, mew=1.6, zorder=4)
    if published := _published(row):
        axes.plot(published, y, "D", mfc="white", mec=INK, ms=4.5, zorder=5)
    times = f" ({row.ratio.value:.3g}x)" if row.ratio else ""
    axes.text(_furthest(row) + 0.025 * widest, y, f"{row.median.value:,.0f}{times}", va="center", fontsize=8)


def _published(row: Row) -> float | None:
    """The published number that is drawn: what was published had no tier's promise."""
    return row.published if row.key["mode"] in ("bypass", "scratch") else None


def _furthest(row: Row) -> float:
    """The right end of what is drawn of a row, measured or not."""
    predicted = row.prediction.bandwidth_mib_s if row.prediction else 0
    return max(*row.values, row.median.high, _published(row) or 0, predicted)


def three_ways(_run: Run, rows: Sequence[Row]) -> Figure | None:
    """Published, predicted and measured side by side for the rows that were published."""
    rows = [r for r in rows if r.published is not None and r.key["fsync"] != "tier" and r.prediction]
    if not rows:
        return None
    figure = blank(0.44 * len(rows) + 0.95)
    axes = figure.add_subplot()
    kinds = [
        ("published", GREY, [r.published or 0 for r in rows]),
        ("predicted", SKY, [r.prediction.bandwidth_mib_s if r.prediction else 0 for r in rows]),
        ("measured", BLUE, [r.median.value for r in rows]),
    ]
    for i, (name, colour, values) in enumerate(kinds):
        at = [y + 0.27 * (i - 1) for y in range(len(rows))]
        axes.barh(at, values, height=0.25, color=colour, label=name)
        for y, value in zip(at, values, strict=True):
            axes.annotate(
                f"{value:,.0f}", (value, y), (3, 0), textcoords="offset points", va="center", fontsize=7
            )
    axes.set_yticks(range(len(rows)), [r.label for r in rows])
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(0, max(max(values) for _, _, values in kinds) * 1.1)
    axes.set_xlabel("write bandwidth, MiB/s")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def durability(_run: Run, rows: Sequence[Row]) -> Figure | None:
    """When the program was done, and when its bytes were on the PFS."""
    rows = [r for r in rows if r.close_s is not None and not stage_section.is_staged(r)]
    if not rows:
        return None
    figure = blank(0.29 * len(rows) + 1.0)
    axes = figure.add_subplot()
    positions = _grouped_positions([r.key["fsync"] for r in rows])
    longest = max(max(r.close_s or 0, r.durable_s or 0) for r in rows)
    for y, row in zip(positions, rows, strict=True):
        close_s, durable_s = row.close_s or 0, row.durable_s
        if durable_s is not None and durable_s > close_s:
            axes.barh(y, durable_s - close_s, left=close_s, height=0.62, color="#cbd5e1")
        axes.barh(y, close_s, height=0.62, color=PROMISE_COLOURS[row.key["fsync"]], alpha=0.9)
        axes.text(
            max(close_s, durable_s or 0) + 0.012 * longest, y, _durability_words(row), va="center", fontsize=8
        )
    axes.barh([0], [0], color=PROMISE_COLOURS["tier"], label="until closed")
    axes.barh([0], [0], color="#cbd5e1", label="then until durable on the PFS")
    axes.set_yticks(positions, [r.label for r in rows])
    axes.set_ylim(positions[-1] + 0.7, -0.7)
    axes.set_xlim(0, longest * 1.3)
    axes.set_xlabel("seconds from the first open (medians; colours as in the first figure)")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


PHASE_COLOURS = {"open": VERMILION, "transfer": BLUE, "close": GREEN, "flush": "#cbd5e1"}
_PHASE_WORDS = {"close": "close (with its sync)", "flush": "flush to the PFS, after the program's end"}


def phases(_run: Run, rows: Sequence[Row]) -> Figure | None:
    """Open, transfer, close and flush of every row, one after the other."""
    rows = [r for r in rows if r.phases["transfer"] is not None]
    if not rows:
        return None
    figure = blank(0.29 * len(rows) + 1.0)
    axes = figure.add_subplot()
    positions = _grouped_positions([r.key["fsync"] for r in rows])
    left = [0.0] * len(rows)
    for name, colour in PHASE_COLOURS.items():
        lasted = [r.phases[name] or 0.0 for r in rows]
        axes.barh(positions, lasted, left=left, height=0.62, color=colour, label=_PHASE_WORDS.get(name, name))
        left = [a + b for a, b in zip(left, lasted, strict=True)]
    for y, end, row in zip(positions, left, rows, strict=True):
        lasted = [p for name in PHASES if (p := row.phases[name]) is not None]
        told = " + ".join("<0.001" if 0 < p < 0.001 else seconds(p) for p in lasted)
        axes.text(end + 0.012 * max(left), y, told, va="center", fontsize=7.5)
    axes.set_yticks(positions, [r.label for r in rows])
    axes.set_ylim(positions[-1] + 0.7, -0.7)
    axes.set_xlim(0, max(left) * 1.55)
    axes.set_xlabel("seconds, medians (ranks overlap: may exceed the run)")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=4, columnspacing=1.0)
    return figure


def _durability_words(row: Row) -> str:
    if row.key["mode"] == "scratch":
        return f"{row.close_s:.2f} s, never on the PFS"
    if row.durable_s is not None and row.close_s is not None and row.durable_s > 1.005 * row.close_s:
        return f"{row.close_s:.2f} s, durable {row.durable_s:.2f} s"
    return f"{row.close_s:.2f} s"


def occupancy(run: Run, rows: Sequence[Row]) -> Figure | None:
    """What the tiers held over time, one panel a buffered row, its repetition nearest the median."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    panels = _launches(run, rows)
    if not panels:
        return None
    lines = (len(panels) + 1) // 2
    figure = blank(1.35 * lines + 0.55)
    grid = figure.subplots(lines, 2, squeeze=False)
    names: dict[str, str] = {}
    for axes, (label, samples) in zip(grid.flat, panels, strict=False):
        _panel(axes, label, samples, names)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("MiB")
    handles: list[Any] = [Patch(color=colour, alpha=0.75, label=name) for name, colour in names.items()]
    handles.append(Line2D([], [], color=INK, lw=1.2, ls="--", label="not yet on the PFS"))
    figure.legend(handles=handles, loc="outside upper left", ncols=5)
    figure.supxlabel("seconds from the start of the instance", fontsize=8.5, color=QUIET)
    return figure


def _launches(run: Run, rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """Name and samples of every launch on tiers, each row's of its repetition nearest the median."""
    found: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for row in rows:
        for launch, stats in run.stats.get(row.nearest, {}).items():
            samples = stats.get("samples") or {}
            seconds, used = samples.get("seconds", []), samples.get("used", {})
            empty = not any(map(any, used.values()))  # the PFS alone
            if len(seconds) > 1 and not empty and all(len(v) == len(seconds) for v in used.values()):
                promise = {"tier": "fsync: tier", "pfs": "fsync: pfs", "none": "scratch"}[row.key["fsync"]]
                label = f"{row.label}{launch and f', launch {launch}'} ({promise})"
                if all(samples != known for _, known in found.values()):  # of a recipe's other case
                    found[row.nearest, launch] = (label, samples)
    return list(found.values())[:MOST_PANELS]


def moved(run: Run, rows: Sequence[Row]) -> Figure | None:
    """What moved between program, tiers and PFS over time, a panel a launch."""
    panels = [(label, f) for label, samples in _launches(run, rows) if (f := flows.read(samples))]
    return flows.draw(panels) if panels else None


def _panel(axes: Axes, label: str, samples: dict[str, Any], names: dict[str, str]) -> None:
    seconds, used, dirty = samples["seconds"], samples["used"], samples.get("dirty", {})
    for name in used:
        free = [c for c in _OTHER_COLOURS if c not in names.values()] or [QUIET]
        names.setdefault(name, TIER_COLOURS.get(name, free[0]))
    bottom = list(reversed(used))
    areas = [[b / MIB for b in used[n]] for n in bottom]
    axes.stackplot(seconds, *areas, colors=[names[n] for n in bottom], alpha=0.75, lw=0)
    if dirty and all(len(v) == len(seconds) for v in dirty.values()):
        unsaved = [sum(at) / MIB for at in zip(*dirty.values(), strict=True)]
        axes.plot(seconds, unsaved, "--", color=INK, lw=1.2)
    axes.set_title(textwrap.fill(label, 46), fontsize=8, loc="left", color=INK)
    axes.set_xlim(min(seconds), max(seconds))
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=7)
    axes.grid(axis="y")


COMPARISON = Drawing(
    "What each configuration reaches",
    bars,
    "Bars are medians over the repetitions; after a bar come the median in MiB/s and its ratio to the PFS "
    "with a sync after each write (-Y), where that was measured.",
)
DRAWINGS = (
    COMPARISON,
    Drawing(
        "Summit's three ways of a file",
        stage_section.times,
        "A stage-out moves the files of a time step while the next one is computed; a copy is waited for.",
    ),
    Drawing(
        "Components",
        components_section.bars,
        "The same loop on each system. Beside a server, the engine's calls end without another process.",
    ),
    Drawing(
        "HPDC'18: published and measured ratios",
        hpdc18_section.ratios,
        "How many times faster Hermes' tiers were in the evaluation, and how many times they are here.",
    ),
    Drawing(
        "HPDC'18: where the time of each workload goes",
        hpdc18_section.stacked,
        "Seconds without compute; line: interval of the whole, dotted: the least that is possible.",
    ),
    Drawing(
        "HPDC'18: scaling",
        hpdc18_section.scaling,
        "Seconds over ranks on one node; strong: the same bytes in all, weak: the same bytes of a rank.",
    ),
    Drawing(
        "HPDC'18: which policy wins where",
        hpdc18_section.winners,
        "Each policy's time over the fastest one's of the workload; a star: shown to be slower.",
    ),
    Drawing(
        "Published, predicted, measured",
        three_ways,
        "The models of PFS, BB and NVMe are calibrated on the published rows; with RAM they predict.",
    ),
    Drawing(
        "Open, transfer, close, flush",
        phases,
        "What the driver and tierctl timed. An fsync after each write (-Y) counts as transfer.",
    ),
    Drawing(
        "Closed is not durable",
        durability,
        "A buffered program is done when its files are closed; its bytes reach the PFS with the drain.",
    ),
    Drawing(
        "Tier occupancy over time",
        occupancy,
        "Bytes in each tier, stacked, in the repetition nearest the median; dashed: not yet on the PFS.",
    ),
    Drawing(
        "Flows between the tiers over time",
        moved,
        "What went where, in the same repetitions; at the right each flow's bytes. Tiers → PFS is the flush.",
    ),
)
