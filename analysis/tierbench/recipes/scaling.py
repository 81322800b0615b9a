"""How nodes that share their tiers scale beyond what was measured, weak and strong (docs/nodes.md).

A phase: each of `N` nodes writes `B` MiB in `F` files to its own tier and commits each; all of it goes to
the PFS; then each reads as much that another node wrote. A file's keeper is another node with the chance
`(N - 1) / N`. A commit is one message to the keeper; a small read is one to the keeper, and one to the node
that has the bytes. So, where `a` is an operation's time on one node, and `m` what a message there and back
adds,

- write:  `B / w + F (a + m (N - 1) / N)`
- flush:  `N B / min(N p, P)`
- read:   `B / min(r, l) + F (a' + m' (1 + (N - 1) / N))`

with a node's rates of tier, network and PFS (`w`, `r`, `l`, `p`) and the limit `P` of the whole PFS.
Keepers share the files of all nodes, so their work a node does not grow. One file that all nodes write has
one keeper, which answers `N` commits of `k` seconds each: the write takes `N k` at least. Weak scaling
keeps `B` and `F`; in strong scaling they are an N-th of the whole.

Not in it: nodes that wait for each other, traffic that meets on the network's inner links, and keepers that
by chance have more files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tierbench.base.errors import RunError
from tierbench.base.sizes import MIB
from tierbench.base.strict_json import read_fitting
from tierbench.recipes.projection import Projection, project
from tierbench.recipes.published import Recipe

WITHIN = 0.15
COMMIT, READ = "commit", "read 4 KiB"
POINTS = (1, 2, 4, 16, 64, 256, 1024, 4096)
SUMMIT_LINK = 12e9 / MIB
"""MiB/s of a node's network: the tutorial's lower number of 12 to 14 GB/s."""
PART_MIB, FILES = 16 * 19200, 16
"""Of each node in the tutorial."""


@dataclass(frozen=True)
class Machine:
    """Rates in MiB/s of one node, and what all nodes get of the PFS."""

    name: str
    write: float
    read: float
    link: float
    pfs: float
    pfs_limit: float


@dataclass(frozen=True)
class Cost:
    """An operation's seconds on one node, and what each message to another node adds.

    It sends `to_keeper` messages to the file's keeper and `to_holder` to the node that has the bytes.
    """

    alone_s: float
    message_s: float
    to_keeper: int = 1
    to_holder: int = 0

    def messages(self, nodes: int) -> float:
        """To other nodes, on the average."""
        return self.to_keeper * (nodes - 1) / nodes + (self.to_holder if nodes > 1 else 0)

    def on(self, nodes: int) -> float:
        """Seconds of one operation."""
        return self.alone_s + self.message_s * self.messages(nodes)


@dataclass(frozen=True)
class Costs:
    """What `make bench-nodes` measured.

    `keeper_s` is the daemons' time on a processor for a commit, which is more than a keeper's part of it.
    """

    commit: Cost
    read: Cost
    keeper_s: float


@dataclass(frozen=True)
class Check:
    """A number that the model gives beside one that was measured or published."""

    what: str
    predicted: float
    known: float
    unit: str

    @property
    def error(self) -> float:
        """Of the prediction, relative."""
        return self.predicted / self.known - 1

    @property
    def within(self) -> bool:
        """Near enough."""
        return abs(self.error) <= WITHIN


@dataclass(frozen=True)
class Work:
    """What one node does in a phase; `one_file`: all nodes write one file."""

    mib: float
    files: float
    one_file: bool = False


@dataclass(frozen=True)
class Point:
    """Seconds of each step on so many nodes."""

    nodes: int
    write_s: float
    flush_s: float
    read_s: float


# --- the model ---------------------------------------------------------------------------------------------


def point(machine: Machine, costs: Costs, work: Work, nodes: int) -> Point:
    """A phase of so many nodes, each with that work."""
    write = work.mib / machine.write + work.files * costs.commit.on(nodes)
    if work.one_file:
        write = max(write, nodes * costs.keeper_s)
    flush = nodes * work.mib / min(nodes * machine.pfs, machine.pfs_limit)
    read = work.mib / min(machine.read, machine.link) + work.files * costs.read.on(nodes)
    return Point(nodes, write, flush, read)


def weak(machine: Machine, costs: Costs, work: Work, counts: Sequence[int] = POINTS) -> list[Point]:
    """The same work for each node."""
    return [point(machine, costs, work, n) for n in counts]


def strong(machine: Machine, costs: Costs, work: Work, counts: Sequence[int] = POINTS) -> list[Point]:
    """The work of one node, shared by all; each still commits once at least where all write one file."""
    return [
        point(
            machine,
            costs,
            Work(work.mib / n, max(work.files / n, 1.0 if work.one_file else 0.0), work.one_file),
            n,
        )
        for n in counts
    ]


# --- its inputs --------------------------------------------------------------------------------------------


def summit(projections: Sequence[Projection]) -> Machine:
    """By the shares of two nodes and the limit that 1100 nodes measured."""
    write, read = projections
    few_write, few_read = (p.points[0][2] / p.points[0][0] for p in (write, read))
    return Machine("Summit", few_write, few_read, SUMMIT_LINK, write.gpfs_share, write.measured_limit)


def read_costs(file: Path) -> list[dict[str, Any]]:
    """The lines of a result of `make bench-nodes`."""
    lines = read_fitting(file, "bench-nodes")["costs"]
    return [line for line in lines if isinstance(line, dict)]


def _of_one_rank(lines: Sequence[dict[str, Any]], operation: str, what: str) -> dict[int, float]:
    """By the number of nodes."""
    alone = [x for x in lines if x["operation"] == operation and x["ranks"] == x["nodes"]]
    return {x["nodes"]: x[what] for x in alone if what in x}


def _fit_one(lines: Sequence[dict[str, Any]], operation: str, to_keeper: int, to_holder: int) -> Cost:
    """By the messages that this run had: of a few hundred files about half have their keeper elsewhere."""
    seconds = _of_one_rank(lines, operation, "seconds")
    expected = Cost(0.0, 0.0, to_keeper, to_holder).messages(2)
    counted = _of_one_rank(lines, operation, "messages").get(2) or expected
    return Cost(seconds[1], max(seconds[2] - seconds[1], 0.0) / counted, to_keeper, to_holder)


def fit(lines: Sequence[dict[str, Any]], file: Path) -> Costs:
    """From one and two nodes; more nodes are left to check it."""
    commit, read = (_of_one_rank(lines, operation, "seconds") for operation in (COMMIT, READ))
    keeper = _of_one_rank(lines, COMMIT, "daemon_s")
    for operation, found in ((COMMIT, commit), (READ, read), (COMMIT, keeper)):
        if not {1, 2} <= found.keys():
            lacks = f"lacks {operation!r} on 1 and 2 nodes"
            raise RunError(f"{file}: costs: {lacks}; allowed: a result of make bench-nodes as root")
    return Costs(_fit_one(lines, COMMIT, 1, 0), _fit_one(lines, READ, 1, 1), keeper[2])


# --- its checks --------------------------------------------------------------------------------------------


def against_measured(lines: Sequence[dict[str, Any]], costs: Costs) -> list[Check]:
    """Times on more nodes than it was fitted on, and the number of messages on all."""
    both = ((COMMIT, costs.commit), (READ, costs.read))
    times = [
        Check(f"{operation} on {nodes} nodes", cost.on(nodes) * 1e6, seconds * 1e6, "us")
        for operation, cost in both
        for nodes, seconds in sorted(_of_one_rank(lines, operation, "seconds").items())
        if nodes > 2
    ]
    counts = [
        Check(f"{operation} on {nodes} nodes, messages", cost.messages(nodes), counted, "")
        for operation, cost in both
        for nodes, counted in sorted(_of_one_rank(lines, operation, "messages").items())
        if nodes > 1 and counted
    ]
    return times + counts


def against_published(recipes: list[Recipe] | None = None) -> list[Check]:
    """Summit's 1100 nodes, from what 2 nodes had; GPFS up to its stated limit."""
    checks = []
    for p in project(recipes):
        (few, gpfs_few, nvme_few), (many, gpfs, nvme) = p.points
        told = f"{p.access} on {many} nodes, from {few}"
        checks.append(Check(f"Summit's NVMe, {told}", nvme_few / few * many, nvme, "MiB/s"))
        stated = min(gpfs_few / few * many, p.stated_limit)
        checks.append(Check(f"Summit's GPFS, {told} and the stated limit", stated, gpfs, "MiB/s"))
    return checks


# --- words -------------------------------------------------------------------------------------------------


def sentences(lines: Sequence[dict[str, Any]], file: Path) -> Iterator[str]:
    """All of it as lines of text, tables as Markdown."""
    costs, machine = fit(lines, file), summit(project())
    yield f"Measured with one and two nodes ({file.name}): {_told('a commit', costs.commit)};"
    yield f"{_told('a read of 4 KiB', costs.read)};"
    yield f"at most {costs.keeper_s * 1e6:.0f} us of daemons for a commit."
    yield "\n| | model | known | error | within 15 % |\n|---|---|---|---|---|"
    for check in [*against_measured(lines, costs), *against_published()]:
        within = "yes" if check.within else "no"
        numbers = " | ".join(f"{_shown(x)} {check.unit}".rstrip() for x in (check.predicted, check.known))
        yield f"| {check.what} | {numbers} | {check.error:+.0%} | {within} |"
    for name, points in _tables(machine, costs).items():
        yield f"\n{name}\n\n| nodes | write, s | flush, s | read, s |\n|---|---|---|---|"
        yield from (f"| {p.nodes} | {p.write_s:.4g} | {p.flush_s:.4g} | {p.read_s:.4g} |" for p in points)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _told(what: str, cost: Cost) -> str:
    return f"{what} {cost.alone_s * 1e6:.0f} us, and {cost.message_s * 1e6:.0f} us a message"


def _tables(machine: Machine, costs: Costs) -> dict[str, list[Point]]:
    tutorial, checkpoint = Work(PART_MIB, FILES), Work(1024, 1, one_file=True)
    each = f"{tutorial.mib:,.0f} MiB in {tutorial.files} files"
    one = f"{checkpoint.mib:,} MiB in one file of all nodes"
    return {
        f"Weak scaling on {machine.name}, a node {each}:": weak(machine, costs, tutorial),
        f"Strong scaling on {machine.name}, all nodes together {each}:": strong(machine, costs, tutorial),
        f"Weak scaling on {machine.name}, a node {one}:": weak(machine, costs, checkpoint),
    }


def as_json(lines: Sequence[dict[str, Any]], file: Path) -> dict[str, Any]:
    """The same for scripts."""
    costs, machine = fit(lines, file), summit(project())
    checks = [*against_measured(lines, costs), *against_published()]
    return {
        "inputs": {"file": str(file), "machine": asdict(machine), "costs": asdict(costs)},
        "checks": [asdict(c) | {"error": c.error, "within": c.within} for c in checks],
        "tables": {name: [asdict(p) for p in points] for name, points in _tables(machine, costs).items()},
    }
