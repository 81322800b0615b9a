"""tb-ior's three formats against captured output of IOR 4.0.0."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from case import DATA, LIMIT_S, MPIEXEC, PROGRAM, Case, keys, main

MEASURED = re.compile(r"^(IOR-compatible tb-ior-0|IOR-4)[.\d]+|[\d.]+ Mi?B/sec|\w{3} \w{3} .* \d{4}$")


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

    def test_csv_of_two_tests(self) -> None:
        script = self.folder / "script"
        script.write_text("IOR START\nRUN\nrepetitions=2\nRUN\nIOR STOP\n")
        text = self.run_ior(f"-w -t 8 -b 8 -O summaryFormat=CSV -f {script}").stdout
        found = [(row.split(",")[0], row.split(",")[-1]) for row in text.splitlines()]
        self.assertEqual(found, [("access", "iter"), ("write", "0")] * 2 + [("write", "1")])

    def test_hints(self) -> None:
        hints = self.folder / "hints"
        hints.write_text("IOR_HINT__MPI__cb_nodes=2\n")
        line = f"-a MPIIO -w -t 8 -b 16 --mpiio.showHints --mpiio.hintsFileName={hints}"
        said = "\nhints passed to MPI_File_open() {\n\tcb_nodes = 2\n}\n\nhints returned from opened file {\n"
        self.assertIn(said, self.run_ior(line).stdout)
        done = self.run_ior(f"{line} -O summaryFormat=CSV")
        self.assertEqual((done.stdout.count("\n"), said in done.stderr), (2, True))

    def test_version(self) -> None:
        self.assertRegex(self.run_ior("--version").stdout, r"^tb-ior \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    main()
