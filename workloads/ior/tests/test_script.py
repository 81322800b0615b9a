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
        ("", "IOR START is missing"),
        ("RUN\n", ":1: "),
        ("IOR START\nIOR STOP\nRUN\n", ":3: "),
        ("IOR START\nblockSize=8,fast\n", ":2: "),
        ("IOR START\n--fast=1\n", ":2: "),
        ("IOR START\nRUN\n\0\nblockSize=no\n", "NUL byte"),
        ("IOR START\n" + "\n" * (1 << 20), "more than 1 MiB"),
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
    assert re.search(r"(?m)^write .* mpiio +7$", text)
    rows = [row.split(",") for row in (ior.folder / "ranks.csv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["access", "rank"], ["write", "0"]]
    assert float(rows[1][4]) * float(rows[1][2]) == pytest.approx(16384, abs=1)


def test_dry_run(ior: Ior) -> None:
    assert not re.search(r"(?m)^write", ior.run("--dryRun -w", ranks=1).stdout)
    assert ior.names() == []


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", [16]),
        ("RUN", [16]),
        ("RUN\nRUN\nIOR STOP", [16, 16]),
        ("blockSize=8\nIOR STOP", [8]),
        ("RUN\n--blockSize=8,-s=3\n\n", [16, 24]),
        ("RUN\nblockSize=8\nRUN\nIOR STOP\n", [16, 8]),
    ],
)
def test_ends(ior: Ior, text: str, blocks: list[int]) -> None:
    """The tests that IOR 4.0.0 finds: settings after the last RUN are one, and IOR STOP may lack."""
    script = write(ior, f"IOR START\n{text}")
    report = ior.run(f"-w -t 8 -b 16 {script} -O summaryFormat=JSON", ranks=1).stdout
    found = [t["Parameters"] for t in json.loads(report)["tests"]]
    assert [p["blockSize"] * p["segmentCount"] for p in found] == blocks


def test_report_of_a_script(ior: Ior) -> None:
    ranks, report = ior.folder / "ranks", ior.folder / "report"
    settings = f"summaryFormat=CSV,summaryFile={report}\nsaveRankPerformanceDetailsCSV={ranks}"
    script = write(ior, f"IOR START\nRUN\n{settings}\nRUN")
    assert ior.run(f"-w -t 8 -b 8 {script}").stdout == ""
    assert report.read_text().count("\nwrite,") == 2
    assert ranks.read_text().count("\nwrite,") == 4


def test_more_ranks_than_there_are(ior: Ior) -> None:
    """-N above the ranks: all of them, as IOR has it, and a warning."""
    done = ior.run("-w -k -F -t 8 -b 8 -N 3")
    assert ior.names() == ["data.00000000", "data.00000001"]
    told = "WARNING: More tasks requested (3) than available (2),\nWARNING: running with 2 tasks.\n"
    assert told in done.stderr


def test_help_names_all_letters(ior: Ior) -> None:
    text = ior.run("--help", ranks=1).stdout
    for letter in "aABbcCdDeEfFgGhHiJjkKlmMnNoOpqQrRstTuvVwWxXyYzZ":
        assert re.search(rf"(?m)^  -{letter}[, =]", text), letter
