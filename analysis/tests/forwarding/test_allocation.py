"""How many I/O nodes each job gets: the best allocation against all others, and queues with a known end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tierbench.base import schema
from tierbench.base.errors import RunError
from tierbench.forwarding import allocation, queue, twin
from tierbench.forwarding.allocation import Job
from tierbench.forwarding.measurements import read
from tierbench.forwarding.queue import Arrival, simulate

SMALL = Job("small", 1, {0: 10, 1: 30, 2: 40, 4: 42})
LARGE = Job("large", 3, {0: 50, 1: 20, 2: 60, 4: 120})
FORWARDED = Job("forwarded", 2, {1: 5, 2: 9})


def test_the_best_is_the_best_of_all() -> None:
    rng = np.random.default_rng(7)
    for _ in range(60):
        jobs = [
            Job(str(i), int(rng.integers(1, 9)), {k: float(rng.integers(1, 100)) for k in (0, 1, 2, 4, 8)})
            for i in range(int(rng.integers(1, 5)))
        ]
        pool = int(rng.integers(0, 13))
        given = allocation.best(jobs, pool)
        everything = itertools.product(*(job.bandwidths for job in jobs))
        most = max(allocation.total(jobs, g) for g in everything if sum(g) <= pool)
        assert sum(given) <= pool and allocation.total(jobs, given) == most


@pytest.mark.parametrize(
    ("policy", "given"),
    [
        ("best", [1, 4]),
        ("equal", [2, 2]),
        ("proportional", [1, 2]),
        ("one size", [2, 2]),
    ],
)
def test_policies(policy: str, given: list[int]) -> None:
    assert allocation.POLICIES[policy]([SMALL, LARGE], 5) == given


def test_a_job_that_must_forward() -> None:
    assert allocation.best([FORWARDED, SMALL], 2) == [1, 1]
    assert allocation.equal([FORWARDED, SMALL], 1) == [1, 0]
    with pytest.raises(RunError, match="pool: 1 I/O nodes; allowed: 2 or more"):
        allocation.best([FORWARDED, FORWARDED], 1)
    with pytest.raises(RunError, match="job none: has no bandwidths"):
        allocation.best([Job("none", 1, {})], 1)


def test_the_live_map_is_as_its_schema() -> None:
    made = allocation.live_map([2, 0, 1], [4, 3, 2], epoch=5)
    assert schema.misfit(made, "forge-map") is None
    assert made == {
        "epoch": 5,
        "map": [
            {"clients": [0, 3], "io_nodes": [0, 1]},
            {"clients": [4, 6], "io_nodes": []},
            {"clients": [7, 8], "io_nodes": [2]},
        ],
    }


def test_a_job_alone_takes_its_time() -> None:
    done = simulate([Arrival(5, SMALL, 420)], 4, 4, "best")
    assert done.makespan_s == pytest.approx(10) and done.slowdowns == pytest.approx((1.0,))
    assert done.utilisation == 1.0 and done.bandwidth_mib_s == pytest.approx(42)


def test_io_nodes_move_when_a_job_ends() -> None:
    """On 4 the small job gets none, until the large one ends after 10 s; then it has all."""
    both = [Arrival(0, SMALL, 100 + 42 * 5), Arrival(0, LARGE, 1200)]
    done = simulate(both, 4, 4, "best")
    assert done.makespan_s == pytest.approx(15)
    assert done.slowdowns == pytest.approx((1.0, 15 / (310 / 42)))
    assert done.utilisation == pytest.approx(1.0)


def test_static_keeps_what_a_job_got() -> None:
    both = [Arrival(0, SMALL, 300), Arrival(0, LARGE, 600)]
    done = simulate(both, 4, 4, "static")
    assert done.makespan_s == pytest.approx(10)
    assert done.utilisation == pytest.approx(3 / 4)


def test_a_queue_waits_for_compute_nodes_in_order() -> None:
    jobs = [Arrival(0, LARGE, 1200), Arrival(1, LARGE, 1200), Arrival(2, SMALL, 1)]
    done = simulate(jobs, 3, 4, "best")
    assert done.makespan_s == pytest.approx(20 + 1 / 42)
    assert done.slowdowns[1] == pytest.approx(19 / 10)


def test_what_a_queue_refuses() -> None:
    with pytest.raises(
        RunError, match="policy: 'random'; allowed: best, equal, proportional, one size, static"
    ):
        simulate([Arrival(0, SMALL, 1)], 4, 4, "random")
    with pytest.raises(RunError, match="job large: 3 compute nodes; allowed: up to 2"):
        simulate([Arrival(0, LARGE, 1)], 2, 4, "best")


def test_a_queue_is_the_same_each_time_and_as_loaded_as_asked() -> None:
    jobs = queue.made_up([SMALL, LARGE], 400, 0.5, 16)
    assert jobs == queue.made_up([SMALL, LARGE], 400, 0.5, 16)
    work = sum(a.job.compute_nodes * a.alone_s for a in jobs)
    assert work / (16 * jobs[-1].at_s) == pytest.approx(0.5, rel=0.15)


def test_a_twin_finds_what_it_was_made_of() -> None:
    """Bandwidths that the model itself gives are fitted to a few per cent."""
    santosdumont = twin.medians(read("santosdumont"))
    first = twin.fit("made", {s: c for s, c in santosdumont.items() if s.layout == "shared"})
    made = {
        s: {k: first.bandwidth_mib_s(s, k) for k in cells}
        for s, cells in santosdumont.items()
        if (s.layout, s.spatiality) == ("shared", "contiguous")
    }
    again = twin.fit("again", made)
    factors = [again.bandwidth_mib_s(s, k) / v for s, cells in made.items() for k, v in cells.items()]
    assert np.median(np.abs(np.log(factors))) < 0.05
    assert again.best(min(made), (0, 1, 2, 4, 8)) == max(made[min(made)], key=lambda k: made[min(made)][k])


def test_how_well_a_twin_predicts() -> None:
    checked = twin.check(read("santosdumont"), splits=3)
    assert all(0.1 < e < 1.5 for e in checked.error)
    assert all(0.4 < r <= 1 for r in checked.right) and all(0.7 < k <= 1 for k in checked.kept)
    assert all(0.8 < f <= 1 for f in checked.fixed)
