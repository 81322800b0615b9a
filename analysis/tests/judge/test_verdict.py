from __future__ import annotations

import json
from pathlib import Path

import pytest
import synthetic

from tierbench.judge import requirement
from tierbench.judge.verdict import Row, _step_before, judge, steps
from tierbench.runs.run_folder import read_run


def rows_of(run: Path) -> dict[tuple[str, str, str], Row]:
    rows = judge(read_run(run))
    return {
        (r.key["tiers"], r.key["fsync"], r.key["policy"] + ("" if r.syncs_each_write else "-plain")): r
        for r in rows
    }


def test_twelve_rows_baseline_first(shared_run: Path) -> None:
    rows = judge(read_run(shared_run))
    assert len(rows) == 12
    assert rows[0].label == "PFS with -Y" and rows[0].ratio and rows[0].ratio.value == 1
    assert all(r.baseline == "PFS with -Y" for r in rows)


def test_both_ratios(shared_run: Path) -> None:
    rows = rows_of(shared_run)
    row, synced = rows["bb", "none", "max-bandwidth"], rows["pfs", "pfs", "none"]
    plain = rows["pfs", "pfs", "none-plain"]
    assert row.ratio and row.ratio_without_sync
    assert row.ratio.value == pytest.approx(row.median.value / synced.median.value)
    assert row.ratio_without_sync.value == pytest.approx(row.median.value / plain.median.value)


def test_filling_in_turn_misses_the_published_number_and_side_by_side_does_not(shared_run: Path) -> None:
    rows = rows_of(shared_run)
    in_turn = rows["bb-nvme-ram", "none", "max-bandwidth"]
    assert in_turn.verdict == "fail" and "misses the requirement" in in_turn.reason
    assert in_turn.margin == pytest.approx(in_turn.median.value / 829.3921 - 1)
    assert rows["bb-nvme-ram", "none", "round-robin"].verdict == "pass"


def test_a_modelled_row_may_miss_by_the_accuracy_of_the_model(tmp_path: Path) -> None:
    near = rows_of(synthetic.build(tmp_path / "near", scale=0.98, noise=0.002))
    assert near["bb", "none", "max-bandwidth"].verdict == "pass"
    far = rows_of(synthetic.build(tmp_path / "far", scale=0.93, noise=0.002))
    assert far["bb", "none", "max-bandwidth"].verdict == "fail"


def test_a_row_that_does_not_behave_as_modelled_fails(tmp_path: Path) -> None:
    for scale in (0.85, 1.2):
        row = rows_of(synthetic.build(tmp_path / str(scale), scale=scale))["ram", "none", "max-bandwidth"]
        assert row.verdict == "fail" and "does not behave as modelled" in row.reason


def test_a_wide_interval_is_inconclusive(tmp_path: Path) -> None:
    row = rows_of(synthetic.build(tmp_path, noise=0.04))["bb", "none", "max-bandwidth"]
    assert row.verdict == "inconclusive" and "not shown" in row.reason


def test_small_samples_are_inconclusive_and_say_what_they_need(tmp_path: Path) -> None:
    run = synthetic.build(tmp_path, repetitions=3)
    row = rows_of(run)["bb", "none", "max-bandwidth"]
    assert row.verdict == "inconclusive" and "needs n >= 5" in row.reason
    assert all(s.comparison.needs_n for s in steps(judge(read_run(run))))


def test_wrong_bytes_fail_whatever_the_bandwidth(run_folder: Path) -> None:
    path = run_folder / "cases/bb-persistent-async-tier-max-bandwidth-Y/3/case.json"
    case = json.loads(path.read_text())
    path.write_text(json.dumps(case | {"verified": False}))
    row = rows_of(run_folder)["bb", "tier", "max-bandwidth"]
    assert row.verdict == "fail" and "WRONG" in row.reason


def test_real_devices_get_no_prediction_and_no_tolerance(run_folder: Path) -> None:
    for path in run_folder.glob("cases/*/*/case.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"modelled": False}))
    rows = rows_of(run_folder)
    assert all(r.prediction is None and r.fraction_of_peak is None for r in rows.values())
    assert rows["bb", "none", "max-bandwidth"].verdict == "fail"
    assert rows["ram", "none", "max-bandwidth"].verdict == "inconclusive"


def test_drivers_are_not_mixed(run_folder: Path) -> None:
    path = run_folder / "cases/bb-scratch-none-max-bandwidth-Y/3/case.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"driver": "IOR-4.0.0"}))
    rows = [r for r in judge(read_run(run_folder)) if r.key["tiers"] == "bb" and r.key["fsync"] == "none"]
    assert sorted(len(r.values) for r in rows) == [1, 4]


def test_steps_are_small_families_of_planned_comparisons(shared_run: Path) -> None:
    found = [
        (s.after.key["fsync"], s.before.label, s.after.label, s.comparison.significant)
        for s in steps(judge(read_run(shared_run)))
    ]
    assert ("none", "PFS with -Y", "BB", True) in found
    assert ("none", "BB + NVMe", "BB + NVMe + RAM", True) in found
    assert ("tier", "BB + NVMe", "BB + NVMe + RAM", False) in found
    assert ("none", "BB + NVMe + RAM", "BB + NVMe + RAM side by side", True) in found


def change(run: Path, rows: str, **fields: object) -> None:
    """Other fields in the cases of these rows."""
    for path in run.glob(f"cases/{rows}/*/case.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_row_of_two_nodes_is_held_against_the_devices_of_two(run_folder: Path) -> None:
    """The same numbers on twice the devices are half of what these do, and half the share of their peak."""
    one = next(r for r in judge(read_run(run_folder)) if r.prediction and r.key["tiers"] == "bb")
    change(run_folder, "*", nodes=2)
    two = next(r for r in judge(read_run(run_folder)) if r.key == one.key)
    assert one.predicted and one.fraction_of_peak and two.fraction_of_peak
    assert two.predicted == pytest.approx(2 * one.predicted, rel=0.02)
    assert two.fraction_of_peak == pytest.approx(one.fraction_of_peak / 2)
    assert one.verdict == "pass" and two.verdict == "fail" and "does not behave as modelled: -" in two.reason
    change(run_folder, "*", nodes=None)
    assert all(r.predicted is None and r.fraction_of_peak is None for r in judge(read_run(run_folder)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", 2),
        ("ranks", 8),
        ("bytes", 4096),
        ("nodes", None),
        ("requirement", 99),
        ("requirement", None),
        ("expected", 7),
        ("factor", 2),
    ],
)
def test_repetitions_of_different_work_are_no_row(run_folder: Path, field: str, value: int | None) -> None:
    path = sorted(run_folder.glob("cases/bb-scratch-none-max-bandwidth-Y/*/case.json"))[2]
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    row = next(r for r in judge(read_run(run_folder)) if r.unlike)
    assert row.verdict == "fail" and f"its repetitions are not of the same: {field} " in row.reason
    assert sum(bool(r.unlike) for r in judge(read_run(run_folder))) == 1


def test_a_requirement_of_the_report_goes_before_different_ones_of_the_site(run_folder: Path) -> None:
    path = sorted(run_folder.glob("cases/bb-scratch-none-max-bandwidth-Y/*/case.json"))[2]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"requirement": 99}))
    asked = requirement.parse("webinar-write-Y: bandwidth >= 1 MiB/s")
    assert not any(r.unlike for r in judge(read_run(run_folder), [asked]))


RECIPE = {
    "scale": "local",
    "factor": 4,
    "dropped": ["nodes: 1 of 960"],
    "nodes": 1,
    "full_percent": 7.5,
    "sustained_by": "the driver's counts",
}


def as_recipe(run: Path, **more: object) -> Row:
    """The PFS row without -Y as if a recipe had measured it."""
    for path in run.glob("cases/pfs-bypass-pfs-none-plain/*/case.json"):
        case = json.loads(path.read_text()) | {"test": "x-write", "command": "metadata"} | RECIPE | more
        path.write_text(json.dumps(case))
        path.with_name("stdout.txt").write_text(f"write {case['value']}\n")
    return next(r for r in judge(read_run(run)) if r.key["test"] == "x-write")


def test_rows_of_several_tests_have_their_names(run_folder: Path) -> None:
    for path in run_folder.glob("cases/pfs-bypass-pfs-none-plain/*/case.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"test": "forge-8n-12p"}))
    assert "forge-8n-12p, PFS" in [r.label for r in judge(read_run(run_folder))]


def test_a_row_of_another_policy_than_the_default_names_it(run_folder: Path) -> None:
    """A test that runs under each policy has rows that are else the same in words."""
    assert as_recipe(run_folder, tiers="ram", policy="random").label == "x-write, RAM, random"
    assert as_recipe(run_folder, tiers="ram", policy="max-bandwidth").label == "x-write, RAM"


def test_a_twin_is_held_to_the_published_share(run_folder: Path) -> None:
    row = as_recipe(run_folder, expected=471.6, published=471.6, requirement=471.6)
    assert row.verdict == "pass" and row.predicted == 471.6
    assert row.at_full_speed == pytest.approx(4 * row.median.value)
    assert row.published_at_full_speed == pytest.approx(4 * 471.6)
    assert (row.scale, row.dropped, row.full_percent) == ("local", ("nodes: 1 of 960",), 7.5)
    assert row.label == "x-write, PFS"
    far = as_recipe(run_folder, expected=400.0, published=400.0, requirement=None)
    assert far.verdict == "fail" and "does not behave as modelled" in far.reason
    assert "applies to it" not in row.reason + far.reason


def test_a_number_that_nothing_is_asked_of_says_so(run_folder: Path) -> None:
    row = as_recipe(run_folder, read_limit=470.0, requirement=None, published=None)
    assert row.verdict == "inconclusive"
    assert row.reason.startswith("held against no number: no requirement or prediction applies to it; ")


def test_a_launch_that_is_not_what_was_asked_for_fails(run_folder: Path) -> None:
    told = "launch 1: fsync: asked for 2 (-e, one a rank), but the trace holds 0"
    row = as_recipe(run_folder, expected=471.6, disagreements=[told], witness="the trace")
    assert row.verdict == "fail" and told in row.reason
    honest = as_recipe(run_folder, expected=471.6, disagreements=[], witness="the trace")
    assert [c.verdict for c in honest.checks if c.name == "launch"] == ["pass"]


def test_a_read_faster_than_the_device_came_from_a_cache(run_folder: Path) -> None:
    row = as_recipe(run_folder, read_limit=400.0, requirement=None, published=None)
    assert row.verdict == "fail" and "from a cache" in row.reason
    row = as_recipe(run_folder, read_limit=470.0, requirement=None, published=None)
    assert row.verdict == "inconclusive" and "no faster than the device" in row.reason


@pytest.mark.parametrize(("sustained", "verdict"), [(True, "inconclusive"), (False, "fail")])
def test_a_rank_at_the_end_of_its_data_fails(run_folder: Path, sustained: bool, verdict: str) -> None:
    row = as_recipe(run_folder, sustained=sustained, requirement=None, published=None)
    assert row.verdict == verdict and "deadline" in row.reason


def test_a_deadline_that_nothing_shows_was_kept_is_inconclusive(run_folder: Path) -> None:
    more = {"requirement": None, "published": None, "read_limit": 470.0}
    row = as_recipe(run_folder, sustained=None, sustained_by="not shown: no counts, no trace", **more)
    assert row.verdict == "inconclusive" and "not shown" in row.reason
    row = as_recipe(run_folder, sustained=None, sustained_by="no deadline", **more)
    assert "not shown" not in row.reason


@pytest.mark.parametrize(
    ("metric", "medium", "fraction", "verdict"),
    [
        ("higher", 950.0, 0.496, "pass"),
        ("higher", 900.0, 0.524, "fail"),
        ("lower", 235.0, 0.498, "pass"),
        ("lower", 240.0, 0.509, "fail"),
    ],
)
def test_a_twin_asks_at_most_half_of_its_medium(
    run_folder: Path, metric: str, medium: float, fraction: float, verdict: str
) -> None:
    row = as_recipe(run_folder, expected=471.6, requirement=None, direction=metric, medium=medium)
    assert row.of_medium == pytest.approx(fraction, abs=1e-3)
    assert next(c.verdict for c in row.checks if c.name == "medium") == verdict


def test_a_recipe_has_no_step_to_another_test(run_folder: Path) -> None:
    as_recipe(run_folder)
    assert all(s.before.key["test"] != "x-write" for s in steps(judge(read_run(run_folder))))


@pytest.mark.parametrize(
    ("tiers", "known", "before"),
    [
        ("bb", ["bb", "ram"], "pfs"),
        ("bb-nvme-ram", ["bb", "bb-nvme", "ram"], "bb-nvme"),
        ("nvme-ram", ["ram", "nvme"], "nvme"),
        ("nvme-ram", ["ram"], "ram"),
        ("mine", ["nvme", "ram"], "pfs"),
    ],
)
def test_a_step_comes_from_the_configuration_with_a_tier_less(
    tiers: str, known: list[str], before: str
) -> None:
    assert _step_before(tiers, [*known, tiers]) == before
