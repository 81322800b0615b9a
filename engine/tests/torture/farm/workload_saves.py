"""The workload `saves`: documents are saved as careful editors do it.

A temporary file, fsync, rename over the old one, fsync of the folder.

workload_saves.py FOLDER WHO SEED.  Each program has its own documents.  A document begins with the operation's name.
"""

import os
import random
import sys
import time
from functools import partial

from client import content
from manifest import Teller

DOCUMENTS = 3


def document(op: str, length: int) -> bytes:
    return f"{op} {length}\n".encode() + content(op, length)


def save(path: str, op: str, length: int) -> None:
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    data = document(op, length)
    while data:
        data = data[os.write(fd, data[:50_000]) :]
    os.fsync(fd)
    os.close(fd)
    os.rename(f"{path}.new", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def main(folder: str, who: str, seed: str) -> None:
    teller, chance = Teller(who), random.Random(f"{seed}-{who}")
    while True:
        name, length = f"{who}-{chance.randrange(DOCUMENTS)}", chance.randint(1, 150_000)
        try:
            teller.told(
                "save",
                partial(lambda n, to, op: save(f"{folder}/{to}", op, n), length, name),
                name=name,
                length=length,
            )
        except OSError:  # told
            time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:4])
