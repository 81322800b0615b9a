"""tierctl profile: what it writes reads back as a device, is plausible, and leaves nothing in the tiers."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

TIERCTL = Path(os.environ["TB_BIN_DIR"]) / "tierctl"
CONFIG = """version: 1
max_files: 256
pfs: {{path: {root}/pfs{pfs}}}
fsync: tier
allow_volatile: true
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]{ram}}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]{nvme}}}
"""
PLACES = ("ram", "nvme", "pfs")


class Profile(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tierbench-profile-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        for place in ("pfs", "nvme"):
            (self.root / place).mkdir()
        self.config = self.root / "c.yaml"
        self.write_config()

    def write_config(self, **models: str) -> None:
        self.config.write_text(CONFIG.format(root=self.root, **{p: models.get(p, "") for p in PLACES}))

    def run_ctl(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([TIERCTL, *args], capture_output=True, text=True, timeout=100, cwd=self.root)

    def left(self) -> list[Path]:
        return [p for place in ("pfs", "nvme") for p in (self.root / place).iterdir()]

    def tables(self, text: str) -> dict[str, dict[str, list[list[float]]]]:
        """Place -> direction -> MiB/s[threads][size], from what was printed."""
        found: dict[str, dict[str, list[list[float]]]] = {}
        place = direction = ""
        for line in text.splitlines():
            words = line.split()
            if line and not line.startswith(" "):
                place = line.split(":")[0]
            elif "threads" in line:
                direction = words[0]
            elif line.startswith("  MiB/s"):
                found.setdefault(place, {}).setdefault(direction, []).append([float(w) for w in words[2:9]])
        return found

    def test_devices_read_back(self) -> None:
        done = self.run_ctl("profile", self.config, "-o", "out", "--seconds", "1.2")
        self.assertEqual(done.returncode, 0, done.stderr)
        for place in PLACES:
            self.assertIn(f"measuring {place}", done.stderr)
        self.assertEqual(
            sorted(p.name for p in (self.root / "out").iterdir()), sorted(f"{p}.yaml" for p in PLACES)
        )
        self.assertEqual(self.left(), [])
        self.write_config(**{p: f", model: out/{p}.yaml" for p in PLACES})
        plan = self.run_ctl("plan", self.config, "--json")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        said = json.loads(plan.stdout)
        models = {"pfs": said["pfs"]["model"]} | {t["name"]: t["model"] for t in said["tiers"]}
        tables = self.tables(done.stdout)
        for place in PLACES:
            model, table = models[place], tables[place]
            for direction in ("read", "write"):
                cells = table[direction]
                self.assertEqual([len(row) for row in cells], [7] * 4)
                self.assertTrue(all(0 < cell < 1e6 for row in cells for cell in row), table)
                best = max(max(row) for row in cells)
                self.assertAlmostEqual(model[f"{direction}_bandwidth"] / 2**20, best, delta=0.1)
                large = max(max(row[4:]) for row in cells)
                self.assertGreater(large, cells[0][0] / 4)  # all is memory here, and busy machines are noisy
                self.assertGreater(large, 100)
                self.assertLess(model[f"{direction}_latency"], 0.1)
            self.assertTrue(1 <= model["channels"] <= 8)
            times = [model[f"{name}_time"] for name in ("sync", "open", "metadata")]
            self.assertTrue(all((time == 0) if place == "ram" else (0 < time < 0.1) for time in times), times)
        text = (self.root / "out" / "nvme.yaml").read_text()
        for part in (
            "# Measured by tierctl profile on",
            time.strftime("%Y-"),
            f"{self.root}/nvme",
            "threads",
        ):
            self.assertIn(part, text)

    def wait_for(self, is_so: Callable[[], object]) -> bool:
        end = time.monotonic() + 30
        while not is_so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return True

    def test_an_interrupt_leaves_nothing(self) -> None:
        config = self.config.read_text().replace(
            "  - {name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: "
            "[{units: 16, share: 1.0}]}\n",
            "",
        )
        self.config.write_text(config)
        process = subprocess.Popen(
            [TIERCTL, "profile", self.config, "--seconds", "60"],
            cwd=self.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_for(self.left)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 130)
        self.assertEqual(self.left(), [])
        self.assertEqual(list((self.root / "c.profile").iterdir()), [])

    def test_bad_input_is_refused(self) -> None:
        good = self.config.read_text()
        for args, config, says in (
            (("--seconds", "0"), good, ("--seconds", "0", "allowed")),
            (("-o", "no/such"), good, ("no/such", "cannot make")),
            (
                (),
                good.replace(f"{self.root}/nvme", "/no/such"),
                (str(self.config), "tiers[1].path", "/no/such", "allowed"),
            ),
            (
                (),
                good.replace(f"{self.root}/pfs", "/no/such"),
                (str(self.config), "pfs.path", "/no/such", "allowed"),
            ),
        ):
            with self.subTest(says=says):
                self.config.write_text(config)
                done = self.run_ctl("profile", self.config, *args)
                self.assertEqual(done.returncode, 2, done.stderr)
                for text in says:
                    self.assertIn(text, done.stderr)
                self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()
