"""What fails says so, in its exit status too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from case import LIMIT_S, MPIEXEC, PROGRAM, Case, main

WRONG_LINES = (
    "-y|-b|-b 0|-b 4q|-b 9999999t|-t 3k -b 8k|-t 12 -b 24|-t 0|-i 0|-D x|-G x|-a FILE|-C -Z|word|"
    "-z -C|-z -c -a MPIIO|-z -a MPIIO --mpiio.useFileView|-N 3|-l x|-M 99%|-M %|"
    "-z -t 8 -b 8|-z -a HDF5|-a MMAP -Y -t 8|-y -F -u|--allocateBufferOnGPU|-O gpuDirect=1|"
    "--mpiio.useStridedDatatype|"
    "--randomPrefill=4k|-z --randomPrefill=5k|-O minTimeDuration=x|"
    "-f /nowhere|-t 2g -b 2g -a HDF5|-O nothing=1|-O summaryFile|-O summaryFormat=XML|"
    "-O summaryFile=/nowhere/x|-O stoneWallingWearOut=1|-O stoneWallingWearOut=2 -D 1|"
    "-O blockSize=x|-b 4kibi|-b 1.5k|-b 0x400|--blockSize|--nothing=1|-O checkRead=yes"
).split("|")


class Errors(Case):
    """No error passes as success, none hangs, and a wrong command line touches nothing."""

    def test_full_device(self) -> None:
        for api in ("POSIX", "MPIIO"):
            done = self.run_ior(f"-a {api} -w -t 4k -b 64k", status=3, file="/dev/full")
            self.assertIn("/dev/full: ", done.stderr)
        self.assertTrue(Path("/dev/full").is_char_device())

    def test_full_file_system(self) -> None:
        small = self.folder / "small"
        small.mkdir()
        mount = f"mount -t tmpfs -o size=256k tmpfs {small}"
        room = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"]
        if subprocess.run([*room, "true"], capture_output=True).returncode:
            self.skipTest("a file system can't be mounted here")
        for api in ("POSIX", "MPIIO", "MPIIO -c", "HDF5", "MMAP", "POSIX -O summaryFormat=CSV"):
            line = f"-a {api} -w -t 4k -b 512k -o {small}/data"
            command = [*room, MPIEXEC, "-n", "2", PROGRAM, *line.split()]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 3, f"{api}\n{done.stderr}")
            self.assertRegex(done.stderr, f"tb-ior: {small}/data: ")
            self.assertNotRegex(done.stdout, r"(?m)^write")

    def test_killed_rank(self) -> None:
        command = [MPIEXEC, "-n", "2", PROGRAM, *f"-w -Y -t 4k -b 64g -o {self.file}".split()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            end = time.monotonic() + LIMIT_S
            while not self.file.exists() and time.monotonic() < end:
                time.sleep(0.05)
            task = Path(f"/proc/{run.pid}/task/{run.pid}/children")
            os.kill(int(task.read_text().split()[-1]), signal.SIGKILL)
            text = run.communicate(timeout=LIMIT_S)[0]
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn(b"Summary", text)

    def test_full_report(self) -> None:
        done = self.run_ior("-w -t 4k -b 8k -O summaryFile=/dev/full,summaryFormat=JSON", status=3)
        self.assertIn("/dev/full", done.stderr)

    def test_short_file(self) -> None:
        self.run_ior("-w -k -F -t 4k -b 8k")
        Path(f"{self.file}.00000001").write_bytes(b"x" * 5000)
        for api in ("POSIX", "MPIIO"):
            done = self.run_ior(f"-a {api} -r -k -F -t 4k -b 8k", status=3)
            self.assertIn("data.00000001: read at offset", done.stderr)

    def test_missing(self) -> None:
        self.run_ior("-r -t 4k -b 8k -a HDF5", ranks=1, status=3)
        self.run_ior("-w -F -t 4k -b 8k", status=3, file=f"{self.folder}/none/data")

    def test_no_report_of_an_aborted_run(self) -> None:
        report = self.folder / "x.json"
        report.write_text("old")
        self.run_ior(f"-r -t 4k -b 8k -O summaryFormat=JSON,summaryFile={report}", ranks=1, status=3)
        self.assertEqual(self.names(), [])

    def test_kept_with_error(self) -> None:
        self.run_ior("-w -k -t 4k -b 8k -G 1", ranks=1)
        self.run_ior("-r -R -K -t 4k -b 8k -G 2", ranks=1, status=1)
        self.assertEqual(self.names(), ["data"])
        self.run_ior("-r -R -K -t 4k -b 8k -G 1", ranks=1)
        self.assertEqual(self.names(), [])

    def test_usage(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            runs = pool.map(lambda line: self.run_ior(line, ranks=1, status=2), WRONG_LINES)
            for line, done in zip(WRONG_LINES, runs, strict=True):
                own = [text for text in done.stderr.splitlines() if text.startswith("tb-ior: ")]
                self.assertEqual((len(own), done.stdout), (1, ""), line)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    main()
