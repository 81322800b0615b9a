"""The workload `locks`: records under locks of three kinds; after every call an outsider finds them held.

workload_locks.py FOLDER WHO SEED.  A program takes a lock, makes calls on the file, and asks after each a forked child
whether the lock is held; then it gives the lock back.  A counter that all increase under the lock never goes back.
"""

import fcntl
import os
import random
import struct
import sys
import time

from manifest import Teller

WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
UNLOCKED = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
F_OFD_SETLKW = 38
FILES = 2
KINDS = ("record", "flock", "ofd")


def take(kind: str, fd: int) -> None:
    if kind == "flock":
        fcntl.flock(fd, fcntl.LOCK_EX)
    else:
        fcntl.fcntl(fd, fcntl.F_SETLKW if kind == "record" else F_OFD_SETLKW, WHOLE_FILE)


def give_back(kind: str, fd: int) -> None:
    if kind == "flock":
        fcntl.flock(fd, fcntl.LOCK_UN)
    else:
        fcntl.fcntl(fd, fcntl.F_SETLKW if kind == "record" else F_OFD_SETLKW, UNLOCKED)


def is_held(kind: str, path: str) -> bool:
    """As another process finds it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 1
    fd = os.open(path, os.O_RDONLY)
    if kind == "flock":
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = False
        except BlockingIOError:
            held = True
    else:
        held = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, WHOLE_FILE))[0] != fcntl.F_UNLCK
    os._exit(2 if held else 1)


class Locker:
    def __init__(self, folder: str, who: str, seed: str) -> None:
        self.folder, self.teller = folder, Teller(who)
        self.random = random.Random(f"{seed}-{who}")

    def calls(self, fd: int, path: str) -> None:
        """One call that leaves locks alone on a bare file system; closing another descriptor of the file would not."""
        call = self.random.randrange(7)
        if call == 0:
            os.pwrite(fd, os.urandom(100), self.random.randint(8, 100_000))
        elif call == 1:
            os.pread(fd, 5_000, self.random.randint(8, 100_000))
        elif call == 2:
            os.fsync(fd)
        elif call == 3:
            os.stat(path)
        elif call == 4:
            os.ftruncate(fd, self.random.randint(8, 120_000))
        elif call == 5:
            os.close(os.open(f"{path}.other", os.O_RDWR | os.O_CREAT, 0o600))
        else:
            os.truncate(path, self.random.randint(8, 120_000))

    def count(self, op: str, fd: int, kind: str, path: str) -> None:
        del op
        take(kind, fd)
        seen = int.from_bytes(os.pread(fd, 8, 0), "little")
        for _ in range(self.random.randint(1, 4)):
            self.calls(fd, path)
            if not is_held(kind, path):
                self.teller.wrong(f"{path}: a lock ({kind}) was not held after a call")
        if (now := int.from_bytes(os.pread(fd, 8, 0), "little")) != seen:
            self.teller.wrong(f"{path}: the counter went from {seen} to {now} under a lock ({kind})")
        os.pwrite(fd, (seen + 1).to_bytes(8, "little"), 0)
        give_back(kind, fd)

    def step(self) -> None:
        kind, number = self.random.choice(KINDS), self.random.randrange(FILES)
        path = f"{self.folder}/{kind}{number}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self.teller.told("count", lambda op: self.count(op, fd, kind, path), name=f"{kind}{number}")
        finally:
            os.close(fd)


def main() -> None:
    locker = Locker(*sys.argv[1:4])
    while True:
        try:
            locker.step()
        except OSError:  # told
            time.sleep(0.01)


if __name__ == "__main__":
    main()
