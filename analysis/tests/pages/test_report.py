from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import synthetic

from tierbench.base import atomic_write
from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.pages import report, report_record
from tierbench.runs.run_folder import read_run

KEYS = set(
    """test system tiers metric unit direction n values median ci_low ci_high baseline ratio ratio_low
    ratio_high requirement margin verdict fraction_of_peak fsync policy modelled driver mode predicted
    published ratio_to_pfs_without_Y ratio_to_pfs_without_Y_low ratio_to_pfs_without_Y_high open_s durable_s
    verified""".split()
)
FILES = {
    "report.html",
    "report.json",
    "report.md",
    "report.csv",
    "report.parquet",
    "comparison.svg",
    "comparison.png",
}


@pytest.fixture(scope="module")
def made(shared_run: Path) -> report_record.Report:
    return report_record.make(read_run(shared_run))


@pytest.fixture(scope="module")
def written(made: report_record.Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    report.write(made, folder)
    return folder


def test_files_and_nothing_else(written: Path) -> None:
    assert {p.name for p in written.iterdir()} == FILES


def test_json_rows(written: Path) -> None:
    document = json.loads((written / "report.json").read_text())
    assert set(document) >= {"run", "rows"} and document["run"]["commit"] == "0123456789abcdef"
    for row in document["rows"]:
        assert set(row) >= KEYS
        assert row["verdict"] in ("pass", "fail", "inconclusive")
        assert row["ci_low"] <= row["median"] <= row["ci_high"] and row["n"] == len(row["values"]) == 5
        assert row["metric"] == "bandwidth" and row["unit"] == "MiB/s"
    tiers = {(r["tiers"], r["fsync"], r["policy"]) for r in document["rows"]}
    assert ("bb-nvme-ram", "none", "round-robin") in tiers and ("ram", "pfs", "max-bandwidth") in tiers


def test_durable_comes_after_close_and_scratch_never_is(written: Path) -> None:
    for row in json.loads((written / "report.json").read_text())["rows"]:
        if row["mode"] == "scratch":
            assert row["durable_s"] is None
        elif row["mode"] == "bypass":
            assert row["durable_s"] == row["close_s"]
        elif row["fsync"] == "tier":
            assert row["durable_s"] > row["close_s"]


class Links(HTMLParser):
    """Everything a page would load or link to, and whether its tags are balanced."""

    VOID = frozenset({"meta", "br", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "img")
        self.targets += [v or "" for k, v in attrs if k in ("href", "src", "xlink:href", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_offline_and_well_formed(written: Path) -> None:
    page = (written / "report.html").read_text()
    links = Links()
    links.feed(page)
    assert not links.open
    assert all(t.startswith(("#", "data:image/png;")) for t in links.targets)
    assert not re.search(r"@import|url\((?!#)", page)
    assert page.count("<svg") == 12 and page.count('<svg class="narrow"') == 6


def test_page_opens_with_the_verdicts(written: Path) -> None:
    page = (written / "report.html").read_text()
    assert page.index('id="summary"') < page.index('id="verdicts"') < page.index('id="figures"')
    assert "misses the requirement: " in page


def test_everything_from_the_run_is_escaped(run_folder: Path) -> None:
    provenance = json.loads((run_folder / "provenance.json").read_text())
    provenance["machine"]["cpu"] = "<script>alert(1)</script>"
    (run_folder / "provenance.json").write_text(json.dumps(provenance))
    page = report.as_html(report_record.make(read_run(run_folder)))
    assert "<script>" not in page and "&lt;script&gt;" in page and "synthetic &lt;&amp;&gt;" in page


def test_same_run_same_report(made: report_record.Report, written: Path) -> None:
    assert report.as_html(made) == (written / "report.html").read_text()


def test_a_run_of_failures_only_still_gives_a_report(run_folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.rmtree(run_folder / "cases")
    case = {"name": "A", "result": "fail", "fail_phase": "run", "fail_reason": "x"}
    (run_folder / "reframe.json").write_text(json.dumps({"runs": [{"testcases": [case]}]}))
    report.write(report_record.make(read_run(run_folder)), tmp_path / "out")
    assert "A failed in run: x" in (tmp_path / "out/report.html").read_text()


def test_missing_artefacts_leave_gaps_not_errors(run_folder: Path) -> None:
    for name in ("stats.json", "plan.json", "summary.json"):
        for path in run_folder.glob(f"cases/*/*/{name}"):
            path.unlink()
    page = report.as_html(report_record.make(read_run(run_folder)))
    assert "Tier occupancy" not in page and "Verdicts" in page


def test_failed_write_leaves_the_old_report_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic_write.replace_all(tmp_path, {"a": b"old", "b": b"old"})
    written = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        written(path, content[:1])
        if path.name.startswith(".b"):
            raise OSError(28, "No space left on device")
        return len(content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RunError, match="No space left on device"):
        atomic_write.replace_all(tmp_path, {"a": b"new", "b": b"new"})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"old", "b": b"old"}


def test_cli_report(shared_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(shared_run), "-o", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out
    assert {p.name for p in (tmp_path / "new").iterdir()} == FILES
    assert "BB + NVMe + RAM side by side" in printed and "fail" in printed


def test_cli_list(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic._text(run_folder.parent / "20261122-000000-broken" / "provenance.json", "{")
    assert main(["list", str(run_folder.parent.parent)]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[1].split() == [
        "20261121-020000-webinar",
        "2026-11-21T02:00:00+00:00",
        "0123456789",
        "12",
        "11",
        "1",
        "0",
    ]
    assert "20261122-000000-broken" in captured.err


@pytest.mark.parametrize("arguments", [["report", "none"], ["list", "none"], ["report", __file__]])
def test_cli_bad_input_is_one_line_and_status_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and captured.err.startswith("tierbench: ") and not captured.out
    assert not list(tmp_path.iterdir())
