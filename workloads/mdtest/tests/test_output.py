"""tb-mdtest's text against captured output of mdtest 4.0.0."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from driver import Mdtest

DATA = Path(__file__).parent / "data"


def outline(text: str) -> list[str]:
    """A report without what differs between two runs: times, path and measured numbers."""
    text = re.sub(r"(?m)^WARNING:.*\n", "", text)
    text = re.sub(
        r"(?m)^(-- \w+ at|Command line used:|Path +:|FS +:|Continue stonewall hit) .*", r"\1 #", text
    )
    text = re.sub(r"(tb-)?mdtest-[\d.]+ was", "mdtest was", text)
    return re.sub(r" *\d+\.\d{3}(?=\s)", lambda m: f" #{len(m.group())}", text).splitlines()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("P", "-n 200 -i 3 -P"),
        ("Z", "-n 200 -i 3 -Z"),
        ("n200-D", "-n 200 -D"),
        ("showRank", "-n 200 -F --showRankStatistics"),
        ("W2", "-n 1000000 -F -u -W 1"),
    ],
)
def test_text(mdtest: Mdtest, name: str, line: str) -> None:
    assert outline(mdtest.run(line, ranks=2).stdout) == outline((DATA / f"{name}.out").read_text())


def test_rate_is_items_by_time(mdtest: Mdtest) -> None:
    text = mdtest.run("-n 2000 -i 2 -P -F", ranks=2).stdout
    rates, times = (dict(re.findall(r"(File \w+) +([\d.]+)", part)) for part in text.split("SUMMARY")[1:])
    least = dict(re.findall(r"(File \w+) +[\d.]+ +([\d.]+)", text.split("SUMMARY")[2]))
    assert set(rates) == {"File creation", "File stat", "File read", "File removal"}
    for name in rates:
        assert float(least[name]) <= float(times[name])
        assert abs(4000 / float(rates[name]) - float(least[name])) <= 0.0006, name


def test_ranks(mdtest: Mdtest) -> None:
    mdtest.run("-n 5 -i 2 -F --saveRankPerformanceDetails=ranks.csv", ranks=2)
    rows = (mdtest.folder / "ranks.csv").read_text().splitlines()
    assert rows[0] == (DATA / "saveRank.csv").read_text().strip()
    assert [row.split(",")[0] for row in rows[1:]] == ["all", "0", "1", "0", "1"]
    assert rows[1].count(",") == rows[0].count(",")
    assert {row.count(",") for row in rows[2:]} == {rows[0].count(",") - 4}
