from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tierbench import cli
from tierbench.recipes import scaling
from tierbench.recipes.projection import project
from tierbench.recipes.scaling import Cost, Costs, Machine, Work

FILE = Path("nodes.json")
COSTS = Costs(Cost(20e-6, 80e-6), Cost(30e-6, 100e-6, 1, 1), 50e-6)
MACHINE = Machine("m", write=1000.0, read=2000.0, link=1500.0, pfs=500.0, pfs_limit=4000.0)


def lines(off: float = 1.0) -> list[dict[str, Any]]:
    """As the model says for 1, 2 and 4 nodes, and `off` times that for 8."""
    return [
        {
            "nodes": n,
            "ranks": n,
            "operation": name,
            "seconds": cost.on(n) * (off if n == 8 else 1),
            "daemon_s": 50e-6,
            "messages": cost.messages(n),
        }
        for name, cost in ((scaling.COMMIT, COSTS.commit), (scaling.READ, COSTS.read))
        for n in (1, 2, 4, 8)
    ] + [{"nodes": 2, "ranks": 64, "operation": scaling.COMMIT, "seconds": 9.0}]


def test_costs_are_fitted_on_two_nodes_and_checked_on_more() -> None:
    costs = scaling.fit(lines(1.3), FILE)
    assert (costs.commit.alone_s, costs.commit.message_s) == pytest.approx((20e-6, 80e-6))
    assert costs.keeper_s == 50e-6
    assert (costs.read.alone_s, costs.read.message_s) == pytest.approx((30e-6, 100e-6))
    checks = {c.what: c for c in scaling.against_measured(lines(1.3), costs)}
    assert checks["commit on 4 nodes"].error == pytest.approx(0)
    assert checks["commit on 8 nodes"].error == pytest.approx(1 / 1.3 - 1)
    assert [c.within for what, c in checks.items() if "messages" not in what] == [True, False] * 2
    counts = {what: c.predicted for what, c in checks.items() if "messages" in what}
    assert counts["commit on 8 nodes, messages"] == 7 / 8
    assert counts["read 4 KiB on 4 nodes, messages"] == 1.75
    assert len(counts) == 6
    less = [x | {"messages": 0.5 * x["messages"]} for x in lines()[:-1]]
    assert not any(c.within for c in scaling.against_measured(less, costs) if "messages" in c.what)


def test_a_message_costs_what_those_that_were_counted_did() -> None:
    by_chance = [x | {"messages": 1.25 * x["messages"]} if x["nodes"] == 2 else x for x in lines()[:-1]]
    costs = scaling.fit(by_chance, FILE)
    assert costs.commit.message_s == pytest.approx(80e-6 / 1.25)
    assert costs.read.message_s == pytest.approx(100e-6 / 1.25)


def test_the_nvme_of_1100_nodes_is_met_and_gpfs_is_not() -> None:
    found = {c.what.split(",")[0] + " " + c.what.split()[2]: c for c in scaling.against_published()}
    assert found["Summit's NVMe write"].error == pytest.approx(1100 * 4173.36 / 2 / 2228057.73 - 1)
    assert [c.within for name, c in found.items() if "NVMe" in name] == [True, True]
    gpfs = [c for name, c in found.items() if "GPFS" in name]
    assert [round(c.error, 2) for c in gpfs] == [1.22, 0.79]
    assert not any(c.within for c in gpfs)


def test_weak_scaling_ends_at_the_limit_of_the_pfs() -> None:
    few, limit, many = scaling.weak(MACHINE, COSTS, Work(1000.0, 10), (1, 8, 16))
    assert few.write_s == pytest.approx(1 + 10 * 20e-6)
    assert few.read_s == pytest.approx(1000 / 1500 + 10 * 30e-6)  # the network is slower
    assert few.flush_s == pytest.approx(limit.flush_s) == pytest.approx(2.0)
    assert many.flush_s == pytest.approx(4.0)
    assert many.write_s - few.write_s == pytest.approx(10 * 80e-6 * 15 / 16)


def test_strong_scaling_shares_the_work() -> None:
    one, eight = scaling.strong(MACHINE, COSTS, Work(1000.0, 16), (1, 8))
    assert one.write_s == pytest.approx(1 + 16 * 20e-6)
    assert eight.write_s == pytest.approx(1 / 8 + 2 * (20e-6 + 80e-6 * 7 / 8))
    assert eight.flush_s == pytest.approx(1000 / 4000)


def test_one_file_of_all_nodes_waits_for_its_keeper() -> None:
    work = Work(1.0, 1, one_file=True)
    few, many = scaling.weak(MACHINE, COSTS, work, (10, 1000))
    assert few.write_s < 2e-3
    assert many.write_s == pytest.approx(1000 * 50e-6)
    assert scaling.weak(MACHINE, COSTS, Work(1.0, 1), (1000,))[0].write_s < 2e-3


def test_a_machine_by_what_was_published() -> None:
    summit = scaling.summit(project())
    assert (summit.write, summit.read) == pytest.approx((4173.36 / 2, 11161.54 / 2))
    assert summit.pfs_limit == pytest.approx(1076349.75)


def test_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"rows": [], "costs": lines(1.3)}))
    assert cli.main(["project", "--measured", str(file)]) == 0
    told = capsys.readouterr().out
    assert "a commit 20 us, and 80 us a message;" in told
    assert "| read 4 KiB on 2 nodes, messages | 1.50 | 1.50 | +0% | yes |" in told
    assert "| commit on 8 nodes | 90 us | 117 us | -23% | no |" in told
    assert (
        "| Summit's NVMe, read on 1100 nodes, from 2 | 6,138,847 MiB/s | 6,104,024 MiB/s | +1% | yes |"
        in told
    )
    assert told.count("| nodes | write, s | flush, s | read, s |") == 3
    assert cli.main(["project", "--measured", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"]["costs"]["keeper_s"] == 50e-6
    assert len(found["checks"]) == 14


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"rows": []}, "costs"),
        ({"costs": lines()[:1]}, "lacks 'commit' on 1 and 2 nodes"),
        ({"costs": [lines()[0] | {"nodes": 0}]}, "costs[0].nodes: 0; allowed: a whole number above 0"),
    ],
)
def test_what_is_no_bench_of_nodes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: dict[str, Any], told: str
) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(document))
    assert cli.main(["project", "--measured", str(file)]) == 2
    assert told in capsys.readouterr().err
