"""One node of a job of several, under the adapter: operations that need other nodes, with their times.

    worker.py FOLDER NAMES RANKS FILES MIB

NAMES are the nodes, with commas; RANKS those of this node. FOLDER has `pfs` and, for what workers tell each
other, `meet`. The first rank of the first node works alone: it makes FILES files, commits again and again,
and reads what the last node wrote (with FILES 0 it does not). Then all ranks commit at once, each to a file
of its own. `meet/costs.json` has seconds and messages an operation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

BLOCK = b"x" * 4096
ROUNDS = 4
"""Commits of each file."""
ALL_ROUNDS = 1024
"""Commits of all ranks together, of which each has its part."""
MIB = 1 << 20
BLOCKS = 8
"""Of each MiB, read alone."""
LOOKS_S = 0.002
IDLE_LOOKS_S = 0.1
"""Between two looks of those that wait for the rank that measures: they share its processors."""
STILL_S = 0.5
"""Longer than a daemon takes to see what the others have counted."""
LIMIT_S = 120


class Worker:
    """One rank."""

    def __init__(self, folder: Path, names: list[str], per_node: int, rank: int) -> None:
        self.pfs, self.meeting = folder / "pfs", folder / "meet"
        self.names, self.rank, self.ranks, self.per_node = names, rank, len(names) * per_node, per_node
        self.files = self.mib = 0
        self.room = bytearray(MIB)
        self.told: dict[str, dict[str, float]] = {}

    def meet(self, name: str, looks_s: float = LOOKS_S) -> None:
        """A barrier of all ranks."""
        (self.meeting / f"{name}.{self.rank}").touch()
        until = time.monotonic() + LIMIT_S
        while not all((self.meeting / f"{name}.{r}").exists() for r in range(self.ranks)):
            if time.monotonic() > until:
                sys.exit(f"rank {self.rank}: not all came to {name}")
            time.sleep(looks_s)

    def counted(self) -> dict[str, float]:
        """What the daemons have counted by now: messages, memory, and time on a processor."""
        time.sleep(STILL_S)
        words = [os.environ["TB_TIERCTL"], "status", "--json", "-i", os.environ["TIERBENCH_INSTANCE"]]
        status = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)  # noqa: S603
        peers = status["peers"]
        found = {key: float(sum(p[key] for p in peers)) for key in ("answered", "kept_bytes", "extents")}
        return found | {"daemon_s": sum(map(processor_s, self.meeting.glob("daemon.*")))}

    def measure(self, name: str, operations: int, act: Callable[[], None]) -> None:
        """Per operation, of a phase in which no other rank works."""
        before = self.counted()
        began = time.perf_counter()
        act()
        seconds = time.perf_counter() - began
        after = self.counted()
        self.told[name] = {
            "seconds": seconds / operations,
            "messages": (after["answered"] - before["answered"]) / operations,
            "daemon_s": (after["daemon_s"] - before["daemon_s"]) / operations,
            "kept_bytes": (after["kept_bytes"] - before["kept_bytes"]) / operations,
        }

    def make_files(self) -> None:
        """Each is created, written, synced and closed."""
        for i in range(self.files):
            fd = os.open(self.pfs / f"own.{i}", os.O_RDWR | os.O_CREAT, 0o600)
            os.pwrite(fd, BLOCK, 0)
            os.fsync(fd)
            os.close(fd)

    def commit(self) -> None:
        """Of files that are open."""
        for _ in range(ROUNDS):
            for fd in self.open_files:
                os.pwrite(fd, BLOCK, 0)
                os.fsync(fd)

    def spread(self) -> None:
        """An extent of each file that has no neighbour."""
        for fd in self.open_files:
            os.pwrite(fd, BLOCK, 2 * len(BLOCK))
            os.fsync(fd)

    def commit_large(self) -> None:
        """New files of 1 MiB, each in one commit."""
        for i in range(self.mib):
            fd = os.open(self.pfs / f"big.{i}", os.O_RDWR | os.O_CREAT, 0o600)
            os.pwrite(fd, BLOCK * (MIB // len(BLOCK)), 0)
            os.fsync(fd)
            os.close(fd)

    def read_small(self) -> None:
        """Files of the last node."""
        for i in range(self.files):
            fd = os.open(self.pfs / f"other.{i}", os.O_RDONLY)
            if os.pread(fd, len(BLOCK), 0) != BLOCK:
                sys.exit(f"other.{i}: other bytes")
            os.close(fd)

    def read_here_and_there(self) -> None:
        """Blocks of one open file of the last node, none after the one before it."""
        fd = os.open(self.pfs / "large", os.O_RDONLY)
        for i in range(self.mib * BLOCKS):
            at = (i % BLOCKS * self.mib + i // BLOCKS) * (MIB // BLOCKS)
            if os.pread(fd, len(BLOCK), at) != BLOCK:
                sys.exit("large: other bytes")
        os.close(fd)

    def read_large(self) -> None:
        """One file of the last node, in pieces of 1 MiB."""
        fd = os.open(self.pfs / "large", os.O_RDONLY)
        for i in range(self.mib):
            if os.preadv(fd, [self.room], i * MIB) != MIB:
                sys.exit("large: a short read")
        os.close(fd)

    def prepare(self) -> None:
        """By the last node: what the first one reads."""
        for i in range(self.files):
            fd = os.open(self.pfs / f"other.{i}", os.O_RDWR | os.O_CREAT, 0o600)
            os.pwrite(fd, BLOCK, 0)
            os.close(fd)
        fd = os.open(self.pfs / "large", os.O_RDWR | os.O_CREAT, 0o600)
        for i in range(self.mib):
            os.pwrite(fd, BLOCK * (MIB // len(BLOCK)), i * MIB)
        os.close(fd)

    def alone(self) -> None:
        """What the first rank measures."""
        self.measure("file", self.files, self.make_files)
        self.open_files = [os.open(self.pfs / f"own.{i}", os.O_RDWR) for i in range(self.files)]
        self.measure("commit", ROUNDS * self.files, self.commit)
        self.measure("extent", self.files, self.spread)
        for fd in self.open_files:
            os.close(fd)
        self.measure("commit 1 MiB", self.mib, self.commit_large)
        self.measure("read 4 KiB", self.files, self.read_small)
        self.measure("read 4 KiB, open", BLOCKS * self.mib, self.read_here_and_there)
        self.read_large()  # connections and memory are warm then, as those of raw calls are
        self.measure("read 1 MiB", self.mib, self.read_large)

    def together(self) -> None:
        """All ranks at once, each in a file of its own; the cost is time on a processor."""
        fd = os.open(self.pfs / f"all.{self.rank}", os.O_RDWR | os.O_CREAT, 0o600)
        rounds = max(ALL_ROUNDS // self.ranks, 1)
        self.meet("ready")
        began = time.perf_counter()
        for _ in range(rounds):
            os.pwrite(fd, BLOCK, 0)
            os.fsync(fd)
        self.meet("done")
        busy = min(self.ranks, len(os.sched_getaffinity(0)))
        self.told["commit of all"] = {"seconds": (time.perf_counter() - began) * busy / (rounds * self.ranks)}
        os.close(fd)

    def work(self) -> None:
        """All of it."""
        node = self.names[self.rank // self.per_node]
        if self.rank % self.per_node == 0:
            words = [os.environ["TB_TIERCTL"], "status", "--json", "-i", os.environ["TIERBENCH_INSTANCE"]]
            status = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)  # noqa: S603
            (self.meeting / f"daemon.{node}").write_text(str(status["daemon_pid"]))
        if self.rank == self.ranks - 1:
            self.prepare()
        self.meet("prepared")
        if self.rank == 0 and self.files:
            self.alone()
        self.meet("alone", IDLE_LOOKS_S)
        self.together()
        if self.rank == 0:
            (self.meeting / "costs.json").write_text(json.dumps(self.told))


def processor_s(daemon: Path) -> float:
    """All threads of a daemon, since its start; its number is in the file."""
    tasks = Path(f"/proc/{daemon.read_text()}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def main() -> None:
    """Starts the ranks of this node."""
    folder, names, per_node, files, mib = sys.argv[1:]
    nodes = names.split(",")
    first = nodes.index(os.uname().nodename) * int(per_node)
    children = []
    for rank in range(first, first + int(per_node)):
        if child := os.fork():
            children.append(child)
            continue
        worker = Worker(Path(folder), nodes, int(per_node), rank)
        worker.files, worker.mib = int(files), int(mib)
        worker.work()
        return
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


if __name__ == "__main__":
    main()
