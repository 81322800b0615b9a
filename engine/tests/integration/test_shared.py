"""`nodes: shared`: what one node committed another reads from its tiers, and not from the PFS.

Two nodes of this machine, as in test_nodes.py. Nothing is flushed before the end (`flush: manual`), so as long as the
program runs the PFS has none of the bytes: what is read came from the other node.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from threading import Event, Thread

import pytest
import test_nodes
from instances import BIN
from test_nodes import APPENDED, CLOSE_TO_OPEN, CONFIG, COUNTED, LONGER, PROLOGUE, Nodes, piece

nodes = test_nodes.nodes  # the fixture

SHARED = CONFIG.replace("nodes: several", "nodes: shared\nnetwork: {{interface: lo}}")
# `on_pfs` is what the PFS itself has: a process without the adapter looks.
RAW = (
    PROLOGUE
    + """
asked = 0
def on_pfs(name: str) -> bytes:
    global asked
    asked += 1
    path = f"{root}/meet/{rank}.{asked}"
    with open(path + ".part", "w") as out:
        out.write(name)
    os.rename(path + ".part", path + ".ask")
    while not os.path.exists(path + ".told"):
        time.sleep(0.001)
    return open(path + ".told", "rb").read()
def write(name: str, data: bytes, at: int = 0, sync: bool = True, flags: int = 0) -> None:
    fd = os.open(f"{root}/pfs/{name}", os.O_RDWR | os.O_CREAT | flags, 0o600)
    while data:
        n = os.pwrite(fd, data, at)
        data, at = data[n:], at + n
    if sync:
        os.fsync(fd)
    os.close(fd)
def read(name: str, n: int = 1 << 24, at: int = 0) -> bytes:
    fd = os.open(f"{root}/pfs/{name}", os.O_RDONLY)
    parts = []
    while n and (part := os.pread(fd, n, at)):
        parts.append(part)
        n, at = n - len(part), at + len(part)
    os.close(fd)
    return b"".join(parts)
def check(what: bool, name: str) -> bool:
    if not what:
        print(f"rank {rank}: {name}", file=sys.stderr, flush=True)
    return what
right = True
"""
)
A_TO_B = (
    RAW
    + """
data = os.urandom(300000)
if rank == 0:
    write("a", data)
    open(root + "/meet/data", "wb").write(data)
meet("written")
data = open(root + "/meet/data", "rb").read()
right &= check(not any(on_pfs("a")), "the PFS has bytes of it")
right &= check(os.stat(root + "/pfs/a").st_size == 300000, "size")
right &= check(read("a") == data, "other bytes")
right &= check(read("a") == data, "other bytes, the second time")
meet("read")
right &= check(not any(on_pfs("a")), "the PFS has bytes of it, after")
end(right)
"""
)


def answer(root: Path, ends: Event) -> None:
    """For `on_pfs`."""
    while not ends.wait(0.001):
        for ask in (root / "meet").glob("*.ask"):
            part = ask.with_suffix(".reading")
            part.write_bytes((root / "pfs" / ask.read_text()).read_bytes())
            ask.unlink()
            part.rename(ask.with_suffix(".told"))


def run(
    nodes: Nodes, program: str, status: int = 0, *says: str, flush: str = "manual", text: str = SHARED
) -> str:
    ends = Event()
    asked = Thread(target=answer, args=(nodes.root, ends))
    asked.start()
    try:
        return nodes.run_ranks(program, status, *says, flush=flush, text=text)
    finally:
        ends.set()
        asked.join()


def test_written_here_read_there(nodes: Nodes) -> None:
    run(nodes, A_TO_B)
    assert (nodes.root / "pfs" / "a").read_bytes() == (nodes.root / "meet" / "data").read_bytes()
    assert nodes.left() == []
    assert sorted(p.name for p in (nodes.root / "pfs").iterdir()) == ["a"]


# Rank 0 is of the first node and rank 2 of the second; each step is ordered by `meet`.
STEPS = (
    RAW
    + """
first, second = rank == 0, rank == 2
def step(name: str, *turns) -> None:
    for i, (who, what) in enumerate(turns):
        if who:
            try:
                check_(what() is not False, f"{name}, turn {i}")
            except OSError as error:
                check_(False, f"{name}, turn {i}: {error}")
        meet(f"{name}.{i}")
def check_(what: bool, name: str) -> None:
    global right
    right &= check(what, name)
def is_(name: str, data: bytes) -> bool:
    seen = read(name)
    if seen != data:
        at = next((i for i, (x, y) in enumerate(zip(seen, data)) if x != y), min(len(seen), len(data)))
        print(f"rank {rank}: {name}: {len(seen)} bytes for {len(data)}, other ones from {at} on: {seen[at:at+4]}", file=sys.stderr)
    return seen == data and os.stat(f"{root}/pfs/{name}").st_size == len(data)
A, B, C = (bytes([x]) * 200000 for x in b"ABC")

over = A[:50001] + B[50001:120003] + A[120003:]
step("overwritten", (first, lambda: write("over", A)), (second, lambda: write("over", B[50001:120003], 50001)),
     (first, lambda: is_("over", over)), (second, lambda: is_("over", over)), (first, lambda: not any(on_pfs("over"))))
mid = A[:70100] + B[:50] + A[70150:]
step("in the middle of a block", (first, lambda: write("mid", A)), (second, lambda: write("mid", B[:50], 70100)),
     (first, lambda: is_("mid", mid)), (second, lambda: is_("mid", mid)))
step("back and forth", (first, lambda: write("back", A)), (second, lambda: write("back", B)), (first, lambda: write("back", C[:9000], 100)),
     (second, lambda: is_("back", B[:100] + C[:9000] + B[9100:])), (second, lambda: write("back", A[:5], 200)),
     (first, lambda: is_("back", B[:100] + C[:100] + A[:5] + C[:8895] + B[9100:])))
step("each other's", (first, lambda: write("each", A[:65536])), (second, lambda: write("each", B[:65536], 65536)),
     (first or second, lambda: write("each", (A if first else B)[:65536], 65536 if first else 0)),
     (first or second, lambda: is_("each", B[:65536] + A[:65536])))
step("cut", (first, lambda: write("cut", A)), (second, lambda: os.truncate(f"{root}/pfs/cut", 70001)), (first, lambda: is_("cut", A[:70001])),
     (second, lambda: os.truncate(f"{root}/pfs/cut", 90000)), (first, lambda: is_("cut", A[:70001] + bytes(19999))),
     (second, lambda: write("cut", B[:10], flags=os.O_TRUNC)), (first, lambda: is_("cut", B[:10])),
     (first, lambda: write("cut", C, 20)), (second, lambda: is_("cut", B[:10] + bytes(10) + C)))
step("removed", (first, lambda: write("gone", A)), (second, lambda: is_("gone", A)), (second, lambda: os.unlink(f"{root}/pfs/gone")),
     (first, lambda: not os.path.exists(f"{root}/pfs/gone")), (second, lambda: write("gone", B[:7])), (first, lambda: is_("gone", B[:7])))
step("renamed", (first, lambda: write("part", A)), (second, lambda: os.rename(f"{root}/pfs/part", f"{root}/pfs/whole")),
     (first, lambda: is_("whole", A)), (first, lambda: write("new", B)), (first, lambda: os.rename(f"{root}/pfs/new", f"{root}/pfs/whole")),
     (second, lambda: is_("whole", B)), (second, lambda: write("new", C)), (second, lambda: os.rename(f"{root}/pfs/new", f"{root}/pfs/whole")),
     (first, lambda: is_("whole", C)))
step("renamed there", (first, lambda: write("away", A)), (second, lambda: os.rename(f"{root}/pfs/away", f"{root}/pfs/there")))
doomed = []
for name, removal in (("doomed", lambda: os.unlink(f"{root}/pfs/doomed")), ("fated", lambda: os.rename(f"{root}/pfs/fate", f"{root}/pfs/fated"))):
    step(f"{name} with bytes that no commit has", (first, lambda: write("fate", C)), (second, lambda: doomed.append(os.open(f"{root}/pfs/{name}", os.O_RDWR | os.O_CREAT))),
         (second, lambda: os.pwrite(doomed[-1], A[:50000], 0) == 50000), (first, removal), (second, lambda: os.pread(doomed[-1], 50000, 0) == A[:50000]),
         (second, lambda: os.fsync(doomed[-1]) if name == "doomed" else None), (second, lambda: os.close(doomed[-1])))
step("what replaced it", (first or second, lambda: is_("fated", C)), (first, lambda: os.unlink(f"{root}/pfs/fated")))
held = []
step("opened before", (first, lambda: write("held", A)), (second, lambda: held.append(os.open(f"{root}/pfs/held", os.O_RDWR))),
     (second, lambda: os.pread(held[0], 200000, 0) == A), (first, lambda: write("held", B)), (second, lambda: os.fsync(held[0])),
     (second, lambda: os.pread(held[0], 200000, 0) == B), (second, lambda: os.close(held[0])))
import mmap, subprocess
def mapped(name: str) -> bytes:
    with open(f"{root}/pfs/{name}", "rb") as f:
        return bytes(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ))
told_size = lambda name: int(subprocess.run(["stat", "-c", "%s", f"{root}/pfs/{name}"], capture_output=True, check=True).stdout)
step("mapped", (first, lambda: write("mapped", A)), (second, lambda: told_size("mapped") == len(A)), (second, lambda: mapped("mapped") == A))
step("many files", (first, lambda: [write(f"many{i}", C[:1000 + i], sync=i % 2 == 0) for i in range(40)]),
     (second, lambda: all(is_(f"many{i}", C[:1000 + i]) for i in range(40))))
def write_pieces(name: str) -> None:
    fd = os.open(f"{root}/pfs/{name}", os.O_RDWR | os.O_CREAT, 0o600)
    for i in range(600):
        os.pwrite(fd, A[:100], 200 * i)
    os.close(fd)
step("more pieces than are noted", (first, lambda: write_pieces("pieces")), (second, lambda: is_("pieces", ((A[:100] + bytes(100)) * 600)[:-100])))
step("closed and not synced", (first, lambda: write("closed", A, sync=False)), (second, lambda: is_("closed", A)))
end(right)
"""
)
# Both write over what the other one committed, at the same time: each file ends with all of it turned round.
EACH_OTHER = (
    STEPS[: STEPS.index("over = A")]
    + """
for i in range(24):
    name, size = f"each{i}", (65536, 50000, 4096, 1000)[i % 4]
    step(name, (first, lambda: write(name, A[:size])), (second, lambda: write(name, B[:size], size)),
         (first or second, lambda: write(name, (A if first else B)[:size], size if first else 0)),
         (first or second, lambda: is_(name, B[:size] + A[:size])))
end(right)
"""
)
# One rank after another does something by chance, commits it, and two ranks look: all of them know what comes.
CHANCES = (
    RAW
    + """
import random
seed, n = map(int, open(root + "/chances").read().split())
chance = random.Random(seed)
model: dict[str, bytearray] = {}
for turn in range(n):
    name, who, looks = chance.choice("abc"), chance.randrange(4), chance.sample(range(4), 2)
    what = chance.choices(["write", "cut", "remove", "rename", "append"], [12, 3, 1, 1, 1])[0]
    at, size = chance.randrange(400000), chance.choice([1, 100, 4096, 5000, 47008, 200000])
    at = at // 4096 * 4096 if chance.random() < 0.4 else at
    fill = bytes([1 + turn % 255])
    old = model.get(name)
    said = f"seed {seed} turn {turn}: rank {who} {what} {name} {at} {size}"
    path = f"{root}/pfs/{name}"
    try:
        if what == "write" or old is None:
            if rank == who:
                write(name, fill * size, at, sync=turn % 3 == 0)
            new = model.setdefault(name, bytearray())
            new.extend(bytes(max(0, at + size - len(new))))
            new[at : at + size] = fill * size
        elif what == "cut":
            if rank == who:
                os.truncate(path, at)
            model[name] = old[:at] + bytes(max(0, at - len(old)))
        elif what == "remove":
            if rank == who:
                os.unlink(path)
            del model[name]
        elif what == "rename":
            to = chance.choice("abc".replace(name, ""))
            if rank == who:
                os.rename(path, f"{root}/pfs/{to}")
            model[to] = model.pop(name)
        else:
            if rank == who:
                fd = os.open(path, os.O_WRONLY | os.O_APPEND)
                os.write(fd, fill * 100)
                os.close(fd)
            old.extend(fill * 100)
    except OSError as error:
        right = check(False, f"{said}: {error}")
    meet(f"done{turn}")
    if rank in looks:
        for name, data in model.items():
            try:
                seen, told = read(name), os.stat(f"{root}/pfs/{name}").st_size
            except OSError as error:
                right = check(False, f"{said}: {name}: {error}")
                continue
            if seen != data or told != len(data):
                differs = next((i for i, (x, y) in enumerate(zip(seen, data)) if x != y), min(len(seen), len(data)))
                right = check(False, f"{said}: {name}: {len(seen)} ({told}) of {len(data)} bytes, at {differs} "
                              f"{seen[differs:differs+2]!r} for {bytes(data[differs:differs+2])!r}")
    meet(f"seen{turn}")
    if not right:
        break
if rank == 0:
    for name, data in model.items():
        open(f"{root}/meet/{name}.wanted", "wb").write(data)
end(right)
"""
)
# Every byte of the files that STEPS leaves, in the end, on the PFS.
A, B, C = (bytes([x]) * 200000 for x in b"ABC")
LEFT = {
    "over": A[:50001] + B[50001:120003] + A[120003:],
    "mid": A[:70100] + B[:50] + A[70150:],
    "back": B[:100] + C[:100] + A[:5] + C[:8895] + B[9100:],
    "each": B[:65536] + A[:65536],
    "cut": B[:10] + bytes(10) + C,
    "gone": B[:7],
    "whole": C,
    "there": A,
    "held": B,
    "closed": A,
}
# As IO500's hard phase and a shifted read: pieces of 47008 bytes in turn, more than the tiers hold where `turns` is large.
STRIDED = (
    RAW
    + """
turns = int(open(root + "/turns").read())
fd = os.open(root + "/pfs/shared", os.O_RDWR | os.O_CREAT, 0o600)
for turn in range(turns):
    right &= os.pwrite(fd, piece(rank, turn % 8, 47008), (turn * 4 + rank) * 47008) == 47008
os.fsync(fd)
os.close(fd)
meet("written")
other = (rank + 2) % 4
fd = os.open(root + "/pfs/shared", os.O_RDONLY)
for turn in range(turns):
    at = (turn * 4 + other) * 47008
    right &= check(os.pread(fd, 47008, at) == piece(other, turn % 8, 47008), f"piece {turn} of rank {other}")
os.close(fd)
meet("read")
end(right)
"""
)


def test_steps(nodes: Nodes) -> None:
    run(nodes, STEPS)
    for name, data in LEFT.items():
        assert (nodes.root / "pfs" / name).read_bytes() == data, name
    assert nodes.left() == []


@pytest.mark.parametrize("flush", ["manual", "on-close", "watermark"])
def test_by_chance(nodes: Nodes, flush: str) -> None:
    (nodes.root / "chances").write_text(f"{os.environ.get('TB_SEED', 1)} {os.environ.get('TB_CHANCES', 60)}")
    run(nodes, CHANCES, flush=flush)
    wanted = {p.stem: p.read_bytes() for p in (nodes.root / "meet").glob("*.wanted")}
    assert {p.name: p.read_bytes() for p in (nodes.root / "pfs").iterdir()} == wanted
    assert nodes.left() == []


@pytest.mark.parametrize("flush", ["manual", "on-close"])
def test_over_each_other(nodes: Nodes, flush: str) -> None:
    run(nodes, EACH_OTHER, flush=flush)
    for i in range(24):
        size = (65536, 50000, 4096, 1000)[i % 4]
        assert (nodes.root / "pfs" / f"each{i}").read_bytes() == B[:size] + A[:size], i
    assert nodes.left() == []


@pytest.mark.parametrize("turns", [12, 300])
def test_strided(nodes: Nodes, turns: int) -> None:
    (nodes.root / "turns").write_text(str(turns))
    run(nodes, STRIDED)
    wanted = b"".join(piece(r, t % 8, 47008) for t in range(turns) for r in range(4))
    assert nodes.shared.read_bytes() == wanted
    assert nodes.left() == []


@pytest.mark.parametrize("flush", ["manual", "on-close"])
@pytest.mark.parametrize("mode", ["persistent-async", "persistent-sync", "bypass"])
def test_what_was_closed_is_seen_when_opened(nodes: Nodes, mode: str, flush: str) -> None:
    run(nodes, CLOSE_TO_OPEN, flush=flush, text=SHARED + f"mode: {mode}\n")


@pytest.mark.parametrize("fsync", ["tier", "pfs"])
def test_the_end_of_a_file_that_is_held_open(nodes: Nodes, fsync: str) -> None:
    run(nodes, LONGER, text=SHARED.replace("fsync: tier", f"fsync: {fsync}"))


@pytest.mark.parametrize("flush", ["manual", "on-close"])
def test_counted_under_a_lock(nodes: Nodes, flush: str) -> None:
    run(nodes, COUNTED, flush=flush)
    assert nodes.shared.read_bytes() == b"100"


def test_appended_by_all(nodes: Nodes) -> None:
    run(nodes, APPENDED)
    lines = (nodes.root / "pfs" / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{r} {t:02d}" for r in range(4) for t in range(50))


# A node's daemon is killed; of what it had, and of files that it owned, nothing is made up.
LOST = (
    RAW
    + """
import errno, json, signal, subprocess
name = lambda i: f"file{i}"
data = lambda i: bytes([65 + i]) * 100000
def daemon() -> int:
    words = [os.environ["TB_TIERCTL"], "status", "--json", "-i", os.environ["TIERBENCH_INSTANCE"]]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["daemon_pid"]
for i in {0: range(8), 2: range(8, 10)}.get(rank, ()):
    write(name(i), data(i))
meet("written")
if rank == 2:
    right &= check(read(name(0)) == data(0), "read before")
meet("read")
if rank == 0:
    os.kill(daemon(), signal.SIGKILL)
meet("killed")
if rank == 2:
    for i in range(1, 8):
        began = time.time()
        try:
            seen = read(name(i))
            right &= check(False, f"{name(i)}: {len(seen)} bytes, {seen[:3]}")
        except OSError as error:
            right &= check(error.errno == errno.EIO, str(error))
        right &= check(time.time() - began < 10, "it took long")
    words = [os.environ["TB_TIERCTL"], "status", "-i", os.environ["TIERBENCH_INSTANCE"]]
    told = ""
    for _ in range(50):  # the state of other nodes is looked at now and then
        if "node tb-a is lost" not in told:
            time.sleep(0.1)
            told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    right &= check("node tb-a is lost" in told and "node tb-b lives" in told, told)
    right &= check("lost: " in told and "node tb-a: " in told.split("lost: ")[1], told)
meet("told")
end(right)
"""
)


def test_a_node_that_is_lost(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TB_TIERCTL", str(BIN / "tierctl"))
    said = run(nodes, LOST, 3, "tierctl recover -c")
    launch, _, *words = said.split("in this allocation: ")[1].splitlines()[0].split()
    done = subprocess.run([launch, BIN / "tierctl", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for i in range(10):
        assert (nodes.root / "pfs" / f"file{i}").read_bytes() == bytes([65 + i]) * 100000
    assert nodes.left() == []


@pytest.mark.parametrize(
    "options",
    ["-a POSIX -b 1m -t 64k", "-a MPIIO -b 1m -t 64k", "-a POSIX -b 47008 -t 47008 -s 40 -k"],
    ids=["shifted", "mpi-io", "hard"],
)
def test_ior_reads_what_the_neighbour_wrote(nodes: Nodes, options: str) -> None:
    """Four ranks of one MPI program, two on each node; -R compares what they read."""
    if not shutil.which("mpirun") or not (BIN / "tb-ior").exists():
        pytest.skip("needs MPI")
    # With room for all: else placement may flush some to make room.
    room_for_all = SHARED.replace("capacity: 4MiB", "capacity: 16MiB")
    (nodes.root / "tiers.yaml").write_text(room_for_all.format(root=nodes.root, flush="manual"))
    first, second = nodes.node.values()
    on_node = nodes.root / "on_node"
    on_node.write_text(
        f"#!/bin/sh\nnode={second}; [ $OMPI_COMM_WORLD_RANK -lt 2 ] && node={first}\n"
        'exec nsenter --target $node --mount --uts -- "$@"\n'
    )
    on_node.chmod(0o755)
    mpirun = "mpirun --allow-run-as-root --oversubscribe -n 4 --mca btl tcp,self --mca btl_tcp_if_include lo --mca pml ob1"
    stats = nodes.root / "stats.json"
    words: list[str | Path] = [
        "run",
        "-c",
        nodes.root / "tiers.yaml",
        "--per-node",
        nodes.launch,
        "--stats",
        stats,
        "--",
    ]
    program: list[str | Path] = [
        *mpirun.split(),
        on_node,
        BIN / "tb-ior",
        "-w",
        "-r",
        "-R",
        "-C",
        "-e",
        *options.split(),
    ]
    test_nodes.run_ctl([*words, *program, "-o", nodes.shared], 0)
    told = json.loads(stats.read_text())["pfs"]
    if "-k" not in options:
        assert (told["bytes_read"], told["bytes_written"]) == (0, 0)
    else:  # of a 4 KiB block that two nodes share one node's part may go to the PFS: each piece has two ends
        assert told["bytes_read"] <= 4 * 40 * 2 * 4096
        assert told["bytes_written"] >= 4 * 40 * 47008
    # OMPIO leaves a file of its own there.
    assert [p.name for p in nodes.left() if "MPIO" not in p.name] == []


def test_a_node_never_believes_itself_alone(nodes: Nodes) -> None:
    config = nodes.root / "tiers.yaml"
    config.write_text(SHARED.format(root=nodes.root, flush="manual"))
    alone = "nodes: shared needs the number of nodes: start it with tierctl run --per-node"
    test_nodes.run_ctl(["run", "-c", config, "--", "true"], 2, alone)
    twice = nodes.root / "twice"
    twice.write_text(
        f'#!/bin/sh\nnsenter --target {nodes.node["tb-a"]} --mount --uts -- "$@" & {nodes.launch} "$@"; wait\n'
    )
    twice.chmod(0o755)
    words: list[str | Path] = ["run", "-c", config, "--per-node", twice, "--", "true"]
    test_nodes.run_ctl(words, 2, "the launcher starts two on node tb-a; allowed: one on each")
    assert nodes.left() == []
    assert list((nodes.root / "pfs").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SHARED.replace("shared", "several"), "network.interface"),
        (SHARED + "namespace: deferred\n", "allowed with nodes: shared: eager"),
        (SHARED.replace("nodes: shared", "nodes: all"), "one, several, shared"),
        (SHARED.replace("interface", "interfaces"), "network: interfaces: unknown key"),
    ],
)
def test_refused_by_check(nodes: Nodes, text: str, message: str) -> None:
    config = nodes.root / "tiers.yaml"
    config.write_text(text.format(root=nodes.root, flush="manual"))
    test_nodes.run_ctl(["check", config], 2, message)
