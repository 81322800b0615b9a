"""The workload `mmap`: a file of its own for each program, changed through a mapping, by pwrite beside it, and synced.

workload_mmap.py FOLDER WHO SEED
"""

import mmap
import os
import random
import sys
import time
from functools import partial

from client import content, write_at
from manifest import Teller

SIZE = 300_000


class Mapped:
    def __init__(self, folder: str, who: str, seed: str) -> None:
        self.folder, self.who, self.teller = folder, who, Teller(who)
        self.random = random.Random(f"{seed}-{who}")
        self.fd = self.teller.told("open", self.open, file=who, name=who)
        self.map: mmap.mmap | None = None

    def open(self, _: str) -> int:
        fd = os.open(f"{self.folder}/{self.who}", os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(fd, SIZE)
        return fd

    def store(self, op: str, offset: int, length: int) -> None:
        assert self.map
        self.map[offset : offset + length] = content(op, length)

    def step(self) -> None:
        length = self.random.randint(1, 20_000)
        offset, chance = self.random.randint(0, SIZE - length), self.random.random()
        if chance < 0.05:
            self.map = None if self.map else mmap.mmap(self.fd, SIZE)
        elif chance < 0.2 and self.map:
            self.teller.told("fsync", partial(lambda m, _: m.flush(), self.map), file=self.who)
        elif chance < 0.2:
            self.teller.told("fsync", lambda _: os.fsync(self.fd), file=self.who)
        else:
            write = (
                self.store
                if self.map and chance < 0.8
                else lambda op, at, n: write_at(self.fd, content(op, n), at)
            )
            self.teller.told(
                "write", lambda op: write(op, offset, length), file=self.who, offset=offset, length=length
            )


def main() -> None:
    mapped = Mapped(*sys.argv[1:4])
    while True:
        try:
            mapped.step()
        except OSError:  # told
            time.sleep(0.01)


if __name__ == "__main__":
    main()
