"""tb-ior's deadline, wear-out and status files."""

from __future__ import annotations

import json
import re

import pytest
from case import DATA, keys
from driver import Ior


def test_wear_out(ior: Ior) -> None:
    path = ior.folder / "summary.json"
    ior.run(
        "-w -r -R -F -C -t 4k -b 64g -Y -D 1 -O stoneWallingWearOut=1,summaryFormat=JSON,"
        f"summaryFile={path},stoneWallingStatusFile={ior.folder}/status -k"
    )
    ours, sample = json.loads(path.read_text()), json.loads((DATA / "stonewall-wearout.json").read_text())
    assert keys(ours["summary"][0]) == keys(sample["summary"][0])
    count = (ior.folder / "status").read_text()
    sizes = [ior.of_rank(i).stat().st_size for i in range(2)]
    assert (sizes, count) == ([int(count) * 4096] * 2, count.strip())  # as IOR writes it
    write, read = (row["xsizeMiB"] for row in ours["summary"])
    assert write == pytest.approx(sum(sizes) / (1 << 20), abs=5e-4)
    assert read <= write  # the deadline ends the read too
    line = f"-r -F -t 4k -b 64g -O summaryFormat=JSON,summaryFile={path}"
    ior.run(f"{line},stoneWallingStatusFile={ior.folder}/status")
    again = json.loads(path.read_text())["summary"][0]["xsizeMiB"]
    assert again == pytest.approx(sum(sizes) / (1 << 20), abs=5e-4)


def test_status_without_wear_out(ior: Ior) -> None:
    """The least count for IOR, then each rank's where they differ; a read goes as far as those."""
    status = ior.folder / "status"
    line = f"-F -k -t 4k -b 64g -O stoneWallingStatusFile={status}"
    ior.run(f"-w -Y -D 1 -G 5 {line}")
    least, *counts = (int(n) for n in status.read_text().split())
    sizes = [ior.of_rank(i).stat().st_size for i in range(2)]
    assert [n * 4096 for n in counts or [least] * 2] == sizes
    for text in (status.read_text(), str(least)):
        status.write_text(text)
        rows = ior.run(f"-r -R -G 5 {line},summaryFormat=CSV").stdout.splitlines()
        moved = float(rows[1].split(",")[1]) * float(rows[1].split(",")[9])
        all_of = sum(sizes) if text.split()[1:] else 2 * least * 4096
        assert moved * (1 << 20) == pytest.approx(all_of, rel=0.01)
    for text in ("", "x", "-1", "1 2", "1 2 3 4", "99999999999"):
        status.write_text(text)
        done = ior.run(f"-r {line}", status=3)
        assert f"{status}: read: not the transfers" in done.stderr, text


def test_ranks_are_told(ior: Ior) -> None:
    done = ior.run("-w -v -F -t 4k -b 64g -Y -D 1 -O stoneWallingWearOut=1")
    told = [int(n) for n in re.findall(r"(?m)^[01]: stonewalling pairs accessed: (\d+)$", done.stdout)]
    line = re.search(r"(?m)^stonewalling pairs accessed min: (\d+) max: (\d+)", done.stdout)
    assert line
    assert [min(told), max(told), len(told)] == [int(line[1]), int(line[2]), 2]


@pytest.mark.parametrize("mode", ["-F", "-D 1", "-a MPIIO -c"])
def test_least_time(ior: Ior, mode: str) -> None:
    """Too little data for the time is written again from its beginning, then read as one pass of it."""
    done = ior.run(f"-w -r -R {mode} -t 4k -b 64k -O minTimeDuration=2,summaryFormat=CSV")
    rows = [row.split(",") for row in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["write", "read"]
    for row in rows:
        assert float(row[7]) >= 2
        assert float(row[1]) * float(row[9]) > 1  # MiB that were moved


def test_file_of_another_size(ior: Ior) -> None:
    ior.run("-w -k -t 8 -b 32", ranks=1)
    done = ior.run("-w -k -E -t 8 -b 16", ranks=1)
    assert 'data" exists already and will be overwritten' in done.stderr
    assert "WARNING: Stat() of aggregate file size      = 32" in done.stderr
    for options in ("", "--mpiio.preallocate"):
        ior.run(f"-a MPIIO -w -k -E -t 8 -b 8 {options}")
        assert ior.file.stat().st_size == 16  # cut first, as IOR 4.0.0 does with MPIIO


@pytest.mark.parametrize(("count", "size"), [(3, 3 * 4096), (20, 16 * 4096)])
def test_least_time_of_few_transfers(ior: Ior, count: int, size: int) -> None:
    """With a count of transfers the rest of the time passes without any, as in IOR 4.0.0."""
    limits = f"-O minTimeDuration=1,stoneWallingWearOutIterations={count},summaryFormat=CSV"
    row = ior.run(f"-w -k -F -t 4k -b 64k {limits}").stdout.splitlines()[1].split(",")
    assert float(row[7]) >= 1
    assert float(row[2]) * float(row[7]) == pytest.approx(2 * count, abs=0.1)
    assert ior.of_rank(1).stat().st_size == size


@pytest.mark.parametrize("mode", ["-F -Y", "-a MPIIO -c", "-a MPIIO -Y"])
def test_without_wear_out(ior: Ior, mode: str) -> None:
    done = ior.run(f"-w -r -R -C -t 4k -b 16g -D 1 {mode}")
    assert "WARNING: Using actual aggregate bytes moved" in done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize(("status", "told"), [("", 1), (",stoneWallingStatusFile=status", 0)])
def test_the_count_is_told_where_no_file_keeps_it(ior: Ior, status: str, told: int) -> None:
    line = f"-w -r -k -t 8 -b 16 -D 9 -O stoneWallingWearOut=1{status}"
    assert ior.run(line, ranks=1).stdout.count("Pairs deadlineForStonewallingaccessed: 2\n") == told
