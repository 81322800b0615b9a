"""tb-mdtest against captured output of mdtest 4.0.0, and its tree against names computed here.

usage: test_tb_mdtest.py TB_MDTEST MPIEXEC CASE
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
FAST = Path("/dev/shm")  # thousands of files take a disk seconds
LIMIT_S = 60  # a run that takes longer hangs
WRONG_LINES = (
    "-q|word|-n|-n x|-n -1|-n 2q|-n 99999999999|-I -1|-z -1|-z 99|-b 0 -z 1|-b 100000 -z 2|-i 0|-s 0|"
    "-f 3|-l 3|-B 2|-n 5 -I 2|-n 2 -w 4 -e 8|-a MPIIO|-S -u|-S -D|-c -u|-c -N 1|-d a@b|-W 1 -b 2|"
    "-W 1 -B 1|-k -w 3|-X|-X -C -w 8 -e 8|--verify-write|--dataPacketType=x|-G -2|-F -n 2 -e 8|"
    "-u -d a@b|-n 4 -I 2 -u|--warningAsErrors|--allocateBufferOnGPU|--run-cmd-before-phase=x|"
    "--saveRankPerformanceDetails=/nowhere/x.csv"
).split("|")
PROGRAM = MPIEXEC = ""


class Case(unittest.TestCase):
    """A folder of its own and a way to run tb-mdtest in it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tb-mdtest-", dir=FAST if FAST.is_dir() else None)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_mdtest(self, options: str, ranks: int = 1, status: int = 0, wrap: list[str] | None = None) -> Any:
        start = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []  # one rank starts without a launcher
        command = [*start, *(wrap or []), PROGRAM, "-d", str(self.folder), *options.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=self.folder)
        self.assertEqual(done.returncode, status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done

    def names(self) -> list[str]:
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*"))


def outline(text: str) -> list[str]:
    """A report without what differs between two runs: times, path and measured numbers."""
    text = re.sub(r"(?m)^WARNING:.*\n", "", text)
    text = re.sub(
        r"(?m)^(-- \w+ at|Command line used:|Path +:|FS +:|Continue stonewall hit) .*", r"\1 #", text
    )
    text = re.sub(r"(tb-)?mdtest-[\d.]+ was", "mdtest was", text)
    return re.sub(r" *\d+\.\d{3}(?=\s)", lambda m: f" #{len(m.group())}", text).splitlines()


class Output(Case):
    """The text has the shape of mdtest's."""

    def test_text(self) -> None:
        options = {
            "P": "-n 200 -i 3 -P",
            "Z": "-n 200 -i 3 -Z",
            "n200-D": "-n 200 -D",
            "showRank": "-n 200 -F --showRankStatistics",
            "W2": "-n 1000000 -F -u -W 1",
        }
        for name, line in options.items():
            sample = (DATA / f"{name}.out").read_text()
            self.assertEqual(outline(self.run_mdtest(line, ranks=2).stdout), outline(sample), name)

    def test_rate_is_items_by_time(self) -> None:
        text = self.run_mdtest("-n 2000 -i 2 -P -F", ranks=2).stdout
        rates, times = (dict(re.findall(r"(File \w+) +([\d.]+)", part)) for part in text.split("SUMMARY")[1:])
        least = dict(re.findall(r"(File \w+) +[\d.]+ +([\d.]+)", text.split("SUMMARY")[2]))
        self.assertEqual(set(rates), {"File creation", "File stat", "File read", "File removal"})
        for name in rates:
            self.assertLessEqual(float(least[name]), float(times[name]))
            self.assertLessEqual(abs(4000 / float(rates[name]) - float(least[name])), 0.0006, name)

    def test_ranks(self) -> None:
        self.run_mdtest("-n 5 -i 2 -F --saveRankPerformanceDetails=ranks.csv", ranks=2)
        rows = (self.folder / "ranks.csv").read_text().splitlines()
        self.assertEqual(rows[0], (DATA / "saveRank.csv").read_text().strip())
        self.assertEqual([row.split(",")[0] for row in rows[1:]], ["all", "0", "1", "0", "1"])
        self.assertEqual(rows[1].count(","), rows[0].count(","))
        self.assertEqual({row.count(",") for row in rows[2:]}, {rows[0].count(",") - 4})


def tree(prefix: str, branching: int, depth: int) -> list[str]:
    """Paths of the tree's directories in the order of their numbers."""
    paths = [f"{prefix}.0"]
    level = [0]
    for _ in range(depth):
        level = [parent * branching + child for parent in level for child in range(1, branching + 1)]
        paths += [f"{paths[(n - 1) // branching]}/{prefix}.{n}" for n in level]
    return paths


class Tree(Case):
    """Names, shapes and who works on whose items."""

    def test_items_lie_where_their_number_says(self) -> None:
        for branching, depth, per_dir, ranks in ((1, 0, 3, 1), (2, 2, 1, 1), (3, 1, 2, 2)):
            self.run_mdtest(f"-C -z {depth} -b {branching} -I {per_dir}", ranks)
            dirs = tree("mdtest_tree", branching, depth)
            items = [
                f"{dirs[n // per_dir]}/{kind}.mdtest.{rank}.{n}"
                for kind in ("dir", "file")
                for rank in range(ranks)
                for n in range(per_dir * len(dirs))
            ]
            self.assertEqual(
                self.names(), sorted(["test-dir.0-0", *(f"test-dir.0-0/{p}" for p in dirs + items)])
            )
            self.run_mdtest(f"-r -z {depth} -b {branching} -I {per_dir}", ranks)
            self.assertEqual(self.names(), [])

    def test_leaves(self) -> None:
        self.run_mdtest("-C -F -L -z 1 -b 2 -n 4")
        dirs = tree("mdtest_tree", 2, 1)
        items = [f"{dirs[n // 2]}/file.mdtest.0.{n}" for n in range(2, 6)]
        self.assertEqual(self.names(), sorted(["test-dir.0-0", *(f"test-dir.0-0/{p}" for p in dirs + items)]))

    def test_unique_trees_in_two_places(self) -> None:
        self.run_mdtest(f"-C -F -u -n 2 -d {self.folder}/a@{self.folder}/b", ranks=3)
        expected = {"a", "b", "a/test-dir.0-0", "b/test-dir.0-0"}
        for rank in range(3):
            top = f"{'ab'[rank % 2]}/test-dir.0-0/mdtest_tree.{rank}.0"
            expected |= {top, *(f"{top}/file.mdtest.{rank}.{n}" for n in range(2))}
        self.assertEqual(self.names(), sorted(expected))
        self.run_mdtest(f"-F -r -u -n 2 -d {self.folder}/a@{self.folder}/b", ranks=3)
        self.assertEqual(self.names(), ["a", "b"])

    def test_loops(self) -> None:
        self.run_mdtest("-C -F -n 4 -I 2")
        tops = [f"test-dir.0-{loop}" for loop in range(2)]
        trees = [f"{top}/mdtest_tree.0" for top in tops]
        files = [f"{tree}/file.mdtest.0.{n}" for tree in trees for n in range(2)]
        self.assertEqual(self.names(), sorted(tops + trees + files))

    def test_directory_that_was_missing_goes(self) -> None:
        self.run_mdtest(f"-n 2 -i 2 -d {self.folder}/new", ranks=2)
        self.assertEqual(self.names(), [])
        (self.folder / "old").mkdir()
        self.run_mdtest(f"-n 2 -d {self.folder}/old", ranks=2)
        self.assertEqual(self.names(), ["old"])

    def test_everything_goes(self) -> None:
        for line in (
            "-u -z 2 -b 2 -I 2 -i 2",
            "-S -n 4 -w 8",
            "-c -n 3 -w 9",
            "-R -n 9 -N 1 -u -y -w 1k -e 1k -X",
        ):
            self.run_mdtest(line, ranks=3)
            self.assertEqual(self.names(), [], line)
        for line in ("-n 3 -i 2 --verify-write -w 10", "-k -F -n 3 -Y", "-n 2 -B 1 -L -z 2"):
            self.run_mdtest(line)
            self.assertEqual(self.names(), [], line)

    def test_stride(self) -> None:
        """With -N 1 a rank stats the next one's items, reads those of the second, and removes the third's."""
        trace = ["sh", "-c", 'exec strace -qq -e trace=%file -o trace.$OMPI_COMM_WORLD_RANK "$0" "$@"']
        self.run_mdtest("-n 1 -N 1 -w 1 -e 1", ranks=4, wrap=trace)
        for rank in range(4):
            calls = re.findall(
                r"(\w+)\(.*(dir|file)\.mdtest\.(\d)\.0\".*= \d+", (self.folder / f"trace.{rank}").read_text()
            )
            owners = [(kind, (int(owner) - rank) % 4) for _, kind, owner in calls]
            self.assertEqual(owners, [("dir", 0), ("dir", 1), ("dir", 3), *(("file", n) for n in range(4))])

    def test_renames_leave_every_name(self) -> None:
        self.run_mdtest("-C -D -n 5")
        before = self.names()
        trace = ["strace", "-qq", "-e", "trace=rename", "-o", "trace"]
        self.run_mdtest("-r -D -n 5")
        self.run_mdtest("-D -n 5", wrap=trace)
        renames = re.findall(r"\.(\d(?:-XX)?)\", \"\S*\.(\d(?:-XX)?)\"", (self.folder / "trace").read_text())
        self.assertEqual(renames, [("0", "0-XX"), ("1", "0"), ("2", "1"), ("3", "2"), ("0-XX", "3")])
        self.assertEqual(len(before), 7)


class Data(Case):
    """Contents of files, and the stonewall."""

    def test_content(self) -> None:
        self.run_mdtest("-C -F -n 1 -w 20 -G 7", ranks=2)
        for rank in range(2):
            words = struct.pack("<QQ", (rank << 32) + 7, (rank << 32) + 8) + bytes(range(16, 20))
            path = self.folder / f"test-dir.0-0/mdtest_tree.0/file.mdtest.{rank}.0"
            self.assertEqual(path.read_bytes(), words)

    def test_packets(self) -> None:
        """Words that mdtest 4.0.0 was seen to write: the item where IOR has the offset."""
        for packet, second in (("offset", (1 << 32) + 8), ("i", 0x6323C2F2699AD101)):
            line = f"-F -n 2 -w 5000 -G 7 --dataPacketType={packet}"
            self.run_mdtest(f"-C {line}", ranks=2)
            data = (self.folder / "test-dir.0-0/mdtest_tree.0/file.mdtest.1.1").read_bytes()
            words = [struct.unpack_from("<Q", data, at)[0] for at in (0, 4096, 8)]
            self.assertEqual(words, [(1 << 32) + 1, (1 << 32) + 2, second])
            self.run_mdtest(f"-E {line} -e 5000 -X -N 1", ranks=2)
            self.run_mdtest(f"-r {line}", ranks=2)

    def test_packets_say_the_number_in_the_name(self) -> None:
        self.run_mdtest("-C -F -L -z 1 -b 1 -n 2 -w 8 --dataPacketType=o")
        for path in self.folder.rglob("file.*"):
            self.assertEqual(struct.unpack("<Q", path.read_bytes())[0], int(path.name.split(".")[-1]))

    def test_every_iteration_writes_its_own(self) -> None:
        """A read leaves another rank's bytes behind, which the next iteration must not write."""
        for packet in "toir":
            line = f"-F -n 2 -i 2 -N 1 -w 20 -e 20 -X --verify-write --dataPacketType={packet}"
            self.run_mdtest(line, ranks=2)

    def test_wrong_content(self) -> None:
        self.run_mdtest("-C -F -n 3 -w 20 -G 7")
        self.run_mdtest("-E -F -n 3 -e 20 -G 7 -X")
        victim = self.folder / "test-dir.0-0/mdtest_tree.0/file.mdtest.0.1"
        for at in (0, 8, 19):
            data = bytearray(victim.read_bytes())
            data[at] ^= 1
            victim.write_bytes(data)
            done = self.run_mdtest("-E -F -n 3 -e 20 -G 7 -X", status=1)
            self.assertIn(f"{victim}: wrong data at offset {at - at % 8 if at < 16 else at}", done.stderr)
            self.assertIn("ERROR: verifying the data on read (1 errors)!", done.stdout)
            data[at] ^= 1
            victim.write_bytes(data)

    def test_stonewall(self) -> None:
        for kind, word in (("-F", "file"), ("-D", "dir")):
            line = f"{kind} -n 1000000 -x status"
            text = self.run_mdtest(f"{line} -C -W 1", ranks=2).stdout
            count = int((self.folder / "status").read_text())
            self.assertIn(f" max: {count} avg: ", text)
            top = self.folder / "test-dir.0-0/mdtest_tree.0"
            for rank in range(2):
                self.assertEqual(len(list(top.glob(f"{word}.mdtest.{rank}.*"))), count)
            self.run_mdtest(f"{line} -T -r", ranks=2)
            self.assertEqual(self.names(), ["status"])


class Errors(Case):
    """No error passes as success, none hangs, and a wrong command line touches nothing."""

    def test_missing(self) -> None:
        done = self.run_mdtest("-T -n 20 -F", ranks=2, status=1)
        self.assertIn("file.mdtest.1.0: stat: No such file or directory", done.stderr)
        self.assertIn("40 operations failed", done.stderr)
        self.run_mdtest("-r -n 1", status=1)
        self.run_mdtest("-E -n 2 -F", ranks=2, status=3)
        self.run_mdtest("-T -n 20 -F --warningAsErrors", status=3)
        self.assertNotIn("Read bytes", done.stderr)

    def test_short_file(self) -> None:
        self.run_mdtest("-C -F -n 1 -w 10")
        done = self.run_mdtest("-E -F -n 1 -e 11", status=3)
        self.assertIn("file.mdtest.0.0: read at offset 10: nothing more was transferred", done.stderr)

    def test_left_over(self) -> None:
        (self.folder / "test-dir.0-0/mdtest_tree.0").mkdir(parents=True)
        done = self.run_mdtest("-n 1", status=3)
        self.assertIn("mdtest_tree.0: mkdir: File exists", done.stderr)

    def test_status_of_another_run(self) -> None:
        (self.folder / "status").write_text("100")
        self.run_mdtest("-T -F -n 5 -x status", status=3)

    def test_usage(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            for line, done in zip(
                WRONG_LINES, pool.map(lambda line: self.run_mdtest(line, status=2), WRONG_LINES), strict=True
            ):
                own = [text for text in done.stderr.splitlines() if text.startswith("tb-mdtest: ")]
                self.assertEqual((len(own), done.stdout), (1, ""), line)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    PROGRAM, MPIEXEC = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
