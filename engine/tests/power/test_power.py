"""The judges of the power cuts see what they are for: manifests and trees made by hand, without a guest."""

import io
import json
import struct
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "torture" / "farm"))

import log_writes
import pytest
from client import content
from names import check_tree, until_error, until_mark
from power_rounds import read_trees, states_of, what_is_wrong

WORDS = {"open": ("file", "name"), "write": ("file", "offset", "length"), "rename": ("file", "to", "over")}


def begin(name: str, time: int, text: str) -> str:
    """A line of `KIND WORD...`."""
    kind, *words = text.split()
    values = [None if word == "-" else int(word) if word.isdigit() else word for word in words]
    named = dict(zip(WORDS.get(kind, ("file",)), values, strict=False))
    return json.dumps({"op": name, "t": time, "is": "begin", "kind": kind} | named)


def end(name: str, time: int) -> str:
    return json.dumps({"op": name, "t": time, "is": "end"})


def manifest(*operations: str) -> list[str]:
    """Lines of operations that begin and end one after the other; one with a `?` never ends."""
    lines = []
    for number, operation in enumerate(operations):
        lines.append(begin(f"o{number}", 2 * number, operation.removesuffix("?")))
        if not operation.endswith("?"):
            lines.append(end(f"o{number}", 2 * number + 1))
    return lines


def wrong(lines: list[str], **tree: bytes) -> list[str]:
    return check_tree(lines, tree).wrong


SAVED = manifest("open f f", "write f 0 100", "fsync f")
BYTES = content("o1", 100)


class TestBytes:
    def test_what_an_fsync_covers_must_be_there(self) -> None:
        assert wrong(SAVED, f=BYTES) == []
        assert wrong(SAVED, f=b"")
        assert wrong(SAVED, f=BYTES[:99] + b"?")
        assert wrong(SAVED)

    def test_what_no_fsync_covers_may_be_missing_but_not_foreign(self) -> None:
        lines = manifest("open f f", "write f 0 100", "fsync f?")
        for there in ({}, {"f": b""}, {"f": BYTES}, {"f": BYTES[:50]}):
            assert wrong(lines, **there) == []
        assert wrong(lines, f=b"x" * 100)

    def test_an_empty_file_that_was_synced_is_there(self) -> None:
        assert wrong(manifest("open f f", "fsync f"))

    def test_promises_are_counted(self) -> None:
        assert check_tree(SAVED, {"f": BYTES}).promised == 1


class TestNamesAfterTheCut:
    def test_a_rename_may_be_lost_until_the_folder_is_synced(self) -> None:
        lines = [*SAVED, begin("r", 10, "rename f g -"), end("r", 11)]
        assert wrong(lines, f=BYTES) == []
        assert wrong(lines, g=BYTES) == []
        lines += [begin("s", 12, "foldersync"), end("s", 13)]
        assert wrong(lines, g=BYTES) == []
        assert wrong(lines, f=BYTES)

    def test_a_sync_that_did_not_return_promises_nothing(self) -> None:
        lines = [*SAVED, begin("r", 10, "rename f g -"), end("r", 11), begin("s", 12, "foldersync")]
        assert wrong(lines, f=BYTES) == []

    def test_an_atomic_save_shows_the_old_bytes_or_the_new(self) -> None:
        lines = manifest(
            "open f f", "write f 0 100", "fsync f", "open t t", "write t 0 100", "fsync t", "rename t f f"
        )
        new = content("o4", 100)
        assert wrong(lines, f=BYTES, t=new) == []
        assert wrong(lines, f=new) == []
        assert wrong(lines, f=b"", t=new)
        assert wrong(lines, f=BYTES)

    def test_a_removed_file_comes_back_whole_or_not_at_all(self) -> None:
        lines = [*SAVED, begin("u", 10, "unlink f"), end("u", 11)]
        assert wrong(lines) == []
        assert wrong(lines, f=BYTES) == []
        assert wrong(lines, f=b"")
        lines += [begin("s", 12, "foldersync"), end("s", 13)]
        assert wrong(lines, f=BYTES)

    def test_a_name_that_was_never_given_is_foreign(self) -> None:
        assert wrong(SAVED, f=BYTES, g=b"")


class TestMarks:
    LINES = (
        begin("a", 0, "open f f"),
        end("a", 1),
        "P m",
        begin("b", 2, "write f 0 1"),
        end("b", 3),
        "Q m",
        begin("c", 4, "fsync f"),
        end("c", 5),
    )

    def test_only_what_came_before_counts_and_nothing_of_later(self) -> None:
        lines = until_mark(list(self.LINES), "m", "m")
        assert lines == [begin("a", 0, "open f f"), end("a", 1), begin("b", 2, "write f 0 1")]

    def test_after_an_error_nothing_counts_as_acknowledged(self) -> None:
        lines = [*SAVED[:5], json.dumps({"op": "o9", "t": 9, "is": "error", "why": ""}), SAVED[5]]
        assert until_error(lines) == SAVED[:5]
        assert until_error(SAVED) == SAVED

    def test_without_a_later_mark_everything_may_have_begun(self) -> None:
        assert until_mark(list(self.LINES), "m", "")[-1] == begin("c", 4, "fsync f")


class TestRecoveries:
    GOOD = (
        "recover 1 exit 0",
        "recover 1: 1 instance recovered",
        "recover 2 exit 0",
        "recover 2: 0 instances recovered",
    )

    def test_both_must_end_well_and_leave_nothing(self) -> None:
        assert what_is_wrong(list(self.GOOD)) == []
        assert what_is_wrong([*self.GOOD, "left: /mnt/nvme/tierbench.0.guest.power"])
        assert what_is_wrong([*self.GOOD, "wrong: the PFS' ext4 can't be mounted"])
        for i, other in (
            (0, "recover 1 exit 3"),
            (2, "recover 2 exit 3"),
            (3, "recover 2: 1 instance recovered"),
        ):
            assert what_is_wrong([*self.GOOD[:i], other, *self.GOOD[i + 1 :]])

    def test_of_several_recoveries_each_is_seen_alone(self) -> None:
        text = "recovering 0\nbad\nrecovered 0\nrecovering 1\ngood\nrecovered 1\n"
        assert states_of(text, "1") == ["recovering 1", "good"]

    def test_trees_are_told_apart_by_their_marks(self) -> None:
        parts = [
            archive({"tree.0": b""}),
            archive({"f": b"one"}),
            archive({"tree.1": b""}),
            archive({"f": b"two"}),
        ]
        assert read_trees(b"".join(parts)) == {"0": {"f": b"one"}, "1": {"f": b"two"}}


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def entry(flags: int, sector: int = 0, data: bytes = b"", name: bytes = b"") -> bytes:
    head = struct.pack("<QQQQ", sector, len(data) // 512, flags, len(name)) + name
    return head.ljust(512, b"\0") + data


class Replayed:
    """A log, and the disk that it is replayed on."""

    def __init__(self, folder: Path) -> None:
        self.log, self.disk = folder / "log", folder / "disk"
        self.disk.write_bytes(bytes(2048))

    def write(self, *entries: bytes) -> None:
        head = struct.pack("<QQQI", log_writes.MAGIC, log_writes.VERSION, len(entries), 512).ljust(512, b"\0")
        self.log.write_bytes(head + b"".join(entries))


@pytest.fixture
def replayed(tmp_path: Path) -> Replayed:
    return Replayed(tmp_path)


class TestLogs:
    def test_writes_are_replayed_in_order_up_to_a_prefix(self, replayed: Replayed) -> None:
        replayed.write(entry(0, 1, b"a" * 512), entry(log_writes.FLUSH), entry(0, 1, b"b" * 512))
        log = list(log_writes.entries(replayed.log))
        log_writes.replay(replayed.log, log[:2], replayed.disk)
        assert replayed.disk.read_bytes() == bytes(512) + b"a" * 512 + bytes(1024)
        log_writes.replay(replayed.log, log, replayed.disk)
        assert replayed.disk.read_bytes() == bytes(512) + b"b" * 512 + bytes(1024)

    def test_marks_have_names_and_no_bytes_after_them(self, replayed: Replayed) -> None:
        replayed.write(entry(log_writes.MARK, name=b"7"), entry(0, 2, b"c" * 512))
        log = list(log_writes.entries(replayed.log))
        assert log[0].name == "7"
        log_writes.replay(replayed.log, log, replayed.disk)
        assert replayed.disk.read_bytes()[1024:1536] == b"c" * 512

    def test_a_discard_leaves_zeroes(self, replayed: Replayed) -> None:
        replayed.disk.write_bytes(b"x" * 2048)
        replayed.write(
            struct.pack("<QQQQ", 1, 1, log_writes.DISCARD, 0).ljust(512, b"\0"), entry(0, 3, b"d" * 512)
        )
        log_writes.replay(replayed.log, list(log_writes.entries(replayed.log)), replayed.disk)
        assert replayed.disk.read_bytes() == b"x" * 512 + bytes(512) + b"x" * 512 + b"d" * 512

    def test_what_is_no_log_is_refused(self, replayed: Replayed) -> None:
        replayed.log.write_bytes(bytes(1024))
        with pytest.raises(log_writes.LogError):
            list(log_writes.entries(replayed.log))

    def test_a_log_of_flushes_that_may_have_overtaken_each_other_is_refused(self, replayed: Replayed) -> None:
        newer, older, commit = b"n" * 512, b"o" * 512, log_writes.FLUSH | log_writes.FUA
        replayed.write(
            entry(0, 1, newer),
            entry(log_writes.FLUSH),
            entry(0, 1, older),
            entry(commit),
            entry(log_writes.FUA, 2, newer),
        )
        with pytest.raises(log_writes.LogError, match="byte 3072: FUA"):
            list(log_writes.entries(replayed.log))
