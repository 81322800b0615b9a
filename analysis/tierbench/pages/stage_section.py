"""The section of a report on Summit's tutorial: when files are closed, and when they are on the PFS.

Three ways: files written to GPFS, to NVMe and copied after each time step, to NVMe and staged out while the
program goes on. Each is measured with few time steps and with many, as a stage-out moves the files of a step
while the next one is computed.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierbench.base.errors import RunError
from tierbench.base.text import number, shown
from tierbench.judge.verdict import Row
from tierbench.layout.canvas import BLUE, INK, blank, interval
from tierbench.runs.run_folder import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = {"pfs": "GPFS", "nvme-cp": "NVMe, copied", "nvme-stage": "NVMe, staged out"}
PUBLISHED = {
    "summit-gpfs-2": "IOR on GPFS",
    "summit-nvme-2": "IOR on NVMe",
    "summit-metadata-gpfs": "metadata program on GPFS",
    "summit-metadata-nvme": "metadata program on NVMe",
}
_TABLE = "published/summit.csv"
_TEST = re.compile(r"stage-(\d+)-steps-time-to-(close|pfs)")
_COMPUTES = re.compile(r"\d+ steps, ([0-9.]+) s of computing after each")
_LIGHT = "#cbd5e1"


@dataclass(frozen=True)
class Way:
    """One way with so many time steps: its two times."""

    steps: int
    name: str
    close: Row
    on_pfs: Row

    @property
    def compute_s(self) -> float:
        """Of all time steps together."""
        found = _COMPUTES.match(self.close.command)
        return self.steps * float(found[1]) if found else 0.0


@dataclass(frozen=True)
class Published:
    """A number of the tutorial; `share` is what this run's model of one node does, None where it has none."""

    what: str
    access: str
    value: str
    nodes: int
    share: float | None


@dataclass(frozen=True)
class Section:
    """What the page shows."""

    factor: int
    published: list[Published]


def is_staged(row: Row) -> bool:
    """The row is one of the tutorial's."""
    return _TEST.fullmatch(row.key["test"]) is not None


def of_run(run: Run, rows: Sequence[Row]) -> Section | None:
    """None: the run holds none of it."""
    found = ways(rows)
    return Section(found[0].close.factor, _published(run, found[0].close.factor)) if found else None


def ways(rows: Sequence[Row]) -> list[Way]:
    """Few time steps first."""
    times: dict[tuple[int, str], dict[str, Row]] = {}
    for row in rows:
        if found := _TEST.fullmatch(row.key["test"]):
            times.setdefault((int(found[1]), row.key["tiers"]), {})[found[2]] = row
    order = list(WAYS)
    whole = [(key, both) for key, both in times.items() if key[1] in WAYS and len(both) == 2]
    whole.sort(key=lambda one: (one[0][0], order.index(one[0][1])))
    return [Way(steps, WAYS[way], both["close"], both["pfs"]) for (steps, way), both in whole]


def _published(run: Run, factor: int) -> list[Published]:
    try:
        lines = [
            line
            for line in csv.DictReader(io.StringIO(run.files.get(_TABLE, "")))
            if line["test"] in PUBLISHED
        ]
        return [_number(line, factor) for line in lines]
    except (KeyError, ValueError, csv.Error) as e:
        told = f"{run.path / _TABLE}: is no table of published numbers: {shown(e)}"
        raise RunError(f"{told}; allowed: a file of results/published") from e


def _number(line: dict[str, str], factor: int) -> Published:
    nodes = int(line["nodes"])
    share = float(line["value"]) / nodes / factor if line["metric"] == "bandwidth" else None
    return Published(PUBLISHED[line["test"]], line["access"], f"{line['value']} {line['unit']}", nodes, share)


def sentences(rows: Sequence[Row]) -> list[str]:
    """One for each number of time steps."""
    found = ways(rows)
    return [
        _sentence([w for w in found if w.steps == steps]) for steps in dict.fromkeys(w.steps for w in found)
    ]


def _sentence(found: list[Way]) -> str:
    """Both times of each way."""
    told = [f"{w.name} {number(w.close.median.value)} s and {number(w.on_pfs.median.value)} s" for w in found]
    steps, compute_s = found[0].steps, number(found[0].compute_s)
    return (
        f"{steps} time steps with {compute_s} s of computing in all; until the last file is closed, and "
        f"until all are on the PFS: {'; '.join(told)}."
    )


def times(_run: Run, rows: Sequence[Row]) -> Figure | None:
    """A bar for each way: until closed, then until all is on the PFS."""
    found = ways(rows)
    if not found:
        return None
    figure = blank(0.31 * len(found) + 1.1)
    axes = figure.add_subplot()
    places = _places(found)
    longest = max(w.on_pfs.median.high for w in found)
    for y, way in zip(places, found, strict=True):
        close, on_pfs = way.close.median, way.on_pfs.median
        axes.barh(y, on_pfs.value, height=0.62, color=_LIGHT)
        axes.barh(y, close.value, height=0.62, color=BLUE)
        axes.plot([way.compute_s] * 2, [y - 0.42, y + 0.42], color=INK, lw=1.2, ls=":")
        interval(axes, on_pfs, y)
        axes.text(
            max(on_pfs.value, on_pfs.high) + 0.015 * longest,
            y,
            f"{close.value:.2f} s, on the PFS {on_pfs.value:.2f} s",
            va="center",
            fontsize=8,
        )
    axes.barh([0], [0], color=BLUE, label="until the last file is closed")
    axes.barh([0], [0], color=_LIGHT, label="then until all are on the PFS")
    axes.plot([], [], color=INK, lw=1.2, ls=":", label="computing alone")
    axes.set_yticks(places, [f"{w.steps} steps, {w.name}" for w in found])
    axes.set_ylim(places[-1] + 0.7, -0.7)
    axes.set_xlim(0, longest * 1.45)
    axes.set_xlabel("seconds from the start (medians; line: interval until all are on the PFS)")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2)
    return figure


def _places(found: list[Way]) -> list[float]:
    """One apart, with a gap where the number of time steps changes."""
    places = [0.0]
    for before, way in itertools.pairwise(found):
        places.append(places[-1] + (1.0 if way.steps == before.steps else 1.45))
    return places
