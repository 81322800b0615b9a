"""Damaged and made-up run folders, ReFrame reports and results stores: read, or refused with one message."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import synthetic
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.runs import samples

FUZZ = settings(
    phases=[Phase.generate],
    deadline=None,
    max_examples=60,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def refused_or_read(source: Path) -> None:
    """A message of one line that names the source, or numbers above 0."""
    try:
        read = samples.read(str(source))
    except RunError as e:
        assert str(source.name) in str(e) and "Traceback" not in str(e) and "\n" not in str(e)
    else:
        assert (read["value"] > 0).all()


def changed(document: Any, data: st.DataObject) -> Any:
    """The same with one thing in it replaced by anything, or left out."""
    if not isinstance(document, dict | list) or not document or data.draw(st.integers(0, 5)) == 0:
        return data.draw(ANYTHING)
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = data.draw(st.sampled_from(keys))
    again = document.copy()
    if data.draw(st.integers(0, 9)) == 0:
        del again[key]
    else:
        again[key] = changed(document[key], data)
    return again


def report() -> dict[str, Any]:
    """A report of ReFrame with a case of its own and one of the suite."""
    common = {"result": "pass", "system": "here", "partition": "p", "environ": "e", "num_tasks": 2}
    own = common | {
        "display_name": "Own",
        "perfvalues": {"here:p:copy": [5.0, 0, None, None, "MB/s", "pass"]},
    }
    said = {"test": "w", "metric": "bandwidth", "unit": "MiB/s", "direction": "higher", "value": 3.5}
    said |= {"tiers": "bb", "mode": "scratch", "ranks": 2, "bytes": 5, "modelled": True, "repetition": 1}
    suite = common | {"display_name": "Write", "perfvalues": {}, "metrics": said}
    about = {"uuid": "u1", "time_start_unix": 1e9}
    return {"session_info": about, "runs": [{"testcases": [own, suite]}]}


@FUZZ
@given(data=st.data())
def test_reframe_reports(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "report.json"
    path.write_text(json.dumps(changed(report(), data)))
    refused_or_read(path)


@FUZZ
@given(data=st.data())
def test_results_stores(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any blob and any id in a store that is whole, and a store with bytes overwritten and cut off."""
    path = tmp_path_factory.getbasetemp() / "results.db"
    path.unlink(missing_ok=True)
    blob = data.draw(
        st.one_of(st.just(json.dumps(changed(report(), data))), st.text(), st.binary(), st.none())
    )
    line = (data.draw(st.one_of(st.text(max_size=9), st.none(), st.integers(0, 9))), 1.0, blob)
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE sessions(uuid TEXT, session_start_unix REAL, json_blob TEXT)")
        base.execute("INSERT INTO sessions VALUES(?, ?, ?)", line)
    base.close()
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(16, len(whole) - 1))
        whole[at : at + 4] = data.draw(st.binary(min_size=1, max_size=4))
    path.write_bytes(whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))])
    refused_or_read(path)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = synthetic.build(tmp_path_factory.mktemp("whole"), 1)
    for folder in sorted(run.glob("cases/*"))[2:]:
        shutil.rmtree(folder)
    return run


@settings(FUZZ, max_examples=10)
@given(data=st.data())
def test_run_folders(data: st.DataObject, whole_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of a run's files changed anywhere: a report, or status 2 and one line."""
    path = data.draw(st.sampled_from(sorted(whole_run.rglob("*.json"))))
    before = path.read_text()
    document = changed(json.loads(before), data)
    path.write_text(data.draw(st.sampled_from([json.dumps(document), before[: len(before) // 2], ""])))
    try:
        status = main(["report", str(whole_run), "-o", str(whole_run.parent / "out")])
        said = capsys.readouterr()
        assert status == 0 or (status == 2 and said.err.count("\n") == 1 and not said.out), said
    finally:
        path.write_text(before)
