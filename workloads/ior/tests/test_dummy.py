"""tb-ior -a DUMMY: IOR's run without a file."""

from __future__ import annotations

import json

import pytest
from driver import Ior


def seconds(ior: Ior, line: str) -> tuple[dict[str, float], dict[str, float]]:
    """What the write and the read took, part by part."""
    report = json.loads(ior.run(f"-a DUMMY {line} -O summaryFormat=JSON").stdout)
    write, read = report["tests"][0]["Results"]
    return write, read


MODES = ["", "-F", "-F -u", "-c -e", "-z", "-D 9 -O stoneWallingWearOut=1", "-i 2 -m"]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_made_or_removed(ior: Ior, mode: str) -> None:
    mine = [ior.file, ior.of_rank(0), ior.file.with_name("data.00000000")]
    for path in mine:
        path.write_text("mine")
    done = ior.run(f"-a DUMMY -w -r -t 8 -b 64 {mode}")
    assert "\napi                 : DUMMY\napiVersion          : 0.5\n" in done.stdout
    assert "WARNING" not in done.stderr
    assert {path.read_text() for path in mine} == {"mine"}
    assert len(ior.names()) == len(set(mine))


def test_all_bytes_count(ior: Ior) -> None:
    report = json.loads(ior.run("-a dummy -w -r -t 8 -b 64 -O summaryFormat=JSON").stdout)
    assert [row["xsizeMiB"] for row in report["summary"]] == [pytest.approx(128 / (1 << 20), abs=1e-3)] * 2
    assert report["summary"][0]["API"] == "dummy"


def test_waits_in_the_place_of_a_device(ior: Ior) -> None:
    """Each in its part, never shorter than asked."""
    waits = {"create": "openTime", "xfer": "wrRdTime", "close": "closeTime"}
    for option, part in waits.items():
        write, read = seconds(ior, f"-w -r -g -t 8 -b 16 --dummy.delay-{option}=300000")
        times = 2 if option == "xfer" else 1
        assert write[part] >= 0.3 * times
        assert option == "create" or read[part] >= 0.3 * times


def test_only_rank_0_waits(ior: Ior) -> None:
    line = "-w -F -t 8 -b 8 --dummy.delay-xfer=1000000 --dummy.delay-only-rank0"
    ior.run(f"-a DUMMY {line} -O saveRankPerformanceDetailsCSV=ranks")
    rows = [row.split(",") for row in (ior.folder / "ranks").read_text().splitlines()[1:]]
    took = {row[1]: float(row[3]) for row in rows}
    assert took["0"] >= 1
    assert took["1"] < took["0"]


@pytest.mark.parametrize("check", ["-R", "-W"])
def test_there_is_nothing_to_check(ior: Ior, check: str) -> None:
    done = ior.run(f"-a DUMMY -w {check} -t 8 -b 8", ranks=1, status=2)
    assert "-a DUMMY moves nothing: -W and -R have nothing to check" in done.stderr
