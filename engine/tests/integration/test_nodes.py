"""Several nodes: `tierctl run --per-node`, and what processes of different nodes see of one file.

Two nodes of this machine: each has a host name and a /dev/shm of its own, which needs root. They share
the PFS, as nodes do. The launcher is a script that runs a command once on each.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from instances import BIN, can_unshare

from tierbench import trace

NODES = ("tb-a", "tb-b")
CONFIG = """version: 1
max_files: 256
nodes: several
pfs: {{path: {root}/pfs}}
fsync: tier
allow_volatile: true
flush: {{policy: {flush}}}
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 16MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
"""
LAUNCH = """#!/bin/sh
for node in {pids}; do nsenter --target $node {spaces} -- "$@" & all="$all $!"; done
rc=0
for one in $all; do wait $one || {{ last=$?; [ $last -gt $rc ] && rc=$last; }}; done
exit $rc
"""
# Two ranks a node; `meet` is a barrier of all four.
PROLOGUE = """
import os, sys, time
root, node = sys.argv[1], os.uname().nodename
first = ("tb-a", "tb-b").index(node) * 2
rank = first if os.fork() else first + 1
def meet(name):
    open(f"{root}/meet/{name}.{rank}", "w").close()
    until = time.time() + 30
    while not all(os.path.exists(f"{root}/meet/{name}.{r}") for r in range(4)):
        if time.time() > until:
            os._exit(9)
        time.sleep(0.001)
def end(right):
    if rank == first:
        right = os.wait()[1] == 0 and right
    os._exit(0 if right else 8)
def piece(rank: int, turn: int, size: int) -> bytes:
    return bytes([1 + rank + 16 * turn]) * size
"""
# As IO500's hard phase: pieces of 47008 bytes in turn, so that 4 KiB blocks hold bytes of two nodes.
INTERLEAVED = (
    PROLOGUE
    + """
fd = os.open(root + "/pfs/shared", os.O_RDWR | os.O_CREAT, 0o600)
for turn in range(12):
    os.pwrite(fd, piece(rank, turn, 47008), (turn * 4 + rank) * 47008)
os.close(fd)
end(True)
"""
)
# Close-to-open: what a rank wrote and closed the others read when they open it then; sizes grow and shrink.
CLOSE_TO_OPEN = (
    PROLOGUE
    + """
right = True
for turn, size in enumerate((30000, 70000, 9000, 50000)):
    if rank == 0:
        os.close(os.open(root + "/pfs/shared", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
    meet(f"cut{turn}")
    late = turn % 2 == first // 2  # a node's flush after the other's must not hide that one
    fd = os.open(root + "/pfs/shared", os.O_RDWR)
    if late:
        meet(f"early{turn}")
    os.pwrite(fd, piece(rank, turn, size), rank * size)
    os.close(fd)
    if not late:
        meet(f"early{turn}")
    meet(f"written{turn}")
    right &= os.stat(root + "/pfs/shared").st_size == 4 * size
    fd = os.open(root + "/pfs/shared", os.O_RDONLY)
    right &= os.fstat(fd).st_size == 4 * size
    right &= os.pread(fd, 8 * size, 0) == b"".join(piece(r, turn, size) for r in range(4))
    os.close(fd)
    meet(f"read{turn}")
end(right)
"""
)
# Two pieces of a 4 KiB block by one node, another node's between them.
BETWEEN = (
    PROLOGUE
    + """
fd = os.open(root + "/pfs/shared", os.O_RDWR | os.O_CREAT, 0o600)
for block in range(64):
    for at in {0: (0, 200), 1: (), 2: (100,), 3: (300,)}[rank]:
        os.pwrite(fd, piece(rank, 0, 100), block * 5000 + at)
    if block % 8 == 0:
        os.fsync(fd)
os.close(fd)
end(True)
"""
)
APPENDED = (
    PROLOGUE
    + """
fd = os.open(root + "/pfs/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
for turn in range(50):
    os.write(fd, b"%d %02d\\n" % (rank, turn))
os.close(fd)
end(True)
"""
)
WRITTEN = (
    PROLOGUE
    + """
if rank == 2:
    fd = os.open(root + "/pfs/gone", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b"x" * 5000)
    os.close(fd)
end(True)
"""
)
# Two ranks of a launcher that says so, one a node; each writes a file of its own and syncs it, and both a shared one.
TRACED = """
import os, sys
root, rank = sys.argv[1], ("tb-a", "tb-b").index(os.uname().nodename)
if "OMPI_COMM_WORLD_RANK" not in os.environ:
    os.environ |= {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}
    os.execv(sys.executable, [sys.executable, *sys.argv])
for name, at in ((f"own.{rank}", 0), ("shared", rank)):
    fd = os.open(f"{root}/pfs/{name}", os.O_RDWR | os.O_CREAT, 0o600)
    for turn in range(3):
        os.pwrite(fd, b"x" * 8192, (2 * turn + at) * 8192)
    os.fsync(fd)
    os.close(fd)
"""

# A file is held open here and made longer there: SEEK_END, of what is held and of a new open, counts from where fstat says.
LONGER = (
    PROLOGUE
    + """
right = True
held = os.open(root + "/pfs/shared", os.O_RDWR | os.O_CREAT, 0o600)
for turn in range(3):
    meet(f"held{turn}")
    if rank == 0:
        fd = os.open(root + "/pfs/shared", os.O_WRONLY)
        os.pwrite(fd, piece(0, turn, 5000), turn * 5000)
        os.fsync(fd)
        os.close(fd)
    meet(f"written{turn}")
    os.fsync(held)
    new = os.open(root + "/pfs/shared", os.O_RDONLY)
    for fd in (held, new):
        ends = os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_END)
        if ends != ((turn + 1) * 5000,) * 2:
            print(f"rank {rank}: turn {turn}: {ends}", file=sys.stderr, flush=True)
            right = False
    os.close(new)
    meet(f"seen{turn}")
end(right)
"""
)

# A number that all count up under a record lock, as the shared pointers of MPI-IO are kept.
COUNTED = (
    PROLOGUE
    + """
import fcntl, struct
fd = os.open(root + "/pfs/shared", os.O_RDWR | os.O_CREAT, 0o600)
def lock(kind):
    command = fcntl.F_OFD_SETLKW if rank % 2 else fcntl.F_SETLKW
    fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0))
meet("opened")
for turn in range(25):
    lock(fcntl.F_WRLCK)
    number = int(os.pread(fd, 20, 0) or b"0") + 1
    os.pwrite(fd, b"%d" % number, 0)
    lock(fcntl.F_UNLCK)
os.close(fd)
end(True)
"""
)


def piece(rank: int, turn: int, size: int) -> bytes:
    return bytes([1 + rank + 16 * turn]) * size


class Nodes:
    """Nodes that share a PFS, and a launcher of all."""

    spaces: tuple[str, ...] = ("--mount", "--uts")

    def __init__(self, cleanup: ExitStack, names: tuple[str, ...] = NODES) -> None:
        self.root = Path(
            cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tierbench-nodes-", dir="/var/tmp"))
        )
        for place in ("pfs", "nvme", "meet"):
            (self.root / place).mkdir()
        self.shared = self.root / "pfs" / "shared"
        self.node = {name: self.make(name, cleanup) for name in names}
        self.launch = self.root / "each"
        self.launch.write_text(
            LAUNCH.format(pids=" ".join(map(str, self.node.values())), spaces=" ".join(self.spaces))
        )
        self.launch.chmod(0o755)

    def make(self, name: str, cleanup: ExitStack) -> int:
        """A process that keeps a node's namespaces."""
        made = f"hostname {name} && mount -t tmpfs tmpfs /dev/shm && echo made && exec sleep 300"
        inside = ("--fork", "--kill-child", "--mount-proc") if "--pid" in self.spaces else ()
        words = ["unshare", *self.spaces, *inside, "sh", "-c", made]
        node = cleanup.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        cleanup.callback(node.kill)
        assert node.stdout
        assert node.stdout.readline() == "made\n"
        return node.pid

    def run_ranks(
        self,
        program: str,
        status: int = 0,
        *says: str,
        flush: str = "manual",
        options: tuple[str | Path, ...] = (),
        launch: Path | None = None,
        then: str = "true",
        fault: str | None = None,
        env: dict[str, str] | None = None,
        text: str = CONFIG,
        more: str = "",
    ) -> str:
        """What it says on stderr."""
        config = self.root / "tiers.yaml"
        config.write_text(text.format(root=self.root, flush=flush) + more)
        (self.root / "program.py").write_text(program)
        command = f"{self.launch} {sys.executable} {self.root}/program.py {self.root} && {then}"
        words = [
            "run",
            "-c",
            config,
            "--per-node",
            launch or self.launch,
            *options,
            "--",
            "sh",
            "-c",
            command,
        ]
        return run_ctl(words, status, *says, env=({"TB_FAULT": fault} if fault else {}) | (env or {}))

    def left(self) -> list[Path]:
        """What is in the nodes' own memory, and in the tier that they share."""
        shm = [p for pid in self.node.values() for p in Path(f"/proc/{pid}/root/dev/shm").iterdir()]
        return shm + list((self.root / "nvme").iterdir())


def run_ctl(
    words: list[str | Path], status: int, *says: str, env: dict[str, str] | None = None, timeout: float = 60
) -> str:
    done = subprocess.run(
        [BIN / "tierctl", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | (env or {}),
    )
    assert done.returncode == status, done.stderr
    for text in says:
        assert text in done.stderr
    return done.stderr


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    if not can_unshare("--mount", "--uts"):
        pytest.skip("needs root, and the right to make namespaces")
    with ExitStack() as cleanup:
        yield Nodes(cleanup)


def test_bytes_of_both_nodes_in_one_block(nodes: Nodes) -> None:
    stats = nodes.root / "stats.json"
    nodes.run_ranks(INTERLEAVED, options=("--stats", stats))
    wanted = b"".join(piece(r, t, 47008) for t in range(12) for r in range(4))
    assert nodes.shared.read_bytes() == wanted
    told = json.loads(stats.read_text())
    assert sorted(n["node"] for n in told["nodes"]) == sorted(NODES)
    assert [n["drained_bytes"] for n in told["nodes"]] == [len(wanted) // 2] * 2
    assert told["drained_bytes"] == len(wanted)
    assert told["pfs"]["bytes_written"] == len(wanted)
    assert told["drain_s"] == max(n["drain_s"] for n in told["nodes"])
    assert told["exit_status"] == 0
    assert nodes.left() == []
    assert not Path(f"{stats}.nodes").exists()


def test_numbers_of_a_killed_run_are_not_counted(nodes: Nodes) -> None:
    stats = nodes.root / "stats.json"
    old = nodes.root / "stats.json.nodes" / "old"
    old.parent.mkdir()
    old.write_text('{"drained_bytes": 1000}')
    nodes.run_ranks(INTERLEAVED, 2, f"--stats {stats}: {old.parent} is there", options=("--stats", stats))
    assert old.exists() and not stats.exists() and not nodes.shared.exists()


def test_bytes_of_another_node_in_a_gap(nodes: Nodes) -> None:
    nodes.run_ranks(BETWEEN)
    block = piece(0, 0, 100) + piece(2, 0, 100) + piece(0, 0, 100) + piece(3, 0, 100)
    wanted = (block + bytes(4600)) * 63 + block
    assert nodes.shared.read_bytes() == wanted


@pytest.mark.parametrize("mode", ["persistent-async", "persistent-sync", "bypass"])
def test_what_was_closed_is_seen_when_opened(nodes: Nodes, mode: str) -> None:
    nodes.run_ranks(CLOSE_TO_OPEN, flush="on-close", options=("--mode", mode))


def test_the_end_of_a_file_that_is_held_open(nodes: Nodes) -> None:
    nodes.run_ranks(LONGER, text=CONFIG.replace("fsync: tier", "fsync: pfs"))


def test_counted_under_a_lock(nodes: Nodes) -> None:
    nodes.run_ranks(COUNTED)
    assert nodes.shared.read_bytes() == b"100"


def test_appended_by_all(nodes: Nodes) -> None:
    nodes.run_ranks(APPENDED)
    lines = (nodes.root / "pfs" / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{r} {t:02d}" for r in range(4) for t in range(50))


def test_a_node_that_cannot_start(nodes: Nodes) -> None:
    broken = nodes.root / "broken"
    broken.write_text(
        f'#!/bin/sh\n[ "$3" = --foreground ] && exec nsenter --target {nodes.node["tb-a"]} --mount --uts -- "$@" /nowhere\n'
        f'exec {nodes.launch} "$@"\n'
    )
    broken.chmod(0o755)
    nodes.run_ranks(INTERLEAVED, 2, "the daemons ended before every instance was ready", launch=broken)
    assert nodes.left() == []
    assert not nodes.shared.exists()


def test_daemons_that_end_at_once(nodes: Nodes) -> None:
    """The look is ended while it starts; a signal that our own handler took there kept it for a minute."""
    quick = nodes.root / "quick"
    quick.write_text('#!/bin/sh\n[ "$3" = --foreground ] && exit 2\nexec "$@"\n')
    quick.chmod(0o755)
    for _ in range(20):
        nodes.run_ranks(INTERLEAVED, 2, "the daemons ended before every instance was ready", launch=quick)


def test_a_node_that_cannot_drain(nodes: Nodes) -> None:
    (nodes.root / "other").write_text("somebody else's")
    says = ("gone: not flushed", f"{nodes.launch} tierctl recover -c")
    nodes.run_ranks(WRITTEN, 3, *says, then=f"mv {nodes.root}/other {nodes.root}/pfs/gone")
    assert (nodes.root / "pfs" / "gone").read_text() == "somebody else's"
    kept = [p.name for p in Path(f"/proc/{nodes.node['tb-b']}/root/dev/shm").iterdir()]
    assert len(kept) == 1, kept


def test_recovered_on_each_node(nodes: Nodes) -> None:
    fault = f"op=pwrite,errno=ENOSPC,count=0,path={nodes.root}/pfs"
    said = nodes.run_ranks(INTERLEAVED, 3, options=("--mode", "persistent-async"), fault=fault)
    launch, _, *words = said.split("in this allocation: ")[1].splitlines()[0].split()
    done = subprocess.run([launch, BIN / "tierctl", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    wanted = b"".join(piece(r, t, 47008) for t in range(12) for r in range(4))
    assert nodes.shared.read_bytes() == wanted
    assert nodes.left() == []


def test_one_log_of_all_nodes(nodes: Nodes) -> None:
    before = time.time()
    log = nodes.root / "app.darshan"
    said = nodes.run_ranks(TRACED, options=("--trace", log))
    assert "app.darshan: 2 ranks\n" in said
    found = trace.read([log, nodes.root / "app.storage.darshan"], {str(nodes.root / "pfs"): "pfs"})
    assert not found.errors
    assert found.job["complete"].all()
    assert found.job["ranks"].max() == 2
    mine = found.files[(found.files["log"] == "app.darshan") & (found.files["place"] == "pfs")]
    told = {
        Path(f).name: (r, n, s)
        for f, r, n, s in mine[["file", "rank", "bytes_written", "flushes"]].to_numpy()
    }
    assert told == {"own.0": (0, 24576, 1), "own.1": (1, 24576, 1), "shared": (-1, 49152, 2)}
    below = found.tiers[(found.tiers["side"] == "storage") & (found.tiers["place"] == "pfs")]
    assert below["bytes_written"].sum() == 4 * 24576
    # Both nodes count from one second 0.
    job = found.job[found.job["side"] == "application"]
    spent = time.time() - job["start"].iloc[0].timestamp()
    assert 0 <= job["start"].iloc[0].timestamp() - before < spent
    assert found.segments["start_s"].between(0, spent).all()
    assert set(found.segments[found.segments["log"] == "app.darshan"]["host"]) == set(NODES)
    assert nodes.left() == []
    assert not Path(f"{log}.nodes").exists()


# With process numbers of a node's own, as in containers: each node's program is number 5001; one of them dies.
ONE_NUMBER = r"""
import os, signal, sys
root, node = sys.argv[1], os.uname().nodename
if len(sys.argv) == 2:
    pid = 0
    while pid != 5001:  # a thread of tierd may take the number first
        open("/proc/sys/kernel/ns_last_pid", "w").write("5000")
        if os.fork() == 0:
            program = [sys.executable, *sys.argv, "program"] if os.getpid() == 5001 else ["/bin/true"]
            os.execv(program[0], program)
        pid, _ = os.wait()
else:
    fd = os.open(f"{root}/pfs/{node}", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(fd, b"x" * 100, 0)
    os.write(2, f"{node} {os.getpid()}\n".encode())  # in one write: both nodes say it at the same time
    if DIES and node == "tb-b":
        os.kill(os.getpid(), signal.SIGKILL)
"""


class Containers(Nodes):
    """Nodes with process numbers of their own."""

    spaces = ("--mount", "--uts", "--pid")

    def make(self, name: str, cleanup: ExitStack) -> int:
        """The first process inside, as it is called outside."""
        outside = super().make(name, cleanup)
        return int(Path(f"/proc/{outside}/task/{outside}/children").read_text())


@pytest.mark.parametrize("dies", [False, True])
def test_a_nodes_log_does_not_hide_a_process_of_another_that_died(dies: bool) -> None:
    """The site's Darshan, or a stand-in, says of a log the process's number and not the node."""
    if not can_unshare("--mount", "--uts", "--pid", "--fork"):
        pytest.skip("needs root, and the right to make namespaces")
    site = os.environ.get("DARSHAN_LIB", str(BIN.parent / "lib" / "libtest_trace_site.so"))
    with ExitStack() as cleanup:
        nodes = Containers(cleanup)
        log = nodes.root / "app.darshan"
        source = ONE_NUMBER.replace("DIES", str(dies))
        env, options = {"DARSHAN_LIB": site}, ("--trace", log)
        said = nodes.run_ranks(source, 0, "tb-a 5001", "tb-b 5001", options=options, env=env)
        assert ("left no log of process 5001" in said) is dies, said
        assert ("tierbench_side" in trace.read_log(log).metadata) is dies
        assert nodes.left() == []


STAGED = """
import os, sys
root, node = sys.argv[1], os.uname().nodename
given = open(f"{root}/bb/x").read()
open(f"{root}/bb/result.{node}", "w").write(given + node)
"""


def test_each_node_moves_its_own_files(nodes: Nodes) -> None:
    """`bb` is node-local: each node has a file system of its own there. One log, and a third place waits for both."""
    for place in ("bb", "out", "in"):
        (nodes.root / place).mkdir()
    (nodes.root / "in" / "x").write_text("mesh of ")
    for pid in nodes.node.values():
        subprocess.run(["nsenter", "--target", str(pid), "--mount", "mount", "-t", "tmpfs", "bb", nodes.root / "bb"], check=True)  # fmt: skip
    more = (
        f"stage_out: {{from: {nodes.root}/bb, to: {nodes.root}/out}}\n"
        f"stage_in: {{from: {nodes.root}/in, to: {nodes.root}/bb}}\n"
    )
    wait = f"PFS_DIR={nodes.root}/out {BIN}/tierctl wait > {nodes.root}/waited"
    nodes.run_ranks(STAGED, more=more, then=wait)
    for node in NODES:
        assert (nodes.root / "out" / f"result.{node}").read_text() == f"mesh of {node}"
    assert (nodes.root / "waited").read_text().endswith("All files moved\n")
    log = (nodes.root / "out" / "spectral.log").read_text().splitlines()
    moved = [line.split("\t") for line in log if line.startswith("Tierbench\tmoved\t")]
    assert {(m[2], Path(m[4]).name) for m in moved if "/out/" in m[4]} == {(n, f"result.{n}") for n in NODES}
    assert {m[2] for m in moved if m[4].endswith("/bb/x")} == set(NODES)
    assert not list((nodes.root / "bb").iterdir()), "nothing was moved to or from the launching place"
    assert not list((nodes.root / "out").glob(".tierbench-*"))


def test_a_node_that_hands_on_nothing(nodes: Nodes) -> None:
    broken = nodes.root / "broken"
    broken.write_text(
        f'#!/bin/sh\n[ "$2" = node ] && (sleep 0.5; mkdir {nodes.root}/app.darshan.nodes/.tb-b) &\n'
        f'exec {nodes.launch} "$@"\n'
    )
    broken.chmod(0o755)
    log = nodes.root / "app.darshan"
    options = ("--trace", log)
    said = nodes.run_ranks(
        TRACED, 0, "what node tb-b recorded", launch=broken, then="sleep 1", options=options
    )
    assert "incomplete: not all of them ended" in said
    assert not trace.read([log]).job["complete"].any()
    assert nodes.left() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--keep",), "--per-node goes without --keep"),
        (("--per-node", " "), "needs the words"),
        (("--per-node", "/nowhere/launch"), "cannot run /nowhere/launch"),
    ],
)
def test_refused(nodes: Nodes, options: tuple[str, ...], message: str) -> None:
    nodes.run_ranks(INTERLEAVED, 2, message, options=options)
    assert nodes.left() == []


def test_a_configuration_of_one_node_is_refused(nodes: Nodes) -> None:
    config = nodes.root / "tiers.yaml"
    config.write_text(CONFIG.format(root=nodes.root, flush="manual").replace("nodes: several\n", ""))
    run_ctl(
        ["run", "-c", config, "--per-node", nodes.launch, "--", "true"], 2, "nodes: one; allowed: several"
    )
