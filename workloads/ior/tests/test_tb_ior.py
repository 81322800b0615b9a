"""tb-ior against captured output of IOR 4.0.0, and its files against bytes computed here.

usage: test_tb_ior.py TB_IOR MPIEXEC TIERCTL CASE
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
FAST = Path("/dev/shm")
LIMIT_S = 60  # a run that takes longer hangs
MEASURED = re.compile(r"^(IOR-compatible tb-ior-0|IOR-4)[.\d]+|[\d.]+ Mi?B/sec|\w{3} \w{3} .* \d{4}$")
WRONG_LINES = (
    "-y|-b|-b 0|-b 4q|-b 9999999t|-t 3k -b 8k|-t 12 -b 24|-t 0|-i 0|-D x|-G x|-a FILE|-C -Z|word|"
    "-z -C|-z -c -a MPIIO|-z -a MPIIO --mpiio.useFileView|-N 3|-l x|-M 99%|"
    "-z -t 8 -b 8|-z -a HDF5|-a MMAP -Y -t 8|-y -F -u|--allocateBufferOnGPU|-O gpuDirect=1|"
    "--mpiio.useStridedDatatype|"
    "--randomPrefill=4k|-z --randomPrefill=5k|-O minTimeDuration=x|"
    "-f /nowhere|-t 2g -b 2g -a HDF5|-O nothing=1|-O summaryFile|-O summaryFormat=XML|"
    "-O summaryFile=/nowhere/x|-O stoneWallingWearOut=1|-O stoneWallingWearOut=2 -D 1|"
    "-O blockSize=x|-b 4kibi|-b 1.5k|-b 0x400|--blockSize|--nothing=1|-O checkRead=yes"
).split("|")
PROGRAM = MPIEXEC = TIERCTL = ""


def expected(signature: int, owner: int, transfer: int) -> bytes:
    """One transfer of `owner`: its rank in the upper half of each word, signature + index in the lower."""
    return b"".join(struct.pack("<Q", (owner << 32) + signature + i) for i in range(transfer // 8))


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


def columns(line: str, at_end: bool) -> list[int]:
    """Where the words of a line begin, or end."""
    return [m.end() if at_end else m.start() for m in re.finditer(r"\S+", line)]


def outline(text: str) -> list[tuple[str, Any]]:
    """A text report without what differs between two runs: times, machine, paths and measured numbers."""
    lines: list[tuple[str, Any]] = []
    part = "head"
    for line in text.splitlines():
        words = line.split()
        if m := re.match(r"(Began|Command line|Machine|StartTime|Path|FS|test filename|Finished) +:", line):
            lines.append((m.group(), None))
        elif line.startswith("Summary"):
            part = "summary"
        elif words and words[0] in ("write", "read", "remove"):
            fixed = words[11:] if part == "summary" else words[4:6] + words[10:]
            fixed = [w for w in fixed if "-" not in w]
            lines.append((words[0], (fixed, columns(line, part == "summary"))))
        else:
            lines.append((MEASURED.sub("#", line), None))
    return lines


def keys(document: Any) -> Any:
    """Names and types of a JSON document, in order."""
    if isinstance(document, dict):
        return [(k, keys(v)) for k, v in document.items()]
    return [keys(v) for v in document] if isinstance(document, list) else type(document).__name__


class Output(Case):
    """The three formats have the shape of IOR's."""

    def test_text(self) -> None:
        options = {"default-v": "-w -r -t 1m -b 16m -F -e -v", "shared-C": "-w -r -C -t 1m -b 16m -s 4 -e"}
        for name, line in options.items():
            sample = (DATA / f"{name}.out").read_text()
            self.assertEqual(outline(self.run_ior(line).stdout), outline(sample), name)

    def test_phases_are_announced(self) -> None:
        """What -v says between the rows, in IOR's words and order; -d waits before each of what is timed."""
        begin = time.monotonic()
        text = self.run_ior("-w -W -r -C -v -d 1 -t 8 -b 8").stdout
        self.assertGreaterEqual(time.monotonic() - begin, 2)
        words = "Using|delay|Commenc|Verif|write  |read  "
        said = [line for line in text.splitlines() if re.match(words, line)]
        first = ["Using", "delaying", "Commencing", "write", "Verifying", "delaying", "Commencing", "read"]
        self.assertEqual([line.split()[0] for line in said], [*first, "write", "read"])

    def test_numbers_of_the_table(self) -> None:
        table = self.run_ior("-w -r -t 4k -b 64k -F").stdout.split("----\n")[1].split("\n\n")[0]
        for word in " ".join(" ".join(line.split()[1:10]) for line in table.splitlines()).split():
            decimals = 6 if float(word) < 1 else 2 if float(word) < 3600 else 0
            self.assertEqual(word, f"{float(word):.{decimals}f}")

    def test_csv(self) -> None:
        sample = (DATA / "csv.out").read_text().splitlines()
        ours = self.run_ior("-w -r -t 1m -b 16m -F -e -O summaryFormat=CSV").stdout.splitlines()
        mask = [re.sub(r"\d+\.\d{4}", "#", line) for line in sample]
        self.assertEqual([re.sub(r"\d+\.\d{4}", "#", line) for line in ours], mask)

    def test_json(self) -> None:
        path = self.folder / 'summary "1"\n.json'
        self.run_json(["-w", "-r", "-t", "1m", "-b", "16m", "-F", "-e", "-i", "4"], path)
        ours, sample = json.loads(path.read_text()), json.loads((DATA / "json-i4.json").read_text())
        self.assertEqual(keys(ours), keys(sample))
        self.assertRegex(ours["Version"], r"^tb-ior-\d")
        self.assertIn(str(path), ours["Command line"])
        for name in ("platform", "testFileName"):
            del ours["tests"][0]["Parameters"][name], sample["tests"][0]["Parameters"][name]
        self.assertEqual(ours["tests"][0]["Parameters"], sample["tests"][0]["Parameters"])
        results = [r["bwMiB"] for r in ours["tests"][0]["Results"] if r["access"] == "write"]
        self.assertEqual(ours["summary"][0]["bwMaxMIB"], max(results))
        self.assertAlmostEqual(ours["summary"][0]["bwMeanMIB"], sum(results) / 4, places=3)

    def run_json(self, options: list[str], path: Path) -> None:
        command = [MPIEXEC, "-n", "2", PROGRAM, *options, "-o", str(self.file), "-O", "summaryFormat=JSON"]
        done = subprocess.run([*command, "-O", f"summaryFile={path}"], timeout=LIMIT_S, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)

    def test_verbose_json(self) -> None:
        """What IOR adds with -v: the removal and the largest bandwidths; here it stays valid."""
        path = self.folder / "x.json"
        self.run_ior(f"-w -r -F -t 4k -b 8k -v -Z -X 3 -O summaryFormat=JSON,summaryFile={path}")
        test = json.loads(path.read_text())["tests"][0]
        self.assertEqual([r["access"] for r in test["Results"]], ["write", "read", "remove"])
        self.assertEqual(list(test["Results"][2]), ["access", "totalTime"])
        self.assertEqual(list(test["max"]), ["writeMiB", "writeMB", "readMiB", "readMB"])
        self.assertEqual((test["Options"]["verbose"], test["Options"]["reorder random seed"]), (1, 3))

    def test_version(self) -> None:
        self.assertRegex(self.run_ior("--version").stdout, r"^tb-ior \d+\.\d+\.\d+\n$")


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


class Order(Case):
    """Random order and reading another rank's data."""

    def offsets(self, options: str, ranks: int, call: str = "write") -> list[list[int]]:
        """Each rank's transfers of 8 bytes, by their number in the file, in the order it makes them."""
        trace = [
            "sh",
            "-c",
            'exec strace -qq -y -e trace=lseek,write,read -o trace.$OMPI_COMM_WORLD_RANK "$0" "$@"',
        ]
        command = [
            MPIEXEC,
            "-n",
            str(ranks),
            *trace,
            PROGRAM,
            "-t",
            "8",
            "-o",
            str(self.file),
            *options.split(),
        ]
        subprocess.run(command, timeout=LIMIT_S, check=True, capture_output=True, cwd=self.folder)
        pattern = re.compile(rf"lseek\(\d+<{self.file}[^,]*, (\d+), .*\n{call}\(\d+<{self.file}.*, 8\) += 8")
        texts = ((self.folder / f"trace.{rank}").read_text() for rank in range(ranks))
        return [[int(offset) // 8 for offset in pattern.findall(text)] for text in texts]

    def test_random_order_is_that_of_ior(self) -> None:
        """Orders that IOR 4.0.0 was seen to make."""
        orders = self.offsets("-w -z -F -b 64 -s 2 --random-offset-seed=3", 2)
        first, second = [7, 4, 2, 0, 5, 1, 3, 6], [5, 1, 2, 7, 6, 3, 0, 4]
        self.assertEqual(orders, [first + [8 + n for n in first], second + [8 + n for n in second]])
        shared = self.offsets("-w -z -b 64 --random-offset-seed=3", 2)
        self.assertEqual(shared, [[6, 3, 0, 10, 5, 7, 11, 14, 2, 9], [15, 13, 4, 12, 8, 1]])

    def test_random_covers_each_offset_once(self) -> None:
        for options in ("", "-F"):
            orders = self.offsets(f"-w -z -b 256 -s 2 {options}", 3)
            for order in orders if options else [[n for part in orders for n in part]]:
                self.assertEqual(Counter(order), Counter(range(64 if options else 192)))
                self.assertNotEqual(order, sorted(order))

    def test_random_order_without_a_table(self) -> None:
        """Above a million transfers a permutation is computed: it fills the file and is read back."""
        for mode in ("", "-F"):
            self.run_ior(f"-a MMAP -w -r -R -W -k -z -G 5 -t 8 -b 8388616 {mode}")
        content = Path(f"{self.file}.00000001").read_bytes()[:8388616]
        self.assertEqual(content, expected(5, 1, 8) * (8388616 // 8))
        data = self.file.read_bytes()
        self.assertEqual(Counter(data[i] for i in range(4, len(data), 8)), Counter({0: 1048577, 1: 1048577}))

    def test_random_reads_what_was_written(self) -> None:
        self.run_ior("-w -r -R -W -z -G 5 -t 256 -b 4k -s 2", ranks=3)
        self.run_ior("-w -r -R -z -F -C -G 5 -t 256 -b 4k -s 2", ranks=2)

    def test_other_ranks_data(self) -> None:
        for order in ("-C", "-C -F -Q 2", "-Z -X 3 -F", "-Z -X 4 -z -F", "-C -a MPIIO -c"):
            self.run_ior(f"-w -r -W -R -t 4k -b 64k -s 2 {order}", ranks=3)

    def test_order_of_some_ranks_is_that_of_all(self) -> None:
        """-C goes on by the ranks that a node has, also those that -N leaves out."""
        self.run_ior("-w -k -F -t 8 -b 8 -G 7 -N 2", ranks=3)
        Path(f"{self.file}.00000001").unlink()
        self.run_ior("-r -R -k -F -t 8 -b 8 -G 7 -N 1", ranks=3)
        trace = self.offsets("-w -r -F -C -b 8 -N 2", 3, call="read")
        self.assertEqual([len(order) for order in trace], [1, 1, 0])

    def test_random_task_is_that_of_ior(self) -> None:
        """-Z -X 4 on three ranks: rank 0 reads 1, rank 1 reads 2, rank 2 reads its own."""
        self.run_ior("-w -k -F -t 8 -b 8 -G 7", ranks=3)
        Path(f"{self.file}.00000000").unlink()
        self.run_ior("-r -R -k -F -t 8 -b 8 -G 7 -Z -X 4", ranks=3)
        self.run_ior("-r -R -k -F -t 8 -b 8 -G 7 -Z -X 2", ranks=3, status=3)


class Script(Case):
    """Several tests of one invocation, and options by their long names."""

    def write(self, text: str) -> str:
        path = self.folder / "script"
        path.write_text(text)
        return f"-f {path}"

    def test_two_tests(self) -> None:
        script = self.write(
            f"IOR START\n  testFile = {self.file} # here\n\nfilePerProc=1\nsegmentCount=2\n"
            "  blocksize=8k\nRUN\ntransferSize=4k\nreadFile=0\nRUN\nior stop\n"
        )
        path = self.folder / "x.json"
        self.run_ior(f"-w -r -t 8k {script} -t 1k -O summaryFormat=JSON,summaryFile={path}")
        document = json.loads(path.read_text())
        found = [
            (
                t["TestID"],
                t["Parameters"]["transferSize"],
                t["Parameters"]["segmentCount"],
                [r["access"] for r in t["Results"]],
            )
            for t in document["tests"]
        ]
        self.assertEqual(found, [(0, 8192, 2, ["write", "read"]), (1, 4096, 2, ["write"])])
        self.assertEqual(
            [(s["operation"], s["TestID"]) for s in document["summary"]],
            [("write", 0), ("read", 0), ("write", 1)],
        )
        text = self.run_ior(f"-w -t 4k {script}").stdout
        self.assertEqual(
            [line.split()[-1] for line in text.splitlines() if line.startswith("TestID")], ["0", "1"]
        )
        self.assertEqual(text.count("Summary of all tests:"), 1)

    def test_wrong_scripts(self) -> None:
        for text, place in (
            ("", "no test"),
            ("RUN\n", ":1: "),
            ("IOR START\nRUN\n", "IOR STOP is missing"),
            ("IOR START\nIOR STOP\n", "no test"),
            ("IOR START\nx=1\nRUN\nIOR STOP", ":2: "),
            ("IOR START\nRUN\nblockSize=no\nIOR STOP", ":3: "),
            ("IOR START\nfast\n", ":2: "),
        ):
            done = self.run_ior(self.write(text), ranks=1, status=2)
            self.assertIn(place, done.stderr, text)
            self.assertEqual((done.stderr.count("\n"), self.names()), (1, ["script"]), done.stderr)

    def test_names(self) -> None:
        line = "-O writeFile=1,READFILE=0,blockSize=8KiB,keepFile=1,filePerProc=1 --transferSize=4KB -s=2"
        line += " -O api=mpiio"
        text = self.run_ior(
            f"{line} -A 7 -N 1 -M 1m -O saveRankPerformanceDetailsCSV={self.folder}/ranks.csv"
        ).stdout
        self.assertEqual(self.names(), ["data.00000000", "ranks.csv"])
        self.assertEqual(Path(f"{self.file}.00000000").stat().st_size, 16384)
        self.assertRegex(text, r"(?m)^write .* MPIIO +7$")
        rows = [row.split(",") for row in (self.folder / "ranks.csv").read_text().splitlines()]
        self.assertEqual([row[:2] for row in rows], [["access", "rank"], ["write", "0"]])
        self.assertAlmostEqual(float(rows[1][4]) * float(rows[1][2]), 16384, delta=1)

    def test_dry_run(self) -> None:
        self.assertNotRegex(self.run_ior("--dryRun -w", ranks=1).stdout, r"(?m)^write")
        self.assertEqual(self.names(), [])


class Check(Case):
    """Wrong data is found, whichever byte it is."""

    def test_flipped_byte(self) -> None:
        for at in (0, 70_001, 131_071):
            self.run_ior("-w -k -F -G 42 -t 4k -b 128k")
            self.run_ior("-r -R -k -F -G 42 -t 4k -b 128k")
            victim = Path(f"{self.file}.00000001")
            data = bytearray(victim.read_bytes())
            data[at] ^= 1
            victim.write_bytes(data)
            for check in ("-r -R", "-W -q"):
                done = self.run_ior(f"{check} -k -F -G 42 -t 4k -b 128k", status=3 if "-q" in check else 1)
                self.assertIn(f"{victim}: wrong data at offset {at - at % 8}", done.stderr)

    def test_prefill(self) -> None:
        """Larger writes, all of which -z then overwrites: nothing of the filling is left."""
        for shape in ("-F", "-s 3"):
            self.run_ior(f"-w -r -R -z -t 4k -b 64k {shape} --randomPrefill=32k")
        trace = self.folder / "trace"
        line = f"-w -z -t 4k -b 64k --randomPrefill=32k -o {self.file}"
        command = ["strace", "-f", "-e", "trace=write,pwrite64", "-o", str(trace), PROGRAM, *line.split()]
        subprocess.run(command, check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
        sizes = Counter(re.findall(r"= (4096|32768)$", trace.read_text(), re.M))
        self.assertEqual(sizes, {"32768": 2, "4096": 16})

    def test_other_signature(self) -> None:
        self.run_ior("-w -k -G 42 -t 4k -b 128k")
        done = self.run_ior("-r -R -k -G 43 -t 4k -b 128k", status=1)
        self.assertIn("Incorrect data on read (64 errors found)", done.stderr)


class Stonewall(Case):
    """A deadline ends the write, and what was written is read back."""

    def test_wear_out(self) -> None:
        path = self.folder / "summary.json"
        self.run_ior(
            "-w -r -R -F -C -t 4k -b 64g -Y -D 1 -O stoneWallingWearOut=1,summaryFormat=JSON,"
            f"summaryFile={path},stoneWallingStatusFile={self.folder}/status -k"
        )
        ours, sample = json.loads(path.read_text()), json.loads((DATA / "stonewall-wearout.json").read_text())
        self.assertEqual(keys(ours["summary"][0]), keys(sample["summary"][0]))
        count = (self.folder / "status").read_text()
        sizes = [Path(f"{self.file}.{i:08d}").stat().st_size for i in range(2)]
        self.assertEqual((sizes, count), ([int(count) * 4096] * 2, count.strip()))  # as IOR writes it
        write, read = (row["xsizeMiB"] for row in ours["summary"])
        self.assertAlmostEqual(write, sum(sizes) / (1 << 20), places=3)
        self.assertLessEqual(read, write)  # the deadline ends the read too
        line = f"-r -F -t 4k -b 64g -O summaryFormat=JSON,summaryFile={path}"
        self.run_ior(f"{line},stoneWallingStatusFile={self.folder}/status")
        again = json.loads(path.read_text())["summary"][0]["xsizeMiB"]
        self.assertAlmostEqual(again, sum(sizes) / (1 << 20), places=3)

    def test_status_without_wear_out(self) -> None:
        """The least count for IOR, then each rank's where they differ; a read goes as far as those."""
        status = self.folder / "status"
        line = f"-F -k -t 4k -b 64g -O stoneWallingStatusFile={status}"
        self.run_ior(f"-w -Y -D 1 -G 5 {line}")
        least, *counts = (int(n) for n in status.read_text().split())
        sizes = [Path(f"{self.file}.{i:08d}").stat().st_size for i in range(2)]
        self.assertEqual([n * 4096 for n in counts or [least] * 2], sizes)
        for text in (status.read_text(), str(least)):
            status.write_text(text)
            rows = self.run_ior(f"-r -R -G 5 {line},summaryFormat=CSV").stdout.splitlines()
            moved = float(rows[1].split(",")[1]) * float(rows[1].split(",")[9])
            all_of = sum(sizes) if text.split()[1:] else 2 * least * 4096
            self.assertAlmostEqual(moved * (1 << 20) / all_of, 1, delta=0.01)
        for text in ("", "x", "-1", "1 2", "1 2 3 4", "99999999999"):
            status.write_text(text)
            done = self.run_ior(f"-r {line}", status=3)
            self.assertIn(f"{status}: read: not the transfers", done.stderr, text)

    def test_ranks_are_told(self) -> None:
        done = self.run_ior("-w -v -F -t 4k -b 64g -Y -D 1 -O stoneWallingWearOut=1")
        told = [int(n) for n in re.findall(r"(?m)^[01]: stonewalling pairs accessed: (\d+)$", done.stdout)]
        line = re.search(r"(?m)^stonewalling pairs accessed min: (\d+) max: (\d+)", done.stdout)
        assert line
        self.assertEqual([min(told), max(told), len(told)], [int(line[1]), int(line[2]), 2])

    def test_least_time(self) -> None:
        """Too little data for the time is written again from its beginning, then read as one pass of it."""
        for mode in ("-F", "-D 1", "-a MPIIO -c"):
            done = self.run_ior(f"-w -r -R {mode} -t 4k -b 64k -O minTimeDuration=2,summaryFormat=CSV")
            rows = [row.split(",") for row in done.stdout.splitlines()[1:]]
            self.assertEqual([row[0] for row in rows], ["write", "read"])
            for row in rows:
                self.assertGreaterEqual(float(row[7]), 2, mode)
                self.assertGreater(float(row[1]) * float(row[9]), 1, mode)  # MiB that were moved

    def test_file_of_another_size(self) -> None:
        self.run_ior("-w -k -t 8 -b 32", ranks=1)
        done = self.run_ior("-w -k -E -t 8 -b 16", ranks=1)
        self.assertIn("data\" exists already and will be overwritten", done.stderr)
        self.assertIn("WARNING: Stat() of aggregate file size      = 32", done.stderr)

    def test_without_wear_out(self) -> None:
        for mode in ("-F -Y", "-a MPIIO -c", "-a MPIIO -Y"):
            done = self.run_ior(f"-w -r -R -C -t 4k -b 16g -D 1 {mode}")
            self.assertIn("WARNING: Using actual aggregate bytes moved", done.stderr)
            self.assertNotIn("WARNING", done.stdout)


class Errors(Case):
    """No error passes as success, none hangs, and a wrong command line touches nothing."""

    def test_full_device(self) -> None:
        for api in ("POSIX", "MPIIO"):
            done = self.run_ior(f"-a {api} -w -t 4k -b 64k", status=3, file="/dev/full")
            self.assertIn("/dev/full: ", done.stderr)
        self.assertTrue(Path("/dev/full").is_char_device())

    def test_full_file_system(self) -> None:
        small = self.folder / "small"
        small.mkdir()
        mount = f"mount -t tmpfs -o size=256k tmpfs {small}"
        room = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"]
        if subprocess.run([*room, "true"], capture_output=True).returncode:
            self.skipTest("a file system can't be mounted here")
        for api in ("POSIX", "MPIIO", "MPIIO -c", "HDF5", "MMAP", "POSIX -O summaryFormat=CSV"):
            line = f"-a {api} -w -t 4k -b 512k -o {small}/data"
            command = [*room, MPIEXEC, "-n", "2", PROGRAM, *line.split()]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 3, f"{api}\n{done.stderr}")
            self.assertRegex(done.stderr, f"tb-ior: {small}/data: ")
            self.assertNotRegex(done.stdout, r"(?m)^write")

    def test_killed_rank(self) -> None:
        command = [MPIEXEC, "-n", "2", PROGRAM, *f"-w -Y -t 4k -b 64g -o {self.file}".split()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            end = time.monotonic() + LIMIT_S
            while not self.file.exists() and time.monotonic() < end:
                time.sleep(0.05)
            task = Path(f"/proc/{run.pid}/task/{run.pid}/children")
            os.kill(int(task.read_text().split()[-1]), signal.SIGKILL)
            text = run.communicate(timeout=LIMIT_S)[0]
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn(b"Summary", text)

    def test_full_report(self) -> None:
        done = self.run_ior("-w -t 4k -b 8k -O summaryFile=/dev/full,summaryFormat=JSON", status=3)
        self.assertIn("/dev/full", done.stderr)

    def test_short_file(self) -> None:
        self.run_ior("-w -k -F -t 4k -b 8k")
        Path(f"{self.file}.00000001").write_bytes(b"x" * 5000)
        for api in ("POSIX", "MPIIO"):
            done = self.run_ior(f"-a {api} -r -k -F -t 4k -b 8k", status=3)
            self.assertIn("data.00000001: read at offset", done.stderr)

    def test_missing(self) -> None:
        self.run_ior("-r -t 4k -b 8k -a HDF5", ranks=1, status=3)
        self.run_ior("-w -F -t 4k -b 8k", status=3, file=f"{self.folder}/none/data")

    def test_no_report_of_an_aborted_run(self) -> None:
        report = self.folder / "x.json"
        report.write_text("old")
        self.run_ior(f"-r -t 4k -b 8k -O summaryFormat=JSON,summaryFile={report}", ranks=1, status=3)
        self.assertEqual(self.names(), [])

    def test_kept_with_error(self) -> None:
        self.run_ior("-w -k -t 4k -b 8k -G 1", ranks=1)
        self.run_ior("-r -R -K -t 4k -b 8k -G 2", ranks=1, status=1)
        self.assertEqual(self.names(), ["data"])
        self.run_ior("-r -R -K -t 4k -b 8k -G 1", ranks=1)
        self.assertEqual(self.names(), [])

    def test_usage(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            runs = pool.map(lambda line: self.run_ior(line, ranks=1, status=2), WRONG_LINES)
            for line, done in zip(WRONG_LINES, runs, strict=True):
                own = [text for text in done.stderr.splitlines() if text.startswith("tb-ior: ")]
                self.assertEqual((len(own), done.stdout), (1, ""), line)
        self.assertEqual(self.names(), [])


class Scale(Case):
    """Many more ranks than processors, each with little memory, on a modelled PFS that has them wait."""

    LIMIT_S, RANKS, TRANSFER, MOST_MIB = 150, 128, 64 << 10, 30
    PFS_MIB_S, REPETITIONS = 16, 2

    def configuration(self) -> Path:
        """The PFS alone, slow enough that the model and not the processors sets the time."""
        (self.folder / "pfs").mkdir()
        path = self.folder / "pfs.yaml"
        rate = f"{self.PFS_MIB_S}MiB/s"
        model = f"{{name: slow, read_bandwidth: {rate}, write_bandwidth: {rate}}}"
        path.write_text(
            "version: 1\nmax_files: 1024\nmode: bypass\nfsync: pfs\n"
            f"pfs: {{path: {self.folder}/pfs, model: {model}}}\n"
            "tiers:\n"
            "  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}\n"
        )
        return path

    def peaks_mib(self) -> list[float]:
        """The largest resident size of each rank that runs now, its own memory and libraries together."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it may end meanwhile
                command = (process / "cmdline").read_bytes().split(b"\0")
                peak = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
                if command[0] == PROGRAM.encode() and str(self.file).encode() in command and peak:
                    found.append(int(peak.group(1)) / 1024)
        return found

    def test_oversubscribed(self) -> None:
        self.file = self.folder / "pfs" / "data"
        line = f"-w -r -R -F -C -t {self.TRANSFER} -b {2 * self.TRANSFER} -i {self.REPETITIONS}"
        report = self.folder / "report.csv"
        line += f" -o {self.file} -O summaryFormat=CSV,summaryFile={report}"
        command = [TIERCTL, "run", "-c", str(self.configuration()), "--"]
        command += [MPIEXEC, "-n", str(self.RANKS), PROGRAM, *line.split()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            peaks: list[float] = []
            end = time.monotonic() + self.LIMIT_S
            while run.poll() is None and time.monotonic() < end:
                peaks += self.peaks_mib()
                time.sleep(0.5)
            run.kill()
            _, errors = run.communicate()
        self.assertEqual(run.returncode, 0, errors)
        rows = [row.split(",") for row in report.read_text().splitlines()[1:]]
        each = [(access, str(i)) for i in range(self.REPETITIONS) for access in ("write", "read")]
        self.assertEqual([(row[0], row[11]) for row in rows], each)
        self.assertEqual({row[10] for row in rows}, {str(self.RANKS)})
        modelled_s = 2 * self.TRANSFER * self.RANKS / (self.PFS_MIB_S << 20)
        self.assertGreater(min(float(row[9]) for row in rows), 0.9 * modelled_s)
        self.assertGreaterEqual(len(peaks), self.RANKS)
        self.assertLess(max(peaks), self.MOST_MIB + self.TRANSFER / (1 << 20))


if __name__ == "__main__":
    PROGRAM, MPIEXEC, TIERCTL = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
