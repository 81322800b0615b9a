"""Requests and answers between nodes, by each provider that is here."""

from pathlib import Path

import pytest
from net_nodes import Networks, can_make_networks, needs, several

every_provider = pytest.mark.parametrize("provider", needs("tcp", "tcp;ofi_rxm", "shm"))
LONG_MS = 20000
"""Nothing is lost here: a busy machine may take its time."""
MIB = 1 << 20
EINVAL, EMSGSIZE = 22, 90


@every_provider
def test_all_ask_all(tmp_path: Path, provider: str) -> None:
    with several(tmp_path / "f", "abcd", provider=provider, answer_ms=LONG_MS) as nodes:
        for node in nodes:
            for other in range(4):
                for n_request, n_answer in ((16, 0), (17, 1), (4096, 4096), (MIB, 16), (16, MIB), (MIB, MIB)):
                    assert node.call(other, n_request, n_answer) == n_answer, (node.name, other, node.said)


@every_provider
def test_what_serve_refuses_the_caller_gets(tmp_path: Path, provider: str) -> None:
    with several(tmp_path / "f", "ab", provider=provider, answer_ms=LONG_MS) as nodes:
        for node in range(2):
            assert nodes[0].call(node, 16, -EINVAL) == -EINVAL


@every_provider
def test_many_at_once_in_all_directions(tmp_path: Path, provider: str) -> None:
    n = 24 if provider == "tcp" else 5  # an endpoint of libfabric takes its time to be made
    with several(tmp_path / "f", "abc", provider=provider, answer_ms=LONG_MS) as nodes:
        for node in nodes:
            for other in range(3):
                node.tell(f"many {other} {n} 700000")
        for node in nodes:
            for _ in range(3):
                assert node.line().split()[:3] == ["many", str(n), "0"]


@every_provider
def test_calls_overlap(tmp_path: Path, provider: str) -> None:
    """A slow answer does not hold up those after it: the quick ones of two callers come while it is served."""
    with several(tmp_path / "f", "abc", provider=provider, answer_ms=LONG_MS) as (a, b, c):
        c.tell("call 0 16 1 3000")
        quick = [int(b.ask("call 0 16 100")[1]) for _ in range(5)]
        assert quick == [100] * 5
        assert c.line().split()[:2] == ["answer", "1"]
        assert a.call(1) == 100


@pytest.mark.parametrize("provider", needs("tcp", "tcp;ofi_rxm"))
@pytest.mark.skipif(not can_make_networks(), reason="no network namespaces here (needs root and ip)")
def test_nodes_with_networks_of_their_own(tmp_path: Path, provider: str) -> None:
    names = "abcdefgh" if provider == "tcp" else "abcd"  # an endpoint of libfabric takes its time to be made
    with (
        Networks(len(names)) as networks,
        several(
            tmp_path / "f",
            names,
            provider=provider,
            answer_ms=LONG_MS,
            interface="eth",
            enters=networks.enters,
        ) as nodes,
    ):
        for node in nodes:
            for other in range(len(names)):
                assert node.call(other, 4096, 100000) == 100000
