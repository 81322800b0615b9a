"""A writer of transactions is killed again and again; nothing that it reported as done may be missing after it.

sqlite_killed.py DATABASE JOURNAL KILLS   or   sqlite_killed.py DATABASE look
"""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

ROWS_A_TRANSACTION = 20
PAYLOAD_BYTES = 700
LEAST_TRANSACTIONS = 10
"""Before a kill, however slow the machine is: four writers then write more than the tiers hold."""


def write(path: str, journal: str, first: int) -> None:
    """Transactions without end; prints the number of each when sqlite says that it is done."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"pragma journal_mode={journal}")
    db.execute("pragma mmap_size=0" if first % 2 else "pragma mmap_size=4000000")
    db.execute("create table if not exists t (k integer primary key, number integer, body blob)")
    for number in range(first, 1 << 40):
        db.execute("begin immediate")
        body = bytes([number % 251]) * PAYLOAD_BYTES
        db.executemany("insert into t (number, body) values (?, ?)", [(number, body)] * ROWS_A_TRANSACTION)
        db.execute("delete from t where number = ?", (number - 400,))
        db.execute("commit")
        os.write(1, b"%d\n" % number)


def look(path: str) -> tuple[int, int]:
    """Rows and the last whole transaction; exits where the data base is not whole."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        said = db.execute("pragma integrity_check").fetchone()[0]
        torn = db.execute(
            "select number, count(*) from t group by number having count(*) != ?", (ROWS_A_TRANSACTION,)
        ).fetchall()
        wrong = db.execute("select count(*) from t where length(body) != ?", (PAYLOAD_BYTES,)).fetchone()[0]
        rows, last = db.execute("select count(*), max(number) from t").fetchone()
    if said != "ok" or torn or wrong:
        sys.exit(f"{path}: {said}, transactions in part: {torn}, wrong bodies: {wrong}")
    return rows, last


def killed_writer(path: str, journal: str, first: int, seconds: float) -> int:
    """The last transaction that a writer reported before it was killed, after so many seconds and LEAST_TRANSACTIONS."""
    child = subprocess.Popen(
        [sys.executable, __file__, path, journal, "write", str(first)], stdout=subprocess.PIPE
    )
    assert child.stdout
    done = first - 1
    end = time.monotonic() + seconds
    while time.monotonic() < end or done < first + LEAST_TRANSACTIONS - 1:
        line = child.stdout.readline()
        if not line:
            sys.exit(f"the writer ended by itself: {child.wait()}")
        done = int(line)
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().decode().split()
    child.wait()
    return max([done, *map(int, rest)])


def main() -> None:
    """See the top."""
    path = sys.argv[1]
    if sys.argv[2] == "look":
        print("rows {}, last {}".format(*look(path)))
    elif sys.argv[3] == "write":
        write(path, sys.argv[2], int(sys.argv[4]))
    else:
        rng = random.Random(5)
        last = 0
        for _ in range(int(sys.argv[3])):
            done = killed_writer(path, sys.argv[2], last + 1, rng.uniform(0.05, 0.4))
            _, last = look(path)
            if last < done:
                sys.exit(f"{path}: transaction {done} was reported as done, {last} is the last")
        print("rows {}, last {}".format(*look(path)))


main()
