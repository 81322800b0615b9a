from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierbench.judge import stats

POSITIVE = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=12)


@given(POSITIVE)
def test_interval_of_the_median_lies_in_the_sample(values: list[float]) -> None:
    i = stats.median(values)
    assert min(values) <= i.low <= i.value <= i.high <= max(values)
    assert i.n == len(values)


@given(POSITIVE, POSITIVE)
def test_ratio_interval_holds_the_ratio(a: list[float], b: list[float]) -> None:
    i = stats.ratio(a, b)
    assert i.low <= i.value * (1 + 1e-12) and i.value <= i.high * (1 + 1e-12)
    assert i.n == min(len(a), len(b))


def test_same_values_give_the_same_interval() -> None:
    assert stats.median([1, 5, 2, 8, 3]) == stats.median([1, 5, 2, 8, 3])
    assert stats.ratio([1, 5, 2], [3, 4, 9]) == stats.ratio([1, 5, 2], [3, 4, 9])


def test_a_small_sample_has_the_range_with_its_own_level() -> None:
    for n, level in ((1, 0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)):
        i = stats.median([float(v) for v in range(1, n + 1)])
        assert (i.low, i.high, i.level) == (1, n, level)
    assert stats.ratio([2.0, 6.0, 4.0], [2.0, 1.0, 3.0]) == stats.Interval(2.0, 2 / 3, 6.0, 3, None)
    assert stats.ratio([2.0], [1.0]).level == 0


def test_ends_lie_between_neighbours_from_six_values_on() -> None:
    """Of ten values: 2 and 9 cover 97.9 %, 3 and 8 cover 89.1 %; 8 / (2 + 6 step) of a step inward."""
    i, step = stats.median([float(v) for v in range(1, 11)]), (0.978516 - 0.95) / (0.978516 - 0.890625)
    inward = 8 * step / (2 + 6 * step)
    assert [i.low, i.high] == pytest.approx([2 + inward, 9 - inward], abs=1e-4)
    assert i.level == stats.CONFIDENCE


def test_the_samples_of_a_ratio_are_resampled_independently() -> None:
    same = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert stats.ratio(same, same).low < 0.7 and stats.ratio(same, same).level == 0.95


def test_families_that_share_alpha_need_more() -> None:
    low, high = [1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10]
    (alone,), (beside,) = stats.compare([(low, high)]), stats.compare([(low, high)], 0.2)
    assert beside.p == pytest.approx(5 * alone.p) and beside.significant
    assert stats.compare([(low, high)], 0.1)[0].needs_n == 6


def test_published_sizes() -> None:
    """Exact Mann-Whitney with Bonferroni: 3 tiers and 4 tiers separate at n = 5 (p 0.024 and 0.048)."""
    low, high = [1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10]
    assert stats.compare([(low, high)] * 3)[0].p == pytest.approx(0.0238, abs=1e-4)
    assert stats.compare([(low, high)] * 6)[0].p == pytest.approx(0.0476, abs=1e-4)
    assert stats.least_n(3) == stats.least_n(6) == 5
    assert stats.least_n(1) == 4


def test_three_valuescan_show_nothing() -> None:
    found = stats.compare([([1.0, 2, 3], [10.0, 11, 12])])[0]
    assert not found.significant and found.needs_n == 4


def test_overlapping_samples_show_no_difference() -> None:
    found = stats.compare([([1.0, 3, 5, 7, 9], [2.0, 4, 6, 8, 10])])[0]
    assert not found.significant and found.needs_n is None


def test_holm_is_between_raw_and_bonferroni() -> None:
    low, high, mixed = [1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10], [3.5, 4.5, 5.5, 6.5, 7.5]
    first, second = stats.compare([(low, high), (low, mixed)])
    raw = [stats.compare([pair])[0].p for pair in ((low, high), (low, mixed))]
    assert first.p == pytest.approx(2 * raw[0])
    assert second.p == pytest.approx(max(raw[1], first.p))


def test_five_values_on_one_side_show_by_a_sign_test() -> None:
    assert stats.least_n_one_sample() == 5
    assert 0.5**5 < stats.ALPHA < 0.5**4


def test_no_values() -> None:
    with pytest.raises(ValueError):
        stats.median([])
