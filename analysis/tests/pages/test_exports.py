"""What report and compare write for other programs and for a wiki page."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest
import synthetic

from tierbench.base import schema
from tierbench.cli import main


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of one run, and a comparison with a run with tiers that are 20 % slower."""
    root = tmp_path_factory.mktemp("exports")
    run, slow = (synthetic.build(root / name, 8, scale=scale) for name, scale in (("a", 1.0), ("b", 0.8)))
    assert main(["report", str(run), "-o", str(root / "report")]) == 0
    assert main(["compare", str(run), str(slow), "-o", str(root / "comparison")]) == 1
    return root


def test_rows_are_those_of_the_json(written: Path) -> None:
    rows = json.loads((written / "report/report.json").read_text())["rows"]
    parquet = polars.read_parquet(written / "report/report.parquet")
    assert parquet.columns == list(rows[0])
    assert parquet.to_dicts() == rows
    csv = polars.read_csv(written / "report/report.csv", infer_schema_length=None)
    assert csv.columns == parquet.columns
    assert csv["median"].to_list() == parquet["median"].to_list()
    for text, values in zip(csv["values"], parquet["values"], strict=True):
        assert [float(v) for v in text.split()] == values.to_list()


def test_metrics_are_those_of_the_json(written: Path) -> None:
    metrics = json.loads((written / "comparison/comparison.json").read_text())["metrics"]
    lines = polars.read_parquet(written / "comparison/comparison.parquet").to_dicts()
    assert [(x["test"], x["tiers"], x["ratio"], x["verdict"]) for x in lines] == [
        (m["test"], m["tiers"], m["ratio"], m["verdict"]) for m in metrics
    ]
    assert [x["before_median"] for x in lines] == [m["before"]["median"] for m in metrics]
    assert (written / "comparison/comparison.csv").read_text().count("\n") == len(metrics) + 1


def test_a_comparison_fits_its_schema(written: Path) -> None:
    document = json.loads((written / "comparison/comparison.json").read_text())
    assert document["version"] == 2 and schema.misfit(document, "comparison") is None
    assert schema.misfit(document | {"version": 3}, "comparison")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_markdown_says_the_verdicts(written: Path) -> None:
    rows = json.loads((written / "report/report.json").read_text())["rows"]
    text = (written / "report/report.md").read_text()
    table = [cells(line) for line in text.split("## Verdicts")[1].split("##")[0].splitlines() if "|" in line]
    assert [line[-1] for line in table[2:]] == [r["verdict"] for r in rows]
    assert {len(line) for line in table} == {14}
    counts = {v: sum(r["verdict"] == v for r in rows) for v in ("pass", "fail", "inconclusive")}
    assert text.splitlines()[0].endswith(", ".join(f"{n} {v}" for v, n in counts.items()))


def test_comparison_says_the_verdict_first(written: Path) -> None:
    metrics = json.loads((written / "comparison/comparison.json").read_text())["metrics"]
    text = (written / "comparison/comparison.md").read_text()
    assert text.startswith("# Regression: ")
    table = [cells(line) for line in text.splitlines() if line.startswith("|")]
    assert [line[-1] for line in table[2 : 2 + len(metrics)]] == [m["verdict"] for m in metrics]
    page = (written / "comparison/comparison.html").read_text()
    assert page.index("<h1>Regression: ") < page.index("<table>")
    assert page.count('class="verdict fail"') == sum(m["verdict"] == "regression" for m in metrics) > 0


def test_names_of_strangers_are_text(tmp_path: Path) -> None:
    run = synthetic.build(tmp_path / "<b>x|y", 3)
    other = synthetic.build(tmp_path / "other", 3)
    main(["compare", str(run), str(other), "-o", str(tmp_path / "out")])
    page = (tmp_path / "out/comparison.html").read_text()
    assert "<b>x" not in page and "&lt;b&gt;x|y" in page
    assert "<b>x" not in (tmp_path / "out/comparison.md").read_text()
