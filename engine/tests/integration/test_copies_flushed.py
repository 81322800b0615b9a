"""`copies: 2`: flushes that come at a bad moment lose nothing that was committed.

Both faults were found by the model (shared/copies_protocol.pml). Here they are on three nodes, each held at its moment: by a write to the PFS
that fails, or by a process that stops itself before its write. Of all files the third node is the keeper; the second one and the
first one are lost, one in each test.
"""

import os
import signal
import time
from pathlib import Path
from threading import Thread

import test_copies
from test_copies import COPIES, OF_THREE
from test_nodes import Nodes
from test_remote import pattern, recover
from test_shared import run

three = test_copies.three  # the fixtures
tierctl = test_copies.tierctl

# The launcher, with something more in the environment of some commands on one node.
WITH_FAULT = """#!/bin/sh
exec {launch} sh -c 'case "$(uname -n) $*" in {which}) echo $$ > {root}/meet/faulty; export TB_FAULT={fault} ;; esac; exec "$@"' sh "$@"
"""


def add_fault(nodes: Nodes, which: str, fault: str) -> None:
    launch = nodes.root / "with-fault"
    launch.write_text(WITH_FAULT.format(launch=nodes.launch, which=which, root=nodes.root, fault=fault))
    launch.chmod(0o755)
    nodes.launch = launch


# The second node has newer bytes of what the first one committed, of each file more than the keeper has room for. Its flush begins, cannot
# write, and the node is lost: `early` by a drain, `bare` by an fsync.
TAKEN = (
    OF_THREE
    + """
import signal
A, B = pattern(100000, 1), pattern(2 << 20, 2)
if rank == 0:
    for name in ("early", "bare"):
        make(name, 2, 3)
        write(name, A)
meet("written")
if rank == 2:
    drain = [os.environ["TB_TIERCTL"], "drain", "-i", os.environ["TIERBENCH_INSTANCE"]]
    early, bare = (os.open(f"{root}/pfs/{name}", os.O_RDWR) for name in ("early", "bare"))
    os.pwrite(early, B, 0)
    right &= check(subprocess.run(drain, capture_output=True).returncode == 3, "drained")
    os.pwrite(bare, B, 0)
    try:
        os.fsync(bare)
        right &= check(False, "synced")
    except OSError as error:
        right &= check(error.errno == 5, str(error))
    os.kill(status()["daemon_pid"], signal.SIGKILL)
meet("lost")
if rank in (0, 4):
    for name in ("early", "bare"):
        seen = read(name, len(A))
        right &= check(seen == A, f"{name}: {len(seen)} bytes, {seen[:8]}")
meet("read")
end(right)
"""
)


def test_a_flush_that_fails_takes_nothing_from_another_node(three: Nodes) -> None:
    which = '"tb-b "*/tierd" "*|"tb-b "*/program.py" "*'
    add_fault(three, which, f"op=pwrite,errno=EIO,count=0,path={three.root}/pfs/")
    said = run(three, TAKEN, 3, "tierctl recover -c", text=COPIES + "copies_memory: 1MiB\n")
    a, b = pattern(100000, 1), pattern(2 << 20, 2)
    for name in ("early", "bare"):
        assert (three.root / "pfs" / name).read_bytes()[: len(a)] == a, name
    done = recover(said)
    assert done.returncode == 0, done.stderr
    for name in ("early", "bare"):
        assert (three.root / "pfs" / name).read_bytes() == b
    assert three.left() == []


# A drain on the first node has older bytes in its hands and stops. A later commit has a copy; then the node's daemon is killed.
LATE = (
    OF_THREE
    + """
import signal
old, new = pattern(100000, 1), pattern(100000, 2)
if rank == 0:
    make("late", 2, 3)
    write("late", old)
    words = [os.environ["TB_TIERCTL"], "drain", "-i", os.environ["TIERBENCH_INSTANCE"]]
    fault = os.environ | {"TB_FAULT": f"op=pwrite,signal=19,path={root}/pfs/late"}
    drain = subprocess.Popen(words, env=fault)
    state = lambda: open(f"/proc/{drain.pid}/stat").read().rpartition(")")[2].split()[0]
    right &= await_(lambda: state() == "T", "the drain is stopped")
    open(f"{root}/meet/drain", "w").write(str(drain.pid))
    write("late", new)
    right &= check(not any(on_pfs("late")), "the PFS has bytes of it")
if rank == 2:
    make("held", 2, 3)
    write("held", old)
meet("written")
if rank == 0:
    os.kill(status()["daemon_pid"], signal.SIGKILL)
meet("killed")
end(right)
"""
)


def come_late(root: Path, missed: list[str]) -> None:
    """At the end: once the keeper has put the copy on the PFS the drain goes on, and the second node's end, which waits for that."""
    late, meet, until = root / "pfs" / "late", root / "meet", time.monotonic() + 30
    for what, seed in (("drain", 2), ("faulty", 1)):
        wanted = pattern(100000, seed)
        while not (late.exists() and late.read_bytes() == wanted) and time.monotonic() < until:
            time.sleep(0.01)
        if time.monotonic() >= until:
            missed.append(f"the PFS has not what {what} waits for")
        if (meet / what).exists():
            os.kill(int((meet / what).read_text()), signal.SIGCONT)


def test_an_older_flush_comes_after_what_the_keeper_saved(three: Nodes) -> None:
    """The second node's `tierctl stop` is held before its first write, so that the keeper's daemon stays for it."""
    add_fault(three, '"tb-b "*" stop "*', f"op=pwrite,signal=19,path={three.root}/pfs/held")
    missed: list[str] = []
    late = Thread(target=come_late, args=(three.root, missed))
    late.start()
    try:
        said = run(three, LATE, 3, "tierctl recover -c", text=COPIES)
    finally:
        late.join()
    assert not missed
    assert (three.root / "pfs" / "late").read_bytes() == pattern(100000, 2)
    done = recover(said)
    assert done.returncode == 0, done.stderr
    assert (three.root / "pfs" / "late").read_bytes() == pattern(100000, 2)
    assert (three.root / "pfs" / "held").read_bytes() == pattern(100000, 1)
    assert three.left() == []
