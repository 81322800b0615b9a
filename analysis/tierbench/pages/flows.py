"""What moved between the program, the tiers and the PFS over time, from the engine's samples (`stats.json`).

A sample holds counters since the start of the instance: what programs wrote into each tier and read from it,
what went from tier to tier, what was flushed from each, what went past the tiers and what reads brought in. A
flow is one of them, shared out over bins of equal length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tierbench.base.sizes import MIB
from tierbench.base.text import size
from tierbench.layout import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 120
PROGRAM, PFS = "program", "PFS"


@dataclass(frozen=True)
class Flow:
    """Bytes that went from one place to another, in each bin."""

    source: str
    target: str
    moved: NDArray[np.float64]


@dataclass(frozen=True)
class Flows:
    """All flows of a launch; `edges_s` are the bins' ends, from the start of the instance."""

    edges_s: NDArray[np.float64]
    flows: tuple[Flow, ...]

    @property
    def peak_mib_s(self) -> float:
        """The highest rate of any flow in any bin."""
        return max(float(f.moved.max()) for f in self.flows) / float(self.edges_s[1] - self.edges_s[0]) / MIB


def read(samples: Mapping[str, Any]) -> Flows | None:
    """The flows of `samples`; None where they hold none, or are of an engine that did not count them."""
    seconds = np.asarray(samples.get("seconds", []), dtype=float)
    if len(seconds) < 2 or "bytes_in" not in samples or seconds[-1] <= seconds[0]:
        return None
    edges = np.linspace(seconds[0], seconds[-1], BINS + 1)
    found = []
    for source, target, counted in _counters(samples):
        total = np.asarray(counted, dtype=float)
        if len(total) == len(seconds) and total[-1] > total[0]:
            moved = np.diff(np.interp(edges, seconds, np.maximum.accumulate(total)))
            found.append(Flow(source, target, moved))
    return Flows(edges, tuple(found)) if found else None


def _counters(samples: Mapping[str, Any]) -> Iterable[tuple[str, str, Sequence[float]]]:
    """Downwards first, then what comes back up."""
    yield from ((PROGRAM, tier, counted) for tier, counted in samples["bytes_in"].items())
    yield PROGRAM, PFS, samples.get("spilled", [])
    for tier, targets in samples.get("moved", {}).items():
        yield from ((tier, target, counted) for target, counted in targets.items())
    yield _flush(samples)
    staged, fetched = samples.get("staged", []), samples.get("pfs_bytes_read", [])
    yield PFS, "tiers", staged
    yield PFS, PROGRAM, [max(0, f - s) for f, s in zip(fetched, staged, strict=False)]
    yield from ((tier, PROGRAM, counted) for tier, counted in samples.get("bytes_out", {}).items())


def _flush(samples: Mapping[str, Any]) -> tuple[str, str, Sequence[float]]:
    """When the PFS got it; `flushed` says from which tiers, but counts a whole file's bytes at once."""
    tiers = [tier for tier, counted in samples.get("flushed", {}).items() if counted[-1]]
    written, spilled = samples.get("pfs_bytes_written", []), samples.get("spilled", [])
    return ", ".join(tiers), PFS, [max(0, w - s) for w, s in zip(written, spilled, strict=False)]


def draw(panels: Sequence[tuple[str, Flows]]) -> Figure:
    """A strip a flow, darker where more moved; the panel's title says its highest rate."""
    lanes = [len(flows.flows) for _, flows in panels]
    figure = canvas.blank(0.55 + sum(0.17 * n + 0.5 for n in lanes))
    grid = figure.subplots(
        len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": [n + 1 for n in lanes]}
    )
    for axes, (label, flows) in zip(grid[:, 0], panels, strict=True):
        _panel(axes, label, flows)
    grid[-1, 0].set_xlabel("seconds from the start of the instance")
    return figure


def _panel(axes: Axes, label: str, flows: Flows) -> None:
    rates = np.array([f.moved for f in flows.flows]) / (flows.edges_s[1] - flows.edges_s[0]) / MIB
    n = len(flows.flows)
    canvas.heat(axes, rates, (*flows.edges_s[[0, -1]], n - 0.5, -0.5))
    axes.set_yticks(range(n), [f"{f.source} → {f.target}" for f in flows.flows])
    axes.tick_params(labelsize=7.5)
    right = axes.twinx()
    right.set_ylim(axes.get_ylim())
    right.set_yticks(range(n), [size(float(f.moved.sum())) for f in flows.flows])
    right.tick_params(labelsize=7.5, right=False)
    axes.set_title(
        f"{label}; darkest: {flows.peak_mib_s:,.0f} MiB/s", fontsize=8, loc="left", color=canvas.INK
    )
