"""What applications do on several nodes with `nodes: shared`: N-1 checkpoints, pipelines of files, fsx, mdtest and IOR.

Two to four nodes of this machine, as in test_shared.py; nothing is flushed before the end, so what is read comes from other
nodes' tiers. TB_NODES_LONG makes each of them that many times as long (`ci/torture nodes`); TB_SEED repeats the choices of fsx.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import test_nodes
from instances import BIN, can_unshare
from test_nodes import Nodes
from test_shared import SHARED
from workload_worker import PIECE, Checkpoint, Fsx, pattern

LONG = int(os.environ.get("TB_NODES_LONG", 1))
SEED = int(os.environ.get("TB_SEED", 1))
NAMES = tuple(f"tb-{letter}" for letter in "abcdefgh")


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """As many as the test's parameter."""
    if not can_unshare("--mount", "--uts"):
        pytest.skip("needs root, and the right to make namespaces")
    with ExitStack() as cleanup:
        yield Nodes(cleanup, NAMES[: request.param])


def words_of(nodes: Nodes, workload: str, *numbers: int, flush: str = "manual") -> list[str | Path]:
    (nodes.root / "tiers.yaml").write_text(SHARED.format(root=nodes.root, flush=flush))
    worker = Path(__file__).parent / "workload_worker.py"
    run: list[str | Path] = ["run", "-c", nodes.root / "tiers.yaml", "--per-node", nodes.launch]
    run += ["--stats", nodes.root / "stats.json", "--", nodes.launch, sys.executable, worker, nodes.root]
    return [*run, ",".join(nodes.node), workload, *map(str, numbers)]


def run(nodes: Nodes, workload: str, *numbers: int, status: int = 0, flush: str = "manual") -> str:
    words = words_of(nodes, workload, *numbers, flush=flush)
    return test_nodes.run_ctl(words, status, env={"TB_TIERCTL": str(BIN / "tierctl")}, timeout=60 * LONG)


def from_the_pfs(nodes: Nodes) -> int:
    """Bytes that a node read from there."""
    return int(json.loads((nodes.root / "stats.json").read_text())["pfs"]["bytes_read"])


MANY = [(8, "watermark")] if LONG > 1 else []


@pytest.mark.parametrize(("nodes", "flush"), [(2, "on-close"), (4, "manual"), *MANY], indirect=["nodes"])
def test_checkpoints_of_all_in_one_file(nodes: Nodes, flush: str) -> None:
    steps, pieces, ranks = 3 * LONG, 4, len(nodes.node)
    run(nodes, "checkpoint", steps, pieces, flush=flush)
    rank = Checkpoint.__new__(Checkpoint)
    rank.ranks = ranks
    wanted = bytearray(pattern(100, steps - 1) + bytes(ranks * pieces * PIECE))
    for r in range(ranks):
        for i in range(pieces):
            at = rank.place(r, i)
            wanted[at : at + PIECE] = pattern(PIECE, rank.seed(steps - 1, r, i))
    assert (nodes.root / "pfs" / "checkpoint").read_bytes() == wanted
    assert nodes.left() == []


@pytest.mark.parametrize("nodes", [3], indirect=True)
def test_what_one_makes_the_next_one_takes(nodes: Nodes) -> None:
    run(nodes, "pipeline", 12 * LONG)
    assert from_the_pfs(nodes) == 0
    assert list((nodes.root / "pfs").iterdir()) == []
    assert nodes.left() == []


@pytest.mark.parametrize(("nodes", "flush"), [(2, "manual"), (3, "watermark")], indirect=["nodes"])
def test_fsx_goes_from_node_to_node(nodes: Nodes, flush: str) -> None:
    turns = 30 * LONG
    run(nodes, "fsx", SEED, turns, flush=flush)
    assert (nodes.root / "pfs" / "fsx").read_bytes() == Fsx.at_the_end(SEED, turns, len(nodes.node))
    assert nodes.left() == []


MPIRUN = (
    "mpirun --allow-run-as-root --oversubscribe --mca btl tcp,self --mca btl_tcp_if_include lo --mca pml ob1"
)


def under_mpi(nodes: Nodes, per_node: int, *program: str | Path) -> list[str | Path]:
    """Ranks in blocks, as they are on nodes."""
    if not shutil.which("mpirun") or not (BIN / program[0]).exists():
        pytest.skip("needs MPI")
    (nodes.root / "tiers.yaml").write_text(SHARED.format(root=nodes.root, flush="manual"))
    on_node = nodes.root / "on_node"
    pids = " ".join(map(str, nodes.node.values()))
    on_node.write_text(
        f'#!/bin/sh\nrank=$OMPI_COMM_WORLD_RANK\nset -- {pids} -- "$@"\nshift $((rank / {per_node}))\nnode=$1\n'
        'until [ "$1" = -- ]; do shift; done\nshift\nexec nsenter --target $node --mount --uts -- "$@"\n'
    )
    on_node.chmod(0o755)
    run: list[str | Path] = ["run", "-c", nodes.root / "tiers.yaml", "--per-node", nodes.launch]
    run += [
        "--stats",
        nodes.root / "stats.json",
        "--",
        *MPIRUN.split(),
        "-n",
        str(per_node * len(nodes.node)),
    ]
    return [*run, on_node, BIN / program[0], *program[1:]]


@pytest.mark.parametrize("nodes", [2], indirect=True)
def test_mdtest_reads_and_removes_the_neighbours_files(nodes: Nodes) -> None:
    """-N 2: each rank looks at, reads and removes what ranks of the other node made."""
    options = f"-n {16 * LONG} -N 2 -w 3901 -e 3901 -F -i 2 -d".split()
    test_nodes.run_ctl(
        under_mpi(nodes, 2, "tb-mdtest", *options, nodes.root / "pfs" / "md"), 0, timeout=60 * LONG
    )
    assert from_the_pfs(nodes) == 0
    assert not [p for p in (nodes.root / "pfs").rglob("*") if p.is_file()]


@pytest.mark.parametrize("nodes", [4], indirect=True)
def test_ior_of_four_nodes_reads_what_the_next_one_wrote(nodes: Nodes) -> None:
    options = "-w -r -R -C -e -a POSIX -b 47008 -t 47008 -s 8".split()
    test_nodes.run_ctl(under_mpi(nodes, 1, "tb-ior", *options, "-o", nodes.root / "pfs" / "shared"), 0)
    assert nodes.left() == [] or all("MPIO" in p.name for p in nodes.left())
