"""tb-ior's deadline, wear-out and status files."""

from __future__ import annotations

import json
import re
from pathlib import Path

from case import DATA, Case, keys, main


class Stonewall(Case):
    """A deadline ends the write, and what was written is read back."""

    def test_wear_out(self) -> None:
        path = self.folder / "summary.json"
        self.run_ior(
            "-w -r -R -F -C -t 4k -b 64g -Y -D 1 -O stoneWallingWearOut=1,summaryFormat=JSON,"
            f"summaryFile={path},stoneWallingStatusFile={self.folder}/status -k"
        )
        ours, sample = json.loads(path.read_text()), json.loads((DATA / "stonewall-wearout.json").read_text())
        self.assertEqual(keys(ours["summary"][0]), keys(sample["summary"][0]))
        count = (self.folder / "status").read_text()
        sizes = [Path(f"{self.file}.{i:08d}").stat().st_size for i in range(2)]
        self.assertEqual((sizes, count), ([int(count) * 4096] * 2, count.strip()))  # as IOR writes it
        write, read = (row["xsizeMiB"] for row in ours["summary"])
        self.assertAlmostEqual(write, sum(sizes) / (1 << 20), places=3)
        self.assertLessEqual(read, write)  # the deadline ends the read too
        line = f"-r -F -t 4k -b 64g -O summaryFormat=JSON,summaryFile={path}"
        self.run_ior(f"{line},stoneWallingStatusFile={self.folder}/status")
        again = json.loads(path.read_text())["summary"][0]["xsizeMiB"]
        self.assertAlmostEqual(again, sum(sizes) / (1 << 20), places=3)

    def test_status_without_wear_out(self) -> None:
        """The least count for IOR, then each rank's where they differ; a read goes as far as those."""
        status = self.folder / "status"
        line = f"-F -k -t 4k -b 64g -O stoneWallingStatusFile={status}"
        self.run_ior(f"-w -Y -D 1 -G 5 {line}")
        least, *counts = (int(n) for n in status.read_text().split())
        sizes = [Path(f"{self.file}.{i:08d}").stat().st_size for i in range(2)]
        self.assertEqual([n * 4096 for n in counts or [least] * 2], sizes)
        for text in (status.read_text(), str(least)):
            status.write_text(text)
            rows = self.run_ior(f"-r -R -G 5 {line},summaryFormat=CSV").stdout.splitlines()
            moved = float(rows[1].split(",")[1]) * float(rows[1].split(",")[9])
            all_of = sum(sizes) if text.split()[1:] else 2 * least * 4096
            self.assertAlmostEqual(moved * (1 << 20) / all_of, 1, delta=0.01)
        for text in ("", "x", "-1", "1 2", "1 2 3 4", "99999999999"):
            status.write_text(text)
            done = self.run_ior(f"-r {line}", status=3)
            self.assertIn(f"{status}: read: not the transfers", done.stderr, text)

    def test_ranks_are_told(self) -> None:
        done = self.run_ior("-w -v -F -t 4k -b 64g -Y -D 1 -O stoneWallingWearOut=1")
        told = [int(n) for n in re.findall(r"(?m)^[01]: stonewalling pairs accessed: (\d+)$", done.stdout)]
        line = re.search(r"(?m)^stonewalling pairs accessed min: (\d+) max: (\d+)", done.stdout)
        assert line
        self.assertEqual([min(told), max(told), len(told)], [int(line[1]), int(line[2]), 2])

    def test_least_time(self) -> None:
        """Too little data for the time is written again from its beginning, then read as one pass of it."""
        for mode in ("-F", "-D 1", "-a MPIIO -c"):
            done = self.run_ior(f"-w -r -R {mode} -t 4k -b 64k -O minTimeDuration=2,summaryFormat=CSV")
            rows = [row.split(",") for row in done.stdout.splitlines()[1:]]
            self.assertEqual([row[0] for row in rows], ["write", "read"])
            for row in rows:
                self.assertGreaterEqual(float(row[7]), 2, mode)
                self.assertGreater(float(row[1]) * float(row[9]), 1, mode)  # MiB that were moved

    def test_file_of_another_size(self) -> None:
        self.run_ior("-w -k -t 8 -b 32", ranks=1)
        done = self.run_ior("-w -k -E -t 8 -b 16", ranks=1)
        self.assertIn('data" exists already and will be overwritten', done.stderr)
        self.assertIn("WARNING: Stat() of aggregate file size      = 32", done.stderr)

    def test_without_wear_out(self) -> None:
        for mode in ("-F -Y", "-a MPIIO -c", "-a MPIIO -Y"):
            done = self.run_ior(f"-w -r -R -C -t 4k -b 16g -D 1 {mode}")
            self.assertIn("WARNING: Using actual aggregate bytes moved", done.stderr)
            self.assertNotIn("WARNING", done.stdout)


if __name__ == "__main__":
    main()
