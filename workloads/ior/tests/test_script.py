"""Scripts of -f, long names, and what the command line says before and after them."""

from __future__ import annotations

import json
from pathlib import Path

from case import Case, main


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
        self.assertEqual(found, [(0, 1024, 2, ["write", "read"]), (1, 4096, 2, ["write"])])
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


if __name__ == "__main__":
    main()
