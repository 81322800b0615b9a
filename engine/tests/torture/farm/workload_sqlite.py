"""The workload `sqlite`: several writers of one data base for each journal mode.

workload_sqlite.py FOLDER WHO SEED.  A row is acknowledged when its commit has returned.
"""

import random
import sqlite3
import sys
import time
from functools import partial

from manifest import Teller

MODES = ("delete", "truncate", "persist", "wal")


def connect(folder: str, mode: str) -> sqlite3.Connection:
    base = sqlite3.connect(f"{folder}/{mode}.db", timeout=10, isolation_level=None)
    base.execute(f"PRAGMA journal_mode={mode}")
    base.execute("PRAGMA synchronous=EXTRA")  # FULL does not sync the folder after it removed a journal
    base.execute("CREATE TABLE IF NOT EXISTS t (op TEXT PRIMARY KEY, filler BLOB)")
    return base


def insert(base: sqlite3.Connection, op: str, length: int) -> None:
    """A failure is an OSError for the manifest: not acknowledged."""
    try:
        base.execute("BEGIN IMMEDIATE")
        base.execute("INSERT INTO t VALUES (?, randomblob(?))", (op, length))
        base.execute("COMMIT")
    except sqlite3.Error as error:
        if base.in_transaction:
            base.execute("ROLLBACK")
        raise OSError(str(error)) from error


def main(folder: str, who: str, seed: str) -> None:
    teller, chance = Teller(who), random.Random(f"{seed}-{who}")
    bases: dict[str, sqlite3.Connection] = {}
    while True:
        mode = MODES[(int(who[1:]) // 2) % 4] if chance.random() < 0.7 else chance.choice(MODES)
        try:
            base = bases[mode] if mode in bases else bases.setdefault(mode, connect(folder, mode))
            length = chance.choice([10, 500, 9_000])
            teller.told("commit", partial(lambda b, n, op: insert(b, op, n), base, length), base=mode)
        except (OSError, sqlite3.Error) as error:
            if "malformed" in str(error) or "not a database" in str(error):
                teller.wrong(f"{mode}.db: {error}")
                return
            time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:4])
