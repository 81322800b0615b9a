"""The lines of docs/security.md that need an attacker: another user, which a change of the user number makes."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from instances import BIN, SOURCE, Instance

NOBODY = 65534
ATTACKER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
HERE = Path(__file__).parent


def attacker_can_run() -> bool:
    """Root, and the programs are where another user may run them."""
    return os.getuid() == 0 and subprocess.run(
        [*ATTACKER, BIN / "tierctl", "--help"], capture_output=True
    ).returncode in (0, 2)


class Attacked(Instance):
    """Its tier is open to others, and a directory on the PFS is not."""

    def __enter__(self) -> Self:
        super().__enter__()
        (self.root / "nvme").chmod(0o1777)
        self.private = self.root / "pfs" / "private"
        self.private.mkdir(mode=0o700)
        return self

    def attack(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*ATTACKER, *map(str, words)], capture_output=True, text=True, timeout=60)

    def lose(self) -> None:
        """A promised file, of which only the tier knows."""
        self.crash("promised")
        self.lose_region()

    def recovered(self) -> None:
        self.recover(0)
        assert self.read() == "promised"


@pytest.fixture
def attacked(configured: dict[str, Any]) -> Iterator[Attacked]:
    if not attacker_can_run():
        pytest.skip("needs root, and programs that another user may run")
    with Attacked(**configured) as made:
        if made.attack("test", "-w", made.root / "nvme").returncode:
            pytest.skip("the attacker does not reach TMPDIR")
        yield made


class TestAttacks:
    def test_links_beside_what_is_written_are_not_followed(self, attacked: Attacked) -> None:
        """A name that could be foreseen would let them choose which of the user's files is written over."""
        out, theirs = attacked.root / "out", attacked.private / "kept"
        theirs.write_text("kept")
        out.mkdir()
        out.chmod(0o1777)
        for name in ("t.darshan", "t.storage.darshan", "stats.json", "nvme.yaml", "pfs.yaml", "ram.yaml"):
            assert attacked.attack("ln", "-s", theirs, out / f"{name}.part").returncode == 0
        writes = ("--trace", out / "t.darshan", "--stats", out / "stats.json")
        done = attacked.ctl("run", "-c", attacked.config, *writes, "--", "touch", attacked.root / "pfs" / "f")
        attacked.check(done, 0)
        attacked.check(attacked.ctl("profile", attacked.config, "-o", out, "--seconds", "0.1"), 0)
        assert theirs.read_text() == "kept"
        assert all((out / name).stat().st_size > 0 for name in ("t.darshan", "stats.json", "nvme.yaml"))

    def test_commands_reach_no_other_users_instance(self, attacked: Attacked) -> None:
        attacked.start()
        attacked.write_synced(attacked.program(), "promised")
        for command in ("status", "drain", "stop"):
            attacked.check(attacked.ctl(command, "-i", attacked.name, before=ATTACKER), 1, "no such instance")
        attacked.check(
            attacked.ctl("recover", "-c", attacked.config, before=ATTACKER), 0, "0 instances recovered"
        )
        assert attacked.programs[0].ask("read 99") == "b'promised'"
        attacked.stop()
        assert attacked.read() == "promised"

    def test_files_are_closed_to_others(self, attacked: Attacked) -> None:
        attacked.start()
        paths = [
            attacked.shm(),
            *(attacked.directory() / name for name in ("lease", "journal", "mark", "slab-1")),
        ]
        for path in paths:
            assert path.exists(), path
            for how in ("-r", "-w"):
                assert attacked.attack("test", how, path).returncode != 0, f"{path} {how}"
            assert attacked.attack("rm", "-f", path).returncode != 0
            assert attacked.attack("mv", path, f"{path}.gone").returncode != 0
        attacked.stop()

    def test_planted_journals_are_left_alone(self, attacked: Attacked) -> None:
        attacked.lose()
        attacked.directory().rename(attacked.root / "evidence")
        for plant in ("mkdir", "link"):
            words = (
                ("mkdir", attacked.directory())
                if plant == "mkdir"
                else ("ln", "-s", attacked.root / "evidence", attacked.directory())
            )
            assert attacked.attack(*words).returncode == 0
            if plant == "mkdir":
                attacked.attack("cp", "/etc/hostname", attacked.directory() / "journal")
            attacked.recover(
                0,
                "not a directory of this user",
                "0 instances recovered",
            )
            attacked.refuse_start("another user")
            assert attacked.read() == ""
            attacked.attack("rm", "-rf", attacked.directory())
        (attacked.root / "evidence").rename(attacked.directory())
        attacked.recovered()

    def test_the_log_goes_nowhere_else(self, attacked: Attacked) -> None:
        runtime = attacked.root / "runtime"
        runtime.mkdir()
        runtime.chmod(0o1777)
        assert (
            attacked.attack("ln", "-s", attacked.private, runtime / f"tierbench.{os.getuid()}").returncode
            == 0
        )
        done = attacked.ctl(
            "start", "-c", attacked.config, "-i", attacked.name, env={"XDG_RUNTIME_DIR": str(runtime)}
        )
        attacked.check(done, 0)
        assert list(attacked.private.iterdir()) == []
        attacked.stop()

    def test_a_fifo_does_not_stop_a_recovery(self, attacked: Attacked) -> None:
        attacked.lose()
        kept = attacked.file.with_name("kept")
        attacked.file.rename(kept)
        os.mkfifo(attacked.file)
        attacked.recover(
            3,
            str(attacked.file),
            "removed or replaced by another program",
        )
        lost = [
            p for p in (attacked.root / "nvme" / f"tierbench.lost.{os.getuid()}").rglob("*") if p.is_file()
        ]
        assert [p.read_text() for p in lost] == ["promised"]
        assert kept.read_text() == ""

    @pytest.mark.parametrize("size", [1, 100, 5000])
    def test_a_lease_of_random_bytes_is_harmless(self, attacked: Attacked, size: int) -> None:
        attacked.lose()
        (attacked.directory() / "lease").write_bytes(os.urandom(size))
        attacked.refuse_start("tierctl recover")
        attacked.recovered()
        attacked.nothing_is_left()
        attacked.file.unlink()


class TestOpenTiers:
    """Users who could rename an instance's directory."""

    def test_a_tier_that_all_may_rename_in_is_refused(self, instance: Instance) -> None:
        (instance.root / "nvme").chmod(0o777)
        for command in (("check", instance.config), ("start", "-c", instance.config, "-i", instance.name)):
            instance.check(
                instance.ctl(*command),
                2,
                f"{instance.config}: tiers[1].path: {instance.root}/nvme: mode 0777",
                "chmod +t",
                "mkdir -m 700",
            )
        assert not instance.shm().exists()
        (instance.root / "nvme").chmod(0o1777)
        assert instance.ctl("check", instance.config).stderr == ""
        instance.start()
        instance.stop()

    def test_who_else_could_take_a_tier_away_is_named(self, instance: Instance) -> None:
        (instance.root / "nvme").chmod(0o770)
        instance.check(
            instance.ctl("check", instance.config),
            0,
            "warning",
            f"{instance.root}/nvme: its group may write",
            ": ok",
        )
        (instance.root / "nvme").chmod(0o700)
        assert instance.ctl("check", instance.config).stderr == ""
        instance.root.chmod(0o777)
        instance.check(instance.ctl("check", instance.config), 0, "warning", "in the directory above", ": ok")
        instance.root.chmod(0o755)
        if os.getuid() == 0:
            os.chown(instance.root / "nvme", NOBODY, NOBODY)
            instance.check(
                instance.ctl("check", instance.config), 0, "warning", "its owner is another user", ": ok"
            )


@pytest.mark.config(more="namespace: deferred\n")
class TestWaitingNames:
    def test_planted_names_that_wait_are_not_placed(self, attacked: Attacked) -> None:
        attacked.start()
        hidden = attacked.root / "pfs" / f".tierbench.{os.getuid()}.{os.uname().nodename}.{attacked.name}"
        found = subprocess.run(
            ["stat", "-c", "%i %W", attacked.private], capture_output=True, text=True, check=True
        ).stdout.split()
        key = hidden / "planted"
        assert attacked.attack("mkdir", key).returncode == 0, (
            "root's programs of other users could make none either"
        )
        attacked.attack("touch", key / "evil")
        attacked.attack("ln", "-s", attacked.private, f"{key}.of")
        born = self.born_ns(attacked.private)
        real = hidden / f"{int(found[0]):x}-{born:x}"
        attacked.attack("mkdir", real)
        attacked.attack("touch", real / "evil")
        attacked.attack("ln", "-s", attacked.private, f"{real}.of")
        assert Path(f"{real}.of").is_symlink()
        attacked.check(attacked.ctl("drain", "-i", attacked.name), 0)
        assert list(attacked.private.iterdir()) == []
        attacked.kill_daemons()
        attacked.recover(0)
        assert list(attacked.private.iterdir()) == []

    def born_ns(self, path: Path) -> int:
        """The birth time, to the nanosecond."""
        said = subprocess.run(["stat", "-c", "%w", path], capture_output=True, text=True, check=True).stdout
        seconds = subprocess.run(
            ["stat", "-c", "%W", path], capture_output=True, text=True, check=True
        ).stdout
        fraction = re.search(r"\.(\d{9})", said)
        assert fraction
        return int(seconds) * 10**9 + int(fraction[1])


def test_every_test_that_the_page_names_exists() -> None:
    page = (SOURCE / "docs" / "security.md").read_text()
    for module, name in re.findall(r"`(security|lease): (\w+)`", page):
        assert f"def test_{name}(" in (HERE / f"test_{module}.py").read_text()
