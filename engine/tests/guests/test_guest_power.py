"""The power of one of two nodes is cut: no message tells the other one, and what `fsync: tier` promised comes back from the disk.

TB_GUEST_CUTS: cuts under load of each kind; TB_SEED: the first of their seeds.
"""

import json
import os
import random
from array import array
from collections.abc import Callable

import pytest
from guest_jobs import TEXTS, Job
from guest_programs import LOAD, POWER
from machines import Guests
from test_histories import Record

CUTS = int(os.environ.get("TB_GUEST_CUTS", 1))
SEED = int(os.environ.get("TB_SEED", 1))
LIMIT_S = 30
"""Longer than this nothing may wait for a node that is lost: it is 10 s, and more on a busy machine."""


def cut(guests: Guests, name: str) -> Callable[[], None]:
    return guests.node[name].cut_power


def recovered(job: Job) -> None:
    """The node is there again, with its disk; the second time there is nothing to recover."""
    job.guests.power_on()
    status, said = job.recover()
    assert status == 0, f"{said}\n{job.said}"
    assert job.guests.left() == [], said
    status, said = job.recover()
    assert said.count("0 instances recovered") == 2, said


def judge(verdict: dict[str, tuple[str, float]], copies: str) -> None:
    """What node tb-b read when the other one was off."""
    for name, (said, seconds) in verdict.items():
        print(f"{name}: {said} after {seconds:.1f} s")
        assert seconds < LIMIT_S, name
        if copies == "two":
            assert said == "right", name
        elif name.startswith("born"):  # any node may be its keeper
            assert said in ("right", "EIO"), name
        else:
            assert said == "EIO", name


@pytest.mark.parametrize("copies", TEXTS)
def test_what_was_promised_is_there_after_a_power_cut(
    guests: Guests, copies: str, record_property: Record
) -> None:
    a, b = (random.Random(seed).randbytes(300000) for seed in (1, 2))
    job = Job(guests, POWER, text=TEXTS[copies]).run({"cut": cut(guests, "tb-a")})
    record_property("kills", 1)
    verdict = json.loads((guests.root / "meet" / "verdict").read_text())
    status = verdict.pop("status")
    judge(verdict, copies)
    assert "node tb-a is lost" in status, status
    if copies == "one":  # file, range and node
        line = status.split("lost: ")[1].splitlines()[0]
        assert "node tb-a: " in line, status
    assert job.status, job.said
    recovered(job)
    pfs = guests.root / "pfs"
    for k in "01":
        assert (pfs / f"synced{k}").read_bytes() == a
        assert (pfs / f"over{k}").read_bytes() == a[:50000] + b[:10000] + a[60000:]
        assert (pfs / f"cut{k}").read_bytes() == a[:70001]
        assert (pfs / f"late{k}").read_bytes() in (a, a[:290000] + b"x" * 1000 + a[291000:])
        assert (pfs / f"born{k}").read_bytes() == b
    assert len(list(pfs.iterdir())) == 10


def told(guests: Guests) -> dict[tuple[str, int], tuple[set[int], int]]:
    """Of each piece of each file what turns began to write it, and the last one that was acknowledged."""
    found: dict[tuple[str, int], tuple[set[int], int]] = {}
    for rank in (0, 2):
        lines = (guests.root / "meet" / f"told.{rank}").read_text().splitlines()
        for kind, name, turn, *pieces in map(str.split, lines):
            for at in map(int, pieces):
                begun, last = found.setdefault((name, at), (set(), 0))
                begun.add(int(turn))
                found[name, at] = (begun, int(turn) if kind == "end" else last)
    return found


def wrong_pieces(guests: Guests) -> list[str]:
    """Of a write that was under way there may be a part: each word is of the last turn that was acknowledged, or of one after it."""
    wrong = []
    for (name, at), (begun, last) in sorted(told(guests).items()):
        path = guests.root / "pfs" / name
        data = path.read_bytes()[at * 1000 : at * 1000 + 1000] if path.exists() else b""
        seen = set(array("I", data[: len(data) // 4 * 4]))
        allowed = {turn for turn in begun if turn >= last}
        if last and not (len(data) == 1000 and seen <= allowed):
            wrong.append(
                f"{name} piece {at}: turn {last} was synced, {sorted(allowed)} began; there is {sorted(seen)}, {len(data)} bytes"
            )
    return wrong


@pytest.mark.parametrize("victim", ["tb-a", "tb-b"])
@pytest.mark.parametrize("copies", TEXTS)
@pytest.mark.parametrize("run", range(CUTS))
def test_the_power_is_cut_under_load(
    guests: Guests, victim: str, copies: str, run: int, record_property: Record
) -> None:
    """At any time. The other node goes on until it was told so of 20 files. What was synced on either is there."""
    chance = random.Random(f"{SEED + run}.{victim}.{copies}")
    (guests.root / "meet" / "seed").write_text(f"{SEED + run}")
    job = Job(guests, LOAD, chance.choice(["manual", "on-close", "watermark"]), TEXTS[copies])
    running = guests.begin(job.words)
    lines = guests.root / "meet" / f"told.{(0, 2)[victim == 'tb-b']}"
    enough = chance.randrange(8, 40)
    guests.node[victim].wait(
        lambda: lines.exists() and lines.read_bytes().count(b"end") >= enough, 500, f"{enough} turns"
    )
    guests.node[victim].cut_power()
    job.said = guests.await_end(running)
    assert running.returncode, job.said
    recovered(job)
    wrong = wrong_pieces(guests)
    synced = sum(1 for _, last in told(guests).values() if last)
    record_property("kills", 1)
    record_property("promised", synced)
    record_property("operations", sum(len(begun) for begun, _ in told(guests).values()))
    print(f"{victim}, copies {copies}: {enough} turns, {synced} pieces were promised, {len(wrong)} are wrong")
    assert not wrong, "\n".join([*wrong, job.said])
