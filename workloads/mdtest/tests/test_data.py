"""Contents of tb-mdtest's files, and the stonewall."""

from __future__ import annotations

import struct

import pytest
from driver import Mdtest


def test_content(mdtest: Mdtest) -> None:
    mdtest.run("-C -F -n 1 -w 20 -G 7", ranks=2)
    for rank in range(2):
        words = struct.pack("<QQ", (rank << 32) + 7, (rank << 32) + 8) + bytes(range(16, 20))
        path = mdtest.folder / f"test-dir.0-0/mdtest_tree.0/file.mdtest.{rank}.0"
        assert path.read_bytes() == words


@pytest.mark.parametrize(("packet", "second"), [("offset", (1 << 32) + 8), ("i", 0x6323C2F2699AD101)])
def test_packets(mdtest: Mdtest, packet: str, second: int) -> None:
    """Words that mdtest 4.0.0 was seen to write: the item where IOR has the offset."""
    line = f"-F -n 2 -w 5000 -G 7 --dataPacketType={packet}"
    mdtest.run(f"-C {line}", ranks=2)
    data = (mdtest.folder / "test-dir.0-0/mdtest_tree.0/file.mdtest.1.1").read_bytes()
    words = [struct.unpack_from("<Q", data, at)[0] for at in (0, 4096, 8)]
    assert words == [(1 << 32) + 1, (1 << 32) + 2, second]
    mdtest.run(f"-E {line} -e 5000 -X -N 1", ranks=2)
    mdtest.run(f"-r {line}", ranks=2)


def test_packets_say_the_number_in_the_name(mdtest: Mdtest) -> None:
    mdtest.run("-C -F -L -z 1 -b 1 -n 2 -w 8 --dataPacketType=o")
    for path in mdtest.folder.rglob("file.*"):
        assert struct.unpack("<Q", path.read_bytes())[0] == int(path.name.split(".")[-1])


@pytest.mark.parametrize("packet", "toir")
def test_every_iteration_writes_its_own(mdtest: Mdtest, packet: str) -> None:
    """A read leaves another rank's bytes, which the next iteration must not write."""
    mdtest.run(f"-F -n 2 -i 2 -N 1 -w 20 -e 20 -X --verify-write --dataPacketType={packet}", ranks=2)


def test_wrong_content(mdtest: Mdtest) -> None:
    mdtest.run("-C -F -n 3 -w 20 -G 7")
    mdtest.run("-E -F -n 3 -e 20 -G 7 -X")
    victim = mdtest.folder / "test-dir.0-0/mdtest_tree.0/file.mdtest.0.1"
    for at in (0, 8, 19):
        data = bytearray(victim.read_bytes())
        data[at] ^= 1
        victim.write_bytes(data)
        done = mdtest.run("-E -F -n 3 -e 20 -G 7 -X", status=1)
        assert f"{victim}: wrong data at offset {at - at % 8 if at < 16 else at}" in done.stderr
        assert "ERROR: verifying the data on read (1 errors)!" in done.stdout
        data[at] ^= 1
        victim.write_bytes(data)


@pytest.mark.parametrize(("kind", "word"), [("-F", "file"), ("-D", "dir")])
def test_stonewall(mdtest: Mdtest, kind: str, word: str) -> None:
    line = f"{kind} -n 1000000 -x status"
    text = mdtest.run(f"{line} -C -W 1", ranks=2).stdout
    count = int((mdtest.folder / "status").read_text())
    assert f" max: {count} avg: " in text
    top = mdtest.folder / "test-dir.0-0/mdtest_tree.0"
    for rank in range(2):
        assert len(list(top.glob(f"{word}.mdtest.{rank}.*"))) == count
    mdtest.run(f"{line} -T -r", ranks=2)
    assert mdtest.names() == ["status"]
