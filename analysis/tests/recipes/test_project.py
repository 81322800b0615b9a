from __future__ import annotations

import json

import pytest

from tierbench import cli
from tierbench.recipes.projection import project


def test_the_projection_stands_beside_the_published_points(capsys: pytest.CaptureFixture[str]) -> None:
    write, read = project()
    assert [round(g / n, 1) for p in (write, read) for _, g, n in p.points[:1]] == [5.9, 2.4]
    assert [round(n / g, 1) for p in (write, read) for _, g, n in p.points[1:]] == [2.1, 4.6]
    assert cli.main(["project"]) == 0
    told = capsys.readouterr().out
    for words in ("GPFS ahead by 5.9x", "GPFS ahead by 2.4x", "NVMe ahead by 2.1x", "NVMe ahead by 4.6x"):
        assert words in told


def test_lines_cross_where_the_limit_is_reached() -> None:
    for p in project():
        nodes = round(p.crossing_measured)
        assert p.gpfs(nodes - 1, p.measured_limit) > p.nvme(nodes - 1)
        assert p.gpfs(nodes + 1, p.measured_limit) < p.nvme(nodes + 1)
    write, read = project()
    assert (round(write.crossing_stated), round(read.crossing_stated)) == (1190, 417)


def test_the_gap_to_the_stated_limit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["project", "--json"]) == 0
    write, read = json.loads(capsys.readouterr().out)
    assert write["measured_of_stated"] == pytest.approx(1128634.52e6 / 2.5e12, rel=1e-6)
    assert read["measured_of_stated"] == pytest.approx(1400154.51e6 / 2.5e12, rel=1e-6)
