"""128 ranks of tb-ior, each with little memory, on a modelled PFS that has them wait."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from pathlib import Path

from driver import BIN, MPIEXEC, Ior

LIMIT_S, RANKS, TRANSFER, MOST_MIB = 150, 128, 64 << 10, 30
PFS_MIB_S, REPETITIONS = 16, 2


def configuration(ior: Ior) -> Path:
    """The PFS alone, slow enough that the model and not the processors sets the time."""
    (ior.folder / "pfs").mkdir()
    path = ior.folder / "pfs.yaml"
    rate = f"{PFS_MIB_S}MiB/s"
    model = f"{{name: slow, read_bandwidth: {rate}, write_bandwidth: {rate}}}"
    path.write_text(
        "version: 1\nmax_files: 1024\nmode: bypass\nfsync: pfs\n"
        f"pfs: {{path: {ior.folder}/pfs, model: {model}}}\n"
        "tiers:\n"
        "  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}\n"
    )
    return path


def peaks_mib(ior: Ior) -> list[float]:
    """The largest resident size of each rank that runs now, its own memory and libraries together."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end in between
            command = (process / "cmdline").read_bytes().split(b"\0")
            peak = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
            if command[0] == ior.program.encode() and str(ior.file).encode() in command and peak:
                found.append(int(peak.group(1)) / 1024)
    return found


def test_oversubscribed(ior: Ior) -> None:
    ior.file = ior.folder / "pfs" / "data"
    line = f"-w -r -R -F -C -t {TRANSFER} -b {2 * TRANSFER} -i {REPETITIONS}"
    report = ior.folder / "report.csv"
    line += f" -o {ior.file} -O summaryFormat=CSV,summaryFile={report}"
    command = [str(BIN / "tierctl"), "run", "-c", str(configuration(ior)), "--"]
    command += [MPIEXEC, "-n", str(RANKS), ior.program, *line.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        peaks: list[float] = []
        end = time.monotonic() + LIMIT_S
        while run.poll() is None and time.monotonic() < end:
            peaks += peaks_mib(ior)
            time.sleep(0.5)
        run.kill()
        _, errors = run.communicate()
    assert run.returncode == 0, errors
    rows = [row.split(",") for row in report.read_text().splitlines()[1:]]
    each = [(access, str(i)) for i in range(REPETITIONS) for access in ("write", "read")]
    assert [(row[0], row[11]) for row in rows] == each
    assert {row[10] for row in rows} == {str(RANKS)}
    modelled_s = 2 * TRANSFER * RANKS / (PFS_MIB_S << 20)
    assert min(float(row[9]) for row in rows) > 0.9 * modelled_s
    assert len(peaks) >= RANKS
    assert max(peaks) < MOST_MIB + TRANSFER / (1 << 20)
