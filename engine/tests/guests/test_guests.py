"""`nodes: shared` on two kernels: the guests of machines.py, started by `tierctl run --per-node`, with the programs of test_shared.py.

TB_GUEST_KERNEL is the folder of the guests' kernel. Where what the guests need is missing, each test is skipped and says what.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import history_worker
import pytest
from commit_model import Operation
from guest_jobs import TEXTS, Job
from instances import BIN
from machines import NAMES, Guests
from test_histories import ROUNDS, RUNS, SEED, Record, history, hold_against_the_model
from test_shared import A_TO_B, CHANCES, EACH_OTHER, LEFT, STEPS, A, B


def on_pfs(guests: Guests, name: str) -> bytes:
    return (guests.root / "pfs" / name).read_bytes()


def test_they_are_two_machines_and_call_a_file_the_same(guests: Guests) -> None:
    """Two kernels, and one number for a file: the node that is its keeper is computed from it."""
    (guests.root / "pfs" / "f").touch()
    asked = f"cat /proc/sys/kernel/random/boot_id; uname -n; stat -c %i {guests.root}/pfs/f"
    told = {name: guest.run(asked).stdout for name, guest in guests.node.items()}
    boot_a, name_a, inode_a, boot_b, name_b, inode_b = " ".join(told[n] for n in NAMES).split()
    assert boot_a != boot_b
    assert (name_a, name_b) == NAMES
    assert inode_a == inode_b


def test_written_here_read_there(guests: Guests) -> None:
    job = Job(guests, A_TO_B).ends_well()
    assert job.from_the_pfs() == 0
    assert on_pfs(guests, "a") == (guests.root / "meet" / "data").read_bytes()


def test_steps(guests: Guests) -> None:
    """Both directions: overwritten, cut, removed, renamed, read while it was open. virtiofs without a cache maps no file."""
    steps = [line for line in STEPS.splitlines() if not line.startswith('step("mapped"')]
    Job(guests, "\n".join(steps)).ends_well()
    for name, data in LEFT.items():
        assert on_pfs(guests, name) == data, name


@pytest.mark.parametrize("flush", ["manual", "on-close"])
def test_over_each_other(guests: Guests, flush: str) -> None:
    Job(guests, EACH_OTHER, flush).ends_well()
    for i in range(24):
        size = (65536, 50000, 4096, 1000)[i % 4]
        assert on_pfs(guests, f"each{i}") == B[:size] + A[:size], i


@pytest.mark.parametrize("flush", ["manual", "watermark"])
def test_by_chance(guests: Guests, flush: str) -> None:
    (guests.root / "chances").write_text(f"{os.environ.get('TB_SEED', 1)} {os.environ.get('TB_CHANCES', 60)}")
    Job(guests, CHANCES, flush).ends_well()
    wanted = {p.stem: p.read_bytes() for p in (guests.root / "meet").glob("*.wanted")}
    assert {p.name: p.read_bytes() for p in (guests.root / "pfs").iterdir()} == wanted


def by_one_clock(guests: Guests, operations: list[Operation]) -> list[Operation]:
    """Each began and ended at the latest and at the earliest as said; the host's look at the PFS comes after all."""
    clock = {
        name: tuple(map(int, (guests.root / "meet" / f"clock.{name}").read_text().split())) for name in NAMES
    }
    print(f"clocks agree within {clock[NAMES[1]][1] / 1e6:.2f} ms")
    mine = [
        replace(o, begin=o.begin + clock[o.node][0] - clock[o.node][1], end=o.end + sum(clock[o.node]))
        for o in operations
        if o.node in clock
    ]
    end = max(o.end for o in mine)
    looks = [replace(o, begin=end + 1 + i, end=end + 1 + i) for i, o in enumerate(operations[-2:])]
    return mine + looks


@pytest.mark.parametrize("copies", TEXTS)
@pytest.mark.parametrize("flush", ["manual", "on-close", "watermark"])
def test_histories(guests: Guests, flush: str, copies: str, tmp_path: Path, record_property: Record) -> None:
    """Workers of both do random operations at the same time; no read of theirs is one that the commit model forbids."""
    for i in range(RUNS):
        guests.empty()
        names = [f"round{n}" for n in range(ROUNDS)]
        for name in names:  # virtiofsd aborts where two guests create a file at the same time
            (guests.root / "pfs" / name).touch(0o600)
        for script in (Path(history_worker.__file__), Path(__file__).with_name("guest_history.py")):
            shutil.copy(script, guests.root)
        told = [
            "10.9.0.1",
            BIN / "tierctl",
            guests.root,
            ",".join(NAMES),
            2,
            f"{SEED + i}.{flush}",
            ROUNDS,
            60,
            (4096, 4)[i % 2],
            "free",
        ]
        job = Job(guests, "", flush, TEXTS[copies])
        job.words[-2:] = [guests.root / "guest_history.py", *told]
        job.ends_well()
        for name in names:
            operations = by_one_clock(guests, history(guests.root, name))
            hold_against_the_model(
                operations,
                f"seed {SEED + i}, {name}",
                tmp_path / "operations.txt",
                record_property,
            )
