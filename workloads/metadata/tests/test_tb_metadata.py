"""tb-metadata: what it does to its files, what it says, and how it ends.

usage: test_tb_metadata.py TB_METADATA MPIEXEC
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

FAST = Path("/dev/shm")
LIMIT_S = 60  # a run that takes longer hangs
MODIFY, CLOSE_WRITE, OPEN, CREATE, DELETE = 0x2, 0x8, 0x20, 0x100, 0x200
PROGRAM = MPIEXEC = ""


class Watch:
    """Counts what happens to the files of a folder, by (event, name)."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        events = MODIFY | CLOSE_WRITE | OPEN | CREATE | DELETE
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(folder), events) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def counts(self) -> Counter[tuple[int, str]]:
        found: Counter[tuple[int, str]] = Counter()
        while True:
            try:
                data = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                os.close(self.fd)
                return found
            while data:
                _, event, _, length = struct.unpack_from("iIII", data)
                found[event, data[16 : 16 + length].rstrip(b"\0").decode()] += 1
                data = data[16 + length :]


class Metadata(unittest.TestCase):
    """A folder of its own and a way to run the program in it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tb-metadata-", dir=FAST if FAST.is_dir() else None)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_metadata(self, line: str, ranks: int = 1, status: int = 0, where: Path | None = None) -> Any:
        start = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []  # one rank starts without a launcher
        command = [*start, PROGRAM, *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S,
                              cwd=where or self.folder)  # fmt: skip
        self.assertEqual(done.returncode, status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def test_every_rank_opens_writes_and_closes_that_often(self) -> None:
        watch = Watch(self.folder)
        text = self.run_metadata("100", ranks=3).stdout
        self.assertIn(": 3 ranks opened, wrote and closed a file 100 times each\n", text)
        self.assertEqual(len(re.findall(r"(?m)^Duration: +\d+\.\d{4}$", text)), 1)
        found = watch.counts()
        for rank in range(3):
            name = f"metadata.{rank:08d}"
            told = [found[event, name] for event in (CREATE, OPEN, MODIFY, CLOSE_WRITE, DELETE)]
            self.assertEqual(told, [1, 101, 100, 100, 1], name)  # and an open to read the value back
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_last_value_must_stand_in_the_file(self) -> None:
        file = self.folder / "metadata.00000000"
        file.symlink_to("/dev/zero")  # takes what is written, and gives noughts
        done = self.run_metadata("7", status=1)
        self.assertIn("metadata.00000000: does not hold the last value, 7", done.stderr)
        file.unlink()
        file.symlink_to("/dev/null")  # and gives nothing
        self.assertIn("metadata.00000000: read", self.run_metadata("7", status=3).stderr)

    def test_no_space_is_an_error_of_all_ranks(self) -> None:
        (self.folder / "metadata.00000001").symlink_to("/dev/full")
        done = self.run_metadata("7", ranks=2, status=3)
        self.assertIn("tb-metadata: metadata.00000001: write: No space left on device", done.stderr)
        self.assertNotIn("Duration", done.stdout)

    def test_a_directory_that_cannot_be_written(self) -> None:
        self.folder.chmod(0o555)
        where = Path("/sys") if os.geteuid() == 0 else self.folder  # root writes everywhere but there
        done = self.run_metadata("7", status=3, where=where)
        self.assertRegex(done.stderr, "tb-metadata: metadata.0{8}: open: (Permission|Operation|Read-only)")
        self.folder.chmod(0o755)

    def test_wrong_lines_are_refused_in_one_line(self) -> None:
        for line in ("0", "-1", "x", "7x", "1 2", "1000000001", "99999999999999999999", "1.5"):
            done = self.run_metadata(line, status=2)
            self.assertEqual(done.stderr.count("\n"), 1, line)
            self.assertIn("a whole number from 1 to 1000000000", done.stderr)
            self.assertEqual((done.stdout, list(self.folder.iterdir())), ("", []), line)


if __name__ == "__main__":
    PROGRAM, MPIEXEC = (str(Path(p).resolve()) for p in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
