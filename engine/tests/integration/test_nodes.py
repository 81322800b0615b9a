"""Several nodes: `tierctl run --per-node`, and what processes of different nodes see of one file.

Two nodes of this machine: each has a host name and a /dev/shm of its own, which needs root. They share
the PFS, as nodes do. The launcher is a script that runs a command once on each.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BIN = Path(os.environ["TB_BIN_DIR"])
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
for node in {pids}; do nsenter --target $node --mount --uts -- "$@" & all="$all $!"; done
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
    late = turn % 2 == first // 2  # a node's flush behind the other's must not hide that one
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


def piece(rank: int, turn: int, size: int) -> bytes:
    return bytes([1 + rank + 16 * turn]) * size


class Nodes(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tierbench-nodes-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        for place in ("pfs", "nvme", "meet"):
            (self.root / place).mkdir()
        self.node = {}
        for name in NODES:
            made = f"hostname {name} && mount -t tmpfs tmpfs /dev/shm && echo made && exec sleep 300"
            node = subprocess.Popen(
                ["unshare", "--mount", "--uts", "sh", "-c", made], stdout=subprocess.PIPE, text=True
            )
            self.addCleanup(node.wait)
            self.addCleanup(node.kill)
            assert node.stdout
            self.assertEqual(node.stdout.readline(), "made\n")
            node.stdout.close()
            self.node[name] = node.pid
        self.launch = self.root / "each"
        self.launch.write_text(LAUNCH.format(pids=" ".join(map(str, self.node.values()))))
        self.launch.chmod(0o755)

    def run_ranks(
        self,
        program: str,
        flush: str = "manual",
        options: tuple[str | Path, ...] = (),
        launch: Path | str | None = None,
        then: str = "true",
        fault: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        config = self.root / "tiers.yaml"
        config.write_text(CONFIG.format(root=self.root, flush=flush))
        (self.root / "program.py").write_text(program)
        return subprocess.run(
            [
                BIN / "tierctl",
                "run",
                "-c",
                config,
                "--per-node",
                str(launch or self.launch),
                *options,
                "--",
                "sh",
                "-c",
                f"{self.launch} {sys.executable} {self.root}/program.py {self.root} && {then}",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env=dict(os.environ, **({"TB_FAULT": fault} if fault else {})),
        )

    def left(self) -> list[Path]:
        """What stands in the nodes' own memory, and in the tier that they share."""
        shm = [p for pid in self.node.values() for p in Path(f"/proc/{pid}/root/dev/shm").iterdir()]
        return shm + list((self.root / "nvme").iterdir())

    def test_bytes_of_both_nodes_in_one_block(self) -> None:
        stats = self.root / "stats.json"
        done = self.run_ranks(INTERLEAVED, options=("--stats", stats))
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = b"".join(piece(r, t, 47008) for t in range(12) for r in range(4))
        self.assertEqual((self.root / "pfs" / "shared").read_bytes(), wanted)
        told = json.loads(stats.read_text())
        self.assertEqual(sorted(n["node"] for n in told["nodes"]), sorted(NODES))
        self.assertEqual([n["drained_bytes"] for n in told["nodes"]], [len(wanted) // 2] * 2)
        self.assertEqual(told["drained_bytes"], len(wanted))
        self.assertEqual(told["pfs"]["bytes_written"], len(wanted))
        self.assertEqual(told["drain_s"], max(n["drain_s"] for n in told["nodes"]))
        self.assertEqual(told["exit_status"], 0)
        self.assertEqual(self.left(), [])
        self.assertFalse(Path(f"{stats}.nodes").exists())

    def test_bytes_of_another_node_in_a_gap(self) -> None:
        done = self.run_ranks(BETWEEN)
        self.assertEqual(done.returncode, 0, done.stderr)
        block = piece(0, 0, 100) + piece(2, 0, 100) + piece(0, 0, 100) + piece(3, 0, 100)
        wanted = (block + bytes(4600)) * 63 + block
        self.assertEqual((self.root / "pfs" / "shared").read_bytes(), wanted)

    def test_what_was_closed_is_seen_when_opened(self) -> None:
        for mode in ("persistent-async", "persistent-sync", "bypass"):
            with self.subTest(mode=mode):
                done = self.run_ranks(CLOSE_TO_OPEN, flush="on-close", options=("--mode", mode))
                self.assertEqual(done.returncode, 0, done.stderr)
                for met in (self.root / "meet").iterdir():
                    met.unlink()

    def test_appended_by_all(self) -> None:
        done = self.run_ranks(APPENDED)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (self.root / "pfs" / "log").read_text().splitlines()
        self.assertEqual(sorted(lines), sorted(f"{r} {t:02d}" for r in range(4) for t in range(50)))

    def test_a_node_that_cannot_start(self) -> None:
        broken = self.root / "broken"
        broken.write_text(
            f'#!/bin/sh\n[ "$3" = --foreground ] && exec nsenter --target {self.node["tb-a"]} --mount --uts -- "$@" /nowhere\n'
            f'exec {self.launch} "$@"\n'
        )
        broken.chmod(0o755)
        done = self.run_ranks(INTERLEAVED, launch=broken)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("the daemons ended before every instance was ready", done.stderr)
        self.assertEqual(self.left(), [])
        self.assertFalse((self.root / "pfs" / "shared").exists())

    def test_a_node_that_cannot_drain(self) -> None:
        (self.root / "other").write_text("somebody else's")
        done = self.run_ranks(WRITTEN, then=f"mv {self.root}/other {self.root}/pfs/gone")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("gone: not flushed", done.stderr)
        self.assertIn(f"{self.launch} tierctl recover -c", done.stderr)
        self.assertEqual((self.root / "pfs" / "gone").read_text(), "somebody else's")
        kept = [p.name for p in Path(f"/proc/{self.node['tb-b']}/root/dev/shm").iterdir()]
        self.assertEqual(len(kept), 1, kept)

    def test_recovered_on_each_node(self) -> None:
        done = self.run_ranks(
            INTERLEAVED,
            options=("--mode", "persistent-async"),
            fault=f"op=pwrite,errno=ENOSPC,count=0,path={self.root}/pfs",
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        launch, _, *words = done.stderr.split("in this allocation: ")[1].splitlines()[0].split()
        done = subprocess.run([launch, BIN / "tierctl", *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = b"".join(piece(r, t, 47008) for t in range(12) for r in range(4))
        self.assertEqual((self.root / "pfs" / "shared").read_bytes(), wanted)
        self.assertEqual(self.left(), [])

    def test_refused(self) -> None:
        for options, message in (
            (("--keep",), "--per-node goes with neither --keep nor --trace"),
            (("--per-node", " "), "needs the words"),
            (("--per-node", "/nowhere/launch"), "cannot run /nowhere/launch"),
        ):
            done = self.run_ranks(INTERLEAVED, options=options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertEqual(self.left(), [])
        done = self.run_ranks(INTERLEAVED)
        text = (self.root / "tiers.yaml").read_text()
        (self.root / "tiers.yaml").write_text(text.replace("nodes: several\n", ""))
        done = subprocess.run(
            [BIN / "tierctl", "run", "-c", self.root / "tiers.yaml", "--per-node", self.launch, "--", "true"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("nodes: one; allowed: several", done.stderr)


if __name__ == "__main__":
    if subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True).returncode:
        print("needs root, and the right to make namespaces")
        sys.exit(77)
    unittest.main()
