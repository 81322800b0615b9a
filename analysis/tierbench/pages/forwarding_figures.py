"""Figures of I/O forwarding: what patterns gain, how many choices there are, what a pool is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tierbench.forwarding import queue
from tierbench.forwarding.choices import Choice
from tierbench.forwarding.measurements import Scenario
from tierbench.forwarding.study import PUBLISHED_COUNTS, Study, about_words
from tierbench.layout.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, QUIET, blank, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POLICY_COLOURS = dict(zip(queue.NAMES, (BLUE, ORANGE, GREEN, PURPLE, GREY), strict=True))

NARROW = 0.06  # of a bar: a part that has no room for its numbers; they are written beside the bar


def patterns(study: Study) -> Figure:
    """Heat map: a pattern a line, a number of I/O nodes a column; the cell is its ratio to no forwarding."""
    lines, numbers = study.patterns, study.numbers
    base = [c.medians.get(0) or c.medians[min(c.medians)] for c in lines]
    values = [[c.medians.get(k, np.nan) / b for k in numbers] for c, b in zip(lines, base, strict=True)]
    ratios = np.array(values, dtype=np.float64)
    with style():
        figure = blank(0.2 * len(lines) + 1.0)
        axes = figure.add_subplot()
        most = max(abs(float(np.nanmax(np.log2(ratios)))), abs(float(np.nanmin(np.log2(ratios)))), 1)
        axes.imshow(np.log2(ratios), aspect="auto", cmap="PuOr_r", vmin=-most, vmax=most)
        for (y, x), ratio in np.ndenumerate(ratios):
            _cell(axes, x, y, float(ratio), lines[y], numbers[x], most)
        axes.set_xticks(range(len(numbers)), [str(k) for k in numbers])
        axes.set_yticks(range(len(lines)), [about_words(c) for c in lines])
        for y, c in enumerate(lines):
            axes.annotate(
                c.recommendation, (1, y), (6, 0), ("axes fraction", "data"), "offset points", va="center"
            )
        axes.set_xlabel("I/O nodes (cell: bandwidth over that with the fewest; frame: recommended)")
        axes.tick_params(length=0)
    return figure


def _cell(axes: Axes, x: int, y: int, ratio: float, choice: Choice, io_nodes: int, most: float) -> None:
    from matplotlib.patches import Rectangle

    if not np.isfinite(ratio):
        return
    dark = abs(np.log2(ratio)) > 0.62 * most
    axes.text(
        x, y, f"{ratio:.2g}", ha="center", va="center", fontsize=7.5, color="#fefefe" if dark else "#111827"
    )
    if choice.recommendation in (f"use {io_nodes}", "don't forward" if io_nodes == 0 else ""):
        frame = Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, fill=False, ec="#111827", lw=1.4)
        axes.add_patch(frame)


def counts(study: Study) -> Figure:
    """How many scenarios have 1, 2, ... distinct choices, by each rule, and as the slides have it."""
    import matplotlib as mpl

    rules = {"as published": PUBLISHED_COUNTS[study.measured.name]} if _is_told(study) else {}
    rules |= study.counts
    numbers = sorted({n for found in rules.values() for n in found})
    with style():
        figure = blank(0.42 * len(rules) + 0.9)
        axes = figure.add_subplot()
        shades = mpl.colormaps["cividis_r"](np.linspace(0.1, 0.9, max(len(numbers), 2)))
        for y, (_, found) in enumerate(rules.items()):
            left, beside = 0, []
            for n, shade in zip(numbers, shades, strict=False):
                width = found.get(n, 0)
                axes.barh(y, width, left=left, height=0.66, color=shade)
                if 0 < width < NARROW * len(study.scenarios):
                    beside.append(f"{n}: {width}")
                elif width:
                    light = float(np.dot(shade[:3], (0.3, 0.6, 0.1))) > 0.5
                    ink = "#111827" if light else "#fefefe"
                    axes.text(left + width / 2, y, f"{n}: {width}", ha="center", va="center", color=ink)
                left += width
            axes.annotate(
                ", ".join(beside), (left, y), (4, 0), textcoords="offset points", va="center", color="#111827"
            )
        axes.set_xlim(0, 1.08 * len(study.scenarios))
        axes.set_yticks(range(len(rules)), list(rules))
        axes.set_ylim(len(rules) - 0.5, -0.5)
        axes.set_xlabel(f"scenarios of {len(study.scenarios)} (in a bar: distinct choices: scenarios)")
    return figure


def _is_told(study: Study) -> bool:
    return study.measured.published and study.measured.name in PUBLISHED_COUNTS


def bandwidths(study: Study) -> Figure:
    """Every scenario's medians over the numbers of I/O nodes: a panel a layout and spatiality."""
    import matplotlib as mpl

    kinds = sorted({(c.about[2], c.about[3]) for c in study.scenarios if isinstance(c.about, Scenario)})
    with style():
        figure = blank(2.6)
        panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        sizes = sorted({c.about[4] for c in study.scenarios if isinstance(c.about, Scenario)})
        colours = mpl.colormaps["viridis"](np.linspace(0, 0.92, len(sizes)))
        for axes, kind in zip(panels, kinds, strict=True):
            for c in study.scenarios:
                if isinstance(c.about, Scenario) and (c.about[2], c.about[3]) == kind:
                    at = [study.numbers.index(k) for k in c.medians]
                    colour = colours[sizes.index(c.about.request_kib)]
                    axes.plot(at, list(c.medians.values()), "-o", ms=2, lw=0.7, alpha=0.7, color=colour)
            title = kind[0] if kind[0] == "file-per-process" else f"shared, {kind[1]}"
            axes.set_title(title, fontsize=8.5, color=INK)
            axes.set_xticks(range(len(study.numbers)), [str(k) for k in study.numbers])
            axes.set_yscale("log")
            axes.grid(axis="y")
        panels[0].set_ylabel("MiB/s, median")
        figure.supxlabel("I/O nodes (a line: a scenario; dark: small requests)", fontsize=8.5, color=QUIET)
    return figure


def queues(study: Study) -> Figure:
    """Mean slowdown of a simulated queue under each policy, by the size of the pool."""
    pools = list(study.queues)
    with style():
        figure = blank(2.5)
        axes = figure.add_subplot()
        for i, name in enumerate(queue.NAMES):
            values = [study.queues[pool][i].mean_slowdown for pool in pools]
            axes.plot(range(len(pools)), values, "-o", ms=4, lw=1.4, color=POLICY_COLOURS[name], label=name)
        axes.set_xticks(range(len(pools)), [str(p) for p in pools])
        axes.set_yscale("log")
        axes.set_ylabel("mean slowdown")
        axes.set_xlabel("I/O nodes in the pool (modelled: a simulated queue)")
        axes.grid(axis="y")
        figure.legend(loc="outside upper left", ncols=len(queue.NAMES), columnspacing=1.2, handlelength=1.4)
    return figure
