"""`tierbench forwarding` and `tierbench allocate` from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tierbench.cli import main
from tierbench.forwarding.measurements import COLUMNS

JOBS = """\
jobs:
  - {name: a, compute_nodes: 8, processes: 96, layout: shared, spatiality: strided, request_kib: 1024}
  - {name: b, compute_nodes: 8, processes: 96, layout: shared, spatiality: contiguous, request_kib: 32}
"""


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main([str(w) for w in words])
    told = capsys.readouterr()
    return status, told.out, told.err


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Ten scenarios of one kind that forwarding with 2 makes three times as fast."""
    lines = [
        f"{n},{12 * n},shared,contiguous,{kib},{k},{(100 + i) * n * (3 if k == 2 else 1)}"
        for n in (2, 4, 8, 16, 32)
        for kib in (32, 64)
        for k in (0, 1, 2)
        for i in range(6)
    ]
    file = tmp_path / "mine.csv"
    file.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    return file


def test_a_study_of_own_runs(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "forwarding", runs, "-o", tmp_path / "out")
    assert status == 0 and "mine, over all deployments: use 2 for 2 patterns." in out
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {f"forwarding.{kind}" for kind in ("html", "md", "json", "csv", "parquet")}
    page = (tmp_path / "out/forwarding.html").read_text()
    assert page.count('<svg class="narrow"') == 4 and "own runs" in page and "Modelled" in page
    gains = page.split("<svg")[1]
    assert gains.count(">use 2<") + gains.count("<!-- use 2 -->") == 2  # a line of the heat map each
    (study,) = json.loads((tmp_path / "out/forwarding.json").read_text())
    assert study["choices"][-1] == {"rule": "p values, Holm", "scenarios": {"2": 10}}
    assert {c["recommendation"] for c in study["scenarios"]} == {"use 2"}
    assert study["twin"] is not None and len(study["queues"]) == 20
    assert "use 2" in (tmp_path / "out/forwarding.md").read_text()


def test_who_gets_how_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, live = tmp_path / "jobs.yaml", tmp_path / "map.json"
    jobs.write_text(JOBS)
    words = ("allocate", jobs, "--on", "marenostrum4", "--pool", 8)
    status, out, _ = run(capsys, *words, "--json", "--map", live, "--epoch", 3)
    told = json.loads(out)
    assert status == 0 and told["total_mib_s"]["best"] == max(told["total_mib_s"].values())
    assert [job["modelled"] for job in told["jobs"]] == [False, False]
    assert sum(job["best"] for job in told["jobs"]) <= 8
    made = json.loads(live.read_text())
    assert made["epoch"] == 3 and [entry["clients"] for entry in made["map"]] == [[0, 95], [96, 191]]
    assert [len(entry["io_nodes"]) for entry in made["map"]] == [job["best"] for job in told["jobs"]]
    jobs.write_text(JOBS.replace("32}", "48}"))
    status, out, _ = run(capsys, *words)
    assert status == 0 and "b (modelled)" in out and "a (modelled)" not in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jobs: []", "jobs: []; allowed: "),
        (JOBS.replace("name: b", "name: a"), "job 'a' is there twice"),
        (JOBS.replace("strided", "zigzag"), "jobs[a].spatiality: 'zigzag'; allowed: "),
        (JOBS.replace("processes: 96, ", ""), "lacks 'processes'"),
        ("jobs: [", "cannot be read"),
    ],
)
def test_jobs_that_are_refused(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, live = tmp_path / "jobs.yaml", tmp_path / "map.json"
    jobs.write_text(text)
    status, _, err = run(capsys, "allocate", jobs, "--on", "marenostrum4", "--pool", 8, "--map", live)
    assert status == 2 and told in err and str(jobs) in err and err.count("\n") == 1
    assert not live.exists()


def test_what_is_no_source(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "forwarding", "summit")
    assert status == 2 and "summit: cannot be used; allowed: " in err
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(JOBS)
    status, _, err = run(capsys, "allocate", jobs, "--on", runs, "--pool", 4)
    assert status == 2 and "job a: shared, strided; allowed: what " in err
