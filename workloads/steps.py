"""The programs of steps as their tests run them, and the content that they write, computed once more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from driver import BIN, LIMIT_S, MPIEXEC, Driver

Words = np.ndarray[Any, np.dtype[np.uint64]]


class Steps(Driver):
    """A program that writes its result also as JSON."""

    ranks = 2

    def result(self, line: str, ranks: int = 0) -> dict[str, Any]:
        """What it says of a run that ends well; the text says the same."""
        done = self.run(f"{line} --json result.json", ranks)
        found: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        assert done.stdout.startswith(f"{self.name}-{found['version']}: {found['ranks']} ranks on 1 nodes")
        assert f"\nBytes written: {found['bytes_written']} in {found['files']} files\n" in done.stdout
        assert f"\nI/O time: {found['io_s']:.6f} s\n" in done.stdout
        parts = sum(found[part] for part in ("open_s", "write_s", "read_s", "close_s", "flush_s"))
        assert abs(found["io_s"] - parts) < 1e-5
        return found


def content(rank: int, size: int) -> bytes:
    """Of a rank's file of tb-alternate and tb-reread: the finisher of splitmix64, over rank and word."""
    with np.errstate(over="ignore"):
        x: Words = np.arange(1, size // 8 + 1, dtype=np.uint64) + np.uint64(rank << 40)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).tobytes()


def refused(program: Driver, line: str, words: str) -> None:
    """In one line, before a file is made."""
    done = program.run(line, status=2, ranks=1)
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert (done.stdout, program.names()) == ("", [])


def of_rank(prefix: Path, rank: int) -> bytes:
    """A file per process."""
    return Path(f"{prefix}.{rank:08d}").read_bytes()


TIERS = """
version: 1
max_files: 64
pfs: {path: pfs}
fsync: pfs
flush: {policy: manual}
tiers:
  - {name: ram, medium: memory, capacity: 16MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
  - {name: bb, medium: directory, path: bb, capacity: 1MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
"""


def through_tiers(program: Driver, line: str) -> str:
    """Run it on the folder `pfs` with tiers in front, drained at the end; what it printed."""
    for place in ("pfs", "bb"):
        (program.folder / place).mkdir()
    (program.folder / "tiers.yaml").write_text(TIERS)
    around = [str(BIN / "tierctl"), "run", "-c", "tiers.yaml", "--", MPIEXEC, "-n", str(program.ranks)]
    words = [*around, program.program, *line.split()]
    done = subprocess.run(
        words, cwd=program.folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
