"""The bounded crash tests can fail: the model says what the bare file system does, and deliberate faults are found."""

import random
from pathlib import Path
from typing import Any

import ace
import ace_batch
import crash
import pytest
from ace_batch import Batch, Case, Room, run_bare
from ace_model import Found, Model, Node, compare
from ace_operations import exhaustive, sampled
from instance import Programs, region_of

BUILD = Path(__file__).parents[4] / "build"
PROGRAMS = Programs(BUILD / "bin", BUILD / "lib")
needs_build = pytest.mark.skipif(not (BUILD / "bin" / "tierctl").exists(), reason="the engine is not built")


def state(model: Model) -> dict[str, Found]:
    return {name: Found(node.now, node.links) if node else Found(None) for name, node in model.names.items()}


def model_after(*operations: str, **promises: bool) -> Model:
    model = Model("t", **promises)
    for step, operation in enumerate(operations):
        model.apply(step, operation)
    return model


def test_the_model_is_true_to_the_bare_file_system(tmp_path: Path) -> None:
    sequences = random.Random(7).sample([*exhaustive(), *sampled(500, "bare")], 120)
    wrong = [(case.operations, case.wrong) for case in run_bare(tmp_path, sequences) if case.wrong]
    assert not wrong


def test_no_sequence_comes_twice() -> None:
    sequences = [tuple(sequence) for sequence in exhaustive()]
    assert len(sequences) == len(set(sequences)) > 20_000


@pytest.mark.parametrize(
    "operations", [("append a",), ("overwrite a",), ("hole b",), ("cut a",), ("creat a",), ("punch a",)]
)
def test_after_a_kill_a_lost_change_is_wrong(operations: tuple[str, ...]) -> None:
    model = model_after(*operations)
    there = state(model)
    for name, node in model.names.items():
        if node and len(node.contents) > 1:
            there[name] = Found(node.contents[-2])
    assert compare(model, there, kill=True)
    assert not compare(model, there, kill=False), "nothing was promised to outlive the node"


def node_of(model: Model, name: str) -> Node:
    node = model.names[name]
    assert node
    return node


def test_after_a_crash_of_the_node_a_synced_change_is_promised() -> None:
    model = model_after("append a", "fsync a", "overwrite a")
    before, synced, _ = node_of(model, "a").contents
    assert not compare(model, state(model) | {"a": Found(synced)}, kill=False)
    assert compare(model, state(model) | {"a": Found(before)}, kill=False)
    torn = node_of(model, "a").now[:3_000] + synced[3_000:]
    assert not compare(model, state(model) | {"a": Found(torn)}, kill=False)
    assert compare(model, state(model) | {"a": Found(synced[:12_000] + b"\0" * 3_000)}, kill=False), (
        "NULs in promised bytes"
    )
    assert compare(model, state(model) | {"a": Found(b"x" + synced[1:])}, kill=False), "a foreign byte"


def test_a_close_promises_where_the_setup_says_so() -> None:
    model = model_after("append a", "close a", at_close=True)
    assert compare(model, state(model) | {"a": Found(node_of(model, "a").contents[0])}, kill=False)


def test_names_and_links_are_compared() -> None:
    model = model_after("link a d/a", "unlink a")
    node = node_of(model, "d/a")
    assert not compare(model, {"d": Found(None), "d/a": Found(node.now)}, kill=False)
    assert compare(model, {"d": Found(None), "d/a": Found(node.now, links=2)}, kill=False)
    assert compare(model, {"d": Found(None), "a": Found(node.now)}, kill=False)


def test_locks_end_as_the_kernel_says() -> None:
    assert model_after("lock a", "append a").held() == {"a": "r"}
    assert model_after("lock a", "flock a", "link a b").held() == {"a": "rf", "b": "rf"}
    assert model_after("flock a", "creat a").held() == {"a": "f"}
    assert model_after("lock a", "close a").held() == {}


@needs_build
@pytest.mark.parametrize("fault", ["client", "both", "node", "power"])
def test_a_sound_engine_passes(tmp_path: Path, fault: str) -> None:
    case = Case(["append a", "rename a b", "fsync b"])
    assert ace_batch.run(PROGRAMS, Batch("manual-tier", fault, "s", [case]), tmp_path) + case.wrong == []


@needs_build
@pytest.mark.parametrize(
    "text",
    [
        "manual-tier both s: zero b; creat b",  # the kernel alone knew the size
        "manual-tier power s: creat a; close a; fdatasync a",  # the file's record was new, and its cut not synced
    ],
)
def test_what_once_failed_passes(text: str) -> None:
    batch = ace.read_spelling(text)
    assert ace.fails(PROGRAMS, batch, batch.cases[0].operations) == []


@needs_build
def test_a_region_that_is_lost_in_a_kill_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(room: Room, server: Any, pids: Any) -> None:
        sound(room, server, pids)
        region_of(room.instance).unlink()

    sound = Room.strike
    monkeypatch.setattr(Room, "strike", strike)
    case = Case(["append a"])
    ace_batch.run(PROGRAMS, Batch("manual-tier", "both", "s", [case]), tmp_path)
    assert any("its size is 10000" in wrong for wrong in case.wrong)


@needs_build
@pytest.mark.parametrize(("setup", "fault"), [("manual-tier", "node"), ("manual-pfs", "power")])
def test_a_sync_that_does_not_hold_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setup: str, fault: str
) -> None:
    monkeypatch.setattr(crash, "synced_until", lambda _: {})
    wrong = []
    for seed in range(6):  # the crash takes back a part
        case = Case(["append a", "fsync a"])
        wrong += ace_batch.run(PROGRAMS, Batch(setup, fault, str(seed), [case]), tmp_path) + case.wrong
    assert wrong


def test_syncs_of_two_places_may_have_one_number() -> None:
    """Each place of a process counts its own, and a program that is executed begins again with its number."""

    def record(kind: int, inode: int) -> crash.Record:
        return crash.Record(kind, (inode, 0), 0, b"", 7 if kind >= crash.SYNC_BEGIN else 0, 0)

    begins, ends = crash.SYNC_BEGIN, crash.SYNC_END
    log = [record(begins, 1), record(ends, 1), record(crash.WRITE, 1), record(begins, 2), record(ends, 2)]
    assert crash.synced_until(log) == {(1, 0): 0, (2, 0): 3}  # the write of file 1 is not synced


def test_a_descriptor_that_takes_locks_along_is_found() -> None:
    told = [{"step": 0, "locks": {"a": "r"}}, {"step": 1, "locks": {}}]
    case = Case(["lock a", "append a"])
    ace_batch.judge_told(case, Model("t"), told)
    assert case.wrong == ["after append a: others find the locks {}, not {'a': 'r'}"]


def test_what_fails_is_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ace, "fails", lambda _, __, operations: ["bad"] if "overwrite a" in operations else []
    )
    batch = Batch("manual-tier", "both", "s", [])
    shortest, wrong = ace.shrink(PROGRAMS, batch, ["append a", "overwrite a", "fsync a"])
    assert (shortest, wrong) == (["overwrite a"], ["bad"])
    assert ace.read_spelling(ace.spell(batch, shortest)).cases[0].operations == shortest


def test_the_folder_of_a_batch_goes(tmp_path: Path) -> None:
    run_bare(tmp_path, [["append a"]])
    assert not [*tmp_path.iterdir()]
