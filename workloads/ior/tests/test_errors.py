"""What fails says so, in its exit status too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from driver import LIMIT_S, MPIEXEC, Ior

WRONG_LINES = (
    "-y|-o @|-M 2000t|-O memoryPerTask=9223372036854775807|-O summaryFile=a,saveRankPerformanceDetailsCSV=a|"
    "-o a -O summaryFile=a|-o a -O stoneWallingStatusFile=a|-o a@b -u|"
    "-b|-b 0|-b 4q|-b 9999999t|-t 3k -b 8k|-t 12 -b 24|-t 0|-i 0|-D x|-G x|-a FILE|-C -Z|word|"
    "-z -C|-z -c -a MPIIO|-z -a MPIIO --mpiio.useFileView|-N 0|-N -2|-l x|-M 99%|-M %|"
    "-z -t 8 -b 8|-z -a HDF5|-a MMAP -Y -t 8|-y -F -u|--allocateBufferOnGPU|-O gpuDirect=1|"
    "--mpiio.useStridedDatatype|"
    "--randomPrefill=4k|-z --randomPrefill=5k|-O minTimeDuration=x|"
    "-f /nowhere|-t 2g -b 2g -a HDF5|-O nothing=1|-O summaryFile|-O summaryFormat=XML|"
    "-O summaryFile=/nowhere/x|-O stoneWallingWearOut=1|-O stoneWallingWearOut=2 -D 1|"
    "-O blockSize=x|-O -O=a|-O -=1|-O --=1|-O =1|-b 4kibi|-b 1.5k|-b 0x400|--blockSize|--nothing=1|"
    "-O checkRead=yes"
).split("|")


@pytest.mark.parametrize("api", ["POSIX", "MPIIO"])
def test_full_device(ior: Ior, api: str) -> None:
    done = ior.run(f"-o /dev/full -a {api} -w -t 4k -b 64k", status=3)
    assert "/dev/full: " in done.stderr
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("api", ["POSIX", "MPIIO", "MPIIO -c", "HDF5", "MMAP", "POSIX -O summaryFormat=CSV"])
def test_full_file_system(ior: Ior, api: str) -> None:
    small = ior.folder / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=256k tmpfs {small}"
    room = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if subprocess.run([*room, "true"], capture_output=True).returncode:
        pytest.skip("a file system can't be mounted here")
    command = [*room, MPIEXEC, "-n", "2", ior.program, *f"-a {api} -w -t 4k -b 512k -o {small}/data".split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 3, done.stderr
    assert f"tb-ior: {small}/data: " in done.stderr
    assert not re.search(r"(?m)^write", done.stdout)


def test_killed_rank(ior: Ior) -> None:
    command = [MPIEXEC, "-n", "2", ior.program, *f"-w -Y -t 4k -b 64g -o {ior.file}".split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        end = time.monotonic() + LIMIT_S
        while not ior.file.exists() and time.monotonic() < end:
            time.sleep(0.05)
        task = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        os.kill(int(task.read_text().split()[-1]), signal.SIGKILL)
        text = run.communicate(timeout=LIMIT_S)[0]
    assert run.returncode != 0
    assert b"Summary" not in text


@pytest.mark.parametrize("report", ["summaryFormat=JSON,summaryFile", "saveRankPerformanceDetailsCSV"])
def test_full_report(ior: Ior, report: str) -> None:
    done = ior.run(f"-w -t 4k -b 8k -O {report}=/dev/full", status=3)
    assert "tb-ior: /dev/full: " in done.stderr


def test_short_file(ior: Ior) -> None:
    ior.run("-w -k -F -t 4k -b 8k")
    ior.of_rank(1).write_bytes(b"x" * 5000)
    for api in ("POSIX", "MPIIO"):
        done = ior.run(f"-a {api} -r -k -F -t 4k -b 8k", status=3)
        assert "data.00000001: read at offset" in done.stderr


def test_missing(ior: Ior) -> None:
    ior.run("-r -t 4k -b 8k -a HDF5", ranks=1, status=3)
    ior.run(f"-o {ior.folder}/none/data -w -F -t 4k -b 8k", status=3)


def test_no_report_of_an_aborted_run(ior: Ior) -> None:
    report = ior.folder / "x.json"
    report.write_text("old")
    ior.run(f"-r -t 4k -b 8k -O summaryFormat=JSON,summaryFile={report}", ranks=1, status=3)
    assert ior.names() == []


def test_kept_with_error(ior: Ior) -> None:
    ior.run("-w -k -t 4k -b 8k -G 1", ranks=1)
    ior.run("-r -R -K -t 4k -b 8k -G 2", ranks=1, status=1)
    assert ior.names() == ["data"]
    ior.run("-r -R -K -t 4k -b 8k -G 1", ranks=1)
    assert ior.names() == []


@pytest.mark.parametrize("mode", ["", "-E", "-F", "-m"])
def test_files_that_are_overwritten_are_named(ior: Ior, mode: str) -> None:
    line = f"-w -k -i 2 -t 4k -b 8k {mode}"
    assert "WARNING" not in ior.run(line).stderr
    told = [text for text in ior.run(line).stderr.splitlines() if "will be overwritten" in text]
    last = {"-F": [".00000000", ".00000001"], "-m": [".0"]}.get(mode, [""])
    expected = [f'WARNING: The file "{ior.file}{end}" exists already and will be overwritten' for end in last]
    assert sorted(told) == expected


@pytest.mark.parametrize("line", WRONG_LINES)
def test_usage(ior: Ior, line: str) -> None:
    done = ior.run(line, ranks=1, status=2)
    own = [text for text in done.stderr.splitlines() if text.startswith("tb-ior: ")]
    assert (len(own), done.stdout) == (1, "")
    assert ior.names() == []


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_full_answer(ior: Ior, option: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([ior.program, option], stdout=full, timeout=LIMIT_S)
    assert done.returncode == 3


@pytest.mark.parametrize("place", ["no/status", "."])
def test_status_file_without_a_place(ior: Ior, place: str) -> None:
    """Found before anything is written, not after hours of it."""
    ior.run(f"-w -D 9 -t 8 -b 8 -O stoneWallingStatusFile={place}", status=3)
    assert ior.names() == []
