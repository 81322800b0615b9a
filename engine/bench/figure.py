"""Draw a result of bench.py: each path against its budget, and where a transfer's time goes.

    figure.py RESULT.json OUT.svg

A row's dot is the median of its ratios and its line their range; the tick is the budget, on the side of
which the arrow says it must be.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

COLOURS = {True: "#2b7a4b", False: "#b3261e", None: "#5f6b7a"}
STEPS = ["copy", "medium", "look-up", "layer"]
STEP_COLOURS = ["#26547c", "#4f86b0", "#8fb8d6", "#c9deec"]
STEP_NAMES = ["the copy itself", "reaching the medium", "look-up and lock", "descriptor, offset, size"]


def draw_rows(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """One line for each path: ratio to its yardstick, on a logarithmic axis."""
    shown = [row for row in rows if row["ratio"] is not None][::-1]
    for y, row in enumerate(shown):
        colour = COLOURS[row["within_budget"]]
        axes.plot([row["low"], row["high"]], [y, y], color=colour, lw=2, alpha=0.45, solid_capstyle="round")
        axes.plot(row["ratio"], y, "o", color=colour, ms=6)
        if row["budget"] is not None:
            mark = "<" if row["direction"] == "at most" else ">"
            axes.plot(row["budget"], y, marker="|", color="black", ms=13, mew=1.5)
            axes.plot(row["budget"] * (0.965 if mark == "<" else 1.036), y, mark, color="black", ms=4)
    axes.set_yticks(range(len(shown)), [row["path"] for row in shown], fontsize=8)
    axes.set_xscale("log")
    ticks = [0.2, 0.4, 0.6, 0.8, 1, 1.5, 2]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    axes.set_xlabel("ratio to the yardstick of the same run (median, range; | budget)")
    axes.set_title("green: within its budget, red: over, grey: no budget", fontsize=9, loc="left")


def added(layers: list[dict[str, Any]], operation: str) -> list[float]:
    """Nanoseconds that each step adds to the one inside it; noise below zero counts as nothing."""
    inside = 0.0
    out = []
    for step in STEPS:
        found = [
            x["ns"] for x in layers if (x["layer"], x["operation"], x["bytes"]) == (step, operation, 4096)
        ]
        ns = max(float(found[0]), inside)
        out.append(ns - inside)
        inside = ns
    return out


def draw_layers(axes: Axes, layers: list[dict[str, Any]]) -> None:
    """Stack what each layer adds, for reads and writes of 4 KiB."""
    for x, operation in enumerate(("read", "write")):
        bottom = 0.0
        for ns, colour, name in zip(added(layers, operation), STEP_COLOURS, STEP_NAMES, strict=True):
            axes.bar(x, ns, 0.6, bottom=bottom, color=colour, label=name if x == 0 else None)
            if ns >= 15:
                light = colour in STEP_COLOURS[:2]
                axes.text(
                    x,
                    bottom + ns / 2,
                    f"{ns:.0f}",
                    ha="center",
                    va="center",
                    color="white" if light else "black",
                )
            bottom += ns
    axes.set_xticks([0, 1], ["read", "write"])
    axes.set_ylabel("ns for 4 KiB at random, RAM tier, in-process")
    axes.spines[["top", "right"]].set_visible(False)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], names[::-1], fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.06)
    )


def main() -> int:
    """Read the result, draw it."""
    parser = argparse.ArgumentParser(description="Draw a result of make bench.")
    parser.add_argument("result", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    try:
        result = json.loads(args.result.read_text())
        rows, layers = result["rows"], result["layers"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"figure.py: {args.result}: not a result of bench.py: {error}", file=sys.stderr)
        return 2
    plt.switch_backend("svg")
    plt.rcParams["svg.hashsalt"] = "tierbench"  # the same result draws the same file
    height = 1.6 + 0.24 * len(rows)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, height), width_ratios=[3, 1], layout="constrained"
    )
    draw_rows(left, rows)
    if layers:
        draw_layers(right, layers)
    else:
        right.set_visible(False)
    figure.savefig(args.out, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
