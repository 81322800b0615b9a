"""What every figure is drawn on: size, style, and the figure as SVG or PNG.

Figures are made for a column of about 640 px, without pyplot and its global state. Text stays text: it is
drawn with the reader's own fonts and can be searched. matplotlib takes a second to load, so here and in what
draws it is loaded by the first figure and not by the command's start.
"""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from tierbench.base.text import Ends
from tierbench.layout import narrow

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

WIDTH_IN = 6.7
INK, QUIET, GRID = "#1f2937", "#6b7280", "#e5e7eb"
_OF_THE_PAGE = {INK: "ink", QUIET: "quiet", GRID: "line", "#ffffff": "paper"}
# Okabe and Ito (2008): told apart with any kind of colour vision.
ORANGE, SKY, GREEN, BLUE = "#e69f00", "#56b4e9", "#009e73", "#0072b2"
VERMILION, PURPLE, GREY = "#d55e00", "#cc79a7", "#9ca3af"
STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": INK,
    "ytick.left": False,
    "grid.color": GRID,
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def style(**more: str) -> AbstractContextManager[None]:
    """Figures look like ours while it lasts."""
    import matplotlib as mpl

    wanted: Any = {**STYLE, **more}
    return mpl.rc_context(wanted)


def svg(figure: Figure, salt: str, alternative: str) -> str:
    """The figure as an <svg> element; `salt` keeps the ids of several figures on one page apart.

    `alternative` is the text for a reader that cannot see the picture. Ink and paper are those of the page
    around it (report.css), so that it has a dark mode; alone they are dark on white.
    """
    buffer = io.StringIO()
    with style(**{"svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Title": alternative})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace("<svg ", '<svg role="img" ', 1)
    for colour, name in _OF_THE_PAGE.items():
        text = text.replace(f": {colour}", f": var(--{name}, {colour})")
    return text


def both(figure: Figure, salt: str, alternative: str) -> str:
    """The figure twice: as it is, and for a telephone; report.css shows the one that fits the window."""
    wide = svg(figure, salt, alternative)
    with style():
        narrow.make(figure)
    small = svg(figure, f"{salt}-narrow", alternative).replace("<svg ", '<svg class="narrow" ', 1)
    return wide + small


def png(figure: Figure) -> bytes:
    """The figure as a PNG for pages that take no SVG."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=160, facecolor="white")
    return buffer.getvalue()


def blank(height_in: float) -> Figure:
    """An empty figure as wide as the page's column."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def interval(axes: Axes, ends: Ends, at: float, width: float = 1.4) -> None:
    """A line with its ends marked, in ink on a rim of paper, so that it is seen on a bar of any colour.

    A single value has none.
    """
    from matplotlib.patheffects import withStroke

    if ends.low == ends.high:
        return
    rim = [withStroke(linewidth=width + 2.2, foreground="#ffffff")]
    for shape, size in (("-", 0.0), ("|", 6.0)):
        axes.plot(
            [ends.low, ends.high],
            [at, at],
            shape,
            color=INK,
            lw=width,
            ms=size,
            mew=width,
            solid_capstyle="butt",
            path_effects=rim,
        )


def heat(axes: Axes, values: NDArray[np.float64], extent: tuple[float, float, float, float]) -> AxesImage:
    """Lines of `values` as strips, the first on top, the darker the more; blank where there is nothing.

    Neither end of the colours is near white or near black, so that all are seen on a light and a dark page.
    """
    import matplotlib as mpl
    import numpy as np
    from matplotlib.colors import ListedColormap

    shades = mpl.colormaps["magma_r"](np.linspace(0.12, 0.65, 256))
    colours = ListedColormap(shades).with_extremes(under=(0, 0, 0, 0))
    most = max(float(values.max()), 2e-6)
    image = axes.imshow(
        values, aspect="auto", cmap=colours, interpolation="nearest", vmin=1e-6, vmax=most, extent=extent
    )
    image.set_clip_on(False)  # it fits; the id of a clip path hangs on the last digit of the layout
    return image
