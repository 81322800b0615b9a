"""Compare the PFS with a manifest of whole records: logs, saved documents, rows of data bases, counters.

Each function takes the operations, the folder and whether the node crashed, and gives how many operations were promised
and what is wrong.  What is promised was acknowledged, and after a crash of the node also synced.
"""

import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from manifest import Act
from workload_log import record
from workload_saves import document
from workload_sqlite import MODES

OPERATION = re.compile(rb"(?=(?<![\w-])([\w-]+\.\d+) )|(?=([a-z]\d+\.\d+) )")
Verdict = tuple[int, list[str]]


def read_log(data: bytes, acts: dict[str, Act]) -> tuple[dict[str, list[int]], list[bytes]]:
    """By operation where its records are; and the pieces between that are none."""
    found: dict[str, list[int]] = defaultdict(list)
    rest, at = [], 0
    for line in data.splitlines(keepends=True):
        starts = [(match.start(), (match[1] or match[2]).decode()) for match in OPERATION.finditer(line)]
        whole = [
            (i, op) for i, op in starts if op in acts and line[i:] == record(op, acts[op].words["length"])
        ]
        for i, op in whole[:1]:
            found[op].append(at + i)
        rest.append(line[: whole[0][0]] if whole else line)
        at += len(line)
    return found, [piece for piece in rest if piece]


def check_log(acts: list[Act], folder: Path, crash: bool) -> Verdict:
    """Promised records are there once, in each program's order; after a kill nothing but records and begun ones."""
    appends = {act.op: act for act in acts if act.kind == "append"}
    syncs = [act for act in acts if act.kind == "fsync" and act.acknowledged]
    last = max((sync.began for sync in syncs), default=0) if crash else 1 << 61
    promised = [act for act in appends.values() if act.ended <= last]
    data = (folder / "log").read_bytes() if (folder / "log").exists() else b""
    found, rest = read_log(data, appends)
    wrong = [
        f"log: {act.op} of {act.words['length']} bytes is there {len(found[act.op])} times"
        for act in promised
        if len(found[act.op]) != 1
    ]
    for who in {act.who for act in promised}:
        places = [found[act.op][0] for act in promised if act.who == who and found[act.op]]
        if places != sorted(places):
            wrong.append(f"log: the records of {who} are out of order")
    begun = [record(act.op, act.words["length"]) for act in appends.values() if not act.acknowledged]
    if not crash:
        wrong += [
            f"log: foreign bytes {piece[:40]!r}"
            for piece in rest
            if not any(whole.startswith(piece) for whole in begun)
        ]
    return len(promised), wrong


def check_saves(acts: list[Act], folder: Path, crash: bool) -> Verdict:
    """Each document is one whole version: the last acknowledged one, or one that was begun after it."""
    del crash  # a save syncs the file and its name
    versions: dict[str, list[Act]] = defaultdict(list)
    for act in acts:
        versions[act.words["name"]].append(act)
    promised, wrong = 0, []
    for name, saves in versions.items():
        last = max((i for i, act in enumerate(saves) if act.acknowledged), default=-1)
        promised += last >= 0
        if not (folder / name).exists():
            wrong += [f"{name}: is gone"] if last >= 0 else []
            continue
        data = (folder / name).read_bytes()
        if not any(data == document(act.op, act.words["length"]) for act in saves[max(last, 0) :]):
            wrong.append(f"{name}: {len(data)} bytes, {data[:20]!r}, are no version since {saves[last].op}")
    return promised, wrong


def rows_of(path: Path) -> tuple[set[str], str]:
    with closing(sqlite3.connect(path)) as base:
        sound = base.execute("PRAGMA integrity_check").fetchone()[0]
        there = base.execute("SELECT name FROM sqlite_master WHERE name = 't'").fetchone()
        return ({op for (op,) in base.execute("SELECT op FROM t")} if there else set()), sound


def check_rows(name: str, commits: list[Act], rows: set[str]) -> Verdict:
    promised = {act.op for act in commits if act.acknowledged}
    wrong = [f"{name}: committed row {op} is gone" for op in sorted(promised - rows)]
    return len(promised), wrong + [
        f"{name}: row {op} was never begun" for op in sorted(rows - {act.op for act in commits})
    ]


def check_sqlite(acts: list[Act], folder: Path, crash: bool) -> Verdict:
    """Data bases are whole, and have what was committed."""
    del crash  # a commit syncs
    promised, wrong = 0, []
    for mode in MODES:
        commits = [act for act in acts if act.words["base"] == mode]
        try:
            rows, sound = rows_of(folder / f"{mode}.db")
        except sqlite3.Error as error:
            rows, sound = set(), str(error)
        n, bad = check_rows(f"{mode}.db", commits, rows)
        promised += n
        wrong += bad + ([f"{mode}.db: {sound}"] if sound != "ok" else [])
    return promised, wrong


def check_counters(acts: list[Act], folder: Path, crash: bool) -> Verdict:
    """A counter under a lock is at least what was acknowledged and at most what was begun."""
    promised, wrong = 0, []
    for name in {act.words["name"] for act in acts}:
        counts = [act for act in acts if act.words["name"] == name]
        least = 0 if crash else sum(act.acknowledged for act in counts)
        promised += sum(act.acknowledged for act in counts)
        data = (folder / name).read_bytes() if (folder / name).exists() else b""
        if not least <= int.from_bytes(data[:8], "little") <= len(counts):
            wrong.append(
                f"{name}: counted to {int.from_bytes(data[:8], 'little')}, not {least} to {len(counts)}"
            )
    return promised, wrong
