"""sqlite with a rollback journal, then with a write-ahead log."""

import sqlite3

for mode in ("delete", "wal"):
    name = f"{mode}.db"
    with sqlite3.connect(name) as db:
        print(db.execute(f"pragma journal_mode={mode}").fetchone())
        db.execute("create table t (k integer primary key, v text)")
        db.executemany("insert into t values (?, ?)", ((i, str(i) * 20) for i in range(5000)))
    db.close()
    with sqlite3.connect(name) as db:
        db.execute("pragma mmap_size=1000000")
        db.execute("update t set v = 'changed' where k % 7 = 0")
        db.execute("delete from t where k % 11 = 0")
    db.close()
    db = sqlite3.connect(name)
    print(
        db.execute("select count(*), sum(length(v)) from t").fetchone(),
        db.execute("pragma integrity_check").fetchone(),
    )
    db.close()
