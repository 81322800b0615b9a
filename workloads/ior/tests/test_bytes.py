"""The files of tb-ior against bytes computed here."""

from __future__ import annotations

import re
import struct

import pytest
from case import expected
from driver import Ior


def test_file_per_process(ior: Ior) -> None:
    ior.run("-w -k -F -G 1234 -t 256 -b 512 -s 3", ranks=3)
    assert ior.names() == [f"data.{i:08d}" for i in range(3)]
    for i in range(3):
        assert ior.of_rank(i).read_bytes() == expected(1234, i, 256) * 6


@pytest.mark.parametrize(
    "api",
    [
        "-a POSIX",
        "-a MPIIO -c -Y -e -g",
        "-a MPIIO -c --mpiio.useFileView --mpiio.preallocate",
        "-a MPIIO --mpiio.useFileView",
        "-a MMAP -e",
        "--posix.rangelocks",
    ],
)
def test_shared(ior: Ior, api: str) -> None:
    ior.run(f"{api} -w -k -G 99 -t 256 -b 512 -s 3", ranks=3)
    segment = b"".join(expected(99, i, 256) * 2 for i in range(3))
    assert ior.file.read_bytes() == segment * 3


@pytest.mark.parametrize("mode", ["-c", "-e --hdf5.noFill", "-F"])
def test_hdf5(ior: Ior, mode: str) -> None:
    ior.run(f"-a HDF5 -w -r -R -k -G 99 -t 256 -b 512 -s 3 {mode}")
    own = [expected(99, i, 256) * 2 for i in range(2)]
    files = {ior.of_rank(i): own[i] for i in range(2)} if mode == "-F" else {ior.file: b"".join(own)}
    for path, block in files.items():
        assert path.read_bytes().count(block) == 3


@pytest.mark.parametrize(("size", "bytes_"), [("-t 4k -b 64k", 69632), ("-t 16 -b 16 -s 2", 2080)])
def test_alignment(ior: Ior, size: str, bytes_: int) -> None:
    """Data of the alignment's size is at a multiple of it; smaller data where it fits, as in IOR."""
    ior.run(f"-a HDF5 -F -w -k -G 5 {size} --hdf5.setAlignment=4k", ranks=1)
    assert ior.of_rank(0).stat().st_size == bytes_


def test_range_locks(ior: Ior) -> None:
    strace = ("strace", "-qq", "-y", "-e", "trace=fcntl,write,read", "-o", "trace")
    ior.run("-w -r -t 8 -b 8 --posix.rangelocks", ranks=1, before=strace)
    own = [text for text in (ior.folder / "trace").read_text().splitlines() if f"<{ior.file}>" in text]
    found = [re.findall(r"^write|^read|F_\w+LCK|F_UNLCK", text)[0] for text in own]
    assert found == ["F_WRLCK", "write", "F_UNLCK", "F_RDLCK", "read", "F_UNLCK"]


def test_hdf5_over_an_old_file(ior: Ior) -> None:
    """With -E a file need not exist, and one of another shape is made again."""
    for size in ("-t 8 -b 64 -s 2", "-t 8 -b 16"):
        ior.run(f"-a HDF5 -w -E -r -R -k -F -G 5 {size}", ranks=1)
    assert ior.of_rank(0).stat().st_size == 2064


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ("-5", 0xFFFFFFFFFFFFFFFB),
        ("99999999999", 0x4876E7FF),
        ("4294967295", 2**64 - 1),
    ],
)
def test_signatures(ior: Ior, given: str, first: int) -> None:
    ior.run(f"-w -k -G {given} -t 8 -b 8", ranks=1)
    assert struct.unpack("<Q", ior.file.read_bytes())[0] == first


@pytest.mark.parametrize(("packet", "second"), [("offset", (1 << 32) + 6), ("i", 0x2A6EADF628CDC949)])
def test_packets(ior: Ior, packet: str, second: int) -> None:
    """Words that IOR 4.0.0 was seen to write: at each page a multiple of the transfer's offset."""
    ior.run(f"-w -r -R -W -k -F -G 5 -t 8k -b 16k -l {packet}")
    data = ior.of_rank(1).read_bytes()
    words = [struct.unpack_from("<Q", data, at)[0] - (1 << 32) for at in range(0, 16384, 4096)]
    assert words == [0, 0, 8192, 16384]
    assert struct.unpack_from("<Q", data, 8)[0] == second


def test_random_packets(ior: Ior) -> None:
    """Every transfer has other words, of which each place knows what they are."""
    ior.run("-w -r -R -W -k -G 5 -t 1k -b 8k -s 2 -l random")
    data = ior.file.read_bytes()
    assert len({data[i : i + 8] for i in range(0, len(data), 8)}) == len(data) // 8
    ior.file.write_bytes(data[1024:2048] + data[:1024] + data[2048:])
    done = ior.run("-r -R -k -G 5 -t 1k -b 8k -s 2 -l random", status=1)
    assert "(2 errors found)" in done.stderr


def test_names(ior: Ior) -> None:
    """-u: a directory a rank after the last slash or, without one, the first letter; -y: two."""
    ior.run("-o x -w -k -F -u -t 8 -b 8")
    ior.run("-o abc -w -k -F -u -t 8 -b 8", ranks=1)
    ior.run("-o ./x -w -k -F -u -t 8 -b 8")
    (ior.folder / "m0").mkdir()
    ior.run(f"-o {ior.folder}/m -w -r -R -k -F -y -t 8 -b 8")
    found = sorted(str(p.relative_to(ior.folder)) for p in ior.folder.rglob("*") if p.is_file())
    wanted = ["0/x.00000000", "1/x.00000001", "m0/data.00000000", "m0/data.00000001"]
    assert found == [*wanted[:2], "a0/bc.00000000", *wanted[2:], "x0/.00000000", "x1/.00000001"]


def test_files_go_unless_kept(ior: Ior) -> None:
    ior.run("-w -r -F -t 4k -b 8k -u -i 2")
    assert ior.names() == []
    ior.run("-w -F -t 4K -b 8K -m -i 2 -k -H -n -O lustrestripecount=1")
    assert ior.names() == [f"data.{i:08d}.{k}" for i in range(2) for k in range(2)]
