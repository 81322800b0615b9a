from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from tierbench.base import text
from tierbench.judge import independence, stats
from tierbench.judge.verdict import judge
from tierbench.pages import exports, report_record, report_words
from tierbench.runs.run_folder import read_run

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import simulate


def test_of_five_values_only_those_in_order_drift() -> None:
    shown = [o for o in itertools.permutations([1.0, 2, 3, 4, 5]) if independence.look(o).words()]
    assert shown == [(1, 2, 3, 4, 5), (5, 4, 3, 2, 1)]
    up = independence.look([100.0, 102, 104, 106, 108])
    assert up.drift_p == pytest.approx(2 / 120) and up.change == pytest.approx(2 / 104)
    assert "drift, by about +1.9% from each to the next" in str(up.words())


@pytest.mark.parametrize("n", [5, 7, 12])
def test_the_chances_and_the_slope_are_scipys(n: int) -> None:
    """The exact ones to the digit; of random orders as many as 9,999 of each can tell."""
    values = [float(v) for v in np.random.default_rng(n).integers(1, 9, n)]  # with ties
    found, ranks = independence.look(values), stats.ranks_of(values)
    trend = scipy_stats.permutation_test(
        (ranks,), lambda r, axis: (r * np.arange(n)).sum(axis=axis), permutation_type="pairings", rng=n
    ).pvalue
    rough = scipy_stats.permutation_test(
        (ranks,),
        lambda r, axis: (np.diff(r, axis=axis) ** 2).sum(axis=axis),
        permutation_type="pairings",
        rng=n,
    ).pvalue
    near = 1e-9 if n < 8 else 0.03
    assert found.drift_p == pytest.approx(trend, abs=near) and found.serial_p == pytest.approx(
        rough, abs=near
    )
    assert found.change == pytest.approx(scipy_stats.theilslopes(values).slope / np.median(values))


def test_four_values_show_nothing_and_say_so() -> None:
    found = independence.look([1.0, 2, 3, 4])
    assert (found.drift_p, found.serial_p, found.words()) == (None, None, None)


def test_neighbours_that_are_alike_and_values_that_take_turns() -> None:
    waves = [10 + np.sin(i / 2.2) for i in range(24)]
    assert "neighbouring runs are alike" in str(independence.look(waves).words("runs"))
    turns = [10.0 + (i % 2) + 0.01 * (i * 7 % 11) for i in range(12)]
    assert "take turns" in str(independence.look(turns).words())


@pytest.mark.parametrize("n", [5, 8, 20])
def test_at_most_five_of_a_hundred_independent_ones_are_named(n: int) -> None:
    rng = np.random.default_rng(n)
    named = sum(independence.look(list(rng.lognormal(0, 0.2, n))).words() is not None for _ in range(300))
    assert named <= 24  # 5 % of 300 are 15; more than 24 come in 1 of 100


def test_an_interval_of_dependent_values_is_not_called_95_per_cent() -> None:
    rising = [100.0 + i for i in range(8)]
    waves = [10 + float(np.sin(i / 2.2)) for i in range(24)]
    for values, why in ((rising, "drift"), (waves, "correlated")):
        told = independence.claimed(stats.median(values), independence.look(values))
        assert (told.level, told.dependent) == (None, why)
        assert text.span(told).endswith(f"(no level: {why})")
        both = independence.claimed(stats.ratio(values, rising), *map(independence.look, (rising, values)))
        assert both.level is None
    mixed = [3.0, 1.0, 4.0, 2.0, 8.0, 5.0, 7.0, 6.0]
    assert independence.claimed(stats.median(mixed), independence.look(mixed)) == stats.median(mixed)


@pytest.mark.parametrize(("n", "least"), [(8, 0.45), (20, 0.9)])
def test_a_drift_of_a_tenth_is_found_at_its_stated_rate(n: int, least: float) -> None:
    """55 and 98 % in docs/testing/analysis.md, of 200 samples here."""
    rng = np.random.default_rng(n)
    drifts = (np.linspace(100, 90, n) * rng.normal(1, 0.03, n) for _ in range(200))
    assert sum(independence.look(list(d)).words() is not None for d in drifts) >= least * 200


def test_a_drifting_row_is_named_everywhere(run_folder: Path) -> None:
    cases = {
        p: json.loads(p.read_text())
        for p in run_folder.glob("cases/bb-scratch-none-max-bandwidth-Y/*/case.json")
    }
    for i, path in enumerate(sorted(cases, key=lambda p: float(cases[p]["value"]))):
        path.write_text(json.dumps(cases[path] | {"repetition": i + 1}))
    made = report_record.make(read_run(run_folder))
    said = report_words.dependence_sentences(made)
    mine = [line for line in said if line.startswith("BB (scratch")]
    assert len(mine) == 1 and "the repetitions drift, by about +" in mine[0]
    assert "Repetitions that are not independent" in exports.markdown(made)
    rows = report_record.as_json(made)["rows"]
    row = next(r for r in rows if (r["tiers"], r["fsync"], r["policy"]) == ("bb", "none", "max-bandwidth"))
    assert row["drift_p"] == pytest.approx(2 / 120) and "drift" in row["dependence"]
    assert row["ci_level"] is None and (row["ci_low"], row["ci_high"]) == (
        min(row["values"]),
        max(row["values"]),
    )
    assert "(no level: drift)" in exports.markdown(made)
    assert all(r.independence.n == 5 for r in judge(read_run(run_folder)))


def test_a_level_is_never_said_without_its_condition(run_folder: Path) -> None:
    """Few repetitions show nothing of their order: the sentence says with how many one could have looked."""
    made = report_record.make(read_run(run_folder))
    page, words = exports.markdown(made), report_words.assumption(made)
    assert (
        words
        == "Intervals and p hold if repetitions are independent; that was not testable with n = 5 (needs 32)."
    )
    assert words in page and "(94 % if independent)" in page
    assert not re.search(r"\(\d+ %\)", page)
    assert not any(r["independence_testable"] for r in report_record.as_json(made)["rows"])


def test_what_is_assumed_names_the_sizes_that_are_too_small() -> None:
    assert independence.assumed([1, 1]) is None
    assert str(independence.assumed([3, 8, 40])).endswith("not testable with n = 3 to 8 (needs 32)")
    assert str(independence.assumed([32, 40], "runs")) == (
        "intervals and p hold if runs are independent; with n = 32 or more a clear dependence is mostly found"
    )


def test_from_where_on_independence_is_testable_a_clear_dependence_is_mostly_found() -> None:
    """80 % of samples with 0.6 in common; of 60 here."""
    found, _ = simulate.named(simulate.correlated, independence.TESTABLE, 60)
    assert found >= 0.65
