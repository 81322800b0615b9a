"""Where bandwidths by the number of I/O nodes come from, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tierbench.base.errors import RunError
from tierbench.forwarding.measurements import COLUMNS, Scenario, machines, read

HEAD = ",".join(COLUMNS)
DATA = Path(__file__).parents[1] / "data"


def result(io_nodes: int, bandwidth: float, operation: str = "write") -> dict[str, Any]:
    """As tb-forge leaves it."""
    pattern = {
        "job": 0,
        "phase": 0,
        "repetition": 0,
        "pattern": 0,
        "operation": operation,
        "path": "/pfs/f",
        "layout": "individual",
        "spatiality": "contiguous",
        "request_bytes": 32768,
        "total_bytes": 1 << 20,
        "stonewall_s": 0,
        "direct_io": False,
        "validation": True,
        "asked_requests": 32,
        "requests": 32,
        "bytes": 1 << 20,
        "stonewall_hit_s": None,
        "began_s": 0.1,
        "seconds": dict.fromkeys(("min", "q1", "median", "q3", "max", "mean"), 0.5),
        "bandwidth_mib_s": bandwidth,
        "messages": 64,
        "validated_bytes": 1 << 20,
    }
    return {
        "version": 1,
        "program": "tb-forge",
        "program_version": "0.1.0",
        "started": "2026-01-01T00:00:00Z",
        "scenario": "s.json",
        "format": "flat",
        "ranks": 4 + io_nodes,
        "io_nodes": io_nodes,
        "clients": 4,
        "handlers": 1,
        "dispatchers": 1,
        "in_flight": 1,
        "aggregate": 1,
        "jobs": [{"name": "all", "first_client": 0, "clients": 4, "nodes": 2}],
        "patterns": [pattern],
        "forwarding": [],
        "map": None,
    }


def test_both_machines_are_there_whole() -> None:
    assert machines() == ["marenostrum4", "santosdumont"]
    found = {name: read(name) for name in machines()}
    assert len(found["marenostrum4"].table) == 5039 and len(found["santosdumont"].table) == 647
    assert sum(1 for _ in found["marenostrum4"].scenarios()) == 189
    assert sum(1 for _ in found["santosdumont"].scenarios()) == 25
    assert found["marenostrum4"].published and "PDSW 2020" in found["marenostrum4"].source
    first, cells = next(found["marenostrum4"].scenarios())
    assert first == Scenario(8, 96, "file-per-process", "contiguous", 32)
    assert first.words() == "8 nodes, 96 processes, file-per-process, 32 KiB"
    assert list(cells) == [0, 1, 2, 4, 8] and cells[0][:2] == [1403.80365, 84.4821]


def test_results_of_the_explorer(tmp_path: Path) -> None:
    for io_nodes, bandwidth in ((0, 100.0), (1, 80.0), (1, 90.0)):
        folder = tmp_path / "run" / f"{io_nodes}-{bandwidth}"
        folder.mkdir(parents=True)
        (folder / "forge-result.json").write_text(json.dumps(result(io_nodes, bandwidth)))
    (tmp_path / "run" / "read").mkdir()
    (tmp_path / "run/read/forge-result.json").write_text(json.dumps(result(0, 5.0, "read")))
    measured = read(str(tmp_path / "run"))
    assert not measured.published
    assert list(measured.scenarios()) == [
        (Scenario(2, 4, "file-per-process", "contiguous", 32.0), {0: [100.0], 1: [80.0, 90.0]})
    ]


def test_results_of_forge(tmp_path: Path) -> None:
    """tb-forge's own emulation.time is not counted a second time."""
    for name in ("theirs", "ours"):
        (tmp_path / name).mkdir()
        shutil.copy(DATA / "forge" / "emulation.time", tmp_path / name)
    (tmp_path / "ours" / "forge-result.json").write_text(json.dumps(result(0, 100.0)))
    with pytest.raises(RunError, match="compute-nodes: is missing; allowed: on how many compute nodes"):
        read(str(tmp_path))
    (tmp_path / "theirs" / "compute-nodes").write_text("2\n")
    assert list(read(str(tmp_path)).scenarios()) == [
        (Scenario(2, 2, "shared", "strided", 1024.0), {1: [48.86163]}),
        (Scenario(2, 4, "file-per-process", "contiguous", 32.0), {0: [100.0]}),
    ]
    (tmp_path / "theirs" / "emulation.time").write_text(" clients: 2\n")
    with pytest.raises(RunError, match=r"does not begin with .*; allowed: what FORGE wrote"):
        read(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "lacks the column 'compute_nodes'; allowed: compute_nodes, processes"),
        (f"{HEAD}\n", "holds no run"),
        (f"{HEAD}\n8,96,both,strided,32,1,5\n", ":2: layout: 'both'; allowed: file-per-process, shared"),
        (f"{HEAD}\n8,96,shared,strided,32,1,5\n8,96,shared,zigzag,32,1,5\n", ":3: spatiality: 'zigzag'"),
        (f"{HEAD}\n8,96,shared,strided,32,-1,5\n", ":2: io_nodes: '-1'; allowed: a whole number from 0"),
        (f"{HEAD}\n8,9.5,shared,strided,32,1,5\n", ":2: processes: '9.5'; allowed: a number above 0"),
        (
            f"{HEAD}\n8,96,shared,strided,32,1,fast\n",
            ":2: bandwidth_mib_s: 'fast'; allowed: a number above 0",
        ),
        (f"{HEAD}\n8,96,shared,strided,32,1,inf\n", ":2: bandwidth_mib_s: 'inf'"),
        (f"{HEAD}\n8,96,shared,strided,32,1,\n", ":2: bandwidth_mib_s: 'nan'"),
    ],
)
def test_what_is_refused(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(text)
    with pytest.raises(RunError) as refused:
        read(str(file))
    assert str(refused.value).startswith(f"{file}") and told in str(refused.value)


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"summit: cannot be used; .*published: marenostrum4, santosdumont"):
        read("summit")
    with pytest.raises(RunError, match=r"holds no forge-result\.json and no emulation\.time; allowed: "):
        read(str(tmp_path))
    (tmp_path / "forge-result.json").write_text('{"version": 1}')
    with pytest.raises(RunError, match=r"forge-result\.json: lacks "):
        read(str(tmp_path))
    (tmp_path / "forge-result.json").write_text("{")
    with pytest.raises(RunError, match=r"forge-result\.json: cannot be read"):
        read(str(tmp_path))
