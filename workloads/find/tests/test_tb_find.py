"""tb-find against what stands in the directories.

usage: test_tb_find.py TB_FIND MPIEXEC
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

FAST = Path("/dev/shm")
LIMIT_S = 60  # a run that takes longer hangs
WRONG_LINES = (
    "", "-name x", ". -name", ". -size 3901", ". -size c", ". -size -1c", ". -size 99999999999999999999c",
    ". -mtime 1", ". x", ". -newer /nowhere/file",
)  # fmt: skip
PROGRAM = MPIEXEC = ""


class Find(unittest.TestCase):
    """A tree of its own, as IO500 leaves it: many files in one directory, some in directories of ranks."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tb-find-", dir=FAST if FAST.is_dir() else None)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.data, self.stamp = self.folder / "data", self.folder / "stamp"
        self.data.mkdir()
        self.stamp.touch()

    def make(self, name: str, size: int, age_ns: int) -> None:
        """A file that was modified so long after the time stamp (before it, where negative)."""
        file = self.data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
        then = self.stamp.stat().st_mtime_ns
        os.utime(file, ns=(then + age_ns, then + age_ns))

    def run_find(self, line: str, ranks: int = 1, status: int = 0) -> Any:
        start = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []  # one rank starts without a launcher
        command = [*start, PROGRAM, *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=self.data)
        self.assertEqual(done.returncode, status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def counts(self, line: str, ranks: int = 1) -> tuple[int, int, int]:
        text = self.run_find(line, ranks).stdout
        matched, files = re.findall(r"^MATCHED (\d+)/(\d+)$", text, re.MULTILINE)[0]
        return int(matched), int(files), int(re.findall(r"^Looked at: (\d+)$", text, re.MULTILINE)[0])

    def test_all_three_must_hold(self) -> None:
        for size in (3900, 3901, 3902):
            for age_ns in (-1, 0, 1):
                for name in ("a01b", "a10b", "01", "0.1"):
                    self.make(f"deep/er/{name}.{size - 3900}.{age_ns}", size, age_ns)
        line = f"{self.data} -newer {self.stamp} -size 3901c -name *01*"
        self.assertEqual(self.counts(line), (2, 36, 18))  # newer is strictly newer
        self.assertEqual(self.counts(f"{self.data} -size 3902c")[0], 12)
        self.assertEqual(self.counts(f"{self.data} -newer {self.stamp}")[0], 12)
        self.assertEqual(self.counts(f"{self.data} -name 01.*"), (9, 36, 0))

    def test_ranks_share_one_directory_and_find_the_same(self) -> None:
        names = [f"file.mdtest.{rank}.{i}" for rank in range(3) for i in range(700)]
        for name in names:
            (self.data / name).write_bytes(b"x" * 3901)
        for rank in range(5):
            self.make(f"easy/tree.{rank}/file.{rank}.01", 0, 1)
        os.utime(self.stamp, ns=(1, 1))
        wanted = len(fnmatch.filter(names, "*01*"))
        line = f"{self.data} -newer {self.stamp} -size 3901c -name *01*"
        for ranks in (1, 2, 4):
            self.assertEqual(self.counts(line, ranks), (wanted, 2105, wanted + 5), f"{ranks} ranks")

    def test_directories_and_links_are_not_followed_files(self) -> None:
        self.make("01/x", 1, 1)
        (self.data / "01link").symlink_to(self.data / "01")
        self.assertEqual(self.counts(f"{self.data} -name *01*", 2), (1, 2, 0))
        self.assertEqual(self.counts(f"{self.data} -size 1c -name x"), (1, 2, 1))

    def test_an_empty_tree_has_none(self) -> None:
        self.assertEqual(self.counts(f"{self.data} -name *01*", 2), (0, 0, 0))

    def test_what_cannot_be_read_gives_no_result(self) -> None:
        missing = self.run_find(f"{self.folder}/nowhere -name x", ranks=2, status=1)
        self.assertIn("nowhere: open: No such file or directory", missing.stderr)
        self.assertNotIn("MATCHED", missing.stdout)
        self.make("file", 1, 1)
        self.assertIn("Not a directory", self.run_find(f"{self.data}/file", status=1).stderr)

    def test_wrong_lines_are_refused_in_one_line(self) -> None:
        for line in WRONG_LINES:
            done = self.run_find(line, status=2)
            self.assertEqual(done.stderr.count("\n"), 1, line)
            self.assertTrue(done.stderr.startswith("tb-find: "), line)
            self.assertEqual(done.stdout, "", line)


if __name__ == "__main__":
    PROGRAM, MPIEXEC = (str(Path(p).resolve()) for p in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
