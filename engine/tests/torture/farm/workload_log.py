"""The workload `log`: several programs append records to one file, and a follower reads along.

workload_log.py FOLDER WHO SEED.  The program called f0 follows.  A record is a line: operation, payload, checksum.
"""

import os
import random
import sys
import time
from functools import partial

from client import content
from manifest import Teller

PAYLOADS = (20, 200, 3_000, 60_000)


def record(op: str, length: int) -> bytes:
    return f"{op} {content(op, length).hex()} .\n".encode()


def append_record(fd: int, data: bytes) -> None:
    """In one call, or it is not acknowledged: the rest would come after other programs' records."""
    if os.write(fd, data) < len(data):
        raise OSError("a short write")


def append(folder: str, who: str, seed: str) -> None:
    teller, chance = Teller(who), random.Random(f"{seed}-{who}")
    fd = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    while True:
        length = chance.choice(PAYLOADS) // 2
        try:
            teller.told(
                "append",
                partial(lambda n, op: append_record(fd, record(op, n)), length),
                file="log",
                length=length,
            )
            if chance.random() < 0.2:
                teller.told("fsync", lambda _: os.fsync(fd), file="log")
        except OSError:  # told
            time.sleep(0.01)


def follow(folder: str, who: str) -> None:
    """What is read from the file's end on never has a byte that was not written: none of them is 0."""
    teller, at = Teller(who), 0
    fd = os.open(f"{folder}/log", os.O_RDONLY | os.O_CREAT, 0o600)
    while True:
        try:
            piece = os.pread(fd, 65_536, at)
        except OSError:
            piece = b""
        if b"\0" in piece:
            teller.wrong(f"a follower read NULs at {at + piece.index(0)} of log")
            return
        at += len(piece)
        time.sleep(0 if piece else 0.005)


if __name__ == "__main__":
    if sys.argv[2].startswith("f"):
        follow(sys.argv[1], sys.argv[2])
    else:
        append(*sys.argv[1:4])
