"""What applications do on several nodes, one rank a node, under the adapter.

    workload_worker.py ROOT NAMES WORKLOAD [NUMBER ...]

NAMES are all nodes' names, with commas. Each workload is a class; its `run` says what is right. ROOT has `pfs`, and `meet` for
what the ranks tell each other. A rank that sees something wrong says so, and the status is 8.
"""

import ctypes
import errno
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable

PIECE = 47008
LIMIT_S = 30
"""Longer than this nothing may wait for a node that is lost: it is 10 s, and more on a busy machine."""


def pattern(n: int, seed: int) -> bytes:
    """Bytes that tell where they are, and who wrote them when."""
    return b"".join((i * 2654435761 + seed * 1000003).to_bytes(8, "little") for i in range(n // 8 + 1))[:n]


class Rank:
    def __init__(self, root: str, names: list[str]) -> None:
        self.root, self.pfs, self.names = root, f"{root}/pfs", names
        self.rank, self.ranks = names.index(os.uname().nodename), len(names)
        self.right = True

    def meet(self, name: str) -> None:
        """A barrier of all ranks."""
        open(f"{self.root}/meet/{name}.{self.rank}", "w").close()
        self.until(
            lambda: all(os.path.exists(f"{self.root}/meet/{name}.{r}") for r in range(self.ranks)), name
        )

    def until(self, what: Callable[[], bool], name: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                sys.exit(f"rank {self.rank}: in vain: {name}")
            time.sleep(0.002)

    def ask(self, what: str) -> None:
        """Of the test, which is on no node; every rank goes on when it is done."""
        self.meet(f"{what}.before")
        if self.rank == 0:
            open(f"{self.root}/meet/{what}.ask", "w").close()
        self.until(lambda: os.path.exists(f"{self.root}/meet/{what}.done"), what)

    def check(self, what: bool, name: str) -> None:
        if not what:
            print(f"rank {self.rank}: {name}", file=sys.stderr, flush=True)
            self.right = False

    def status(self) -> dict[str, object]:
        words = [os.environ["TB_TIERCTL"], "status", "--json", "-i", os.environ["TIERBENCH_INSTANCE"]]
        told: dict[str, object] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        return told

    def write(self, name: str, data: bytes, at: int = 0, sync: bool = True) -> int:
        """Bytes written; committed at the latest by the close."""
        fd = os.open(f"{self.pfs}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            n = os.pwrite(fd, data, at)
            if sync:
                os.fsync(fd)
            return n
        finally:
            os.close(fd)

    def read(self, name: str, n: int = 1 << 24, at: int = 0) -> bytes:
        fd = os.open(f"{self.pfs}/{name}", os.O_RDONLY)
        try:
            parts = []
            while n and (part := os.pread(fd, n, at)):
                parts.append(part)
                n, at = n - len(part), at + len(part)
            return b"".join(parts)
        finally:
            os.close(fd)

    def tried(self, act: Callable[[], bytes | None]) -> bytes | None:
        """What it gave, or None after EIO; neither takes long."""
        began = time.monotonic()
        try:
            return act()
        except OSError as error:
            self.check(error.errno == errno.EIO, str(error))
            return None
        finally:
            self.check(time.monotonic() - began < LIMIT_S, f"it took {time.monotonic() - began} s")

    def make(self, name: str, keeper: int) -> None:
        """A file with that node as its keeper: by inode number and time of birth, as relay_keeper computes it."""
        for i in range(200):
            path, told = f"{self.pfs}/{name}.{i}", (ctypes.c_char * 256)()
            open(path, "w").close()
            assert ctypes.CDLL(None).statx(-100, path.encode(), 0, 0xFFF, told) == 0
            inode, seconds, ns = (
                int.from_bytes(told.raw[at : at + n], "little") for at, n in ((32, 8), (80, 8), (88, 4))
            )
            if mix(inode ^ mix(seconds * 10**9 + ns)) % self.ranks == keeper:
                return os.rename(path, f"{self.pfs}/{name}")
            os.unlink(path)
        raise AssertionError("no file with that keeper")


def mix(x: int) -> int:
    x = x + 0x9E3779B97F4A7C15 & (1 << 64) - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    x = (x ^ x >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return x ^ x >> 31


class Checkpoint(Rank):
    """N ranks, one file: strided pieces and a header, again and again in place; after each, all is read as by a restart."""

    def run(self, steps: int, pieces: int) -> None:
        for step in range(steps):
            fd = os.open(f"{self.pfs}/checkpoint", os.O_RDWR | os.O_CREAT, 0o600)
            if self.rank == 0:
                os.pwrite(fd, pattern(100, step), 0)
            for i in range(pieces):
                os.pwrite(fd, pattern(PIECE, self.seed(step, self.rank, i)), self.place(self.rank, i))
            os.fsync(fd)
            os.close(fd)
            self.meet(f"written{step}")
            self.restart(step, pieces)
            self.meet(f"read{step}")

    def seed(self, step: int, rank: int, i: int) -> int:
        return step * 10000 + rank * 100 + i

    def place(self, rank: int, i: int) -> int:
        return 100 + (i * self.ranks + rank) * PIECE

    def restart(self, step: int, pieces: int) -> None:
        """Each rank takes the state of another one."""
        other = (self.rank + 1 + step % (self.ranks - 1)) % self.ranks
        fd = os.open(f"{self.pfs}/checkpoint", os.O_RDONLY)
        self.check(os.pread(fd, 100, 0) == pattern(100, step), f"step {step}: header")
        for i in range(pieces):
            wanted = pattern(PIECE, self.seed(step, other, i))
            self.check(
                os.pread(fd, PIECE, self.place(other, i)) == wanted, f"step {step}: piece {i} of rank {other}"
            )
        self.check(os.fstat(fd).st_size == 100 + self.ranks * pieces * PIECE, f"step {step}: size")
        os.close(fd)


class Pipeline(Rank):
    """Each rank makes files, by rename when they are whole; the next one takes them as they come, and removes them."""

    def run(self, items: int) -> None:
        before = (self.rank - 1) % self.ranks
        for i in range(items):
            self.write(f"item.{self.rank}.{i}.part", pattern(self.size(self.rank, i), i), sync=i % 2 == 0)
            os.rename(f"{self.pfs}/item.{self.rank}.{i}.part", f"{self.pfs}/item.{self.rank}.{i}")
            name = f"item.{before}.{i}"
            self.until(lambda name=name: os.path.exists(f"{self.pfs}/{name}"), name)  # type: ignore[misc]
            self.check(self.read(name) == pattern(self.size(before, i), i), f"{name}: other bytes")
            os.unlink(f"{self.pfs}/{name}")
        self.meet("done")
        self.check(not [n for n in os.listdir(self.pfs) if n.startswith("item")], "items are left")

    def size(self, rank: int, i: int) -> int:
        return (100, 4096, 47008, 300001)[(rank + i) % 4]


class Fsx(Rank):
    """fsx, split over nodes by commit points: a rank does some operations, commits, and the next one goes on with the file.

    All ranks draw the same operations, so each knows what comes.
    """

    KINDS = ("write", "read", "cut", "mapped", "again")
    WEIGHTS = (10, 8, 2, 1, 2)
    MOST = 600_000

    def run(self, seed: int, turns: int) -> None:
        chance, self.model, self.fd = random.Random(seed), bytearray(), -1
        open(f"{self.pfs}/fsx", "a").close()
        self.meet("begun")
        for turn in range(turns):
            self.turn(chance, turn, f"seed {seed} turn {turn}")
            self.meet(f"turn{turn}")

    def turn(self, chance: random.Random, turn: int, said: str) -> None:
        who, keeps, n = chance.randrange(self.ranks), chance.random() < 0.5, chance.randrange(1, 12)
        if self.rank == who:
            self.look(keeps)
        for i in range(n):
            kind = chance.choices(self.KINDS, self.WEIGHTS)[0]
            at, length = chance.randrange(self.MOST), chance.choice((1, 100, 4096, 5000, 47008, 150_000))
            self.act(kind, at, length, turn * 12 + i, self.rank == who, f"{said}.{i}: {kind}")
        if self.rank == who:
            os.fsync(self.fd)

    @classmethod
    def at_the_end(cls, seed: int, turns: int, ranks: int) -> bytes:
        """What the file must hold: as a rank that never has a turn."""
        one = cls.__new__(cls)
        one.rank, one.ranks, one.model = -1, ranks, bytearray()
        chance = random.Random(seed)
        for turn in range(turns):
            one.turn(chance, turn, "")
        return bytes(one.model)

    def look(self, keeps: bool) -> None:
        """Opened again, or by an fsync of what is open here."""
        if self.fd >= 0 and keeps:
            return os.fsync(self.fd)
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = os.open(f"{self.pfs}/fsx", os.O_RDWR)

    def act(self, kind: str, at: int, length: int, value: int, mine: bool, said: str) -> None:
        if kind == "write":
            data = pattern(length, value)
            self.model.extend(bytes(max(0, at + length - len(self.model))))
            self.model[at : at + length] = data
            if mine:
                self.check(os.pwrite(self.fd, data, at) == length, said)
        elif kind == "cut":
            self.model = self.model[:at] + bytes(max(0, at - len(self.model)))
            if mine:
                os.ftruncate(self.fd, at)
        elif mine:
            self.compare(kind, at, length, said)

    def compare(self, kind: str, at: int, length: int, said: str) -> None:
        wanted = bytes(self.model)
        if kind == "again":
            os.close(self.fd)
            self.fd = os.open(f"{self.pfs}/fsx", os.O_RDWR)
        if kind == "mapped" and wanted:
            with mmap.mmap(self.fd, 0, prot=mmap.PROT_READ) as m:
                self.check(m[:] == wanted, said)
        elif kind == "again":
            self.check(os.pread(self.fd, 2 * self.MOST, 0) == wanted, said)
        else:
            self.check(os.pread(self.fd, length, at) == wanted[at : at + length], said)
        self.check(os.fstat(self.fd).st_size == len(wanted), f"{said}: size")


class CutOff(Rank):
    """Node 1 is out of reach for a while, and comes back; what each node asks for in between is right, or EIO in time."""

    SIZE = 200_000

    def run(self, works_alone: int) -> None:
        """`works_alone`: the daemon of the node that is out of reach goes on (it is a partition)."""
        self.make(f"own{self.rank}", self.rank)
        self.write(f"own{self.rank}", pattern(self.SIZE, self.rank))
        if self.rank == 0:
            self.make("kept1", 1)
        if self.rank == 1:
            open(f"{self.root}/meet/daemon", "w").write(str(self.status()["daemon_pid"]))
        self.ask("away")
        if self.rank != 1:
            self.without_one()
        elif works_alone:
            self.alone()
        self.ask("back")
        self.after()

    def without_one(self) -> None:
        """The others go on with each other."""
        other = 2 - self.rank
        self.check(self.tried(lambda: self.read("own1")) is None, "bytes of the node that is away")
        if self.rank == 0:
            self.check(
                self.tried(lambda: bytes(self.write("kept1", b"x" * 5000))) is None, "a commit at that node"
            )
        self.check(
            self.tried(lambda: self.read(f"own{other}")) == pattern(self.SIZE, other),
            "bytes of the other node",
        )
        self.meet_others("read before")
        self.write(f"own{self.rank}", pattern(self.SIZE, 10 + self.rank))
        self.meet_others("changed")
        self.check(
            self.tried(lambda: self.read(f"own{other}")) == pattern(self.SIZE, 10 + other),
            "what it wrote then",
        )

    def meet_others(self, name: str) -> None:
        open(f"{self.root}/meet/{name}.{self.rank}", "w").close()
        self.until(
            lambda: all(os.path.exists(f"{self.root}/meet/{name}.{r}") for r in range(self.ranks) if r != 1),
            name,
        )

    def alone(self) -> None:
        self.check(self.tried(lambda: self.read("own0")) is None, "bytes of a node that is out of reach")
        self.check(self.tried(lambda: self.read("own1")) == pattern(self.SIZE, 1), "its own bytes")
        self.write("own1", pattern(self.SIZE, 11))

    def after(self) -> None:
        """All is as if nothing had been."""
        self.until(self.all_live, "all nodes live again", 60)
        self.meet("live")
        for r in range(self.ranks):
            self.check(self.read(f"own{r}") in (pattern(self.SIZE, r), pattern(self.SIZE, 10 + r)), f"own{r}")
        self.meet("read")
        if self.rank == 0:
            self.write("kept1", pattern(9000, 5))
        self.write(f"own{self.rank}", pattern(self.SIZE, 20 + self.rank))
        self.meet("written")
        for r in range(self.ranks):
            self.check(self.read(f"own{r}") == pattern(self.SIZE, 20 + r), f"own{r}, written after")
        self.check(self.read("kept1") == pattern(9000, 5), "kept1")

    def all_live(self) -> bool:
        peers = self.status()["peers"]
        return isinstance(peers, list) and len(peers) == self.ranks and all(p["alive"] for p in peers)


class Killed(Rank):
    """The daemon of a node is killed after one of these steps; the other nodes see what was committed, or EIO, and nothing else.

    Node 0 writes, node 1 reads and overwrites, node 2 reads; each is the keeper of a third of the files.
    """

    SIZE = 120_000
    HALF = 61_440
    FILES = 6
    STEPS = ("written", "committed", "read", "overwritten", "written again", "drained")

    def run(self, last: int, victim: int) -> None:
        for step, name in enumerate(self.STEPS[: last + 1]):
            getattr(self, name.replace(" ", "_"))()
            self.meet(f"step{step}")
        if self.rank == victim:
            os.kill(self.daemon, signal.SIGKILL)
            self.until(lambda: not os.path.exists(f"/proc/{self.daemon}"), "the end of the daemon")
        self.meet("killed")
        if self.rank != victim:
            self.look(last, victim)
        self.meet("looked")

    def written(self) -> None:
        self.daemon = int(str(self.status()["daemon_pid"]))
        if self.rank:
            return
        self.fds = []
        for i in range(self.FILES):
            self.make(f"file{i}", i % self.ranks)
            self.fds.append(os.open(f"{self.pfs}/file{i}", os.O_RDWR))
            os.pwrite(self.fds[i], pattern(self.SIZE, i), 0)

    def committed(self) -> None:
        for fd in self.fds if self.rank == 0 else ():
            os.fsync(fd)

    def read(self) -> None:  # type: ignore[override]
        if self.rank:
            for i in range(0, self.FILES, 2):
                self.check(Rank.read(self, f"file{i}") == pattern(self.SIZE, i), f"file{i}")

    def overwritten(self) -> None:
        if self.rank == 1:
            for i in range(self.FILES):
                self.write(f"file{i}", pattern(self.HALF, 100 + i))

    def written_again(self) -> None:
        for i in range(self.FILES if self.rank == 0 else 0):
            os.pwrite(self.fds[i], pattern(self.SIZE - self.HALF, 200 + i), self.HALF)

    def drained(self) -> None:
        """Not to its end: the kill meets it."""
        if self.rank == 0:
            words = [os.environ["TB_TIERCTL"], "drain", "-i", os.environ["TIERBENCH_INSTANCE"]]
            subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.random() * 0.02)

    def look(self, last: int, victim: int) -> None:
        """Each half of a file is of one commit. The first may not be committed yet; the last write may be seen before it is."""
        for i in range(self.FILES):
            first = pattern(self.HALF, 100 + i) if last >= 3 else pattern(self.SIZE, i)[: self.HALF]
            second = [pattern(self.SIZE, i)[self.HALF :]]
            if last >= 4:
                second.append(pattern(self.SIZE - self.HALF, 200 + i))
            firsts = [first] if last else [first, b""]
            seen = [self.part(f"file{i}", at, n) for at, n in self.halves()]
            told = f"file{i}: {[part and part[:8] for part in seen]!r}"
            self.check(seen[0] is None or seen[0] in firsts, f"{told}: the first half")
            self.check(seen[1] is None or seen[1] in [*second, *firsts[1:]], f"{told}: the second half")
            if victim == 2 != i % self.ranks:  # that node has no bytes, and is not the keeper
                self.check(None not in seen, f"{told}: lost without need")

    def part(self, name: str, at: int, n: int) -> bytes | None:
        return self.tried(lambda: Rank.read(self, name, n, at))

    def halves(self) -> list[tuple[int, int]]:
        return [(0, self.HALF), (self.HALF, self.SIZE - self.HALF)]


WORKLOADS: dict[str, type] = {c.__name__.lower(): c for c in (Checkpoint, Pipeline, Fsx, CutOff, Killed)}


def main() -> None:
    root, names, workload, *numbers = sys.argv[1:]
    rank = WORKLOADS[workload](root, names.split(","))
    rank.run(*map(int, numbers))
    sys.exit(0 if rank.right else 8)


if __name__ == "__main__":
    main()
