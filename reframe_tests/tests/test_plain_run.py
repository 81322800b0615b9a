"""What a plain `reframe` line leaves at its end; ReFrame and the report are stubs here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.outcome import plain_run

LOGS = ["/tmp/rfm-mine.log"]
LINE = "tierbench: {}: {}; the report of mine is not whole, or not the latest\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that came to its end, and ReFrame's reports of it and of another session."""
    made = tmp_path / "results/runs/mine"
    made.mkdir(parents=True)
    reports = []
    for name in ("mine", "other"):
        report = tmp_path / f"{name}.json"
        report.write_text(json.dumps({"session_info": {"log_files": [f"/tmp/rfm-{name}.log"]}}))
        reports.append(report)
    (tmp_path / "strange.json").write_text("[]")
    monkeypatch.setattr(plain_run, "_reports", lambda: [tmp_path / "strange.json", *reversed(reports)])
    monkeypatch.setattr(plain_run, "REPORT", "import sys; open(sys.argv[2] + '/report.html', 'w')")
    return made


def latest(run: Path) -> Path:
    return run.parent.parent / "latest"


def test_a_run_that_came_to_its_end_is_the_latest(run: Path) -> None:
    latest(run).symlink_to("runs/before")
    plain_run._leave(run, LOGS)
    assert str(latest(run).readlink()) == "runs/mine"
    assert sorted(p.name for p in run.iterdir()) == ["reframe.json", "report.html"]
    assert "rfm-mine" in (run / "reframe.json").read_text()


@pytest.mark.parametrize("logs", [[], ["/tmp/rfm-interrupted.log"]])
def test_a_session_without_a_report_changes_nothing(run: Path, logs: list[str]) -> None:
    plain_run._leave(run, logs)
    assert not latest(run).is_symlink() and not list(run.iterdir())


def test_a_folder_in_the_place_of_the_link_stays(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (latest(run) / "mine").mkdir(parents=True)
    plain_run._leave(run, LOGS)
    assert capfd.readouterr().err == LINE.format(latest(run), "Is a directory")
    assert sorted(p.name for p in latest(run).parent.iterdir()) == ["latest", "runs"]
    assert (latest(run) / "mine").is_dir() and (run / "report.html").exists()


def test_a_run_folder_that_is_gone_is_told(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run.rmdir()
    plain_run._leave(run, LOGS)
    assert capfd.readouterr().err == LINE.format(run / "reframe.json", "No such file or directory")
    assert not latest(run).is_symlink()


def test_a_report_that_fails_leaves_the_latest(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    latest(run).symlink_to("runs/before")
    monkeypatch.setattr(plain_run, "REPORT", "raise SystemExit('tierbench: no cases')")
    plain_run._leave(run, LOGS)
    assert capfd.readouterr().err == "tierbench: no cases\n"
    assert str(latest(run).readlink()) == "runs/before"


@pytest.mark.parametrize(("given", "expected"), [("", "-reframe-"), ("/a/run", "/a/run")])
def test_a_variable_set_to_nothing_names_no_folder(given: str, expected: str) -> None:
    ask = "from common.outcome.rundir import run_dir; print(run_dir())"
    told = subprocess.run(
        [sys.executable, "-c", ask],
        env=os.environ | {"TIERBENCH_RUN_DIR": given, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in told.stdout
