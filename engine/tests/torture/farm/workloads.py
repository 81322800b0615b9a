"""The workloads of the farm: which programs run, and which checker judges what they leave.

A program is started as `SCRIPT FOLDER WHO SEED` under the adapter and tells what it does in the manifest's form.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import check
import check_records
import postgres
from manifest import Act


@dataclass(frozen=True)
class Workload:
    script: str
    programs: tuple[str, ...]  # their names
    check: Callable[[list[Act], Path, bool], tuple[int, list[str]]]
    prepare: Callable[[Path], None] = lambda _: None  # the folder, before the instance starts
    missing: Callable[[], str] = lambda: ""  # why it can't run here
    without_root: bool = False
    maps: bool = False  # changes files through mappings


WRITERS = ("c0", "c1", "c2", "c3")
WORKLOADS = {
    "writers": Workload("client.py", WRITERS, check.check),
    "log": Workload("workload_log.py", ("c0", "c1", "c2", "f0"), check_records.check_log),
    "saves": Workload("workload_saves.py", WRITERS, check_records.check_saves),
    "sqlite": Workload("workload_sqlite.py", tuple(f"c{i}" for i in range(8)), check_records.check_sqlite),
    "mmap": Workload("workload_mmap.py", WRITERS, check.check, maps=True),
    "processes": Workload("workload_processes.py", ("c0", "c1"), check.check),
    "locks": Workload("workload_locks.py", WRITERS, check_records.check_counters),
    "postgres": Workload(
        "workload_postgres.py", ("c0",), postgres.check, postgres.prepare, postgres.missing, without_root=True
    ),
}


def missing(workload: Workload, root: bool) -> str:
    """Why it can't run here; empty: it can."""
    if workload.without_root and root and not shutil.which("setpriv"):
        return "no setpriv to drop root's rights with"
    return workload.missing()
