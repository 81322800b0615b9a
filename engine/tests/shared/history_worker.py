"""Workers of one node, under the adapter: random operations on a file that all nodes share, written down with their times.

    history_worker.py ROOT NAMES WORKERS SEED ROUNDS CALLS GRAIN turns|free

NAMES are all nodes' names, with commas; WORKERS a node. Offsets are multiples of GRAIN, 4 bytes or a block, lengths of 4 bytes
or of blocks; every 4 bytes of a write are its value, so a read tells which write it saw. A round is a file of its own: CALLS operations of each
worker, close, a barrier, and a look at all of it. With `turns` no open, fsync, close or drain meets
another operation. ROOT/meet/ROUND.RANK.json has what happened.
"""

import fcntl
import json
import os
import random
import subprocess
import sys
import time
from array import array
from pathlib import Path

SIZE = 98304
BLOCK = 4096
LENGTHS = (4, 100, 1000, 4096, 5000, 12288, 47008)
BLOCKS = (BLOCK, 8192, 12288, 49152)
KINDS = ("open", "write", "read", "fsync", "close", "drain")
WEIGHTS = (8, 30, 30, 12, 8, 1)
MEET_S = 60
LOOK_S = 0.001


class Worker:
    def __init__(
        self, root: str, names: list[str], per_node: int, seed: str, rank: int, grain: int, turns: bool
    ) -> None:
        self.grain, self.turns = grain, turns
        self.meeting = Path(root) / "meet"
        self.lock = (self.meeting / "lock").open("w")
        self.root, self.rank, self.ranks = root, rank, len(names) * per_node
        self.chance = random.Random(f"{seed}.{rank}")
        self.told: list[dict[str, object]] = []
        self.n = 0
        self.fd = -1

    def meet(self, name: str) -> None:
        """A barrier of all workers."""
        (self.meeting / f"{name}.{self.rank}").touch()
        until = time.time() + MEET_S
        while not all((self.meeting / f"{name}.{r}").exists() for r in range(self.ranks)):
            if time.time() > until:
                sys.exit(f"worker {self.rank}: not all came to {name}")
            time.sleep(LOOK_S)

    def range(self) -> tuple[int, int]:
        length = self.chance.choice(BLOCKS if self.grain == BLOCK else LENGTHS)
        return self.chance.randrange(0, SIZE - length + self.grain, self.grain), length

    def do(self, kind: str) -> None:
        """One operation; what can't be done in this state is another one."""
        if self.fd < 0 and kind != "drain":
            kind = "open"
        elif kind == "open":
            kind = "read"
        at, length = self.range()
        self.n += kind == "write"
        value = self.rank << 24 | self.n
        data = array("I", [value]) * (length // 4)
        if self.turns:
            fcntl.flock(self.lock, fcntl.LOCK_SH if kind in ("read", "write") else fcntl.LOCK_EX)
        begin = time.monotonic_ns()
        got = getattr(self, kind)(at, length, data)
        end = time.monotonic_ns()
        if self.turns:
            fcntl.flock(self.lock, fcntl.LOCK_UN)
        told = {"node": os.uname().nodename, "worker": self.rank, "kind": kind, "begin": begin, "end": end}
        told |= {"at": at, "length": length} if kind in ("read", "write") else {}
        told |= {"value": value} if kind == "write" else {}
        self.told.append(told | ({"got": ranges(got, at, length)} if kind == "read" else {}))

    def open(self, *_: object) -> None:
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    def write(self, at: int, _: int, data: "array[int]") -> None:
        if os.pwrite(self.fd, data, at) != len(data) * 4:
            sys.exit(f"worker {self.rank}: a short write")

    def read(self, at: int, length: int, _: object) -> bytes:
        return os.pread(self.fd, length, at)

    def fsync(self, *_: object) -> None:
        os.fsync(self.fd)

    def close(self, *_: object) -> None:
        os.close(self.fd)
        self.fd = -1

    def drain(self, *_: object) -> None:
        words = [os.environ["TB_TIERCTL"], "drain", "-i", os.environ["TIERBENCH_INSTANCE"]]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def round(self, name: str, calls: int) -> None:
        self.path, self.told, self.n = f"{self.root}/pfs/{name}", [], 0
        self.meet(f"{name}.begun")
        for kind in self.chance.choices(KINDS, WEIGHTS, k=calls):
            self.do(kind)
            if self.chance.random() < 0.2:
                time.sleep(self.chance.random() * 0.003)
        if self.fd >= 0:
            self.do("close")
        self.meet(f"{name}.closed")
        self.range = lambda: (0, SIZE)  # type: ignore[method-assign]
        for kind in ("open", "read", "close"):
            self.do(kind)
        del self.range
        (self.meeting / f"{name}.{self.rank}.json").write_text(json.dumps(self.told))


def ranges(data: bytes, at: int, length: int) -> list[tuple[int, int, int]]:
    """Of equal values, and of what the file did not have."""
    found: list[tuple[int, int, int]] = []
    begin = at
    words = array("I", data[: len(data) // 4 * 4])
    for i, value in enumerate(words):
        if i + 1 == len(words) or words[i + 1] != value:
            found.append((begin, at + 4 * i + 4, value))
            begin = at + 4 * i + 4
    return found + ([(begin, at + length, -1)] if begin < at + length else [])


def main() -> None:
    root, names, per_node, seed, rounds, calls, grain, turns = sys.argv[1:]
    nodes = names.split(",")
    first = nodes.index(os.uname().nodename) * int(per_node)
    children = []
    for rank in range(first, first + int(per_node)):
        if child := os.fork():
            children.append(child)
            continue
        worker = Worker(root, nodes, int(per_node), seed, rank, int(grain), turns == "turns")
        for i in range(int(rounds)):
            worker.round(f"round{i}", int(calls))
        return
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


if __name__ == "__main__":
    main()
