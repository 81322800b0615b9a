"""A modelled machine with I/O nodes: what bandwidth a scenario gets by their number.

The bytes pass through stages, and the slowest limits (`SMOOTH` rounds the corner). With P processes on N
compute nodes, requests of r KiB and k I/O nodes, in MiB/s:

- clients: P times a process's rate, less for small requests: `process * P * r / (r + process_request)`
- compute nodes: `node * N`
- I/O nodes, where there are some: `server * k * r / (r + server_request) / (1 + (P / k) / server_clients)`,
  as many clients at one of them slow it down
- the file system with m writers (P, or `streams` an I/O node): `shared * r / (r + shared_request)`, times
  `m / (m + writers_half)` as few writers do not fill it, over `1 + (m / writers_most) ** crowding` as many
  get in each other's way, and times `ordered` where I/O nodes write, as they send requests in another order

The 13 parameters are fitted for each layout and spatiality, by least squares on the logarithms of the
medians: a scenario's level, and with more weight its shape over the numbers of I/O nodes. `check` fits on
half of the scenarios and predicts the other half, several times, and says how well that goes: everything that
is computed with a twin is modelled, and no better than this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tierbench.forwarding.measurements import Measurements, Scenario
from tierbench.judge.stats import SEED

Array = NDArray[np.float64]
Medians = Mapping[Scenario, Mapping[int, float]]  # MiB/s by the number of I/O nodes
Kind = tuple[str, str]  # layout, spatiality

START = {
    "process": 30.0,
    "process_request": 100.0,
    "node": 500.0,
    "server": 400.0,
    "server_request": 100.0,
    "server_clients": 200.0,
    "streams": 16.0,
    "shared": 3000.0,
    "shared_request": 100.0,
    "writers_most": 300.0,
    "writers_half": 10.0,
    "ordered": 1.0,
    "crowding": 1.0,
}
SMOOTH = 4
STARTS = 4  # places that the fit begins at; the best end counts
PULL = (
    0.05  # of each parameter to where it began, in units of a scenario's error: else what no run shows drifts
)
SPLITS = 10
SHAPE = 2.0  # weight of the shape over the numbers of I/O nodes, which the choice hangs on
_SPREAD = 0.7  # of the other starts, in the logarithm


@dataclass(frozen=True)
class Twin:
    """A fitted machine: the logarithms of the parameters by kind of pattern."""

    name: str
    parameters: Mapping[Kind, Array]

    def bandwidth_mib_s(self, scenario: Scenario, io_nodes: int) -> float:
        """Modelled, in MiB/s."""
        about = np.array([[*_numbers(scenario), io_nodes]], dtype=np.float64)
        return float(_model(self.parameters[scenario.layout, scenario.spatiality], about)[0])

    def best(self, scenario: Scenario, numbers: Sequence[int]) -> int:
        """The number of I/O nodes with the highest modelled bandwidth."""
        return max(numbers, key=lambda k: self.bandwidth_mib_s(scenario, k))


@dataclass(frozen=True)
class Check:
    """How well a twin predicts scenarios that it was not fitted on: a value a split.

    `error` is the median of the factor between modelled and measured, less 1 (0.5: half of them are within
    1.5 times). `right` is how often the best number of I/O nodes is named, `kept` the share of the best
    number's bandwidth that the named one has, `fixed` the same share for the number that is best over all.
    """

    name: str
    error: tuple[float, ...]
    right: tuple[float, ...]
    kept: tuple[float, ...]
    fixed: tuple[float, ...]


def medians(measured: Measurements) -> dict[Scenario, dict[int, float]]:
    """What twins are fitted on."""
    return {s: {k: float(np.median(v)) for k, v in cells.items()} for s, cells in measured.scenarios()}


def fit(name: str, found: Medians) -> Twin:
    """A twin of the machine that these were measured on."""
    kinds = sorted({(s.layout, s.spatiality) for s in found})
    return Twin(name, {kind: _fit_kind(found, kind) for kind in kinds})


def check(measured: Measurements, splits: int = SPLITS) -> Check:
    """Fitted on half of the scenarios of each kind, held against the other half."""
    found = medians(measured)
    results = [_check_split(measured.name, found, np.random.default_rng([SEED, i])) for i in range(splits)]
    error, right, kept, fixed = zip(*results, strict=True)
    return Check(measured.name, error, right, kept, fixed)


def _check_split(name: str, found: Medians, rng: np.random.Generator) -> tuple[float, float, float, float]:
    known = _half(found, rng)
    other = {s: cells for s, cells in found.items() if s not in known}
    twin = fit(name, {s: found[s] for s in known})
    factors = [
        abs(np.log(twin.bandwidth_mib_s(s, k) / v)) for s, cells in other.items() for k, v in cells.items()
    ]
    kept = [cells[twin.best(s, sorted(cells))] / max(cells.values()) for s, cells in other.items()]
    numbers = {k for cells in other.values() for k in cells}
    fixed = max(_kept_by(other, k) for k in numbers)
    return float(np.expm1(np.median(factors))), kept.count(1.0) / len(kept), float(np.mean(kept)), fixed


def _half(found: Medians, rng: np.random.Generator) -> set[Scenario]:
    """Of each kind, so that each can be fitted."""
    known: set[Scenario] = set()
    for kind in sorted({(s.layout, s.spatiality) for s in found}):
        of_kind = sorted(s for s in found if (s.layout, s.spatiality) == kind)
        known |= {of_kind[i] for i in rng.permutation(len(of_kind))[: len(of_kind) // 2]}
    return known


def _kept_by(found: Medians, io_nodes: int) -> float:
    """What one number of I/O nodes for all keeps of each one's best."""
    return float(np.mean([cells.get(io_nodes, 0.0) / max(cells.values()) for cells in found.values()]))


def _fit_kind(found: Medians, kind: Kind) -> Array:
    from scipy import optimize

    of_kind = {s: cells for s, cells in found.items() if (s.layout, s.spatiality) == kind}
    about = np.array([[*_numbers(s), k] for s, cells in of_kind.items() for k in cells], dtype=np.float64)
    wanted = np.log([v for cells in of_kind.values() for v in cells.values()])
    scenario = np.repeat(np.arange(len(of_kind)), [len(cells) for cells in of_kind.values()])
    first, rng = np.log(list(START.values())), np.random.default_rng(SEED)

    def residuals(at: Array) -> Array:
        error: Array = np.log(_model(at, about)) - wanted
        of_scenario = np.bincount(scenario, error) / np.bincount(scenario)
        return np.concatenate([of_scenario, SHAPE * (error - of_scenario[scenario]), PULL * (at - first)])

    starts = [first, *(first + rng.normal(0, _SPREAD, len(first)) for _ in range(STARTS - 1))]
    ends = [optimize.least_squares(residuals, start, loss="soft_l1") for start in starts]
    best: Array = min(ends, key=lambda end: end.cost).x
    return best


def _numbers(scenario: Scenario) -> tuple[float, float, float]:
    return scenario.compute_nodes, scenario.processes, scenario.request_kib


def _model(logarithms: Array, about: Array) -> Array:
    """MiB/s; `about` has a line each of compute nodes, processes, KiB a request and I/O nodes."""
    of = dict(zip(START, np.exp(np.clip(logarithms, -20, 20)), strict=True))
    nodes, processes, request, io_nodes = about.T
    forwarded, served = io_nodes > 0, np.maximum(io_nodes, 1)
    clients = of["process"] * processes * request / (request + of["process_request"])
    load = 1 + processes / served / of["server_clients"]
    servers = of["server"] * served * request / (request + of["server_request"]) / load
    writers = np.where(forwarded, served * of["streams"], processes)
    crowd = 1 + np.exp(np.clip(of["crowding"] * np.log(writers / of["writers_most"]), -50, 50))
    shared = (
        of["shared"] * request / (request + of["shared_request"]) * writers / (writers + of["writers_half"])
    )
    shared = np.where(forwarded, of["ordered"], 1) * shared / crowd
    stages = [clients, of["node"] * nodes, np.where(forwarded, servers, np.inf), shared]
    slowest: Array = np.sum([stage ** -float(SMOOTH) for stage in stages], axis=0) ** (-1 / SMOOTH)
    return slowest
