"""Measurements of components by ReFrame, with few operations: records, and what is skipped and refused."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from test_suite import reframe

from common.scales.components_scale import fitting
from common.sites.tiers import read_scale
from tierbench.base.strict_json import read_fitting
from tierbench.runs.case import read_case


def run(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *measurements: str,
    scale: str = "smoke",
    **environment: str,
) -> tuple[int, str]:
    """A session, its run folder `folder`/run."""
    for name, value in ({"TIERBENCH_RUN_DIR": str(folder / "run")} | environment).items():
        monkeypatch.setenv(name, value)
    options = [
        "-n",
        "Hpdc18Components",
        "-P",
        f"measurement={','.join(measurements)}",
        "-S",
        f"scale={scale}",
    ]
    done = reframe(*options, "-r", "--prefix", str(folder / "reframe"))
    return done.returncode, done.stdout + done.stderr


def test_each_part_is_a_repetition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, told = run(tmp_path, monkeypatch, "memory-engine-p2-b1", "messages-engine-p1-b1")
    assert status == 0, told
    cases = tmp_path / "run" / "cases"
    test = "hpdc18-components-memory-engine-p2-b1-take-and-give"
    rates = [read_case(cases / test / str(i) / "case.json").value for i in range(1, 11)]
    printed = read_fitting(cases / test / "1" / "components.json", "components")["rows"]
    assert [row["ops_per_s"] for row in printed] == [rates]
    latency = read_case(cases / "hpdc18-components-messages-engine-p1-b1-latency-99_9" / "1" / "case.json")
    assert (latency.metric, latency.unit, latency.direction) == ("time", "us", "lower")
    assert (latency.system, latency.tiers, latency.verified, latency.scale) == ("local", "ram", True, "smoke")


def test_a_missing_server_skips_its_row_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its programs are not in these folders, and all that ReFrame needs is."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "git", "date", "hostname", "mkdir"):
        for place in os.environ["PATH"].split(":"):
            if Path(place, name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(place, name))
    status, told = run(tmp_path, monkeypatch, "metadata-redis-p1-b1", "streams-files-p1-b1", PATH=str(tools))
    assert status == 0, told
    assert "1 skipped" in told
    assert "redis: there is no program redis-server" in told or "redis: this was built without" in told
    left = sorted({p.name for p in (tmp_path / "run" / "cases").iterdir()})
    assert left == ["hpdc18-components-streams-files-p1-b1-fwrite"]


def measuring_process(folder: Path) -> int | None:
    """The child of the program that the job started, with its files in this folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_child = "tb-components-m" in comm(process.parent / parent_of(process))
            ours = f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0")
            if "tb-components-m" in comm(process) and is_child and ours:
                return int(process.name)
    return None


def comm(process: Path) -> str:
    return (process / "comm").read_text()


def parent_of(process: Path) -> str:
    return (process / "stat").read_text().rpartition(")")[2].split()[1]


def kill_after_a_row(folder: Path) -> None:
    """What measures, when its job has printed a row and has three to go."""
    for _ in range(6000):
        printed = any('"put"' in f.read_text() for f in (folder / "reframe").rglob("rfm_job.out"))
        if printed and (process := measuring_process(folder / "tmp")):
            os.kill(process, signal.SIGKILL)
            return
        time.sleep(0.01)


def test_a_program_that_fails_after_a_row_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does when its server dies: nothing of it counts, and the reason is what it said."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    killer = threading.Thread(target=kill_after_a_row, args=(tmp_path,))
    killer.start()
    status, told = run(tmp_path, monkeypatch, "metadata-engine-p1-b1", scale="local")
    killer.join()
    assert status == 1
    assert "the program ended with 1: tb-components-metadata: engine: killed by signal 9" in told
    assert list((tmp_path / "run").glob("cases/*")) == []
    assert measuring_process(tmp_path / "tmp") is None


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([[1e6] * 10] * 4, 1_000_000),  # 4 s
        ([[20e3] * 10] * 4, 25_000),  # four kinds of 50 us: 200 us of a record
        ([[100e3] * 5 + [50e3] * 5], 333_000),  # 15 us in the mean
        ([[1.0] * 10], 1000),  # so few are always made
    ],
)
def test_so_many_operations_are_made_as_fit(rates: list[list[float]], expected: int) -> None:
    assert fitting(1_000_000, rates) == expected
    assert fitting(100, rates) == 100


def test_an_unknown_measurement_is_refused(tmp_path: Path) -> None:
    done = reframe(
        "-n", "Hpdc18Components", "-P", "measurement=memory-tcmalloc-p1-b1", "-l", "--prefix", str(tmp_path)
    )
    assert done.returncode == 2
    assert "measurement='memory-tcmalloc-p1-b1'; allowed: memory-engine-p1-b1, " in done.stderr


def test_the_evaluation_s_million_is_what_a_site_runs() -> None:
    found = {name: read_scale(name)["components"] for name in ("full", "local", "node", "smoke", "two-nodes")}
    assert found == {"full": 10**6, "local": 10**6, "node": 10**6, "smoke": 1000, "two-nodes": 1000}
