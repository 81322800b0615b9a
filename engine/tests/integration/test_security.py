"""The lines of docs/security.md that need an attacker: another user, who is made by changing the user number."""

import os
import re
import subprocess
import unittest
from pathlib import Path

from instances import BIN, Instances

NOBODY = 65534
ATTACKER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
HERE = Path(__file__).parent


def attacker_can_run() -> bool:
    """Root, and the programs lie where another user may run them."""
    return os.getuid() == 0 and subprocess.run(
        [*ATTACKER, BIN / "tierctl", "--help"], capture_output=True
    ).returncode in (0, 2)


@unittest.skipUnless(attacker_can_run(), "needs root, and programs that another user may run")
class Attacked(Instances):
    def setUp(self) -> None:
        super().setUp()
        (self.root / "nvme").chmod(0o1777)
        self.private = self.root / "pfs" / "private"
        self.private.mkdir(mode=0o700)
        if self.attack("test", "-w", self.root / "nvme").returncode:
            self.skipTest("the attacker does not reach TMPDIR")

    def attack(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*ATTACKER, *map(str, words)], capture_output=True, text=True, timeout=60)

    def crash(self) -> None:
        """A promised file, of which only the tier knows."""
        self.start()
        self.write_synced(self.program(), "promised")
        self.programs.pop().kill()
        self.kill_daemons()
        self.lose_region()

    def recovered(self) -> None:
        self.check(self.ctl("recover", "-c", self.config), 0)
        self.assertEqual(self.read(), "promised")


class Attacks(Attacked):
    def test_commands_reach_no_other_users_instance(self) -> None:
        self.start()
        self.write_synced(self.program(), "promised")
        for command in ("status", "drain", "stop"):
            self.check(self.ctl(command, "-i", self.name, before=ATTACKER), 2, "no such instance")
        self.check(self.ctl("recover", "-c", self.config, before=ATTACKER), 0, "0 instances recovered")
        self.assertEqual(self.programs[0].ask("read 99"), "b'promised'")
        self.check(self.ctl("stop", "-i", self.name), 0)
        self.assertEqual(self.read(), "promised")

    def test_files_are_closed_to_others(self) -> None:
        self.start()
        paths = [self.shm(), *(self.directory() / name for name in ("lease", "journal", "mark", "slab-1"))]
        for path in paths:
            self.assertTrue(path.exists(), path)
            for how in ("-r", "-w"):
                self.assertNotEqual(self.attack("test", how, path).returncode, 0, f"{path} {how}")
            self.assertNotEqual(self.attack("rm", "-f", path).returncode, 0)
            self.assertNotEqual(self.attack("mv", path, f"{path}.gone").returncode, 0)
        self.check(self.ctl("stop", "-i", self.name), 0)

    def test_planted_journals_are_left_alone(self) -> None:
        self.crash()
        self.directory().rename(self.root / "evidence")
        for plant in ("mkdir", "link"):
            with self.subTest(plant=plant):
                words = (
                    ("mkdir", self.directory())
                    if plant == "mkdir"
                    else ("ln", "-s", self.root / "evidence", self.directory())
                )
                self.assertEqual(self.attack(*words).returncode, 0)
                if plant == "mkdir":
                    self.attack("cp", "/etc/hostname", self.directory() / "journal")
                self.check(
                    self.ctl("recover", "-c", self.config),
                    0,
                    "not a directory of this user",
                    "0 instances recovered",
                )
                self.check(self.ctl("start", "-c", self.config, "-i", self.name), 2, "another user")
                self.assertEqual(self.read(), "")
                self.attack("rm", "-rf", self.directory())
        (self.root / "evidence").rename(self.directory())
        self.recovered()

    def test_the_log_goes_nowhere_else(self) -> None:
        runtime = self.root / "runtime"
        runtime.mkdir()
        runtime.chmod(0o1777)
        self.assertEqual(
            self.attack("ln", "-s", self.private, runtime / f"tierbench.{os.getuid()}").returncode, 0
        )
        done = self.ctl("start", "-c", self.config, "-i", self.name, env={"XDG_RUNTIME_DIR": str(runtime)})
        self.check(done, 0)
        self.assertEqual(list(self.private.iterdir()), [])
        self.check(self.ctl("stop", "-i", self.name), 0)

    def test_a_fifo_does_not_stop_a_recovery(self) -> None:
        self.crash()
        kept = self.file.with_name("kept")
        self.file.rename(kept)
        os.mkfifo(self.file)
        self.check(
            self.ctl("recover", "-c", self.config),
            3,
            str(self.file),
            "removed or replaced by another program",
        )
        lost = [p for p in (self.root / "nvme" / f"tierbench.lost.{os.getuid()}").rglob("*") if p.is_file()]
        self.assertEqual([p.read_text() for p in lost], ["promised"])
        self.assertEqual(kept.read_text(), "")

    def test_a_lease_of_random_bytes_is_harmless(self) -> None:
        for size in (1, 100, 5000):
            with self.subTest(size=size):
                self.crash()
                (self.directory() / "lease").write_bytes(os.urandom(size))
                self.check(self.ctl("start", "-c", self.config, "-i", self.name), 2, "tierctl recover")
                self.recovered()
                self.nothing_is_left()
                self.file.unlink()


class OpenTiers(Instances):
    """Who could rename an instance's directory."""

    def mode(self, mode: int, path: Path | None = None) -> None:
        (path or self.root / "nvme").chmod(mode)

    def test_a_tier_that_all_may_rename_in_is_refused(self) -> None:
        self.mode(0o777)
        for command in (("check", self.config), ("start", "-c", self.config, "-i", self.name)):
            self.check(
                self.ctl(*command),
                2,
                f"{self.config}: tiers[1].path: {self.root}/nvme: mode 0777",
                "chmod +t",
                "mkdir -m 700",
            )
        self.assertFalse(self.shm().exists())
        self.mode(0o1777)
        self.assertEqual(self.ctl("check", self.config).stderr, "")
        self.start()
        self.check(self.ctl("stop", "-i", self.name), 0)

    def test_who_else_could_take_a_tier_away_is_named(self) -> None:
        self.mode(0o770)
        self.check(
            self.ctl("check", self.config), 0, "warning", f"{self.root}/nvme: its group may write", ": ok"
        )
        self.mode(0o700)
        self.assertEqual(self.ctl("check", self.config).stderr, "")
        self.mode(0o777, self.root)
        self.check(self.ctl("check", self.config), 0, "warning", "in the directory above", ": ok")
        self.mode(0o755, self.root)
        if os.getuid() == 0:
            os.chown(self.root / "nvme", NOBODY, NOBODY)
            self.check(self.ctl("check", self.config), 0, "warning", "its owner is another user", ": ok")


class WaitingNames(Attacked):
    more = "namespace: deferred\n"

    def test_planted_names_that_wait_are_not_placed(self) -> None:
        self.start()
        hidden = self.root / "pfs" / f".tierbench.{os.getuid()}.{os.uname().nodename}.{self.name}"
        found = subprocess.run(
            ["stat", "-c", "%i %W", self.private], capture_output=True, text=True, check=True
        ).stdout.split()
        key = hidden / "planted"
        self.assertEqual(
            self.attack("mkdir", key).returncode, 0, "root's programs of other users could make none either"
        )
        self.attack("touch", key / "evil")
        self.attack("ln", "-s", self.private, f"{key}.of")
        born = self.born_ns(self.private)
        real = hidden / f"{int(found[0]):x}-{born:x}"
        self.attack("mkdir", real)
        self.attack("touch", real / "evil")
        self.attack("ln", "-s", self.private, f"{real}.of")
        self.assertTrue(Path(f"{real}.of").is_symlink())
        self.check(self.ctl("drain", "-i", self.name), 0)
        self.assertEqual(list(self.private.iterdir()), [])
        self.kill_daemons()
        self.check(self.ctl("recover", "-c", self.config), 0)
        self.assertEqual(list(self.private.iterdir()), [])

    def born_ns(self, path: Path) -> int:
        """The birth time, to the nanosecond."""
        said = subprocess.run(["stat", "-c", "%w", path], capture_output=True, text=True, check=True).stdout
        seconds = subprocess.run(
            ["stat", "-c", "%W", path], capture_output=True, text=True, check=True
        ).stdout
        fraction = re.search(r"\.(\d{9})", said)
        assert fraction
        return int(seconds) * 10**9 + int(fraction[1])


class Page(unittest.TestCase):
    def test_every_test_that_it_names_exists(self) -> None:
        page = (Path(os.environ["TB_SOURCE_DIR"]) / "docs" / "security.md").read_text()
        for module, name in re.findall(r"`(security|lease): (\w+)`", page):
            self.assertIn(f"def test_{name}(", (HERE / f"test_{module}.py").read_text())


if __name__ == "__main__":
    unittest.main()
