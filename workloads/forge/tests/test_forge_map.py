"""The map of I/O nodes, at the start and while clients run."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from driver import LIMIT_S, MPIEXEC
from forwarding_runs import RESULT, Forge, Json, content, phases

from tierbench.base import schema


@pytest.fixture
def forge(folder: Path) -> Forge:
    return Forge(folder)


def put_map(forge: Forge, epoch: int, *entries: tuple[list[int], list[int]]) -> None:
    """As an allocator does it: a new file, then renamed."""
    what: Json = {"epoch": epoch, "map": [{"clients": c, "io_nodes": n} for c, n in entries]}
    assert schema.misfit(what, "forge-map") is None
    (forge.folder / "new").write_text(json.dumps(what))
    (forge.folder / "new").rename(forge.folder / "map.json")


def test_clients_use_the_nodes_of_their_entry(forge: Forge) -> None:
    put_map(forge, 7, ([1, 1], [1]), ([2, 2], []), ([0, 0], [1]))
    found = forge.result(phases(2, "write", total_size=300_000, request_size=10_000), 5, "--map map.json")
    assert (forge.folder / "f").read_bytes() == content(0, 300_000)
    assert [n["write"] for n in found["forwarding"]] == [0, 20]
    (change,) = found["map"]["changes"]
    assert (change["job"], change["epoch"], change["io_nodes"]) == (0, 7, [1])


def test_a_new_map_is_followed_between_requests(forge: Forge) -> None:
    """From one I/O node to the other and then to none; a map that is older or broken changes nothing."""
    put_map(forge, 1, ([0, 1], [0]))
    forge.scenario(phases(2, "write", total_size=1 << 40, request_size=4096, stone_wall=4))
    words = [MPIEXEC, "-n", "4", forge.program, "scenario.json", str(forge.folder), "--map", "map.json"]
    file = forge.folder / "f"
    with subprocess.Popen(words, cwd=forge.folder, stderr=subprocess.PIPE, text=True) as run:
        while not (file.exists() and file.stat().st_size):
            time.sleep(0.02)
        for epoch, nodes in ((2, [1]), (1, [0]), (3, [])):
            time.sleep(0.7)
            put_map(forge, epoch, ([0, 1], nodes))
        time.sleep(0.5)
        (forge.folder / "map.json").write_text("{")
        _, told = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, told
    assert "map.json:1: " in told
    assert "the map before it goes on" in told
    found: Json = json.loads((forge.folder / RESULT).read_text())
    assert schema.misfit(found, "forge-result") is None
    assert [(c["epoch"], c["io_nodes"]) for c in found["map"]["changes"]] == [(1, [0]), (2, [1]), (3, [])]
    (pattern,) = found["patterns"]
    first, second = found["forwarding"]
    assert min(first["write"], second["write"]) > 0
    assert pattern["requests"] > first["write"] + second["write"]  # the rest the clients wrote themselves
    assert pattern["validated_bytes"] == pattern["bytes"]
    assert first["open"] == first["close"] == second["open"] == second["close"] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"epoch": 1, "map": [{"clients": [0, 0], "io_nodes": [1]}]}',
            "map[0].io_nodes[0]: 1; allowed: a whole",
        ),
        (
            '{"epoch": 1, "map": [{"clients": [0, 1], "io_nodes": []}]}',
            "map[0].clients[1]: 1; allowed: a whole",
        ),
        ('{"epoch": -1, "map": [{"clients": [0, 0], "io_nodes": []}]}', "epoch: -1; allowed: a whole number"),
    ],
)
def test_a_wrong_map_is_refused(forge: Forge, text: str, words: str) -> None:
    (forge.folder / "map.json").write_text(text)
    forge.scenario(phases(1, "write"))
    done = forge.run("scenario.json --map map.json", 2, status=2)
    assert words in done.stderr
    assert not (forge.folder / "f").exists()


def test_a_client_in_no_entry_is_refused(forge: Forge) -> None:
    put_map(forge, 1, ([1, 1], []))
    forge.scenario(phases(0, "write"))
    assert (
        "entries in which each client is once"
        in forge.run("scenario.json --map map.json", 2, status=2).stderr
    )
