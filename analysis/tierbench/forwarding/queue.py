"""A live queue of jobs on a machine with a pool of I/O nodes, simulated event by event.

Jobs arrive, wait first come, first served for compute nodes, write their bytes and leave. A policy gives I/O
nodes to the running jobs again whenever one starts or ends; `static` keeps what a job got at its start. A job
writes with the bandwidth of its number of I/O nodes until that changes. Modelled: jobs do not disturb each
other, and a change takes no time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tierbench.base.errors import RunError
from tierbench.forwarding.allocation import POLICIES, Job
from tierbench.judge.stats import SEED

STATIC = "static"
NAMES = (*POLICIES, STATIC)


@dataclass(frozen=True)
class Arrival:
    """A job, when it comes (seconds) and what it writes (MiB)."""

    at_s: float
    job: Job
    mib: float

    @property
    def alone_s(self) -> float:
        """How long it takes with the best number of I/O nodes and no wait."""
        return self.mib / max(self.job.bandwidths.values())


@dataclass(frozen=True)
class Outcome:
    """What a policy does for a queue: a slowdown is time from arrival to end over the time alone.

    `utilisation` is the share of I/O nodes that were given to a job, over the time in which there were jobs.
    """

    policy: str
    makespan_s: float
    slowdowns: tuple[float, ...]
    utilisation: float
    bandwidth_mib_s: float

    @property
    def mean_slowdown(self) -> float:
        """Over the jobs."""
        return float(np.mean(self.slowdowns))

    @property
    def worst_slowdown(self) -> float:
        """Of the job that suffered most."""
        return max(self.slowdowns)


@dataclass
class _Running:
    arrival: Arrival
    left_mib: float
    io_nodes: int

    @property
    def rate(self) -> float:
        return self.arrival.job.bandwidths[self.io_nodes]


@dataclass
class _Machine:
    nodes: int
    pool: int
    policy: str
    now: float = 0.0
    busy_s: float = 0.0  # of the machine
    given_s: float = 0.0  # of I/O nodes, summed
    running: list[_Running] = field(default_factory=list)
    slowdowns: list[float] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.nodes - sum(r.arrival.job.compute_nodes for r in self.running)

    def pass_to(self, when: float) -> None:
        """All write until then."""
        if self.running:
            self.busy_s += when - self.now
            self.given_s += (when - self.now) * sum(r.io_nodes for r in self.running)
        for r in self.running:
            r.left_mib -= (when - self.now) * r.rate
        self.now = when

    def next_end(self) -> float:
        return min((self.now + r.left_mib / r.rate for r in self.running), default=math.inf)

    def end(self) -> bool:
        """Jobs that have written everything leave; a rest smaller than a byte is rounding."""
        done = [r for r in self.running if r.left_mib < 1e-6]
        self.running = [r for r in self.running if r.left_mib >= 1e-6]
        self.slowdowns += [(self.now - r.arrival.at_s) / r.arrival.alone_s for r in done]
        return bool(done)

    def start(self, arrival: Arrival) -> None:
        unused = self.pool - sum(r.io_nodes for r in self.running)
        least = min(arrival.job.bandwidths)
        share = self.pool * arrival.job.compute_nodes // self.nodes
        got = arrival.job.at_most(max(min(share, unused), least))
        self.running.append(_Running(arrival, arrival.mib, got))

    def give(self) -> None:
        """The policy decides again."""
        if self.policy != STATIC and self.running:
            given = POLICIES[self.policy]([r.arrival.job for r in self.running], self.pool)
            for r, k in zip(self.running, given, strict=True):
                r.io_nodes = k


def simulate(arrivals: Sequence[Arrival], nodes: int, pool: int, policy: str) -> Outcome:
    """A queue to its end, on so many compute nodes and I/O nodes."""
    if policy not in NAMES:
        raise RunError(f"policy: {policy!r}; allowed: {', '.join(NAMES)}")
    for a in arrivals:
        if a.job.compute_nodes > nodes:
            raise RunError(f"job {a.job.name}: {a.job.compute_nodes} compute nodes; allowed: up to {nodes}")
    waiting = sorted(arrivals, key=lambda a: a.at_s)
    queue: list[Arrival] = []
    machine = _Machine(nodes, pool, policy)
    while waiting or queue or machine.running:
        machine.pass_to(min(machine.next_end(), waiting[0].at_s if waiting else math.inf))
        changed = machine.end()
        while waiting and waiting[0].at_s <= machine.now:
            queue.append(waiting.pop(0))
        while queue and queue[0].job.compute_nodes <= machine.free:
            machine.start(queue.pop(0))
            changed = True
        if changed:
            machine.give()
    moved = sum(a.mib for a in arrivals)
    span = machine.now - min(a.at_s for a in arrivals)
    share = machine.given_s / (machine.busy_s * pool) if pool else 0.0
    return Outcome(policy, span, tuple(machine.slowdowns), share, moved / span)


def made_up(jobs: Sequence[Job], count: int, load: float, nodes: int, mib: float = 2.0**20) -> list[Arrival]:
    """A queue of jobs drawn from some, seeded: `load` is the compute nodes they ask for over those there are.

    Each writes `mib` MiB (1 TiB unless told); the times between arrivals are exponential.
    """
    rng = np.random.default_rng(SEED)
    drawn = [jobs[i] for i in rng.integers(len(jobs), size=count)]
    work = float(np.mean([j.compute_nodes * mib / max(j.bandwidths.values()) for j in drawn]))
    times = np.cumsum(rng.exponential(work / (nodes * load), size=count))
    return [Arrival(float(at), job, mib) for at, job in zip(times, drawn, strict=True)]
