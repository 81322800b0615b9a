"""Remote tiers: buffers of one node in the memory of others (`medium: remote`).

Two or three nodes of this machine, as in test_shared.py. The RAM is small and there is much of the remote tier, so what is written
is in the neighbour's memory, and counters tell so.
"""

import os
import subprocess
from pathlib import Path

import pytest
import test_nodes
from instances import BIN
from test_nodes import Nodes
from test_shared import CHANCES, LEFT, RAW, STEPS, run

nodes = test_nodes.nodes  # the fixture

TIERS = """version: 1
max_files: 256
nodes: shared
network: {{interface: lo}}
pfs: {{path: {root}/pfs}}
fsync: tier
allow_volatile: true
organizer: {{enabled: false}}
flush: {{policy: {flush}}}
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
  - {{name: far, medium: remote, capacity: 16MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 16MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
"""
LOOK = (
    RAW
    + """
import json, subprocess
def status() -> dict:
    words = [os.environ["TB_TIERCTL"], "status", "--json", "-i", os.environ["TIERBENCH_INSTANCE"]]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
def tier(name: str) -> dict:
    return next(t for t in status()["tiers"] if t["name"] == name)
def peer(name: str) -> dict:
    return next(p for p in status()["peers"] if p["node"] == name)
def await_(what, name: str, seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.05)
    return check(what(), name)
def pattern(n: int, seed: int) -> bytes:
    return b"".join((i * 2654435761 + seed).to_bytes(8, "little") for i in range(n // 8))
import ctypes
def mix(x: int) -> int:
    x = x + 0x9E3779B97F4A7C15 & (1 << 64) - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    x = (x ^ x >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return x ^ x >> 31
def make(name: str, keeper: int, nodes: int = 2) -> None:
    # a file with that node as its keeper: by inode number and time of birth, as relay_keeper computes it
    for i in range(100):
        path, told = f"{root}/pfs/{name}", (ctypes.c_char * 256)()
        open(f"{path}.{i}", "w").close()
        assert ctypes.CDLL(None).statx(-100, f"{path}.{i}".encode(), 0, 0xFFF, told) == 0
        inode, seconds, ns = (int.from_bytes(told.raw[at:at + n], "little") for at, n in ((32, 8), (80, 8), (88, 4)))
        if mix(inode ^ mix(seconds * 10**9 + ns)) % nodes == keeper:
            return os.rename(f"{path}.{i}", path)
        os.unlink(f"{path}.{i}")
    raise AssertionError("no file with that keeper")
"""
)


def pattern(n: int, seed: int) -> bytes:
    return b"".join((i * 2654435761 + seed).to_bytes(8, "little") for i in range(n // 8))


@pytest.fixture(autouse=True)
def tierctl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TB_TIERCTL", str(BIN / "tierctl"))


# 10 MiB where the RAM has not 4: the rest goes to the neighbour, and comes back right.
OVERFLOWS = (
    LOOK
    + """
data = pattern(10 << 20, 7)
if rank == 0:
    write("big", data, sync=False)
    far = tier("far")
    right &= check(far["used"] >= 6 << 20 and far["bytes_in"] >= 6 << 20, f"used {far}")
    right &= check(tier("nvme")["bytes_in"] == 0 and status()["pfs"]["bytes_written"] == 0, "not in other tiers")
    right &= check(read("big") == data, "read back")
    right &= check(tier("far")["bytes_out"] >= 6 << 20, "bytes out")
    right &= await_(lambda: peer("tb-b")["lent_bytes"] >= 6 << 20, "lent by b")
    right &= check(peer("tb-b")["lends_bytes"] >= 16 << 20, "lends")
    write("big", data[:100000][::-1], 4000000, sync=True)
meet("written")
data = data[:4000000] + data[:100000][::-1] + data[4100000:]
right &= check(read("big") == data, "read by all")
meet("read")
end(right)
"""
)


def test_a_node_overflows_into_its_neighbours_memory(nodes: Nodes) -> None:
    run(nodes, OVERFLOWS, text=TIERS)
    assert nodes.left() == []


# The node that lends is killed. What is only there is an error within the time, named; the rest is right.
LENDER_KILLED = (
    LOOK
    + """
import errno, signal
b = pattern(6 << 20, 2)
if rank == 0:
    make("gone", 0)
    fd = os.open(root + "/pfs/gone", os.O_RDWR)
    os.pwrite(fd, b, 0)
    right &= check(tier("far")["dirty"] >= 1 << 20, "something is there")
meet("written")
if rank == 2:
    os.kill(status()["daemon_pid"], signal.SIGKILL)
meet("killed")
if rank == 0:
    began = time.time()
    n_lost = n_right = 0
    for at in range(0, len(b), 65536):
        try:
            right &= check(os.pread(fd, 65536, at) == b[at : at + 65536], f"other bytes at {at}")
            n_right += 1
        except OSError as error:
            right &= check(error.errno == errno.EIO, str(error))
            n_lost += 1
    right &= check(time.time() - began < 10, f"it took {time.time() - began} s")
    right &= check(n_lost > 0 and n_right > 0, f"{n_lost} lost, {n_right} right")
    right &= await_(lambda: peer("tb-a")["lost_bytes"] >= n_lost * 65536, "told in status")
    words = [os.environ["TB_TIERCTL"], "status", "-i", os.environ["TIERBENCH_INSTANCE"]]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    right &= check("node tb-b is lost" in told and "are lost with their node" in told, told)
    right &= check("lost: " in told and "/pfs/gone: bytes " in told.split("lost: ")[-1] and ": node tb-b: " in told, told)
    os.pwrite(fd, b[: 1 << 20], len(b))
    right &= check(os.pread(fd, 1 << 20, len(b)) == b[: 1 << 20], "written after")
meet("told")
end(right)
"""
)


def recover(said: str) -> subprocess.CompletedProcess[str]:
    """By the command that it said."""
    launch, _, *words = said.split("in this allocation: ")[1].splitlines()[0].split()
    return subprocess.run([launch, BIN / "tierctl", *words], capture_output=True, text=True, timeout=60)


def test_a_node_that_lends_is_killed(nodes: Nodes) -> None:
    said = run(
        nodes, LENDER_KILLED, 3, "/pfs/gone: not flushed: ", "only in the memory of node tb-b", text=TIERS
    )
    done = recover(said)
    assert done.returncode == 3
    assert "/pfs/gone: lost: " in done.stderr
    assert "bytes of 1 file were only in the memory of other nodes, and are lost; all else" in done.stderr
    left, data = (nodes.root / "pfs" / "gone").read_bytes(), pattern(6 << 20, 2)
    assert left[: 1 << 19] == data[: 1 << 19], "what was in the RAM"
    assert left[len(data) :] == data[: 1 << 20], "what was written after"
    assert nodes.left() == []


# The node that borrowed is killed: what it had is gone, and the node that lent goes on.
BORROWER_KILLED = (
    LOOK
    + """
import errno, signal
a = pattern(10 << 20, 1)
if rank == 0:
    write("lost", a, sync=False)
    write("synced", a[:100000], sync=True)
if rank == 2:
    make("own", 1)
meet("written")
if rank == 2:
    right &= await_(lambda: peer("tb-b")["lent_bytes"] >= 1 << 20, "lent")
meet("seen")
if rank == 0:
    os.kill(status()["daemon_pid"], signal.SIGKILL)
meet("killed")
if rank == 2:
    write("own", a[::-1])
    right &= check(read("own") == a[::-1], "own bytes")
    right &= await_(lambda: peer("tb-b")["lent_bytes"] == 0 and peer("tb-b")["lends_bytes"] == 0, "given back", 25)
meet("told")
end(right)
"""
)


def test_a_node_that_borrowed_is_killed(nodes: Nodes) -> None:
    said = run(nodes, BORROWER_KILLED, 3, "tierctl recover -c", text=TIERS)
    done = recover(said)
    assert done.returncode in (0, 3), done.stderr
    assert (nodes.root / "pfs" / "synced").read_bytes() == pattern(10 << 20, 1)[:100000]
    assert (nodes.root / "pfs" / "own").read_bytes() == pattern(10 << 20, 1)[::-1]
    assert nodes.left() == []


# A node ends alone: what others have in its memory goes to the PFS before.
ENDS_ALONE = (
    LOOK
    + """
import signal
a = pattern(10 << 20, 3)
if rank == 0:
    make("big", 0)
    write("big", a, sync=False)
    right &= check(tier("far")["dirty"] >= 1 << 20, "something is there")
meet("written")
if rank == 2:
    daemon = status()["daemon_pid"]
    os.kill(daemon, signal.SIGTERM)
    while os.path.exists(f"/proc/{daemon}"):
        time.sleep(0.02)
if rank == 0:
    right &= check(read("big") == a, "read while it ends")
meet("ended")
if rank == 0:
    right &= check(read("big") == a, "read after its end")
    right &= check(peer("tb-a")["lost_bytes"] == 0, "nothing is lost")
    right &= await_(lambda: not peer("tb-b")["alive"], "it has ended")
    fd = os.open(f"{root}/pfs/big", os.O_RDWR)
    os.pwrite(fd, a[::-1], 0)
    right &= check(os.pread(fd, len(a), 0) == a[::-1], "written after its end")
meet("read")
end(right)
"""
)


def test_a_node_that_lends_ends(nodes: Nodes) -> None:
    run(nodes, ENDS_ALONE, text=TIERS)
    assert (nodes.root / "pfs" / "big").read_bytes() == pattern(10 << 20, 3)[::-1]
    assert nodes.left() == []


# The node that lends is stopped, as one that is cut off: nothing waits for it long, and its bytes come back with it.
LENDER_STOPPED = (
    LOOK
    + """
import errno, signal
a = pattern(6 << 20, 5)
if rank == 0:
    make("held", 0)
    fd = os.open(root + "/pfs/held", os.O_RDWR)
    os.pwrite(fd, a, 0)
    right &= check(tier("far")["dirty"] >= 1 << 20, "something is there")
meet("written")
if rank == 2:
    daemon = status()["daemon_pid"]
    os.kill(daemon, signal.SIGSTOP)
meet("stopped")
if rank == 0:
    began, n_lost, longest = time.time(), 0, 0.0
    for at in range(0, len(a), 65536):
        one = time.time()
        try:
            right &= check(os.pread(fd, 65536, at) == a[at : at + 65536], f"other bytes at {at}")
        except OSError as error:
            right &= check(error.errno == errno.EIO, str(error))
            n_lost += 1
        longest = max(longest, time.time() - one)
    os.pwrite(fd, a[:300000], len(a))
    right &= check(longest < 10, f"a read took {longest} s")
    right &= check(time.time() - began < 12, f"all took {time.time() - began} s")
    right &= check(n_lost > 0, "nothing was lost")
meet("looked")
if rank == 2:
    os.kill(daemon, signal.SIGCONT)
if rank == 0:
    right &= await_(lambda: peer("tb-b")["alive"], "it is back")
    right &= check(os.pread(fd, 1 << 24, 0) == a + a[:300000], "the bytes are back")
meet("back")
end(right)
"""
)


def test_a_node_that_lends_is_stopped_for_a_while(nodes: Nodes) -> None:
    run(nodes, LENDER_STOPPED, text=TIERS)
    data = pattern(6 << 20, 5)
    assert (nodes.root / "pfs" / "held").read_bytes() == data + data[:300000]
    assert nodes.left() == []


# Wherever placement puts them, what nodes write over, cut, remove and rename is seen by all: as without a remote tier.
SPREAD = TIERS + "placement: {{policy: random}}\n"


def test_steps(nodes: Nodes) -> None:
    run(nodes, STEPS, text=SPREAD)
    for name, data in LEFT.items():
        assert (nodes.root / "pfs" / name).read_bytes() == data, name
    assert nodes.left() == []


def test_by_chance(nodes: Nodes) -> None:
    (nodes.root / "chances").write_text(f"{os.environ.get('TB_SEED', 1)} {os.environ.get('TB_CHANCES', 60)}")
    run(nodes, CHANCES, text=SPREAD)
    wanted = {p.stem: p.read_bytes() for p in (nodes.root / "meet").glob("*.wanted")}
    assert {p.name: p.read_bytes() for p in (nodes.root / "pfs").iterdir()} == wanted
    assert nodes.left() == []


def test_it_is_measured_in_a_run(nodes: Nodes) -> None:
    """Over the network and in each direction; and what was measured is a profile that the configuration takes."""
    config, out = nodes.root / "tiers.yaml", nodes.root / "measured"
    config.write_text(TIERS.format(root=nodes.root, flush="manual"))
    here = ["nsenter", "--target", str(nodes.node["tb-a"]), "--mount", "--uts", "--"]
    measure: list[str | Path] = [BIN / "tierctl", "profile", config, "-o", out, "--seconds", "2"]
    test_nodes.run_ctl(["run", "-c", config, "--per-node", nodes.launch, "--", *here, *measure], 0)
    assert nodes.left() == []
    assert [f.name for f in out.iterdir()] == ["far.yaml"]
    assert "other nodes' memory" in (out / "far.yaml").read_text()
    device = dict(line.split(": ") for line in (out / "far.yaml").read_text().splitlines() if line[0] != "#")
    rates = {key: float(value.removesuffix("MiB/s")) for key, value in device.items() if "bandwidth" in key}
    assert all(1 < rate < 100000 for rate in rates.values()), rates
    assert all(0 < float(device[f"{way}_latency"].removesuffix("us")) < 1e6 for way in ("read", "write"))
    config.write_text(
        config.read_text().replace("far, medium: remote,", f"far, medium: remote, profile: {out}/far.yaml,")
    )
    assert ctl("check", config).returncode == 0


def ctl(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "tierctl", *words], capture_output=True, text=True)


PLAIN = """version: 1
nodes: shared
fsync: pfs
pfs: {{path: {root}}}
tiers:
  - {{name: ram, medium: memory, capacity: 64MiB{ram}}}
  - {{name: far, medium: remote{far}}}
  - {{name: nvme, medium: directory, path: {nvme}, capacity: 64MiB{nvme_figures}}}
"""


def figures(rate: int, latency: str) -> str:
    return f", profile: {{name: x, source: here, write_bandwidth: {rate}MiB/s, write_latency: {latency}}}"


@pytest.mark.parametrize(
    ("ram", "far", "nvme", "slower"),
    [
        ("", figures(1000, "20us"), "", []),
        (figures(9000, "1us"), figures(1000, "20us"), figures(800, "100us"), []),
        (figures(9000, "1us"), figures(1000, "2ms"), figures(800, "100us"), [1]),
        (figures(900, "1us"), figures(1000, "1us"), figures(1100, "1us"), [0, 1]),
    ],
    ids=["not known", "right", "behind the network", "turned round"],
)
def test_check_says_where_the_order_is_wrong(
    tmp_path: Path, ram: str, far: str, nvme: str, slower: list[int]
) -> None:
    for place in ("pfs", "nvme"):
        (tmp_path / place).mkdir()
    config = tmp_path / "c.yaml"
    text = PLAIN.format(
        root=tmp_path / "pfs",
        nvme=tmp_path / "nvme",
        ram=ram,
        far=", capacity: 64MiB" + far,
        nvme_figures=nvme,
    )
    config.write_text(text)
    done = ctl("check", config)
    assert done.returncode == 0, done.stderr
    found = [i for i in range(3) if f"tiers[{i}]: {('ram', 'far', 'nvme')[i]} comes before " in done.stderr]
    assert found == slower, done.stderr
    planned = ctl("plan", config)
    assert f"lent to other nodes, for their far, in memory of the daemon: {64 << 20} bytes" in planned.stdout


def test_more_than_this_node_has_is_not_lent(tmp_path: Path) -> None:
    for place in ("pfs", "nvme"):
        (tmp_path / place).mkdir()
    config = tmp_path / "c.yaml"
    far = ", capacity: 4TiB, block: 4KiB, slabs: [{units: 256, share: 1.0}]"
    text = PLAIN.format(root=tmp_path / "pfs", nvme=tmp_path / "nvme", ram="", far=far, nvme_figures="")
    config.write_text(text.replace("64MiB", "512MiB", 1))  # for the records of so many buffers
    done = ctl("check", config)
    assert done.returncode == 2
    assert "tiers[1].capacity: 4194304 MiB, which this node lends to others, and it has " in done.stderr
