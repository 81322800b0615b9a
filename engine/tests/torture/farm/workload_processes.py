"""The workload `processes`: threads, forked children and executed programs write to files that their parent opened.

workload_processes.py FOLDER WHO SEED
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from client import content, write_at
from manifest import Teller

THREADS = 3


class Worker:
    """A thread with a file of its own."""

    def __init__(self, folder: str, who: str, seed: str) -> None:
        self.who, self.teller = who, Teller(who)
        self.random = random.Random(f"{seed}-{who}")
        flags = os.O_RDWR | os.O_CREAT
        self.fd = self.teller.told(
            "open", lambda _: os.open(f"{folder}/{who}", flags, 0o600), file=who, name=who
        )

    def itself(self, op: str, offset: int, length: int) -> None:
        write_at(self.fd, content(op, length), offset)

    def forked(self, op: str, offset: int, length: int) -> None:
        child = os.fork()
        if not child:
            try:
                write_at(self.fd, content(op, length), offset)
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise OSError("the child failed")

    def executed(self, op: str, offset: int, length: int) -> None:
        """Its standard output is the file, at the offset."""
        os.lseek(self.fd, offset, os.SEEK_SET)
        if subprocess.run(["cat"], input=content(op, length), stdout=self.fd, check=False).returncode:
            raise OSError("the program failed")

    def step(self) -> None:
        length, offset = self.random.randint(1, 30_000), self.random.randint(0, 200_000)
        if self.random.random() < 0.15:
            self.teller.told("fsync", lambda _: os.fsync(self.fd), file=self.who)
            return
        ways: list[Callable[[str, int, int], None]] = [self.itself, self.forked, self.executed]
        way = self.random.choices(ways, [8, 1, 1])[0]
        self.teller.told(
            "write", lambda op: way(op, offset, length), file=self.who, offset=offset, length=length
        )

    def run(self) -> None:
        while True:
            try:
                self.step()
            except OSError:  # told
                time.sleep(0.01)


def main(folder: str, who: str, seed: str) -> None:
    workers = [Worker(folder, f"{who}-{i}", seed) for i in range(THREADS)]
    for worker in workers[1:]:
        threading.Thread(target=worker.run, daemon=True).start()
    workers[0].run()


if __name__ == "__main__":
    main(*sys.argv[1:4])
