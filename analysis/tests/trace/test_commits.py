"""Which accesses of two nodes a trace shows to be ordered by commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import darshan_logs
import pytest

from tierbench import cli, trace
from tierbench.trace import commits

FILE = "/scratch/x"
OPENED = {"OPENS": 1, "F_OPEN_START_TIMESTAMP": 0.1, "F_OPEN_END_TIMESTAMP": 0.2}
CLOSED_LATE = {"F_CLOSE_START_TIMESTAMP": 9.0, "F_CLOSE_END_TIMESTAMP": 9.1}


def log(
    path: Path, writer: dict[str, Any], reader: dict[str, Any], read_at: float = 5.0, offset: int = 0
) -> Path:
    """Rank 0 of n1 writes 100 bytes from second 1 to 2, rank 1 of n2 reads 100."""
    made = darshan_logs.Made(nprocs=2)
    none = darshan_logs.accesses([], 0, [], 0)
    made.dxt(FILE, 0, darshan_logs.accesses([0], 100, [1.0], 1.0), none, "n1")
    made.dxt(FILE, 1, none, darshan_logs.accesses([offset], 100, [read_at], 1.0), "n2")
    made.counters("POSIX", FILE, 0, **(OPENED | CLOSED_LATE | writer))
    made.counters("POSIX", FILE, 1, **(OPENED | CLOSED_LATE | reader))
    return made.write(path / "app.darshan")


CLOSED = {"F_CLOSE_START_TIMESTAMP": 3.0, "F_CLOSE_END_TIMESTAMP": 3.1}
OPENED_AFTER = {"F_OPEN_START_TIMESTAMP": 4.0, "F_OPEN_END_TIMESTAMP": 4.1}


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [
        (CLOSED, OPENED_AFTER, ""),
        ({"FSYNCS": 1}, OPENED_AFTER, ""),
        (CLOSED, {"FSYNCS": 1}, ""),
        ({}, OPENED_AFTER, "no fsync or close on n1 between them"),
        (CLOSED, {}, "no open or fsync on n2 between them"),
    ],
)
def test_a_read_of_what_another_node_wrote(
    writer: dict[str, Any], reader: dict[str, Any], why: str, tmp_path: Path
) -> None:
    found = commits.check(trace.read([log(tmp_path, writer, reader)]))
    assert found.pairs == 1
    assert [u.why for u in found.unordered] == [why] * bool(why)
    assert found.possible == (not why)


def test_at_the_same_time(tmp_path: Path) -> None:
    found = commits.check(trace.read([log(tmp_path, {"FSYNCS": 9}, {"FSYNCS": 9}, read_at=1.5, offset=60)]))
    assert str(found.unordered[0]) == (
        "/scratch/x [60, 100): write by rank 0 of n1 from 1.000000 to 2.000000 s; "
        "read by rank 1 of n2 from 1.500000 to 2.500000 s: at the same time"
    )


def test_other_bytes_are_no_pair(tmp_path: Path) -> None:
    assert commits.check(trace.read([log(tmp_path, {}, {}, offset=100)])).pairs == 0


def test_a_node_by_itself_is_ordered(tmp_path: Path) -> None:
    made = darshan_logs.strided(ranks=2)
    made.dxt(
        "/scratch/shared.dat",
        3,
        darshan_logs.accesses([0], 100, [0.0], 1.0),
        darshan_logs.accesses([], 0, [], 0),
    )
    assert commits.check(trace.read([made.write(tmp_path / "one.darshan")])).pairs == 0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", str(log(tmp_path, {}, {})), "--model", "commit"]) == 1
    said = capsys.readouterr().out
    assert "1 pair of accesses of two nodes to the same bytes: 1 not ordered by commits" in said
    assert (
        "/scratch/x [0, 100): write by rank 0 of n1 from 1.000000 to 2.000000 s; read by rank 1 of n2" in said
    )
    assert cli.main(["trace", str(log(tmp_path, CLOSED, OPENED_AFTER)), "--model", "commit"]) == 0
