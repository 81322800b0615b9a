"""The workload `writers`: shared and own files, written, cut, synced, renamed and removed at random.

Every operation is told to a pipe before it begins and after it has returned; content follows from the operation's
name, so that the checker can tell which write a byte is from.  client.py FOLDER CLIENT SEED
"""

import hashlib
import os
import random
import sys
import time

from manifest import Teller

SHARED_FILES = 3
LARGEST_BYTES = 150_000


def content(operation: str, length: int) -> bytes:
    return hashlib.shake_128(operation.encode()).digest(length)


def write_at(fd: int, data: bytes, offset: int) -> None:
    """All of it: a short write says where an error came, and the next call says which."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)


class Client:
    def __init__(self, folder: str, name: str, seed: str) -> None:
        self.folder, self.name, self.teller = folder, name, Teller(name)
        self.told = self.teller.told
        self.random = random.Random(f"{seed}-{name}")
        self.shared = {f"s{i}": self.open(f"s{i}", f"s{i}") for i in range(SHARED_FILES)}
        self.own: dict[str, tuple[str, int]] = {}

    def open(self, file: str, name: str) -> int:
        def act(_: str) -> int:
            return os.open(f"{self.folder}/{name}", os.O_RDWR | os.O_CREAT, 0o600)

        return self.told("open", act, file=file, name=name)

    def write(self, file: str, fd: int) -> None:
        small = self.random.random() < 0.7
        length = self.random.randint(1, 9000 if small else LARGEST_BYTES)
        offset = self.random.randint(0, 400_000)
        self.told(
            "write",
            lambda op: write_at(fd, content(op, length), offset),
            file=file,
            offset=offset,
            length=length,
        )

    def fsync(self, file: str, fd: int) -> None:
        self.told("fsync", lambda _: os.fsync(fd), file=file)

    def cut(self, file: str, fd: int) -> None:
        length = self.random.randint(0, 400_000)
        self.told("cut", lambda _: os.ftruncate(fd, length), file=file, length=length)

    def create(self) -> None:
        file = f"{self.name}-{self.teller.serial}"
        self.own[file] = (file, self.open(file, file))

    def rename(self, file: str) -> None:
        name, fd = self.own[file]
        over = self.random.choice([None, *(other for other in self.own if other != file)])
        to = self.own[over][0] if over else f"{self.name}-r{self.teller.serial}"
        old, new = f"{self.folder}/{name}", f"{self.folder}/{to}"
        self.told("rename", lambda _: os.rename(old, new), file=file, to=to, over=over)
        self.own[file] = (to, fd)
        if over:
            os.close(self.own.pop(over)[1])

    def unlink(self, file: str) -> None:
        name, fd = self.own.pop(file)
        self.told("unlink", lambda _: os.unlink(f"{self.folder}/{name}"), file=file)
        os.close(fd)

    def reopen(self, file: str) -> None:
        """A close that tells of an error has closed: its number is soon another file's."""
        name, fd = self.own.pop(file)
        try:
            os.close(fd)
        finally:
            self.own[file] = (name, os.open(f"{self.folder}/{name}", os.O_RDWR))

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.08 or not self.own:
            return self.create()
        files = [*self.own, *self.shared]
        file = self.random.choice(files)
        fd = self.shared[file] if file in self.shared else self.own[file][1]
        if chance < 0.70:
            self.write(file, fd)
        elif chance < 0.84:
            self.fsync(file, fd)
        elif chance < 0.89:
            self.cut(file, fd)
        elif file in self.own:
            self.random.choice([self.rename, self.unlink, self.reopen])(file)
        return None


def main() -> None:
    client = Client(*sys.argv[1:4])
    while True:
        try:
            client.step()
        except OSError:  # told; faults may end
            time.sleep(0.01)


if __name__ == "__main__":
    main()
