"""Several processes write to one sqlite data base; its locks keep them apart, so the data base stays whole.

sqlite_writers.py DATABASE JOURNAL WRITERS SECONDS   or   sqlite_writers.py DATABASE look
"""

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import time

BUSY_SECONDS = 10
BODY_BYTES = 6000
ROWS_A_TRANSACTION = 8
KEPT_TRANSACTIONS = 400
FILLER_ROWS = 3000  # so that the data base does not fit the tiers from the start


def connect(path: str) -> sqlite3.Connection:
    """Without transactions of Python's own; a writer waits for others."""
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)


def prepare(path: str, journal: str) -> None:
    """An empty table of rows, one of how many transactions each writer has done, and one that is only large."""
    with contextlib.closing(connect(path)) as db:
        db.execute(f"pragma journal_mode={journal}")
        db.execute("create table t (writer integer, number integer, body blob)")
        db.execute("create index by_number on t (writer, number)")
        db.execute("create table done (writer integer primary key, number integer)")
        db.execute("create table filler (k integer primary key, body blob)")
        db.execute("pragma synchronous=off")
        db.execute("begin")
        db.executemany("insert into filler (body) values (?)", [(bytes(BODY_BYTES),)] * FILLER_ROWS)
        db.execute("commit")


def touch(path: str, number: int) -> None:
    """Calls on the data base's file that leave its locks alone, inside a transaction."""
    os.utime(path) if number % 2 else os.chmod(path, 0o644)


def transaction(path: str, db: sqlite3.Connection, writer: int, number: int, rng: random.Random) -> None:
    """Rows come and go, and the writer's number grows, all or nothing."""
    db.execute("begin immediate")
    body = bytes([number % 251]) * rng.randrange(1, BODY_BYTES)
    db.executemany("insert into t values (?, ?, ?)", [(writer, number, body)] * ROWS_A_TRANSACTION)
    db.execute("delete from t where writer = ? and number = ?", (writer, number - KEPT_TRANSACTIONS))
    touch(path, number)
    db.execute("update filler set body = ? where k = ?", (body, rng.randrange(1, FILLER_ROWS + 1)))
    db.execute("insert or replace into done values (?, ?)", (writer, number))
    db.execute("commit")


def write(path: str, journal: str, writer: int, seconds: float) -> int:
    """Transactions until the time is over; prints how many.  What sqlite says other than "busy" ends it."""
    rng = random.Random(writer)
    number = 0
    end = time.monotonic() + seconds
    db = connect(path)
    while time.monotonic() < end:
        db.execute(f"pragma journal_mode={journal}") if number % 50 == 0 else None
        try:
            transaction(path, db, writer, number + 1, rng)
            number += 1
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            if db.in_transaction:
                db.execute("rollback")
        if number % 40 == 0:  # a new connection opens and closes every file
            db.close()
            db = connect(path)
    print(number)
    return 0


def look(path: str) -> dict[int, int]:
    """The last transaction of each writer; exits where the data base is not whole."""
    with contextlib.closing(connect(path)) as db:
        said = db.execute("pragma integrity_check").fetchone()[0]
        torn = db.execute(
            "select writer, number, count(*) from t group by 1, 2 having count(*) != ?", (ROWS_A_TRANSACTION,)
        ).fetchall()
        done = dict(db.execute("select writer, number from done"))
        seen = dict(db.execute("select writer, max(number) from t group by 1"))
        lost = db.execute(
            "select d.writer from done d where (select count(distinct number) from t where t.writer = d.writer) != min(d.number, ?)",
            (KEPT_TRANSACTIONS,),
        ).fetchall()
    if said != "ok" or torn or lost or done != seen:
        sys.exit(
            f"{path}: {said}, transactions in part: {torn[:5]}, writers that lost some: {lost}, {done} is not {seen}"
        )
    return done


def run(path: str, journal: str, writers: int, seconds: float) -> int:
    """All writers at once; their numbers must be in the data base."""
    prepare(path, journal)
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, path, journal, "write", str(writer), str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(writers)
    ]
    said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{path}: a writer ended by itself")
    done = look(path)
    if any(done.get(writer, 0) != int(text) for writer, text in enumerate(said)):
        sys.exit(f"{path}: {said} were done, {done} are there")
    return sum(done.values())


def main() -> None:
    """See the top."""
    path, what = sys.argv[1:3]
    if what == "look":
        print("transactions", sum(look(path).values()))
    elif sys.argv[3] == "write":
        sys.exit(write(path, what, int(sys.argv[4]), float(sys.argv[5])))
    else:
        print("transactions", run(path, what, int(sys.argv[3]), float(sys.argv[4])))


main()
