"""tb-find against what is in the directories."""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

import pytest
from driver import Driver

WRONG_LINES = (
    "",
    "-name x",
    ". -name",
    ". -size 3901",
    ". -size c",
    ". -size -1c",
    ". -size 99999999999999999999c",
    ". -mtime 1",
    ". x",
    ". -newer /nowhere/file",
)


class Find(Driver):
    """On a tree as IO500 leaves it: many files in one directory, some in directories of ranks."""

    name = "tb-find"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data, self.stamp = folder / "data", folder / "stamp"
        self.data.mkdir()
        self.stamp.touch()

    def make(self, name: str, size: int, age_ns: int) -> None:
        """A file that was modified so long after the time stamp (before it, where negative)."""
        file = self.data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
        then = self.stamp.stat().st_mtime_ns
        os.utime(file, ns=(then + age_ns, then + age_ns))

    def counts(self, line: str, ranks: int = 1) -> tuple[int, int, int]:
        text = self.run(line, ranks, where=self.data).stdout
        matched, files = re.findall(r"^MATCHED (\d+)/(\d+)$", text, re.MULTILINE)[0]
        return int(matched), int(files), int(re.findall(r"^Looked at: (\d+)$", text, re.MULTILINE)[0])


@pytest.fixture
def find(folder: Path) -> Find:
    return Find(folder)


def test_all_three_must_hold(find: Find) -> None:
    for size in (3900, 3901, 3902):
        for age_ns in (-1, 0, 1):
            for name in ("a01b", "a10b", "01", "0.1"):
                find.make(f"deep/er/{name}.{size - 3900}.{age_ns}", size, age_ns)
    line = f"{find.data} -newer {find.stamp} -size 3901c -name *01*"
    assert find.counts(line) == (2, 36, 18)  # newer is strictly newer
    assert find.counts(f"{find.data} -size 3902c")[0] == 12
    assert find.counts(f"{find.data} -newer {find.stamp}")[0] == 12
    assert find.counts(f"{find.data} -name 01.*") == (9, 36, 0)


def test_ranks_share_one_directory_and_find_the_same(find: Find) -> None:
    names = [f"file.mdtest.{rank}.{i}" for rank in range(3) for i in range(700)]
    for name in names:
        (find.data / name).write_bytes(b"x" * 3901)
    for rank in range(5):
        find.make(f"easy/tree.{rank}/file.{rank}.01", 0, 1)
    os.utime(find.stamp, ns=(1, 1))
    wanted = len(fnmatch.filter(names, "*01*"))
    line = f"{find.data} -newer {find.stamp} -size 3901c -name *01*"
    for ranks in (1, 2, 4):
        assert find.counts(line, ranks) == (wanted, 2105, wanted + 5), f"{ranks} ranks"


def test_directories_and_links_are_not_followed_files(find: Find) -> None:
    find.make("01/x", 1, 1)
    (find.data / "01link").symlink_to(find.data / "01")
    assert find.counts(f"{find.data} -name *01*", 2) == (1, 2, 0)
    assert find.counts(f"{find.data} -size 1c -name x") == (1, 2, 1)


def test_an_empty_tree_has_none(find: Find) -> None:
    assert find.counts(f"{find.data} -name *01*", 2) == (0, 0, 0)


def test_what_cannot_be_read_gives_no_result(find: Find) -> None:
    missing = find.run(f"{find.folder}/nowhere -name x", ranks=2, status=1)
    assert "nowhere: open: No such file or directory" in missing.stderr
    assert "MATCHED" not in missing.stdout
    find.make("file", 1, 1)
    assert "Not a directory" in find.run(f"{find.data}/file", status=1).stderr


@pytest.mark.parametrize("line", WRONG_LINES)
def test_wrong_lines_are_refused_in_one_line(find: Find, line: str) -> None:
    done = find.run(line, status=2)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("tb-find: ")
    assert done.stdout == ""
