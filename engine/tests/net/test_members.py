"""Exactly N nodes, each once, or no start."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from net_nodes import BIN, WAIT_S, Node, make_secret, several

SHORT_MS = 1500


def built_with_pmix() -> bool:
    libraries = subprocess.run(["ldd", BIN / "net_node"], capture_output=True, text=True, check=False)
    return "libpmix" in libraries.stdout


def refusal(node: Node) -> str:
    line = node.line()
    assert node.end() == 2
    assert line.startswith("refused -"), line
    return line.split(maxsplit=2)[2]


def test_who_is_missing_is_told(tmp_path: Path) -> None:
    make_secret(tmp_path / "f")
    nodes = [Node(tmp_path / "f", name, 4, start_ms=SHORT_MS) for name in "ab"]
    for node in nodes:
        assert refusal(node) == "2 of 4 nodes came within 2 s: a, b; 2 are missing"
    assert not list((tmp_path / "f/peers").iterdir())


def test_one_alone_of_two_does_not_start(tmp_path: Path) -> None:
    make_secret(tmp_path / "f")
    assert (
        refusal(Node(tmp_path / "f", "a", 2, start_ms=SHORT_MS))
        == "1 of 2 nodes came within 2 s: a; one is missing"
    )


def test_more_than_awaited(tmp_path: Path) -> None:
    """Some two may have found each other before the third came: then those two start, and it does not."""
    make_secret(tmp_path / "f")
    nodes = [Node(tmp_path / "f", name, 2, start_ms=SHORT_MS) for name in "abc"]
    first = {node.name: node.line() for node in nodes}
    opened = [name for name, line in first.items() if line.startswith("open")]
    assert len(opened) in (0, 2), first
    if opened:
        assert {line.split()[2] for line in first.values() if line.startswith("open")} == {",".join(opened)}
    for node in nodes:
        node.end()


def test_more_than_awaited_are_named(tmp_path: Path) -> None:
    """The node that all others call first sees them all."""
    make_secret(tmp_path / "f")
    late = [Node(tmp_path / "f", name, 3, start_ms=6000) for name in "bcd"]
    records = tmp_path / "f/peers"
    while len(list(records.iterdir()) if records.exists() else []) < 1:
        time.sleep(0.01)
    said = [node.line() for node in late]
    for node in late:
        node.end()
    assert all(line.startswith("open") for line in said)


def test_a_name_that_comes_twice(tmp_path: Path) -> None:
    make_secret(tmp_path / "f")
    first = Node(tmp_path / "f", "a", 3, start_ms=6000)
    while not (tmp_path / "f/peers/a").exists():
        time.sleep(0.01)
    second = Node(tmp_path / "f", "a", 3, start_ms=6000)
    for node in (first, second):
        assert refusal(node).startswith("node a came twice: here, at 127.0.0.1 port ")


def test_what_a_killed_start_left_misleads_nobody(tmp_path: Path) -> None:
    """The records of killed nodes stay. A new start of two nodes replaces its own and is not misled by the third."""
    with several(tmp_path / "f", "abc") as nodes:
        for node in nodes:
            node.kill()
        secret = (tmp_path / "f/secret").read_bytes()
        left = {name: (tmp_path / f"f/peers/{name}").read_bytes() for name in "abc"}
    again = [Node(tmp_path / "f", name, 2, start_ms=6000) for name in "bc"]
    assert [node.line() for node in again] == ["open 0 b,c", "open 1 b,c"]
    assert (tmp_path / "f/secret").read_bytes() == secret
    assert (tmp_path / "f/peers/a").read_bytes() == left["a"]
    assert (tmp_path / "f/peers/b").read_bytes() != left["b"]
    for node in again:
        node.end()


def test_a_record_of_an_older_start_is_missing_not_there(tmp_path: Path) -> None:
    with several(tmp_path / "f", "ab") as nodes:
        nodes[1].kill()
    text = refusal(Node(tmp_path / "f", "a", 2, start_ms=SHORT_MS))
    assert text.startswith(
        "1 of 2 nodes came within 2 s: a; one is missing; b left its address 127.0.0.1 port "
    )
    assert text.endswith(": Connection refused")


def test_records_of_another_secret_are_counted_only(tmp_path: Path) -> None:
    with several(tmp_path / "f", "abc") as nodes:
        for node in nodes[:2]:
            node.kill()
    make_secret(tmp_path / "f")
    text = refusal(Node(tmp_path / "f", "c", 3, start_ms=SHORT_MS))
    assert text == "1 of 3 nodes came within 2 s: c; 2 are missing; records of another start or instance: 2"


def test_bad_values(tmp_path: Path) -> None:
    make_secret(tmp_path / "f")
    assert refusal(Node(tmp_path / "f", "a", 0)) == "number of nodes 0: allowed are 1 to 4096"
    assert "name of this node 'a/b': allowed are" in refusal(Node(tmp_path / "f", "a/b", 2))
    assert (
        refusal(Node(tmp_path / "f", "a", 2, interface="nope9")) == "interface nope9: it has no address here"
    )
    assert "provider 'smoke'" in refusal(Node(tmp_path / "f", "a", 2, provider="smoke"))


def test_one_alone_where_one_is_awaited(tmp_path: Path) -> None:
    node = Node(tmp_path / "none", "a", 1)
    assert node.line() == "open 0 a"
    assert node.call(0) == 100
    assert node.end() == 0


@pytest.mark.parametrize("provider", ["verbs", "cxi"])
def test_a_build_without_libfabric_has_tcp_only(provider: str) -> None:
    plain = BIN / "net_provider_plain"
    assert subprocess.run([plain, "tcp"], check=False).returncode == 0
    told = subprocess.run([plain, provider], capture_output=True, text=True, check=False)
    why = "this program was built without libfabric (package libfabric-dev), so only tcp is allowed"
    assert (told.returncode, told.stderr) == (2, f"provider '{provider}': {why}\n")


@pytest.mark.skipif(
    not shutil.which("mpirun") or not built_with_pmix(), reason="no mpirun here, or built without PMIx"
)
def test_the_launcher_tells_where_the_nodes_are(tmp_path: Path) -> None:
    """Folders of their own with one secret: without PMIx they would find no other node."""
    make_secret(tmp_path / "0")
    for rank in ("1", "2"):
        shutil.copytree(tmp_path / "0", tmp_path / rank)
        (tmp_path / rank).chmod(0o700)
    command = f"exec {BIN / 'net_node'} {tmp_path}/$PMIX_RANK n$PMIX_RANK 3 lo tcp 5000 20000"
    told = subprocess.run(
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", "sh", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=WAIT_S,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},  # what libpmix holds at its end is not ours
    )
    assert sorted(told.stdout.splitlines()) == [f"open {i} n0,n1,n2" for i in range(3)], told.stderr
    assert told.returncode == 0
