"""`copies: 2`: what a node committed is not lost with it.

Three nodes of this machine, as in test_shared.py; a process without the adapter says what the PFS has.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import test_nodes
from instances import BIN, can_unshare
from test_nodes import Nodes
from test_remote import LOOK, recover
from test_shared import CHANCES, SHARED, run

nodes = test_nodes.nodes  # the fixture
COPIES = SHARED.replace("nodes: shared", "nodes: shared\ncopies: 2")


@pytest.fixture(autouse=True)
def tierctl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TB_TIERCTL", str(BIN / "tierctl"))


@pytest.fixture
def three() -> Iterator[Nodes]:
    if not can_unshare("--mount", "--uts"):
        pytest.skip("needs root, and the right to make namespaces")
    with ExitStack() as cleanup:
        yield Nodes(cleanup, ("tb-a", "tb-b", "tb-c"))


# Ranks 0, 2 and 4 are of the first node, the second one and the third.
OF_THREE = LOOK.replace('("tb-a", "tb-b").index', '("tb-a", "tb-b", "tb-c").index').replace(
    "range(4)", "range(6)"
)

# The first node is the one that is lost. Of `own` it is the keeper; of the others the second one is.
KILLED = (
    OF_THREE
    + """
import signal
A, B = pattern(300000, 1), pattern(300000, 2)
old = {"synced": A, "closed": A, "twice": A, "over": A, "cut": A, "own": A, "mine": A, "others": A}
new = old | {"twice": A[:100000] + B[:50000] + A[150000:], "over": A[:70100] + B[:50] + A[70150:], "cut": A[:70001],
             "drained": B, "mine": B[:1000] + A[1000:], "others": B[:5000] + A[5000:70000] + B[70000:]}
if rank == 0:
    for name in new:
        make(name, 0 if name in ("own", "others") else 1, 3)
    for name, data in old.items():
        write(name, data, sync=name != "closed")
    fd = os.open(f"{root}/pfs/twice", os.O_RDWR)
    os.pwrite(fd, B[:50000], 100000)
    os.fsync(fd)
    os.pwrite(fd, b"x" * 1000, 290000)  # in no commit
    write("drained", A)
    write("drained", B, sync=False)
    right &= check(on_pfs("own") == A, "of its own file the PFS has it")
    right &= check(not any(on_pfs("synced")), "the PFS has bytes of the others")
    right &= await_(lambda: peer("tb-b")["copies_bytes"] >= 6 * 300000, f"copies {status()['peers']}")
    right &= check(peer("tb-b")["copies_memory_bytes"] == 256 << 20, "of so many")
meet("written")
if rank == 2:
    write("others", B[70000:], 70000)
if rank == 4:
    write("over", B[:50], 70100)
    write("mine", B[:1000])
    write("others", B[:5000])
    os.truncate(f"{root}/pfs/cut", 70001)
meet("written over")
if rank == 0:
    os.kill(status()["daemon_pid"], signal.SIGKILL)
meet("killed")
if rank in (2, 4):
    for name in new:
        began = time.time()
        try:
            seen = read(name)
            at = next((i for i, (x, y) in enumerate(zip(seen, new[name])) if x != y), min(len(seen), len(new[name])))
            right &= check(seen == new[name], f"{name}: {len(seen)} of {len(new[name])} bytes, other ones from {at} on: {seen[at:at+4]}")
        except OSError as error:
            right &= check(False, f"{name}: {error}")
        right &= check(time.time() - began < 10, f"{name}: it took long")
meet("read")
if rank == 2:
    try:
        write("own", B)
        right &= check(False, "a commit without its keeper")
    except OSError as error:
        right &= check(error.errno == 5, str(error))
    right &= check(read("own") == B, "what this node wrote it sees")
meet("tried")
end(right)
"""
)


def test_a_node_that_is_lost_loses_nothing_committed(three: Nodes) -> None:
    said = run(three, KILLED, 3, "tierctl recover -c", text=COPIES)
    assert "the PFS has what node tb-a, which is lost, committed" in said
    a, b = (b"".join((i * 2654435761 + seed).to_bytes(8, "little") for i in range(37500)) for seed in (1, 2))
    wanted = {
        "synced": a,
        "closed": a,
        "twice": a[:100000] + b[:50000] + a[150000:],
        "over": a[:70100] + b[:50] + a[70150:],
        "cut": a[:70001],
        "mine": b[:1000] + a[1000:],
        "drained": b,
        "own": a,
    }
    for name, data in wanted.items():
        assert (three.root / "pfs" / name).read_bytes() == data, name
    done = recover(said)
    assert done.returncode == 0, done.stderr
    wanted["twice"] = wanted["twice"][:290000] + b"x" * 1000 + wanted["twice"][291000:]
    wanted["own"] = b  # of no commit either
    wanted["others"] = b[:5000] + a[5000:70000] + b[70000:]  # of nodes that lived and had lost its keeper
    for name, data in wanted.items():
        assert (three.root / "pfs" / name).read_bytes() == data, name
    assert three.left() == []


# Copies go with a flush; where there is no room for one the commit ends on the PFS.
ROOM = (
    LOOK
    + """
data = pattern(3 << 20, 3)
if rank == 0:
    make("small", 1)
    make("large", 1)
    write("small", data[:100000])
    right &= check(not any(on_pfs("small")), "the PFS has the small one")
    write("large", data)
    right &= check(on_pfs("large") == data, "the PFS lacks the large one")
    right &= await_(lambda: 100000 <= peer("tb-b")["copies_bytes"] < 1 << 20, "copies")
    words = [os.environ["TB_TIERCTL"], "status", "-i", os.environ["TIERBENCH_INSTANCE"]]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    right &= check("keeps copies of " in told and " (of 1" in told, told)
    subprocess.run([os.environ["TB_TIERCTL"], "drain", "-i", os.environ["TIERBENCH_INSTANCE"]], check=True, capture_output=True)
    right &= check(on_pfs("small") == data[:100000], "drained")
    right &= await_(lambda: peer("tb-b")["copies_bytes"] == 0, "no copies")
meet("told")
end(right)
"""
)


def test_copies_have_a_bound_and_go_with_a_flush(nodes: Nodes) -> None:
    run(nodes, ROOM, text=COPIES + "copies_memory: 1MiB\n")
    assert nodes.left() == []


# A node that is stopped is as one that is cut off: reads go on, and it comes back. Two nodes that keep files find out at the same time that
# it is lost, by a look at an open and by a read of an open file: of what it kept, and of what it has.
STOPPED = (
    LOOK
    + """
import signal
from threading import Thread
data = pattern(300000, 4)
names = ("held", "kept")
if rank == 0:
    for keeper, name in ((1, "held"), (0, "kept")):
        make(name, keeper)
        write(name, data)
    daemon = status()["daemon_pid"]
meet("written")
opened = {name: os.open(f"{root}/pfs/{name}", os.O_RDONLY) for name in names}
seen = {}
def look(what: str, act) -> None:
    try:
        seen[what] = act()
    except OSError as error:
        seen[what] = error
def read_opened(name: str) -> bytes:
    parts = [os.pread(opened[name], 60000, at) for at in range(0, 300000, 60000)]
    return b"".join(parts)
meet("opened")
if rank == 0:
    os.kill(daemon, signal.SIGSTOP)
meet("stopped")
if rank in (2, 3):
    began = time.time()
    acts = {"opened": read_opened} if rank == 3 else {"open": read}
    each = [Thread(target=look, args=(f"{name}, {what}", lambda act=act, name=name: act(name))) for name in names for what, act in acts.items()]
    for one in each:
        one.start()
    for one in each:
        one.join()
    for what, got in seen.items():
        right &= check(got == data, f"{what}: {got[:8] if isinstance(got, bytes) else got}")
    right &= check(time.time() - began < 10, f"it took {time.time() - began} s")
meet("read")
if rank == 0:
    os.kill(daemon, signal.SIGCONT)
    right &= await_(lambda: peer("tb-b")["alive"], "it is back")
    write("held", data[::-1])
meet("back")
right &= check(read("held") == data[::-1], "read again")
meet("end")
end(right)
"""
)


def test_a_node_that_is_stopped_for_a_while(nodes: Nodes) -> None:
    run(nodes, STOPPED, text=COPIES)
    assert nodes.left() == []


@pytest.mark.parametrize("flush", ["manual", "watermark"])
def test_by_chance(nodes: Nodes, flush: str) -> None:
    (nodes.root / "chances").write_text(f"{os.environ.get('TB_SEED', 1)} {os.environ.get('TB_CHANCES', 60)}")
    run(nodes, CHANCES, flush=flush, text=COPIES)
    wanted = {p.stem: p.read_bytes() for p in (nodes.root / "meet").glob("*.wanted")}
    assert {p.name: p.read_bytes() for p in (nodes.root / "pfs").iterdir()} == wanted
    assert nodes.left() == []


def test_one_node_has_no_second(nodes: Nodes) -> None:
    config = nodes.root / "tiers.yaml"
    config.write_text(COPIES.format(root=nodes.root, flush="manual"))
    alone = nodes.root / "alone"
    alone.write_text(f'#!/bin/sh\nexec nsenter --target {nodes.node["tb-a"]} --mount --uts -- "$@"\n')
    alone.chmod(0o755)
    said = test_nodes.run_ctl(["run", "-c", config, "--per-node", alone, "--", "true"], 2)
    assert "copies: 2 needs a second node, and the job has one node" in said
    assert nodes.left() == []
