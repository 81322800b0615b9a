"""Workers on several nodes do random operations on one file; what they read is held against the commit model.

Here nodes work in whole blocks, and no commit meets another operation; long_histories.py does without these limits.

TB_SEED repeats the operations of a run (not when they meet), TB_HISTORIES is how many runs a case has, each with a seed
of its own.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import test_nodes
from commit_model import Operation, check
from history_worker import SIZE, ranges
from instances import BIN, can_unshare
from test_nodes import Nodes
from test_shared import SHARED

HERE = Path(__file__).parent
SEED = int(os.environ.get("TB_SEED", 1))
RUNS = int(os.environ.get("TB_HISTORIES", 1))
ROUNDS = 2


def run(nodes: Nodes, flush: str, *told: object, text: str = SHARED) -> None:
    config = nodes.root / "tiers.yaml"
    config.write_text(text.format(root=nodes.root, flush=flush))
    worker: list[str | Path] = [
        nodes.launch,
        sys.executable,
        HERE / "history_worker.py",
        nodes.root,
        ",".join(nodes.node),
    ]
    words: list[str | Path] = [
        "run",
        "-c",
        config,
        "--per-node",
        nodes.launch,
        "--",
        *worker,
        *map(str, told),
    ]
    test_nodes.run_ctl(words, 0, env={"TB_TIERCTL": str(BIN / "tierctl")})
    assert nodes.left() == []


def history(root: Path, name: str) -> list[Operation]:
    """With a last look at the PFS, by a node that has no tiers: after the drain it has what was committed."""
    found = [
        Operation(**told | {"got": tuple(map(tuple, told.get("got", ())))})
        for path in (root / "meet").glob(f"{name}.*.json")
        for told in json.loads(path.read_text())
    ]
    now = time.monotonic_ns()
    got = tuple(ranges((root / "pfs" / name).read_bytes(), 0, SIZE))
    look = Operation("the PFS", 0, "open", now, now)
    return [*found, look, Operation("the PFS", 0, "read", now, time.monotonic_ns(), 0, SIZE, got=got)]


Record = Callable[[str, object], None]


def seen(operation: Operation) -> str:
    """Which write a read met where, by its value."""
    return "".join(f", [{begin}, {end}) has {value:#x}" for begin, end, value in operation.got) or (
        f", value {operation.value:#x}" if operation.kind == "write" else ""
    )


def hold_against_the_model(operations: list[Operation], what: str, out: Path, record: Record) -> None:
    """A failure leaves all operations in their order in a file."""
    assert {o.kind for o in operations} >= {"open", "write", "read", "fsync", "close"}
    record("operations", len(operations))
    wrong = check(operations)
    if wrong:
        lines = (f"{o}{seen(o)}\n" for o in sorted(operations, key=lambda o: o.begin))
        out.write_text("".join(lines))
        pytest.fail(f"{what}: {len(wrong)} wrong, the first:\n{wrong[0]}\nall operations: {out}")


def random_operations(
    names: tuple[str, ...],
    per_node: int,
    flush: str,
    how: tuple[int, str],
    out: Path,
    record: Record,
    text: str = SHARED,
) -> None:
    if not can_unshare("--mount", "--uts"):
        pytest.skip("needs root, and the right to make namespaces")
    for i in range(RUNS):
        seed = f"{SEED + i}.{flush}.{len(names)}"
        with ExitStack() as cleanup:
            nodes = Nodes(cleanup, names)
            run(nodes, flush, per_node, seed, ROUNDS, 60, *how, text=text)
            for name in (f"round{n}" for n in range(ROUNDS)):
                hold_against_the_model(
                    history(nodes.root, name), f"seed {seed}, {name}", out / "operations.txt", record
                )


TWO, THREE = ("tb-a", "tb-b"), ("tb-a", "tb-b", "tb-c")


@pytest.mark.parametrize("flush", ["manual", "on-close", "watermark"])
@pytest.mark.parametrize(("names", "per_node"), [(TWO, 2), (THREE, 1)], ids=["2x2", "3x1"])
def test_commits_in_turn(
    names: tuple[str, ...], per_node: int, flush: str, tmp_path: Path, record_property: Record
) -> None:
    random_operations(names, per_node, flush, (4096, "turns"), tmp_path, record_property)


COPIES = SHARED.replace("nodes: shared", "nodes: shared\ncopies: 2")
REMOTE = SHARED.replace(
    "  - {{name: nvme",
    "  - {{name: far, medium: remote, capacity: 8MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}\n  - {{name: nvme",
)


@pytest.mark.parametrize("flush", ["manual", "watermark"])
def test_commits_in_turn_with_a_remote_tier(flush: str, tmp_path: Path, record_property: Record) -> None:
    """What a node has in the others' memory is read, overwritten and flushed as what it has itself."""
    text = REMOTE + "placement: {{policy: random}}\n"
    random_operations(THREE, 1, flush, (4096, "turns"), tmp_path, record_property, text)


@pytest.mark.parametrize("flush", ["manual", "watermark"])
def test_commits_in_turn_with_second_copies(flush: str, tmp_path: Path, record_property: Record) -> None:
    """Bytes are sent before their commit, and commits that have no second copy end on the PFS."""
    random_operations(THREE, 1, flush, (4096, "turns"), tmp_path, record_property, COPIES)
