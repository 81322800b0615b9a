"""Whether a launch is traced without asking is decided by a measurement before it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cheat_launches import BIN, CONFIG
from test_base import plan, site

from common.jobs import trace_cost
from common.jobs.script import Script
from common.outcome import held
from common.sites.tiers import ROOT
from tierbench.judge.asked import IorAsked
from tierbench.outputs import parse_ior

OUT = ROOT / "analysis" / "tests" / "data" / "ior-4.0.0" / "default.out"


def decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: float, traced: float) -> dict[str, Any]:
    """Of a call that takes so long, with a trace that makes one of 1 us take `traced`."""
    times = iter([1e-6, traced] * trace_cost.TURNS + [call])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trace_cost, "measured", lambda *_, **__: next(times))
    assert trace_cost.main(["tierctl", "c.yaml", "bypass", "4096", str(tmp_path / "f"), "trace-1"]) == 0
    found: dict[str, Any] = json.loads((tmp_path / "trace-1-cost.json").read_text())
    return found


@pytest.mark.parametrize(
    ("call", "traced", "share"),
    [
        (10e-6, 1.05e-6, 0.009),  # less than 90 ns was not measured but missed
        (10e-6, 1.2e-6, 0.02),
        (30e-6, 1.2e-6, 0.2 / 30),
    ],
)
def test_less_than_one_per_cent_of_a_call_is_traced(
    call: float,
    traced: float,
    share: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = decided(tmp_path, monkeypatch, call, traced)
    assert found["share"] == pytest.approx(share) and found["traced"] is (share < 0.01)
    assert capsys.readouterr().out == ("--trace trace-1.darshan\n" if share < 0.01 else "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_no_folder_and_no_process(number: signal.Signals, tmp_path: Path) -> None:
    """The stand-in for tierctl says its number through a fifo, and ends by the signal that is passed on."""
    fifo, tierctl = tmp_path / "fifo", tmp_path / "tierctl"
    os.mkfifo(fifo)
    tierctl.write_text(f"#!/bin/sh\necho $$ > {fifo}\nexec sleep 1000\n")
    tierctl.chmod(0o755)
    line = [sys.executable, trace_cost.__file__, str(tierctl), "c.yaml", "bypass", "1", "f", "t"]
    folder = tmp_path / "tmp"
    folder.mkdir()
    with subprocess.Popen(
        line,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(folder)},
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a job in the background ignores SIGINT
    ) as process:
        child = int(fifo.read_text())
        assert len(list(folder.iterdir())) == 1
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert not list(folder.iterdir()) and not Path(f"/proc/{child}").exists()


def sleeper(tmp_path: Path, first: str = "") -> Path:
    """A stand-in for tierctl that never ends by itself; `pid` has its number."""
    tierctl = tmp_path / "tierctl"
    tierctl.write_text(f"#!/bin/sh\n{first}\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    tierctl.chmod(0o755)
    return tierctl


def test_a_signal_that_comes_before_the_wait_ends_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python's own wait would not see it: the handler ran, and no call is interrupted after it."""
    asked: list[int] = []

    class Signalled(subprocess.Popen[str]):
        def __init__(self, *words: Any, **named: Any) -> None:
            super().__init__(*words, **named)
            asked.append(signal.SIGTERM)

    monkeypatch.setattr(trace_cost, "_asked", asked)
    monkeypatch.setattr(subprocess, "Popen", Signalled)
    with pytest.raises(SystemExit) as ended:
        trace_cost.measured(str(sleeper(tmp_path)), "c", "bypass", "f", 1)
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_look_that_hangs_is_killed_and_traces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_cost, "LONGEST_S", 1)
    monkeypatch.setattr(trace_cost, "GRACE_S", 0.2)
    tierctl = sleeper(tmp_path, "trap '' TERM")
    with pytest.raises(TimeoutError, match="a look took more than 1 s"):
        trace_cost.measured(str(tierctl), "c", "bypass", "f", 1)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_what_decided_against_a_trace_is_said(tmp_path: Path) -> None:
    told = {"call_s": 1.5e-6, "trace_s": 9e-8, "share": 0.06, "traced": False}
    (tmp_path / "trace-1-cost.json").write_text(json.dumps(told))
    asked = IorAsked(tuple("-w -r -o /scratch/ior.out -t 1m -b 16m -F -e".split()), 2, 1)
    output: Any = SimpleNamespace(clock=None, text=OUT.read_text())
    found = held.ior("1", asked, output, parse_ior(output.text), tmp_path, bypass=True)
    (unseen,) = found.unseen
    assert unseen.endswith("of launch 1 (no trace: it takes 6.0% of a call of 1.5 us)")


def test_a_measurement_that_fails_says_why_and_traces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trace_cost.main([str(tmp_path / "none"), "c", "bypass", "1", str(tmp_path / "f"), "trace"]) == 0
    assert capsys.readouterr().out == ""
    found = json.loads((tmp_path / "trace-cost.json").read_text())
    assert found["traced"] is False and "No such file" in found["problem"]


def test_a_real_site_measures_and_a_twin_does_not() -> None:
    real = Script(None, site(tiers="real", pfs="/pfs"), plan(tiers="pfs", mode="bypass"))
    (line,), words = real.trace("trace-1", "/bin/ior", 4096, "/pfs/run", wanted=False)
    assert line.startswith("trace_1=$(python3 ") and line.endswith(" 4096 /pfs/run/calibration trace-1)")
    assert words == ["$trace_1"]
    asked = ["--trace", "trace-1.darshan"]
    assert real.trace("trace-1", "/bin/ior", 4096, "/pfs", wanted=True) == ([], asked)
    twin = Script(None, site(), plan())
    assert twin.trace("trace-1", "/bin/ior", 4096, "/pfs", wanted=False) == ([], asked)
    assert twin.trace("trace-1", "/bin/tb-ior", 4096, "/pfs", wanted=False) == ([], [])


def test_the_line_measures_and_its_word_reaches_the_launch(tmp_path: Path) -> None:
    """A 16 MiB write takes longer than 100 traces of it; what it wrote is gone."""
    (tmp_path / "pfs").mkdir()
    (tmp_path / "tiers.yaml").write_text(CONFIG.replace("PLACE", str(tmp_path)))
    real = Script(None, site(tiers="real", pfs=str(tmp_path)), plan(tiers="pfs", mode="bypass"))
    (line,), (word,) = real.trace("trace", str(BIN / "ior"), 16 << 20, tmp_path / "pfs", wanted=False)
    done = subprocess.run(
        ["bash", "-ec", f"{line}\necho {word}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = json.loads((tmp_path / "trace-cost.json").read_text())
    assert done.stdout.strip() == ("--trace trace.darshan" if found["traced"] else "")
    assert found["call_s"] > 1e-4 and "problem" not in found
    assert list((tmp_path / "pfs").iterdir()) == []
