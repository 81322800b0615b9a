"""Scripts of -f, long names, and what the command line says before and after them."""

from __future__ import annotations

import json
import re

import pytest
from driver import Ior


def write(ior: Ior, text: str) -> str:
    path = ior.folder / "script"
    path.write_text(text)
    return f"-f {path}"


def test_two_tests(ior: Ior) -> None:
    script = write(
        ior,
        f"IOR START\n  testFile = {ior.file} # here\n\nfilePerProc=1\nsegmentCount=2\n"
        "  blocksize=8k\nRUN\ntransferSize=4k\nreadFile=0\nRUN\nior stop\n",
    )
    path = ior.folder / "x.json"
    ior.run(f"-w -r -t 8k {script} -t 1k -O summaryFormat=JSON,summaryFile={path}")
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
    assert found == [(0, 1024, 2, ["write", "read"]), (1, 4096, 2, ["write"])]
    assert [(s["operation"], s["TestID"]) for s in document["summary"]] == [
        ("write", 0),
        ("read", 0),
        ("write", 1),
    ]
    text = ior.run(f"-w -t 4k {script}").stdout
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("TestID")] == ["0", "1"]
    assert text.count("Summary of all tests:") == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "no test"),
        ("RUN\n", ":1: "),
        ("IOR START\nRUN\n", "IOR STOP is missing"),
        ("IOR START\nIOR STOP\n", "no test"),
        ("IOR START\nx=1\nRUN\nIOR STOP", ":2: "),
        ("IOR START\nRUN\nblockSize=no\nIOR STOP", ":3: "),
        ("IOR START\nfast\n", ":2: "),
    ],
)
def test_wrong_scripts(ior: Ior, text: str, place: str) -> None:
    done = ior.run(write(ior, text), ranks=1, status=2)
    assert place in done.stderr
    assert (done.stderr.count("\n"), ior.names()) == (1, ["script"]), done.stderr


def test_names(ior: Ior) -> None:
    line = "-O writeFile=1,READFILE=0,blockSize=8KiB,keepFile=1,filePerProc=1 --transferSize=4KB -s=2"
    line += " -O api=mpiio"
    text = ior.run(f"{line} -A 7 -N 1 -M 1m -O saveRankPerformanceDetailsCSV={ior.folder}/ranks.csv").stdout
    assert ior.names() == ["data.00000000", "ranks.csv"]
    assert ior.of_rank(0).stat().st_size == 16384
    assert re.search(r"(?m)^write .* MPIIO +7$", text)
    rows = [row.split(",") for row in (ior.folder / "ranks.csv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["access", "rank"], ["write", "0"]]
    assert float(rows[1][4]) * float(rows[1][2]) == pytest.approx(16384, abs=1)


def test_dry_run(ior: Ior) -> None:
    assert not re.search(r"(?m)^write", ior.run("--dryRun -w", ranks=1).stdout)
    assert ior.names() == []
