"""A figure made again for a window of a telephone's width: as large letters on less paper.

The drawing itself is not asked again: panels side by side go below each other, long words get a second line,
legends get fewer columns. What is below a panel in its own right (a heat map's margins) stays where it is.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 3.75  # a column of 360 px
_LABEL, _AXIS, _TITLE = 18, 36, 44  # letters in a line


def make(figure: Figure) -> None:
    """Change the figure to the narrow one."""
    _, height = figure.get_size_inches()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    height *= _below_each_other(figure, panels)
    for axes in panels:
        _fold(axes)
    for legend in figure.legends:
        columns = min(2, legend._ncols)  # type: ignore[attr-defined]
        height += 0.17 * (-(-len(legend.get_texts()) // columns) - 1)
        legend.set_ncols(columns)
    figure.set_size_inches(WIDTH_IN, height + 0.15)


def _below_each_other(figure: Figure, panels: list[Axes]) -> float:
    """One column of panels of a plain grid; how many times as high the figure must be then."""
    placed = [(axes, spec) for axes in panels if (spec := axes.get_subplotspec())]
    columns = {spec.get_gridspec().ncols for _, spec in placed}
    if len(placed) != len(panels) or columns <= {1} or len(columns) != 1:
        return 1
    grid = placed[0][1].get_gridspec()
    ratios: list[float] | None = grid.get_width_ratios()  # type: ignore[assignment]
    if any(ratio != 1 for ratio in ratios or ()):
        return 1
    column = figure.add_gridspec(len(placed), 1)
    for i, (axes, _) in enumerate(placed):
        axes.set_subplotspec(column[i])
    return len(placed) / grid.nrows


def _fold(axes: Axes) -> None:
    """Long words of an axis in two lines."""
    axes.set_xlabel(textwrap.fill(axes.get_xlabel(), _AXIS))
    title = axes._left_title  # type: ignore[attr-defined]
    title.set_text(textwrap.fill(title.get_text(), _TITLE))
    labels = [label.get_text() for label in axes.get_yticklabels()]
    if any(len(line) > _LABEL for text in labels for line in text.splitlines()):
        axes.set_yticks(axes.get_yticks(), [_two_lines(text) for text in labels])


def _two_lines(text: str) -> str:
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, _LABEL)]
    return "\n".join(lines[:2]) + ("…" if len(lines) > 2 else "")
