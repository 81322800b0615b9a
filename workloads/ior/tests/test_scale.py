"""128 ranks of tb-ior on a modelled PFS."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from pathlib import Path

from case import MPIEXEC, PROGRAM, TIERCTL, Case, main


class Scale(Case):
    """Many more ranks than processors, each with little memory, on a modelled PFS that has them wait."""

    LIMIT_S, RANKS, TRANSFER, MOST_MIB = 150, 128, 64 << 10, 30
    PFS_MIB_S, REPETITIONS = 16, 2

    def configuration(self) -> Path:
        """The PFS alone, slow enough that the model and not the processors sets the time."""
        (self.folder / "pfs").mkdir()
        path = self.folder / "pfs.yaml"
        rate = f"{self.PFS_MIB_S}MiB/s"
        model = f"{{name: slow, read_bandwidth: {rate}, write_bandwidth: {rate}}}"
        path.write_text(
            "version: 1\nmax_files: 1024\nmode: bypass\nfsync: pfs\n"
            f"pfs: {{path: {self.folder}/pfs, model: {model}}}\n"
            "tiers:\n"
            "  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}\n"
        )
        return path

    def peaks_mib(self) -> list[float]:
        """The largest resident size of each rank that runs now, its own memory and libraries together."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it may end meanwhile
                command = (process / "cmdline").read_bytes().split(b"\0")
                peak = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
                if command[0] == PROGRAM.encode() and str(self.file).encode() in command and peak:
                    found.append(int(peak.group(1)) / 1024)
        return found

    def test_oversubscribed(self) -> None:
        self.file = self.folder / "pfs" / "data"
        line = f"-w -r -R -F -C -t {self.TRANSFER} -b {2 * self.TRANSFER} -i {self.REPETITIONS}"
        report = self.folder / "report.csv"
        line += f" -o {self.file} -O summaryFormat=CSV,summaryFile={report}"
        command = [TIERCTL, "run", "-c", str(self.configuration()), "--"]
        command += [MPIEXEC, "-n", str(self.RANKS), PROGRAM, *line.split()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            peaks: list[float] = []
            end = time.monotonic() + self.LIMIT_S
            while run.poll() is None and time.monotonic() < end:
                peaks += self.peaks_mib()
                time.sleep(0.5)
            run.kill()
            _, errors = run.communicate()
        self.assertEqual(run.returncode, 0, errors)
        rows = [row.split(",") for row in report.read_text().splitlines()[1:]]
        each = [(access, str(i)) for i in range(self.REPETITIONS) for access in ("write", "read")]
        self.assertEqual([(row[0], row[11]) for row in rows], each)
        self.assertEqual({row[10] for row in rows}, {str(self.RANKS)})
        modelled_s = 2 * self.TRANSFER * self.RANKS / (self.PFS_MIB_S << 20)
        self.assertGreater(min(float(row[9]) for row in rows), 0.9 * modelled_s)
        self.assertGreaterEqual(len(peaks), self.RANKS)
        self.assertLess(max(peaks), self.MOST_MIB + self.TRANSFER / (1 << 20))


if __name__ == "__main__":
    main()
