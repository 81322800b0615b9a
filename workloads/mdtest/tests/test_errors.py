"""tb-mdtest: no error passes as success, none hangs, and a wrong command line touches nothing."""

from __future__ import annotations

import pytest
from driver import Mdtest

WRONG_LINES = (
    "-q|word|-n|-n x|-n -1|-n 2q|-n 99999999999|-I -1|-z -1|-z 99|-b 0 -z 1|-b 100000 -z 2|-i 0|-s 0|"
    "-f 3|-l 3|-B 2|-n 5 -I 2|-n 2 -w 4 -e 8|-a MPIIO|-S -u|-S -D|-c -u|-c -N 1|-d a@b|-W 1 -b 2|"
    "-W 1 -B 1|-k -w 3|-X|-X -C -w 8 -e 8|--verify-write|--dataPacketType=x|-G -2|-F -n 2 -e 8|"
    "-u -d a@b|-d @|-u -d @a@b|-n 4 -I 2 -u|--warningAsErrors|--allocateBufferOnGPU|--run-cmd-before-phase|"
    "--saveRankPerformanceDetails=/nowhere/x.csv"
).split("|")


def test_missing(mdtest: Mdtest) -> None:
    done = mdtest.run("-T -n 20 -F", ranks=2, status=1)
    assert "file.mdtest.1.0: stat: No such file or directory" in done.stderr
    assert "40 operations failed" in done.stderr
    mdtest.run("-r -n 1", status=1)
    mdtest.run("-E -n 2 -F", ranks=2, status=3)
    mdtest.run("-T -n 20 -F --warningAsErrors", status=3)
    assert "Read bytes" not in done.stderr


def test_short_file(mdtest: Mdtest) -> None:
    mdtest.run("-C -F -n 1 -w 10")
    done = mdtest.run("-E -F -n 1 -e 11", status=3)
    assert "file.mdtest.0.0: read at offset 10: nothing more was transferred" in done.stderr


def test_left_over(mdtest: Mdtest) -> None:
    (mdtest.folder / "test-dir.0-0/mdtest_tree.0").mkdir(parents=True)
    done = mdtest.run("-n 1", status=3)
    assert "mdtest_tree.0: mkdir: File exists" in done.stderr


def test_status_of_another_run(mdtest: Mdtest) -> None:
    (mdtest.folder / "status").write_text("100")
    mdtest.run("-T -F -n 5 -x status", status=3)


@pytest.mark.parametrize("line", WRONG_LINES)
def test_usage(mdtest: Mdtest, line: str) -> None:
    done = mdtest.run(line, status=2)
    own = [text for text in done.stderr.splitlines() if text.startswith("tb-mdtest: ")]
    assert (len(own), done.stdout) == (1, "")
    assert mdtest.names() == []


def test_numbers_of_ranks(mdtest: Mdtest) -> None:
    mdtest.run("-f 2 -l 1 -n 1", ranks=2, status=2)
    assert mdtest.names() == []


def test_status_file_without_a_place(mdtest: Mdtest) -> None:
    mdtest.run("-n 1 -x no/status -d tree", status=3)
    assert mdtest.names() == []
