"""What tb-ior's tests share: the programs, a folder each, and the bytes that a rank writes."""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
FAST = Path("/dev/shm")
LIMIT_S = 60  # a run that takes longer hangs
PROGRAM, MPIEXEC, TIERCTL = sys.argv[1:4]


def main() -> None:
    """Run the tests of the file that calls this: FILE TB_IOR MPIEXEC TIERCTL [unittest's options]."""
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)


def expected(signature: int, owner: int, transfer: int) -> bytes:
    """One transfer of `owner`: its rank in the upper half of each word, signature + index in the lower."""
    return b"".join(struct.pack("<Q", (owner << 32) + signature + i) for i in range(transfer // 8))


def keys(document: Any) -> Any:
    """Names and types of a JSON document, in order."""
    if isinstance(document, dict):
        return [(k, keys(v)) for k, v in document.items()]
    return [keys(v) for v in document] if isinstance(document, list) else type(document).__name__


class Case(unittest.TestCase):
    """A folder of its own and a way to run tb-ior in it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tb-ior-", dir=FAST if FAST.is_dir() else None)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "data"

    def run_ior(self, options: str, ranks: int = 2, status: int = 0, file: str = "") -> Any:
        start = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []  # one rank starts without a launcher
        command = [*start, PROGRAM, "-o", file or str(self.file), *options.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=self.folder)
        self.assertEqual(done.returncode, status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def names(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir())
