"""The tables of the docs are a run's: written between two comments; a run without a workload is refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
import synthetic
from hpdc18_rows import keep, publish, record

from tierbench.base.policies import POLICIES

WRITER = Path(__file__).resolve().parents[3] / "docs" / "placement" / "hpdc18.py"
WORKLOADS = (
    "alternating-a",
    "alternating-b",
    "alternating-c",
    "read-x1",
    "read-x4",
    "read-x16",
    "vpic",
    "hacc",
)
PLACES = "before\n<!-- hpdc18: {} -->\nold\n<!-- /hpdc18 -->\nbetween\n"


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hpdc18_docs", WRITER)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DOCS", tmp_path / "docs")
    for page, names in (("placement/README.md", ["policies"]), ("testing/hpdc18.md", ["claims", "bounds"])):
        path = tmp_path / "docs" / page
        path.parent.mkdir(parents=True)
        path.write_text("".join(PLACES.format(name) for name in names))
    return module


def made(
    results: Path, workloads: Sequence[str] = WORKLOADS, policies: Sequence[str] = tuple(POLICIES)
) -> Path:
    run_folder = synthetic.build(results, repetitions=1)
    publish(run_folder)
    for workload in workloads:
        for name, value in (("none", 60.0), ("datawarp", 30.0), ("elevator", 20.0), ("max-bandwidth", 10.0)):
            keep(run_folder, record(workload, name), [value + i / 100 for i in range(5)])
        for policy in set(policies) - {"max-bandwidth"}:
            keep(run_folder, record(workload, policy), [25.0 + i / 100 for i in range(5)])
    return run_folder


def test_both_pages_and_the_picture_are_written(
    writer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["hpdc18.py", str(made(tmp_path))])
    assert writer.main() == 0
    policies = (tmp_path / "docs/placement/README.md").read_text()
    page = (tmp_path / "docs/testing/hpdc18.md").read_text()
    assert (
        "| alternating-a | " in policies
        and "| 1 |" in policies
        and "2.50*" in policies
        and "Medians of 5 repetitions, 2026-11-21" in policies
    )
    assert "| alternating compute and I/O | no buffering | 8.00x | 5.99x (" in page
    assert "NOT reached" in page and "alternating-a under max-bandwidth takes 10.020 s" in page
    assert "| vpic | max-bandwidth | 10.0 s | 340 s |" in page
    assert "old" not in policies + page and policies.startswith("before\n") and page.endswith("between\n")
    assert (tmp_path / "docs/placement/hpdc18.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        ({"workloads": WORKLOADS[:-1]}, "lacks workloads"),
        ({"policies": ("max-bandwidth", "random")}, "lacks policies"),
        ({}, "measures nothing"),
    ],
)
def test_a_run_that_is_not_whole_changes_nothing(
    writer: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lacks: dict[str, Sequence[str]],
    words: str,
) -> None:
    run_folder = made(tmp_path, **lacks)
    if not lacks:
        case = run_folder / "cases" / "hpdc18-vpic_none" / "1" / "case.json"
        case.write_text(case.read_text().replace('"local"', '"smoke"'))
    monkeypatch.setattr("sys.argv", ["hpdc18.py", str(run_folder)])
    before = (tmp_path / "docs/placement/README.md").read_text()
    assert writer.main() == 2 and words in capsys.readouterr().err
    assert (tmp_path / "docs/placement/README.md").read_text() == before
