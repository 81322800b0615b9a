"""The files of tb-ior against bytes computed here."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

from case import LIMIT_S, PROGRAM, Case, expected, main


class Bytes(Case):
    """Every byte of the files, from the documented order of segments, blocks and transfers."""

    def test_file_per_process(self) -> None:
        self.run_ior("-w -k -F -G 1234 -t 256 -b 512 -s 3", ranks=3)
        self.assertEqual(self.names(), [f"data.{i:08d}" for i in range(3)])
        for i in range(3):
            self.assertEqual(Path(f"{self.file}.{i:08d}").read_bytes(), expected(1234, i, 256) * 6)

    def test_shared(self) -> None:
        for api in (
            "-a POSIX",
            "-a MPIIO -c -Y -e -g",
            "-a MPIIO -c --mpiio.useFileView --mpiio.preallocate",
            "-a MPIIO --mpiio.useFileView",
            "-a MMAP -e",
            "--posix.rangelocks",
        ):
            self.run_ior(f"{api} -w -k -G 99 -t 256 -b 512 -s 3", ranks=3)
            segment = b"".join(expected(99, i, 256) * 2 for i in range(3))
            self.assertEqual(self.file.read_bytes(), segment * 3, api)

    def test_hdf5(self) -> None:
        for mode in ("-c", "-e --hdf5.noFill", "-F"):
            self.run_ior(f"-a HDF5 -w -r -R -k -G 99 -t 256 -b 512 -s 3 {mode}")
            files = [self.file] if mode != "-F" else [Path(f"{self.file}.{i:08d}") for i in range(2)]
            blocks = (
                [b"".join(expected(99, i, 256) * 2 for i in range(2))]
                if mode != "-F"
                else [expected(99, i, 256) * 2 for i in range(2)]
            )
            for path, block in zip(files, blocks, strict=True):
                self.assertEqual(path.read_bytes().count(block), 3, mode)
                path.unlink()

    def test_alignment(self) -> None:
        """Data of the alignment's size lies at a multiple of it; smaller data where it fits, as in IOR."""
        for size, bytes_ in (("-t 4k -b 64k", 69632), ("-t 16 -b 16 -s 2", 2080)):
            self.run_ior(f"-a HDF5 -F -w -k -G 5 {size} --hdf5.setAlignment=4k", ranks=1)
            self.assertEqual(Path(f"{self.file}.00000000").stat().st_size, bytes_)

    def test_range_locks(self) -> None:
        calls = ["strace", "-qq", "-y", "-e", "trace=fcntl,write,read", "-o", f"{self.folder}/trace", PROGRAM]
        line = f"-w -r -t 8 -b 8 --posix.rangelocks -o {self.file}"
        subprocess.run([*calls, *line.split()], check=True, timeout=LIMIT_S, capture_output=True)
        own = [text for text in (self.folder / "trace").read_text().splitlines() if f"<{self.file}>" in text]
        found = [re.findall(r"^write|^read|F_\w+LCK|F_UNLCK", text)[0] for text in own]
        self.assertEqual(found, ["F_WRLCK", "write", "F_UNLCK", "F_RDLCK", "read", "F_UNLCK"])

    def test_hdf5_over_an_old_file(self) -> None:
        """With -E a file need not exist, and one of another shape is made anew."""
        for size in ("-t 8 -b 64 -s 2", "-t 8 -b 16"):
            self.run_ior(f"-a HDF5 -w -E -r -R -k -F -G 5 {size}", ranks=1)
        self.assertEqual(Path(f"{self.file}.00000000").stat().st_size, 2064)

    def test_signatures(self) -> None:
        for given, first in (
            ("-5", 0xFFFFFFFFFFFFFFFB),
            ("99999999999", 0x4876E7FF),
            ("4294967295", 2**64 - 1),
        ):
            self.run_ior(f"-w -k -G {given} -t 8 -b 8", ranks=1)
            self.assertEqual(struct.unpack("<Q", self.file.read_bytes())[0], first, given)

    def test_packets(self) -> None:
        """Words that IOR 4.0.0 was seen to write: at each page a multiple of the transfer's offset."""
        for packet, second in (("offset", (1 << 32) + 6), ("i", 0x2A6EADF628CDC949)):
            self.run_ior(f"-w -r -R -W -k -F -G 5 -t 8k -b 16k -l {packet}")
            data = Path(f"{self.file}.00000001").read_bytes()
            words = [struct.unpack_from("<Q", data, at)[0] - (1 << 32) for at in range(0, 16384, 4096)]
            self.assertEqual(words, [0, 0, 8192, 16384])
            self.assertEqual(struct.unpack_from("<Q", data, 8)[0], second)

    def test_random_packets(self) -> None:
        """Every transfer has other words, of which each place knows what they are."""
        self.run_ior("-w -r -R -W -k -G 5 -t 1k -b 8k -s 2 -l random")
        data = self.file.read_bytes()
        self.assertEqual(len({data[i : i + 8] for i in range(0, len(data), 8)}), len(data) // 8)
        self.file.write_bytes(data[1024:2048] + data[:1024] + data[2048:])
        done = self.run_ior("-r -R -k -G 5 -t 1k -b 8k -s 2 -l random", status=1)
        self.assertIn("(2 errors found)", done.stderr)

    def test_names(self) -> None:
        """-u: a directory a rank after the last slash or, without one, the first letter; -y: two."""
        self.run_ior("-w -k -F -u -t 8 -b 8", file="x")
        self.run_ior("-w -k -F -u -t 8 -b 8", file="abc", ranks=1)
        self.run_ior("-w -k -F -u -t 8 -b 8", file="./x")
        (self.folder / "m0").mkdir()
        self.run_ior("-w -r -R -k -F -y -t 8 -b 8", file=f"{self.folder}/m")
        found = sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())
        wanted = ["0/x.00000000", "1/x.00000001", "m0/data.00000000", "m0/data.00000001"]
        self.assertEqual(found, [*wanted[:2], "a0/bc.00000000", *wanted[2:], "x0/.00000000", "x1/.00000001"])

    def test_files_go_unless_kept(self) -> None:
        self.run_ior("-w -r -F -t 4k -b 8k -u -i 2")
        self.assertEqual(self.names(), [])
        self.run_ior("-w -F -t 4K -b 8K -m -i 2 -k -H -n -O lustrestripecount=1")
        self.assertEqual(self.names(), [f"data.{i:08d}.{k}" for i in range(2) for k in range(2)])


if __name__ == "__main__":
    main()
