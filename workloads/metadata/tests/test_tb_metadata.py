"""tb-metadata: what it does to its files, what it says, and how it ends."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections import Counter
from pathlib import Path

import pytest
from driver import Driver

MODIFY, CLOSE_WRITE, OPEN, CREATE, DELETE = 0x2, 0x8, 0x20, 0x100, 0x200


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


class Metadata(Driver):
    name = "tb-metadata"


@pytest.fixture
def metadata(folder: Path) -> Metadata:
    return Metadata(folder)


def test_every_rank_opens_writes_and_closes_that_often(metadata: Metadata) -> None:
    watch = Watch(metadata.folder)
    text = metadata.run("100", ranks=3).stdout
    assert ": 3 ranks opened, wrote and closed a file 100 times each\n" in text
    assert len(re.findall(r"(?m)^Duration: +\d+\.\d{4}$", text)) == 1
    found = watch.counts()
    for rank in range(3):
        name = f"metadata.{rank:08d}"
        told = [found[event, name] for event in (CREATE, OPEN, MODIFY, CLOSE_WRITE, DELETE)]
        assert told == [1, 101, 100, 100, 1]  # and an open to read the value back
    assert metadata.names() == []


def test_the_last_value_must_stand_in_the_file(metadata: Metadata) -> None:
    file = metadata.folder / "metadata.00000000"
    file.symlink_to("/dev/zero")  # takes what is written, and gives noughts
    done = metadata.run("7", status=1)
    assert "metadata.00000000: does not hold the last value, 7" in done.stderr
    file.unlink()
    file.symlink_to("/dev/null")  # and gives nothing
    assert "metadata.00000000: read" in metadata.run("7", status=3).stderr


def test_no_space_is_an_error_of_all_ranks(metadata: Metadata) -> None:
    (metadata.folder / "metadata.00000001").symlink_to("/dev/full")
    done = metadata.run("7", ranks=2, status=3)
    assert "tb-metadata: metadata.00000001: write: No space left on device" in done.stderr
    assert "Duration" not in done.stdout


def test_a_directory_that_cannot_be_written(metadata: Metadata) -> None:
    metadata.folder.chmod(0o555)
    where = Path("/sys") if os.geteuid() == 0 else metadata.folder  # root writes everywhere but there
    done = metadata.run("7", status=3, where=where)
    assert re.search("tb-metadata: metadata.0{8}: open: (Permission|Operation|Read-only)", done.stderr)
    metadata.folder.chmod(0o755)


@pytest.mark.parametrize("line", ["0", "-1", "x", "7x", "1 2", "1000000001", "99999999999999999999", "1.5"])
def test_wrong_lines_are_refused_in_one_line(metadata: Metadata, line: str) -> None:
    done = metadata.run(line, status=2)
    assert done.stderr.count("\n") == 1
    assert "a whole number from 1 to 1000000000" in done.stderr
    assert (done.stdout, metadata.names()) == ("", [])
