"""The workload `postgres`: a server under the adapter and one client outside; a row is acknowledged when it is committed.

workload_postgres.py FOLDER WHO SEED.  Not as root: the server refuses it.
"""

import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from manifest import Teller
from postgres import OPTIONS, program, psql, socket_folder


def start_server(folder: Path) -> subprocess.Popen[bytes]:
    command = [program("postgres"), "-D", str(folder / "data"), "-k", str(socket_folder(folder))]
    options = [
        word.strip("'") if word != "listen_addresses=''" else "listen_addresses=" for word in OPTIONS.split()
    ]
    return subprocess.Popen([*command, *options], stdout=sys.stderr)


class Session:
    """psql, to which statements go line by line."""

    def __init__(self, folder: Path) -> None:
        env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self.psql = subprocess.Popen(
            psql(folder),
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def do(self, statement: str) -> None:
        """psql answers with the statement's tag: nothing comes where it failed, and the session ends."""
        assert self.psql.stdin and self.psql.stdout
        self.psql.stdin.write(f"\\set ON_ERROR_STOP 1\n{statement};\n")
        self.psql.stdin.flush()
        if not self.psql.stdout.readline():
            raise OSError("the session has ended")


def connect(folder: Path) -> Session:
    while True:
        try:
            session = Session(folder)
            session.do("CREATE TABLE IF NOT EXISTS t (op text PRIMARY KEY, filler text)")
        except OSError:
            time.sleep(0.1)
        else:
            return session


def main(folder: Path, who: str, seed: str) -> None:
    teller, chance = Teller(who), random.Random(f"{seed}-{who}")
    start_server(folder)
    session = connect(folder)
    while True:
        row = f"INSERT INTO t VALUES ('%s', repeat('x', {chance.choice([10, 500, 5_000])}))"
        try:
            teller.told("commit", partial(lambda s, row, op: s.do(row % op), session, row), base="postgres")
            if chance.random() < 0.02:
                session.do("CHECKPOINT")
        except OSError:  # told
            session = connect(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4])
