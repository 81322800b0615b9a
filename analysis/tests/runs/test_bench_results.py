"""Results of `make bench` as measurements: compared and followed like runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.runs import samples

FAST, SLOW = [0.50 + 0.01 * i for i in range(8)], [0.80 + 0.01 * i for i in range(8)]


def document(values: list[float], commit: str = "abc1234", hour: int = 1) -> dict[str, Any]:
    """A result with a row of times, a row of rates and one that could not be measured."""
    row = {"yardstick": "the same on tmpfs", "budget": 0.6, "error": None}
    return {
        "run": {"commit": commit, "started": f"2026-11-20T{hour:02}:00:00Z"},
        "rows": [
            {**row, "path": "pwrite 4 KiB", "direction": "at most", "values": values},
            {**row, "path": "write 1 MiB", "direction": "at least", "values": [1 / v for v in values]},
            {**row, "path": "open + close", "direction": "at most", "values": [], "error": "no"},
        ],
    }


def written(folder: Path, name: str, content: dict[str, Any]) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_a_row_is_a_test_and_a_ratio_a_repetition(tmp_path: Path) -> None:
    found = samples.read(written(tmp_path, "a", document(FAST)))
    assert set(found["test"]) == {"bench pwrite 4 KiB", "bench write 1 MiB"}
    times = found[found["test"] == "bench pwrite 4 KiB"]
    assert list(times["value"]) == FAST
    assert list(times["repetition"]) == list(range(1, 9))
    assert set(times["direction"]) == {"lower"}
    assert set(times["commit"]) == {"abc1234"}
    assert set(found[found["test"] == "bench write 1 MiB"]["direction"]) == {"higher"}


@pytest.mark.parametrize(("before", "after", "status"), [(FAST, SLOW, 1), (SLOW, FAST, 0), (FAST, FAST, 0)])
def test_compare_exits_1_on_a_slowdown(
    tmp_path: Path, before: list[float], after: list[float], status: int
) -> None:
    both = [written(tmp_path, "base", document(before)), written(tmp_path, "here", document(after, "def"))]
    assert main(["compare", *both, "--threshold", "5"]) == status


def test_history_finds_the_commit_of_a_slowdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [written(tmp_path, str(n), document(FAST if n < 8 else SLOW, f"commit{n}", n)) for n in range(16)]
    assert main(["history", "bench pwrite*", *runs]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "WORSE" in told
    assert "commit7 to commit8" in told


@pytest.mark.parametrize("broken", ["run", "started", "direction"])
def test_a_damaged_result_is_named(tmp_path: Path, broken: str) -> None:
    content = document(FAST)
    for part in (content, content["run"], *content["rows"]) if broken != "run" else (content,):
        part.pop(broken, None)
    path = written(tmp_path, "damaged", content)
    with pytest.raises(RunError, match="is not a result of make bench") as error:
        samples.read(path)
    assert path in str(error.value)
