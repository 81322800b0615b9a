"""How far ranks came, from logs made up for the purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from darshan_logs import SEGMENT, Made

from common.outcome.launch_numbers import LaunchOutput, measured
from common.outcome.rank_progress import furthest

MIB = 1 << 20
BASE = "/pfs/data"


def log(tmp_path: Path, made: Made) -> Path:
    file = tmp_path / "trace-1.darshan"
    made.write(file)
    return file


def of_ranks(*ends: int, **more: Any) -> Made:
    made = Made(nprocs=len(ends), **more)
    made.counters("POSIX", "/etc/other", 0, MAX_BYTE_READ=99 * MIB, BYTES_READ=99 * MIB, READS=99)
    for rank, end in enumerate(ends):
        file = f"{BASE}.{rank:08d}"
        made.counters("POSIX", file, rank, MAX_BYTE_READ=end - 1, BYTES_READ=end // 2, READS=1)
    return made


def test_the_furthest_rank_counts(tmp_path: Path) -> None:
    file = log(tmp_path, of_ranks(4 * MIB, 7 * MIB, 5 * MIB))
    assert furthest(file, BASE, "read", 3, scattered=False) == (
        7 * MIB,
        "the trace, largest offset read, rank 1",
    )


def test_at_random_offsets_bytes_count(tmp_path: Path) -> None:
    file = log(tmp_path, of_ranks(4 * MIB, 8 * MIB))
    reached, told = furthest(file, BASE, "read", 2, scattered=True)
    assert reached == 4 * MIB and "random offsets" in told


def test_of_a_merged_record_segments_tell_ranks_apart(tmp_path: Path) -> None:
    made = Made(nprocs=2)
    made.counters("POSIX", BASE, -1, MAX_BYTE_READ=6 * MIB - 1, BYTES_READ=4 * MIB, READS=4)
    for rank in (0, 1):
        rows = [(rank * 4 * MIB + i * MIB, MIB, 0.1, 0.2) for i in range(2)]
        made.dxt(BASE, rank, np.array([], SEGMENT), np.array(rows, SEGMENT))
    file = log(tmp_path, made)
    assert furthest(file, BASE, "read", 2, scattered=False)[0] == 6 * MIB
    assert furthest(file, BASE, "read", 2, scattered=True)[0] == 2 * MIB


def test_a_log_that_does_not_show_every_rank_shows_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds reads of 2 ranks, expected 3"):
        furthest(log(tmp_path, of_ranks(MIB, MIB)), BASE, "read", 3, scattered=False)
    unfinished = of_ranks(MIB, MIB, metadata="lib_ver=3.5.0\ntierbench_incomplete=1\n")
    with pytest.raises(ValueError, match="is incomplete"):
        furthest(log(tmp_path, unfinished), BASE, "read", 2, scattered=False)


OUTPUT = """IOR-4.0.0: MPI Coordinated Test of Parallel I/O
access bw(MiB/s) IOPS Latency(s) block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter
------ --------- ---- ---------- ---------- --------- -------- -------- -------- -------- ----
read 100.00 100.00 0.010000 8192 1024.00 0.000100 1.00 0.000100 1.00 0
Finished            : Mon Jan  1 00:00:00 2024
"""
LINE = ("-r", "-t", "1m", "-b", "8m", "-F", "-D", "1", "-o", BASE)


@pytest.mark.parametrize(("end", "sustained"), [(7 * MIB, True), (8 * MIB, False)])
def test_a_rank_at_the_end_of_its_data_was_not_sustained(tmp_path: Path, end: int, sustained: bool) -> None:
    file = log(tmp_path, of_ranks(4 * MIB, end))
    found = measured(LaunchOutput(OUTPUT, ""), "read", "bandwidth", LINE, 2, file)
    assert found["sustained"] is sustained
    assert found["sustained_by"].endswith(f"rank 1: at most {end} of {8 * MIB} bytes of a rank")


def test_a_shorter_dataset_ends_earlier(tmp_path: Path) -> None:
    file = log(tmp_path, of_ranks(4 * MIB, 5 * MIB))
    before = f"tierbench: dataset: 2 of 2 files, {5 * MIB} to {8 * MIB} bytes each\n"
    assert measured(LaunchOutput(OUTPUT, before), "read", "bandwidth", LINE, 2, file)["sustained"] is False


def test_without_counts_and_trace_nothing_is_shown(tmp_path: Path) -> None:
    found = measured(LaunchOutput(OUTPUT, ""), "read", "bandwidth", LINE, 2, tmp_path / "none")
    assert found["sustained"] is None and found["sustained_by"].startswith("not shown")
