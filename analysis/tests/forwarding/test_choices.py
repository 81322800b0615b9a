"""The published study from its raw runs, with exact counts, and the rules on made-up runs."""

from __future__ import annotations

from collections import Counter

import pytest
import scikit_posthocs
from scipy import stats as scipy_stats

from tierbench.base.errors import RunError
from tierbench.forwarding import choices
from tierbench.forwarding.choices import Choice, choose
from tierbench.forwarding.measurements import Scenario, read

SCENARIO = Scenario(8, 96, "shared", "strided", 32.0)


@pytest.fixture(scope="module")
def marenostrum() -> list[Choice]:
    return choices.choices(read("marenostrum4"))


@pytest.fixture(scope="module")
def santosdumont() -> list[Choice]:
    return choices.choices(read("santosdumont"))


def test_the_published_counts_follow_from_the_published_rule(marenostrum: list[Choice]) -> None:
    assert choices.counts(marenostrum, choices.as_published) == {1: 18, 2: 40, 3: 88, 4: 39, 5: 4}


def test_p_values_show_fewer_choices(marenostrum: list[Choice], santosdumont: list[Choice]) -> None:
    assert choices.counts(marenostrum, choices.by_plain_p_value) == {1: 25, 2: 156, 3: 8}
    assert choices.counts(marenostrum, choices.by_p_value) == {1: 103, 2: 86}
    assert choices.counts(santosdumont, choices.as_published) == {1: 3, 2: 4, 3: 11, 4: 7}
    assert choices.counts(santosdumont, choices.by_p_value) == {1: 12, 2: 13}


def test_the_best_number(marenostrum: list[Choice], santosdumont: list[Choice]) -> None:
    assert Counter(c.best_run for c in marenostrum) == {0: 62, 1: 12, 2: 83, 4: 15, 8: 17}
    assert Counter(c.best for c in marenostrum) == {0: 19, 1: 12, 2: 89, 4: 16, 8: 53}
    assert Counter(c.best for c in santosdumont) == {0: 4, 4: 1, 8: 20}


def test_the_recommendations(marenostrum: list[Choice], santosdumont: list[Choice]) -> None:
    told = Counter(c.recommendation for c in marenostrum)
    assert told == {
        "no difference shown": 109,
        "use 1": 1,
        "use 2": 44,
        "use 4": 7,
        "use 8": 9,
        "don't forward": 19,
    }
    told = Counter(c.recommendation for c in santosdumont)
    assert told == {"no difference shown": 16, "don't forward": 4, "use 8": 5}


def test_patterns_over_all_deployments() -> None:
    found = choices.by_pattern(read("marenostrum4"))
    told = {c.about: c.recommendation for c in found}
    assert Counter(told.values()) == {"use 8": 7, "use 2": 12, "use 4": 2}
    assert all(told[c.about] == "use 8" for c in found if c.about[0] == "file-per-process")
    assert {n for c in found for n in c.repetitions.values()} >= {45}


def test_p_values_are_those_of_the_statistic(marenostrum: list[Choice]) -> None:
    for choice in marenostrum:
        for pair, z in choice.z.items():
            assert choice.plain_pairs[pair] == pytest.approx(2 * scipy_stats.norm.sf(abs(z)), rel=1e-9)


def test_ties_count_as_in_the_library() -> None:
    cells = {0: [1.0, 1.0, 2.0, 3.0], 2: [3.0, 3.0, 4.0], 4: [1.0, 5.0, 5.0, 9.0, 9.0]}
    p = scikit_posthocs.posthoc_dunn(list(cells.values())).to_numpy()
    z = choices.statistic(cells)
    assert 2 * scipy_stats.norm.sf(abs(z[0, 4])) == pytest.approx(p[0, 2])
    assert z[0, 4] < 0 < -z[0, 2]
    adjusted = scikit_posthocs.posthoc_dunn(list(cells.values()), p_adjust="holm").to_numpy()
    found = choose(SCENARIO, cells).pairs
    wanted = {(0, 2): adjusted[0, 1], (0, 4): adjusted[0, 2], (2, 4): adjusted[1, 2]}
    assert found == pytest.approx(wanted)


def cells_of(*levels: float) -> dict[int, list[float]]:
    """Seven runs around each level, for 0, 1, 2, 4, ... I/O nodes."""
    numbers = (0, 1, 2, 4, 8)[: len(levels)]
    spread = (-0.03, -0.02, -0.01, 0, 0.01, 0.02, 0.03)
    return {n: [level * (1 + s) for s in spread] for n, level in zip(numbers, levels, strict=True)}


@pytest.mark.parametrize(
    ("levels", "recommendation"),
    [
        ((100, 300, 301), "use 2"),
        ((100, 101, 300), "use 2"),
        ((300, 100, 101), "don't forward"),
        ((100, 100, 100.1), "no difference shown"),
        ((100, 50, 102), "no difference shown"),
    ],
)
def test_what_is_recommended(levels: tuple[float, ...], recommendation: str) -> None:
    assert choose(SCENARIO, cells_of(*levels)).recommendation == recommendation


def test_fewer_that_are_not_shown_to_be_slower_are_named() -> None:
    assert choose(SCENARIO, cells_of(100, 300, 301, 200)).candidates == [1, 2]


def test_repetitions_that_are_needed() -> None:
    assert choose(SCENARIO, cells_of(100, 300)).needed is None
    close = choose(SCENARIO, {0: [100, 102, 104, 106, 108], 1: [103, 105, 107, 109, 111]})
    assert close.best == 1 and close.needed is not None and 10 < close.needed < 60
    same = choose(SCENARIO, {0: [100.0, 102.0], 1: [100.0, 102.0]})
    assert same.needed == choices.MOST_REPETITIONS + 1
    with pytest.raises(RunError, match="all runs have one bandwidth"):
        choose(SCENARIO, {0: [5.0, 5.0], 1: [5.0, 5.0]})


def test_shares_of_the_best_number() -> None:
    sure = choose(SCENARIO, cells_of(100, 300))
    assert sure.best_share == {0: 0.0, 1: 1.0}
    open_choice = choose(SCENARIO, {0: [90, 100, 110, 130], 1: [85, 99, 112, 131]})
    assert all(0.2 < share < 0.8 for share in open_choice.best_share.values())
