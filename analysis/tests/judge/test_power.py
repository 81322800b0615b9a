from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tierbench.cli import main
from tierbench.judge import compare, power, stats
from tierbench.runs import samples

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import simulate


def test_more_noise_or_more_metrics_need_more_repetitions() -> None:
    few, noisy = (power.power("", noise, 0.1, 0.05, 1, 0.9) for noise in (0.03, 0.1))
    many = power.power("", 0.03, 0.1, 0.05, 12, 0.9)
    assert few.needed and noisy.needed and many.needed and few.needed < many.needed < noisy.needed
    assert few.shown[3] == 0 and few.shown[50] == 1
    assert power.power("", 0.5, 0.06, 0.05, 1, 0.99).needed is None


def test_cli_answers_in_words_and_json(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", "--noise", "3", "--difference", "10"]) == 0
    told = capsys.readouterr().out
    assert "needs 4 repetitions on each side" in told and "may be" not in told
    assert (
        "independent repetitions, exact Mann-Whitney at 5%, one metric, medians that differ by 5.0%" in told
    )
    assert main(["power", str(run_folder), "--difference", "10", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 12 and all(0 < r["noise"] < 0.05 and r["needed"] for r in rows)
    assert all(r["noise_at_most"] > 2 * r["noise"] and r["needed_at_most"] >= r["needed"] for r in rows)


def test_the_most_that_a_noise_may_be_is_that_in_19_of_20_samples() -> None:
    rng = np.random.default_rng(3)
    samples = rng.normal(100, 3, (2000, 5))
    most = [power.Noise(s.std(ddof=1) / s.mean(), 5).at_most or 0 for s in samples]
    assert 0.93 <= np.mean(np.array(most) >= 0.03) <= 0.97


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--noise", "3"], "--difference"),
        (["--difference", "9"], "--noise"),
        (["--noise", "x", "--difference", "9"], "'x'; allowed: a number above 0 and below 100"),
        (
            ["--noise", "3", "--difference", "9", "--metrics", "0"],
            "'0'; allowed: a whole number from 1 to 1000",
        ),
        (["--noise", "3", "--difference", "4"], "--difference 4 %; allowed: above the threshold of 5 %"),
    ],
)
def test_bad_input_is_status_2(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["power", *options])
    except SystemExit as e:  # argparse's own way
        status = int(e.code or 0)
    assert status == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize("kind", simulate.KINDS)
@pytest.mark.parametrize("n", simulate.SIZES)
def test_intervals_of_medians_keep_their_word(kind: simulate.Kind, n: int) -> None:
    """Of 400 seeded samples; within three standard errors; under drift they cover more than they say."""
    level = stats.median([float(v) for v in range(n)]).level
    assert level is not None
    error = 3 * (level * (1 - level) / 400) ** 0.5
    covered = simulate.covers(kind, n, 400)
    assert covered >= level - error and (covered <= level + error or kind is simulate.drifting)


@pytest.mark.parametrize("baseline", [simulate.normal, simulate.skewed])
def test_intervals_of_ratios_keep_their_word(baseline: simulate.Kind) -> None:
    assert all(0.92 <= simulate.covers_ratio(simulate.skewed, baseline, n, 400) <= 0.985 for n in (5, 10))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_simulated_is_what_compare_shows(seed: int) -> None:
    rng, metrics, n = np.random.default_rng(seed), 1 + seed % 3, 6
    values = rng.normal(100, 3, (metrics, 2, n)) * np.array([1, 1.04 if seed % 2 else 1]).reshape(1, 2, 1)
    common = {"direction": "higher", "modelled": True, "nodes": 1, "ranks": 1, "bytes": 1}
    lines = [
        {
            **common,
            "source": "ab"[side],
            "test": f"t{m}",
            "when": i,
            "repetition": i,
            "value": values[m, side, i],
        }
        for m in range(metrics)
        for side in (0, 1)
        for i in range(n)
    ]
    frame = pd.DataFrame(lines).reindex(columns=samples.COLUMNS, fill_value="-")
    found = compare.compare(frame, "run", 0.0, force=False)
    told = {*(m.verdict for m in found.metrics), *(w.verdict for w in found.wholes)}
    assert simulate.shows_any(values) is bool(told & {compare.REGRESSION, compare.IMPROVEMENT})


def test_false_alarms_and_steps_found() -> None:
    assert simulate.compare_alarms(simulate.normal, 6, 8, 100) <= 0.12
    assert simulate.history_shows(0, [10], 100, 0) <= 0.12
    assert simulate.history_shows(0.1, range(4, 17), 39, 0.05) >= 0.9
