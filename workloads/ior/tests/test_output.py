"""tb-ior's three formats against captured output of IOR 4.0.0."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import pytest
from case import DATA, keys
from driver import Ior

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


@pytest.mark.parametrize(
    ("name", "line"),
    [("default-v", "-w -r -t 1m -b 16m -F -e -v"), ("shared-C", "-w -r -C -t 1m -b 16m -s 4 -e")],
)
def test_text(ior: Ior, name: str, line: str) -> None:
    assert outline(ior.run(line).stdout) == outline((DATA / f"{name}.out").read_text())


def test_phases_are_announced(ior: Ior) -> None:
    """What -v says between the rows, in IOR's words and order; -d waits before each of what is timed."""
    begin = time.monotonic()
    text = ior.run("-w -W -r -C -v -d 1 -t 8 -b 8").stdout
    assert time.monotonic() - begin >= 2
    words = "Using|delay|Commenc|Verif|write  |read  "
    said = [line for line in text.splitlines() if re.match(words, line)]
    first = ["Using", "delaying", "Commencing", "write", "Verifying", "delaying", "Commencing", "read"]
    assert [line.split()[0] for line in said] == [*first, "write", "read"]


def test_numbers_of_the_table(ior: Ior) -> None:
    table = ior.run("-w -r -t 4k -b 64k -F").stdout.split("----\n")[1].split("\n\n")[0]
    for word in " ".join(" ".join(line.split()[1:10]) for line in table.splitlines()).split():
        decimals = 6 if float(word) < 1 else 2 if float(word) < 3600 else 0
        assert word == f"{float(word):.{decimals}f}"


def test_csv(ior: Ior) -> None:
    sample = (DATA / "csv.out").read_text().splitlines()
    ours = ior.run("-w -r -t 1m -b 16m -F -e -O summaryFormat=CSV").stdout.splitlines()
    mask = [re.sub(r"\d+\.\d{4}", "#", line) for line in sample]
    assert [re.sub(r"\d+\.\d{4}", "#", line) for line in ours] == mask


def test_json(ior: Ior) -> None:
    path = ior.folder / 'summary "1"\n.json'
    words = [*"-w -r -t 1m -b 16m -F -e -i 4 -O summaryFormat=JSON -O".split(), f"summaryFile={path}"]
    assert ior.run(words).stdout == ""
    ours, sample = json.loads(path.read_text()), json.loads((DATA / "json-i4.json").read_text())
    assert keys(ours) == keys(sample)
    assert re.search(r"^tb-ior-\d", ours["Version"])
    assert str(path) in ours["Command line"]
    for name in ("platform", "testFileName"):
        del ours["tests"][0]["Parameters"][name], sample["tests"][0]["Parameters"][name]
    assert ours["tests"][0]["Parameters"] == sample["tests"][0]["Parameters"]
    results = [r["bwMiB"] for r in ours["tests"][0]["Results"] if r["access"] == "write"]
    assert ours["summary"][0]["bwMaxMIB"] == max(results)
    assert ours["summary"][0]["bwMeanMIB"] == pytest.approx(sum(results) / 4, abs=5e-4)


def test_verbose_json(ior: Ior) -> None:
    """What IOR adds with -v: the removal and the largest bandwidths; here it stays valid."""
    path = ior.folder / "x.json"
    ior.run(f"-w -r -F -t 4k -b 8k -v -Z -X 3 -O summaryFormat=JSON,summaryFile={path}")
    test = json.loads(path.read_text())["tests"][0]
    assert [r["access"] for r in test["Results"]] == ["write", "read", "remove"]
    assert list(test["Results"][2]) == ["access", "totalTime"]
    assert list(test["max"]) == ["writeMiB", "writeMB", "readMiB", "readMB"]
    assert (test["Options"]["verbose"], test["Options"]["reorder random seed"]) == (1, 3)


def test_csv_of_two_tests(ior: Ior) -> None:
    script = ior.folder / "script"
    script.write_text("IOR START\nRUN\nrepetitions=2\nRUN\nIOR STOP\n")
    text = ior.run(f"-w -t 8 -b 8 -O summaryFormat=CSV -f {script}").stdout
    found = [(row.split(",")[0], row.split(",")[-1]) for row in text.splitlines()]
    assert found == [("access", "iter"), ("write", "0")] * 2 + [("write", "1")]


def test_hints(ior: Ior) -> None:
    hints = ior.folder / "hints"
    hints.write_text("IOR_HINT__MPI__cb_nodes=2\n")
    line = f"-a MPIIO -w -t 8 -b 16 --mpiio.showHints --mpiio.hintsFileName={hints}"
    said = "\nhints passed to MPI_File_open() {\n\tcb_nodes = 2\n}\n\nhints returned from opened file {\n"
    assert said in ior.run(line).stdout
    done = ior.run(f"{line} -O summaryFormat=CSV")
    assert (done.stdout.count("\n"), said in done.stderr) == (2, True)


def test_version(ior: Ior) -> None:
    assert re.search(r"^tb-ior \d+\.\d+\.\d+\n$", ior.run("--version").stdout)


def test_deadline_in_words(ior: Ior) -> None:
    """Without wear-out IOR 4.0.0 says nothing of the transfers made, however much -v."""
    assert "pairs" not in ior.run("-w -vv -t 8 -b 8 -D 9", ranks=1).stdout


def test_said_as_given(ior: Ior) -> None:
    text = ior.run("-w -a posix -t 8 -b 8 -O memoryPerTask=1m").stdout
    assert "\napi                 : posix\n" in text
    assert "\nmemoryPerTask       : 1 MiB\n" in text
    assert re.search(r"(?m)^write .* posix +0$", text)
    report = json.loads(ior.run("-w -a posix -t 8 -b 8 -O memoryPerTask=1m,summaryFormat=JSON").stdout)
    said = report["tests"][0]["Options"]
    assert (said["api"], said["memoryPerTask"]) == ("posix", "1 MiB")


def test_share_of_memory_is_said_in_bytes(ior: Ior) -> None:
    """-M 1%: of the node's memory, however large it is."""
    node = os.sysconf("SC_PHYS_PAGES") // 100 * os.sysconf("SC_PAGESIZE")
    text = ior.run("-w -t 8 -b 8 -M 1%", ranks=1).stdout
    said = re.search(r"(?m)^memoryPerNode +: ([\d.]+) ([MG])iB$", text)
    assert said
    assert float(said[1]) * {"M": 1 << 20, "G": 1 << 30}[said[2]] == pytest.approx(node, rel=0.05)
    report = json.loads(ior.run("-w -t 8 -b 8 -M 1% -O summaryFormat=JSON", ranks=1).stdout)
    assert report["tests"][0]["Parameters"]["memoryPerNode"] == node
