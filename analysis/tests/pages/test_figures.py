"""Pictures for every reader: colours, words in their place, ink and paper of the page around them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tierbench.judge.stats import Interval
from tierbench.judge.verdict import judge
from tierbench.layout import canvas
from tierbench.pages import figures
from tierbench.runs.run_folder import Run, read_run

# Machado, Oliveira and Fernandes (2009), severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "tritanopia": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, vision: str) -> NDArray[np.float64]:
    """CIE L*a*b* of a colour as a reader with this vision sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(VISIONS[vision] @ linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours: Iterable[str], vision: str) -> float:
    """The least distance between two of them."""
    pairs = itertools.combinations([lab(c, vision) for c in colours], 2)
    return min(float(np.linalg.norm(a - b)) for a, b in pairs)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(
    "colours",
    [
        figures.PROMISE_COLOURS,
        figures.TIER_COLOURS,
        figures.PHASE_COLOURS,
    ],
)
def test_colours_of_a_picture_can_be_told_apart(colours: dict[str, str], vision: str) -> None:
    assert nearest(colours.values(), vision) >= 15


def test_colours_that_look_alike_are_found() -> None:
    assert nearest(["#7c3aed", "#2563eb"], "protanopia") < 15  # violet and blue


@pytest.fixture(scope="module")
def drawn(shared_run: object) -> tuple[Run, Figure]:
    run = read_run(str(shared_run))
    figure = figures.draw(figures.COMPARISON, run, judge(run))
    assert figure is not None
    return run, figure


def test_each_picture_says_which_devices_and_what_it_shows(drawn: tuple[Run, Figure]) -> None:
    run, figure = drawn
    told = figures.alternative(figures.COMPARISON, judge(run))
    made = canvas.svg(figure, "a", told)
    assert ">modelled devices<" in made and 'role="img"' in made.split(">")[0]
    assert "<title>What each configuration reaches, modelled devices." in made


def test_ink_and_paper_are_those_of_the_page(drawn: tuple[Run, Figure]) -> None:
    made = canvas.svg(drawn[1], "a", "x")
    assert f"var(--ink, {canvas.INK})" in made and "var(--paper, #ffffff)" in made
    assert f": {canvas.INK}" not in made and ": #ffffff" not in made


def test_what_was_missed_is_drawn_too(shared_run: object) -> None:
    """On a machine that is too busy the predicted and published values are far to the right of all bars."""
    run = read_run(str(shared_run))
    rows = judge(run)
    slow = [
        dataclasses.replace(r, values=tuple(v / 20 for v in r.values), median=_a_twentieth(r.median))
        for r in rows
    ]
    axes = figures.bars(run, slow).axes[0]  # type: ignore[union-attr]
    right = axes.get_xlim()[1]
    marks = [x for line in axes.lines for x in np.atleast_1d(line.get_xdata())]
    assert max(marks) > max(max(r.values) for r in slow) * 2  # there is something to miss
    assert all(x < right for x in [*marks, *(text.get_position()[0] for text in axes.texts)])


def _a_twentieth(interval: Interval) -> Interval:
    value, low, high = (x / 20 for x in (interval.value, interval.low, interval.high))
    return dataclasses.replace(interval, value=value, low=low, high=high)


def test_an_interval_is_seen_on_a_dark_bar() -> None:
    """In ink on a rim of paper; both are the page's, so that a dark page has them, too."""
    ends = Interval(2.0, 1.0, 3.0, 5, 0.95)
    with canvas.style():
        figure = canvas.blank(1.0)
        axes = figure.add_subplot()
        axes.barh(0, 4, color=canvas.INK)
        canvas.interval(axes, ends, 0)
    drawn = canvas.svg(figure, "x", "x")
    paper, ink = (
        drawn.count(f"stroke: var(--{name}, {c})")
        for c, name in canvas._OF_THE_PAGE.items()
        if name in ("paper", "ink")
    )
    assert min(paper, ink) >= 2
