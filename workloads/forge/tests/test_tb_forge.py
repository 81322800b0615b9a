"""tb-forge: the bytes in the files, and what it reports, with and without I/O nodes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from driver import LIMIT_S, MPIEXEC
from forwarding_runs import RESULT, Forge, content, flat, phases
from steps import through_tiers

from tierbench.forwarding import measurements

ODD = 1_000_003  # no multiple of a request, of a client or of a word


@pytest.fixture
def forge(folder: Path) -> Forge:
    return Forge(folder)


@pytest.mark.parametrize(
    ("io_nodes", "spatiality", "line"),
    [(0, "contiguous", ""), (1, "strided", ""), (2, "contiguous", "--by-message"), (2, "strided", "")],
)
def test_a_shared_file_is_whole(forge: Forge, io_nodes: int, spatiality: str, line: str) -> None:
    what = phases(io_nodes, "write", "read", spatiality=spatiality, total_size=ODD, request_size=30_000)
    found = forge.result(what, io_nodes + 3, f"--in-flight 4 --aggregate 8 {line}")
    assert (forge.folder / "f").read_bytes() == content(0, ODD)
    assert (found["io_nodes"], found["clients"], found["format"]) == (io_nodes, 3, "phases")
    for pattern in found["patterns"]:
        assert (pattern["asked_requests"], pattern["requests"], pattern["bytes"]) == (34, 34, ODD)
        assert pattern["validated_bytes"] == ODD
        assert pattern["messages"] == (68 if io_nodes else 0)
        assert 0 < pattern["seconds"]["min"] <= pattern["seconds"]["median"] <= pattern["seconds"]["max"]
    nodes = found["forwarding"]
    assert [n["io_node"] for n in nodes] == list(range(io_nodes))
    if nodes:
        assert sum(n["write_bytes"] for n in nodes) == ODD
        assert sum(n["read_bytes"] for n in nodes) == 2 * ODD  # the write's validation reads, too
        assert sum(n["open"] for n in nodes) == sum(n["close"] for n in nodes) == 3
        assert sum(n["in_place"] for n in nodes) == (0 if line else 3 * 34)


def test_files_of_their_own_in_the_older_format(forge: Forge) -> None:
    what = flat(1, number_of_files="individual", total_size=ODD, request_size=100_000)
    found = forge.result(what, 3)
    assert found["format"] == "flat"
    assert (forge.folder / "f-000").read_bytes() == content(0, 600_000, 0)
    assert (forge.folder / "f-001").read_bytes() == content(0, ODD - 600_000, 1)


def test_files_of_forge(forge: Forge) -> None:
    forge.result(flat(1, request_size=1 << 15), 3)
    assert (forge.folder / "emulation.map").read_text() == "rank 0: server\nrank 1: client\nrank 2: client\n"
    assert (forge.folder / "emulation.rank-0.stats").read_text() == (
        "forwarder: 0\nopen: 2\nread: 32\nwrite: 32\nclose: 2\nread_size: 1048576\nwrite_size: 1048576\n"
    )
    start, begins, ends = (forge.folder / "emulation.log").read_text().splitlines()
    assert start.endswith(" start: 1 forwarders, 2 clients")
    assert begins.endswith(" s job 0: write of f begins")
    assert ends.endswith(" s job 0: write of f ends: 32 requests, 1048576 bytes")
    told = (forge.folder / "emulation.time").read_text()
    for line in (" forwarders: 1", " clients: 2", " operation: write", " request: 32 KB", " total: 1 MB"):
        assert f"\n{line}\n" in told
    assert "\n data: 1.00000 MB\n bandwidth: " in told


def test_the_analysis_reads_it(forge: Forge) -> None:
    found = forge.result(flat(1, request_size=1 << 15, spatiality="strided"), 3)
    ((scenario, bandwidths),) = measurements.read(str(forge.folder)).scenarios()
    assert scenario.pattern == ("shared", "strided", 32.0)
    assert bandwidths == {1: [found["patterns"][0]["bandwidth_mib_s"]]}


def test_o_direct_writes_the_remainder_too(tmp_path: Path) -> None:
    forge = Forge(tmp_path)
    found = forge.result(phases(1, "write", direct_io=1, total_size=ODD, request_size=1 << 16), 2)
    assert found["patterns"][0]["direct_io"] is True
    assert (tmp_path / "f").read_bytes() == content(0, ODD)


def test_memory_that_an_io_node_cannot_see_costs_no_byte(forge: Forge) -> None:
    """The client tells of buffers that the I/O node does not find, as between containers."""
    forge.scenario(phases(1, "write", "read", total_size=ODD))
    alone = ["unshare", "-rpf", "--mount-proc", forge.program, "scenario.json", str(forge.folder)]
    words = [MPIEXEC, "-n", "1", forge.program, "scenario.json", str(forge.folder), ":", "-n", "1", *alone]
    done = subprocess.run(
        words, cwd=forge.folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    (node,) = json.loads((forge.folder / RESULT).read_text())["forwarding"]
    assert (node["in_place"], node["write"]) == (0, 16)
    assert (forge.folder / "f").read_bytes() == content(0, ODD)


def test_a_stonewall_ends_a_write_and_its_read(forge: Forge) -> None:
    what = phases(1, "write", "read", total_size=1 << 40, request_size=1 << 20, stone_wall=1)
    what["phases"][0]["patterns"][2]["stone_wall"] = 0
    write, read = forge.result(what, 2)["patterns"]
    assert write["stonewall_hit_s"] >= 1
    assert write["requests"] < write["asked_requests"] == 1 << 20
    assert (read["stonewall_hit_s"], read["bytes"]) == (None, write["bytes"])
    assert write["bytes"] == (forge.folder / "f").stat().st_size


def test_jobs_run_at_the_same_time(forge: Forge) -> None:
    jobs = [
        {"name": name, "clients": clients, "phases": phases(0, "write")["phases"]}
        for name, clients in (("a", 1), ("b", 2))
    ]
    for job in jobs:
        for pattern in job["phases"][0]["patterns"]:
            pattern["path"] = job["name"]
    found = forge.result({"forwarders": 1, "handlers": 0, "dispatchers": 1, "jobs": jobs}, 4)
    assert [(j["name"], j["first_client"], j["clients"]) for j in found["jobs"]] == [("a", 0, 1), ("b", 1, 2)]
    assert [p["job"] for p in found["patterns"]] == [0, 1]
    for name in "ab":
        assert (forge.folder / name).read_bytes() == content(0, 1 << 20)


def test_other_bytes_are_found(forge: Forge) -> None:
    (forge.folder / "f").write_bytes(content(0, 1 << 20)[:-1] + b"!")
    forge.scenario(phases(1, "read"))
    done = forge.run(f"scenario.json {forge.folder}", 2, status=1)
    assert "the file does not hold what was written at offset 983040" in done.stderr
    assert not (forge.folder / "forge-result.json").exists()


def test_a_repeated_phase(forge: Forge) -> None:
    what = phases(0, "write")
    what["phases"][0]["repetitions"] = 3
    found = forge.result(what, 1)
    assert [(p["phase"], p["repetition"], p["pattern"]) for p in found["patterns"]] == [
        (0, n, 1) for n in range(3)
    ]


def test_io_nodes_use_the_tiers(forge: Forge) -> None:
    what = json.dumps(phases(1, "write", "read", total_size=ODD)).replace('"path": "f"', '"path": "pfs/f"')
    forge.scenario(what)
    told = through_tiers(forge, f"scenario.json {forge.folder} --in-flight 4")
    assert told.count(f"{ODD} bytes validated") == 2
    assert (forge.folder / "pfs" / "f").read_bytes() == content(0, ODD)
