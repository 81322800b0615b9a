"""Bounds by hand, claims with intervals and reasons, and which policy is shown to win."""

from __future__ import annotations

from pathlib import Path

import pytest
from hpdc18_rows import keep, publish, record

from tierbench.base.errors import RunError
from tierbench.judge import hpdc18, stats
from tierbench.runs.run_folder import read_run

FIVE = (1.0, 1.01, 1.02, 1.03, 1.04)


def times(factor: float) -> list[float]:
    return [factor * v for v in FIVE]


# --- bounds ------------------------------------------------------------------------------------------------


WRITE, READ = 1000 / 1610, 1000 / 3220  # seconds of a phase, by all places at once


def test_the_last_phase_cannot_be_hidden() -> None:
    # a create, 3 writes, the flush of the last 1000 bytes at 10 B/s; computes of 200 s hide the rest
    long = record("alternating-x", "p", seconds={"compute": 800.0})
    assert hpdc18.bound(long) == pytest.approx(0.5 + 3 * WRITE + 100)


def test_a_busy_pfs_is_the_bound_where_compute_is_short() -> None:
    # 4000 bytes at 10 B/s; of 80 s of compute the first 20 pass before there is anything to flush
    assert hpdc18.bound(record("alternating-x", "p")) == pytest.approx(400 - 60)


def test_all_places_work_at_once_whatever_the_ranks() -> None:
    one = record("read-x4", "p", phases=1, read_times=4)
    assert hpdc18.bound(one) == pytest.approx(0.5 + WRITE + 4 * READ)
    assert hpdc18.bound(one | {"ranks": 9}) == hpdc18.bound(one)


def test_reads_of_a_checkpoint_hide_its_flush() -> None:
    long = record("hacc", "p", read_times=1, creates=4, seconds={"compute": 800.0})
    assert hpdc18.bound(long) == pytest.approx(4 * 0.5 + 3 * (WRITE + READ) + 100)
    fast = long | {"rates": long["rates"] | {"pfs": {"read": 20.0, "write": 2000.0}}}
    assert hpdc18.bound(fast) == pytest.approx(4 * 0.5 + 4 * (1000 / 3600 + READ))


def test_the_bound_is_that_of_the_repetition_with_most_compute(run_folder: Path) -> None:
    for repetition, compute in enumerate((80.0, 84.0, 76.0), 1):
        made = record("vpic", "max-bandwidth")
        made["seconds"]["compute"] = compute
        keep(run_folder, made, [400.0], repetition)
    (found,) = hpdc18.samples(read_run(run_folder))
    assert found.bound == pytest.approx(400 - 63)


def test_without_models_there_is_no_bound() -> None:
    assert hpdc18.bound(record("vpic", "p", rates={})) is None


# --- claims ------------------------------------------------------------------------------------------------


def test_a_claim_is_the_mean_of_its_workloads(run_folder: Path) -> None:
    publish(run_folder)
    for name, none in (("alternating-a", 6), ("alternating-b", 14)):
        keep(run_folder, record(name, "none"), times(none))
        keep(run_folder, record(name, "datawarp"), times(2))
        keep(run_folder, record(name, "elevator"), times(1.5))
        keep(run_folder, record(name, "max-bandwidth"), times(1))
        keep(run_folder, record(name, "none", scaling="weak-half"), times(1000))
    run = read_run(run_folder)
    first, second, third = hpdc18.claims(run, hpdc18.samples(run))
    assert first.ratio and first.ratio.value == pytest.approx(10) and first.reached
    assert first.ratio.low < 10 < first.ratio.high and first.ratio.level == 0.95
    assert second.ratio and second.ratio.value == pytest.approx(1.75) and second.reached is False
    assert (
        "alternating-a under max-bandwidth takes 1.020 s (flush 1.020 s; at least 340.000 s): "
        "1.75x of at most 0.00525x" in second.reason
    )
    assert (third.ratio, third.reached, third.reason) == (None, None, "not measured")


def test_a_claim_without_all_of_its_workloads_is_none(run_folder: Path) -> None:
    publish(run_folder)
    keep(run_folder, record("alternating-a", "none"), times(6))
    keep(run_folder, record("alternating-b", "none"), times(6))
    keep(run_folder, record("alternating-a", "max-bandwidth"), times(1))
    run = read_run(run_folder)
    assert hpdc18.claims(run, hpdc18.samples(run))[0].ratio is None


def test_devices_of_several_k_give_no_ratio(run_folder: Path) -> None:
    publish(run_folder)
    keep(run_folder, record("alternating-a", "none"), times(9), factor=3)
    keep(run_folder, record("alternating-a", "max-bandwidth"), times(1), factor=3)
    run = read_run(run_folder)
    same = hpdc18.claims(run, hpdc18.samples(run))[0]
    assert same.ratio and (same.factor, same.reason) == (3, "")
    keep(run_folder, record("alternating-a", "random"), times(1), factor=2)
    run = read_run(run_folder)
    mixed = hpdc18.claims(run, hpdc18.samples(run))[0]
    assert (mixed.ratio, mixed.reason) == (None, "devices of several K: [2, 3]")


def test_claims_that_are_no_table_are_refused(run_folder: Path) -> None:
    (run_folder / "published" / "hpdc18.csv").write_text("test,value\nhpdc18-vpic,many\n")
    with pytest.raises(RunError, match=r"hpdc18\.csv: is no table of claims"):
        hpdc18.claims(read_run(run_folder), [])


def test_the_mean_of_few_values_is_a_range() -> None:
    found = stats.mean_ratio([([4, 8], [2, 2]), ([9, 9], [3, 1])])
    assert (found.value, found.low, found.high, found.n, found.level) == (3.75, 2.5, 6.5, 2, None)
    with pytest.raises(ValueError, match="no pairs"):
        stats.mean_ratio([])


# --- policies ----------------------------------------------------------------------------------------------


def test_a_winner_is_shown_or_not(run_folder: Path) -> None:
    for policy, factor in (("max-bandwidth", 1.0), ("random", 3.0), ("hot-data", 1.001)):
        keep(run_folder, record("vpic", policy), times(factor))
    keep(run_folder, record("vpic", "none"), times(0.1))  # no policy
    ranked = hpdc18.policies(hpdc18.samples(read_run(run_folder)))
    told = {r.sample.buffering: (round(r.ratio.value, 3), r.words) for r in ranked["vpic"]}
    assert told == {
        "max-bandwidth": (1, "the fastest"),
        "random": (3, "slower"),
        "hot-data": (1.001, "no difference shown"),
    }


def test_two_repetitions_show_nothing(run_folder: Path) -> None:
    for policy, factor in (("max-bandwidth", 1.0), ("random", 3.0)):
        keep(run_folder, record("vpic", policy), times(factor)[:2])
    ranked = hpdc18.policies(hpdc18.samples(read_run(run_folder)))["vpic"]
    assert [r.words for r in ranked if r.comparison] == ["not shown, needs n >= 4"]


def test_efficiency_says_why_it_is_far(run_folder: Path) -> None:
    keep(run_folder, record("vpic", "max-bandwidth"), times(400))
    keep(run_folder, record("hacc", "max-bandwidth"), times(350))
    far, near = hpdc18.efficiency(hpdc18.samples(read_run(run_folder)))[::-1]
    assert far.times == pytest.approx(408 / 340) and not far.close
    assert far.reason.startswith("vpic under max-bandwidth takes 408.000 s (flush")
    assert near.close and near.reason == ""


def test_temporary_data_need_no_drain(run_folder: Path) -> None:
    made = record("read-x4", "max-bandwidth", phases=1)
    made["seconds"]["drain"] = 5.0
    keep(run_folder, made, [1.0])
    assert hpdc18.samples(read_run(run_folder))[0].seconds["drain"] == 0
