"""How many I/O nodes each job gets: several jobs, one pool.

Each job has a bandwidth for each number of I/O nodes that it may be given; with 0 it writes straight to the
file system. `best` gives every job one number so that the sum of the bandwidths is the highest that the pool
allows. That is the multiple-choice knapsack problem, and dynamic programming over the size of the pool solves
it exactly. The other policies are what sites do. Modelled: jobs do not slow each other down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tierbench.base.errors import RunError


@dataclass(frozen=True)
class Job:
    """A job by its bandwidths in MiB/s for each number of I/O nodes; `compute_nodes` it runs on."""

    name: str
    compute_nodes: int
    bandwidths: Mapping[int, float]

    def at_most(self, io_nodes: int) -> int:
        """The largest number that it may be given, up to a limit."""
        return max(k for k in self.bandwidths if k <= io_nodes)


Policy = Callable[[Sequence[Job], int], list[int]]


def check(jobs: Sequence[Job], pool: int) -> None:
    """Every job must be able to run on what is left: straight to the file system, or on its least number."""
    for job in jobs:
        if not job.bandwidths:
            raise RunError(f"job {job.name}: has no bandwidths; allowed: one for each number of I/O nodes")
    least = sum(min(job.bandwidths) for job in jobs)
    if least > pool:
        raise RunError(f"pool: {pool} I/O nodes; allowed: {least} or more, which the jobs need at least")


def best(jobs: Sequence[Job], pool: int) -> list[int]:
    """The highest sum of bandwidths; of equals the one with the fewest I/O nodes for the first jobs."""
    check(jobs, pool)
    # reached[used] is the highest sum with that many I/O nodes, with the numbers that give it.
    reached: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for job in jobs:
        after: dict[int, tuple[float, list[int]]] = {}
        for used, (total, given) in reached.items():
            for k, bandwidth in job.bandwidths.items():
                known = after.get(used + k, (-1.0, []))
                if used + k <= pool and total + bandwidth > known[0]:
                    after[used + k] = total + bandwidth, [*given, k]
        reached = after
    return max(sorted(reached.items()), key=lambda item: item[1][0])[1][1]


def equal(jobs: Sequence[Job], pool: int) -> list[int]:
    """The same share for each, rounded down to a number that it may be given."""
    check(jobs, pool)
    return [max(job.at_most(max(pool // len(jobs), min(job.bandwidths))), 0) for job in jobs]


def proportional(jobs: Sequence[Job], pool: int) -> list[int]:
    """By compute nodes, rounded down to a number that the job may be given: what fixed machines do."""
    check(jobs, pool)
    nodes = sum(job.compute_nodes for job in jobs)
    shares = [pool * job.compute_nodes // nodes for job in jobs]
    return [job.at_most(max(share, min(job.bandwidths))) for job, share in zip(jobs, shares, strict=True)]


def one_size(jobs: Sequence[Job], pool: int) -> list[int]:
    """The one number for all with the highest sum: what a site sets once."""
    check(jobs, pool)
    common = set.intersection(*(set(job.bandwidths) for job in jobs))
    sums = {k: sum(job.bandwidths[k] for job in jobs) for k in sorted(common) if k * len(jobs) <= pool}
    if not sums:
        return equal(jobs, pool)
    return [max(sums, key=lambda k: sums[k])] * len(jobs)


POLICIES: dict[str, Policy] = {
    "best": best,
    "equal": equal,
    "proportional": proportional,
    "one size": one_size,
}


def total(jobs: Sequence[Job], given: Sequence[int]) -> float:
    """The sum of bandwidths in MiB/s."""
    return sum(job.bandwidths[k] for job, k in zip(jobs, given, strict=True))


def live_map(given: Sequence[int], clients: Sequence[int], epoch: int) -> dict[str, object]:
    """The document that clients of tb-forge follow (schema forge-map): I/O nodes are its first ranks.

    `clients` are the numbers of clients of the jobs, in the order in which the run has them.
    """
    entries, client, rank = [], 0, 0
    for k, count in zip(given, clients, strict=True):
        ranks = list(range(rank, rank + k))
        entries.append({"clients": [client, client + count - 1], "io_nodes": ranks})
        client, rank = client + count, rank + k
    return {"epoch": epoch, "map": entries}
