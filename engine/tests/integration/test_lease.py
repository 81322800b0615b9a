"""Who uses an instance is told by its lease: nobody starts over it, recovers it or removes it while somebody does."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from instances import BIN, PRELOAD, Instances, can_unshare, hold_lease, in_own_shm, run_in_own_shm, state_of


class Start(Instances):
    def lose_all_but_the_tier(self) -> None:
        self.start()
        self.write_synced(self.program(), "promised")
        self.programs[-1].kill()
        self.kill_daemons()
        self.lose_region()

    def test_of_a_name_with_an_unrecovered_journal(self) -> None:
        self.lose_all_but_the_tier()
        before = {p.name: p.stat().st_size for p in self.directory().iterdir()}
        again = self.ctl("start", "-c", self.config, "-i", self.name)
        self.check(again, 2, f"tierctl recover -c {self.config}", self.name)
        self.assertEqual(again.stderr.count("\n"), 1)
        self.assertEqual({p.name: p.stat().st_size for p in self.directory().iterdir()}, before)
        self.assertFalse(self.shm().exists())
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.assertEqual(self.read(), "promised")
        self.start()
        self.check(self.ctl("stop", "-i", self.name), 0)
        self.nothing_is_left()

    def test_its_advice_names_the_mode(self) -> None:
        self.start("--mode", "persistent-async")
        self.kill_daemons()
        self.lose_region()
        self.config.write_text(self.config.read_text().replace("pfs:", "mode: persistent-sync\npfs:"))
        again = self.ctl("start", "-c", self.config, "-i", self.name)
        self.check(again, 2, f"tierctl recover -c {self.config} --mode persistent-async")
        self.check(
            self.ctl("recover", "-c", self.config, "--mode", "persistent-async"), 0, "1 instance recovered"
        )
        self.nothing_is_left()

    def test_over_what_was_never_ready_or_is_void(self) -> None:
        for state in ("making", "void  "):
            with self.subTest(state=state):
                self.lose_all_but_the_tier()
                with (self.directory() / "lease").open("r+b") as lease:
                    text = lease.read()
                    lease.seek(text.index(b"living"))
                    lease.write(state.encode())
                self.start()
                self.check(self.ctl("stop", "-i", self.name), 0)
                self.nothing_is_left()

    def test_of_a_directory_that_is_in_the_way(self) -> None:
        self.directory("bb").mkdir()
        (self.directory("bb") / "kept").write_text("kept")
        self.tiers = ("ram", "nvme", "bb")
        self.config = self.write_config(self.name)
        self.check(self.ctl("start", "-c", self.config, "-i", self.name), 2, self.name)
        self.assertEqual((self.directory("bb") / "kept").read_text(), "kept")
        self.assertFalse(self.directory().exists())
        self.assertFalse(self.shm().exists())


class Recover(Instances):
    def test_leaves_alone_what_programs_use(self) -> None:
        self.start()
        program = self.program()
        self.write_synced(program, "before")
        self.kill_daemons()
        done = self.ctl("recover", "-c", self.config)
        self.check(
            done,
            3,
            f"instance {self.name}",
            "its daemon is dead",
            f"process {program.process.pid} (",
            "left alone",
        )
        self.write_synced(program, " after", at=6)
        self.assertEqual(program.ask("read 99"), "b'before after'")
        program.kill()
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.assertEqual(self.read(), "before after")
        self.nothing_is_left()

    def test_with_nothing_dirty_it_is_no_failure(self) -> None:
        self.start()
        program = self.program()
        self.kill_daemons()
        self.check(
            self.ctl("recover", "-c", self.config),
            0,
            f"process {program.process.pid} (",
            "0 instances recovered",
        )
        program.kill()
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.nothing_is_left()

    @unittest.skipUnless(can_unshare("-m"), "no mount namespaces here")
    def test_from_another_mount_namespace(self) -> None:
        self.start()
        program = self.program()
        self.write_synced(program, "before")
        done = self.ctl("recover", "-c", self.config, before=in_own_shm())
        self.check(done, 0, f"instance {self.name}: lives", "left alone", "0 instances recovered")
        self.check(
            self.ctl("start", "-c", self.config, "-i", self.name, before=in_own_shm()), 2, "already there"
        )
        self.write_synced(program, " after", at=6)
        self.kill_daemons()
        done = self.ctl("recover", "-c", self.config, before=in_own_shm())
        self.check(done, 3, "its daemon is dead", f"process {program.process.pid} (")
        self.write_synced(program, " all", at=12)
        program.kill()
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.assertEqual(self.read(), "before after all")
        self.nothing_is_left()

    def test_is_alone(self) -> None:
        self.start()
        self.write_synced(self.program(), "promised")
        self.programs[-1].kill()
        self.kill_daemons()
        with hold_lease(self.directory() / "lease"):
            for command in (
                ("status", "-i", self.name),
                ("drain", "-i", self.name),
                ("stop", "-i", self.name),
            ):
                self.check(self.ctl(*command), 2, "it is being recovered by", f"process {os.getpid()} (")
            self.check(self.ctl("recover", "-c", self.config), 3, f"process {os.getpid()} (")
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.assertEqual(self.read(), "promised")

    def test_a_program_waits_for_it(self) -> None:
        self.start()
        self.write_synced(self.program(), "promised")
        self.programs[-1].kill()
        self.kill_daemons()
        held = hold_lease(self.directory() / "lease")
        threading.Timer(0.5, held.close).start()
        began = time.monotonic()
        self.assertEqual(self.program().ask("read 99"), "b'promised'")
        self.assertGreater(time.monotonic() - began, 0.45)

    def test_without_a_lease_nobody_knows(self) -> None:
        self.start()
        self.write_synced(self.program(), "promised")
        self.programs[-1].kill()
        self.kill_daemons()
        self.lose_region()
        lease = self.directory() / "lease"
        lease.unlink()
        self.check(self.ctl("recover", "-c", self.config), 3, str(lease), "not known")
        lease.touch()
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.assertEqual(self.read(), "promised")
        self.nothing_is_left()

    @unittest.skipUnless(os.getuid() == 0, "needs root to make another user's files")
    def test_never_replays_what_another_user_planted(self) -> None:
        self.start()
        self.write_synced(self.program(), "planted")
        self.programs[-1].kill()
        self.kill_daemons()
        self.lose_region()
        self.file.write_text("victim!")
        for path in (*self.directory().iterdir(), self.directory()):
            os.chown(path, 65534, 65534)
        (self.root / "nvme").chmod(0o1777)
        self.check(
            self.ctl("recover", "-c", self.config), 0, "not a directory of this user", "0 instances recovered"
        )
        self.assertEqual(self.read(), "victim!")
        elsewhere = self.root / "elsewhere"
        shutil.move(self.directory(), elsewhere)
        for path in (elsewhere, *elsewhere.iterdir()):
            os.chown(path, 0, 0)
        self.directory().symlink_to(elsewhere)
        self.check(
            self.ctl("recover", "-c", self.config), 0, "not a directory of this user", "0 instances recovered"
        )
        self.assertEqual(self.read(), "victim!")
        self.check(self.ctl("start", "-c", self.config, "-i", self.name), 2)
        self.assertTrue((elsewhere / "journal").exists())


UNSHARES = """
import ctypes, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b"parent ")
if ctypes.CDLL(None).unshare(0x20000000):
    sys.exit(77)
pid = os.fork()
if pid == 0:
    os.write(fd, b"child ")
    if sys.argv[2] == "opens":
        os.open(sys.argv[1], os.O_RDONLY)
    if sys.argv[2] == "executes":
        os.execl("/bin/cat", "cat", sys.argv[1])
    os._exit(5)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert os.pread(fd, 99, 0) == b"parent child ", os.pread(fd, 99, 0)
os.write(fd, b"parent")
os._exit(status)
"""


@unittest.skipUnless(can_unshare("-p", "-f"), "no PID namespaces here")
@unittest.skipUnless(
    "TB_OWN_SHM" in os.environ, "no mount namespaces here, and gc would clear what others left"
)
class TierGone(Instances):
    """A job's epilog removed the directory of a tier, with the lease, and left the region."""

    def begin(self) -> None:
        self.start()
        self.write_synced(self.program(), "promised")

    def remove_tier(self) -> None:
        self.kill_daemons()
        shutil.rmtree(self.directory())

    def test_gc_clears_what_is_on_the_pfs(self) -> None:
        for whole in (False, True):
            with self.subTest(whole=whole):
                (self.root / "nvme").mkdir(exist_ok=True)
                self.begin()
                self.programs.pop().kill()
                self.check(self.ctl("drain", "-i", self.name), 0)
                self.remove_tier()
                if whole:
                    (self.root / "nvme").rmdir()
                trace = Path(f"{self.shm()}.trace")
                trace.mkdir()
                (trace / "job").touch()
                self.check(self.ctl("gc"), 0, "1 instance cleared")
                self.assertFalse(self.shm().exists())
                self.assertFalse(trace.exists())
                self.assertEqual(self.read(), "promised")

    def test_gc_leaves_a_trace_of_which_logs_are_being_made(self) -> None:
        self.begin()
        self.programs.pop().kill()
        self.check(self.ctl("drain", "-i", self.name), 0)
        self.remove_tier()
        trace = Path(f"{self.shm()}.trace")
        trace.mkdir()
        (trace / "job").touch()
        with hold_lease(trace / "job"):
            self.check(self.ctl("gc"), 0, "1 instance cleared")
        self.assertTrue((trace / "job").exists())

    def test_gc_names_each_once_that_it_keeps(self) -> None:
        names = [self.name, f"{self.name}-b", f"{self.name}-c"]
        for self.name in names:
            self.begin()
            self.programs.pop().kill()
        self.kill_daemons(len(names))
        for self.name in names:
            shutil.rmtree(self.directory())
        done = self.ctl("gc")
        self.check(done, 3, "0 instances cleared")
        self.assertEqual(len(done.stderr.splitlines()), len(names), done.stderr)
        for self.name in names:
            command = f"tierctl stop -i {self.name} --force"
            self.assertIn(
                f"8 bytes are not on the PFS; no process uses it: bring that back and try again, or give them up: {command}\n",
                done.stderr,
            )
            self.check(self.ctl("stop", "-i", self.name), 2, "directories are gone")
            self.check(self.ctl(*command.split()[1:]), 0)
            self.assertFalse(self.shm().exists())

    def test_nothing_is_cleared_under_a_program(self) -> None:
        self.begin()
        self.check(self.ctl("drain", "-i", self.name), 0)
        self.remove_tier()
        program = self.programs[0]
        self.check(
            self.ctl("gc"), 3, f"process {program.process.pid} (", "still uses it", "0 instances cleared"
        )
        self.check(self.ctl("stop", "-i", self.name, "--force"), 2, "directories are gone")
        self.assertEqual(program.ask("read 99"), "b'promised'")
        program.kill()
        self.check(self.ctl("gc"), 0, "1 instance cleared")
        self.assertFalse(self.shm().exists())

    def test_one_that_comes_back_is_recovered(self) -> None:
        self.begin()
        self.programs.pop().kill()
        self.kill_daemons()
        self.directory().rename(self.root / "away")
        self.check(self.ctl("gc"), 3, "bring that back")
        (self.root / "away").rename(self.directory())
        self.check(self.ctl("gc"), 0, "1 instance cleared")
        self.assertEqual(self.read(), "promised")
        self.nothing_is_left()


class Stop(Instances):
    """One that is killed, or stopped itself, while it flushes."""

    def begin(self) -> None:
        self.start()
        self.assertEqual(self.program().ask("write 0 first"), "5")
        self.programs.pop().kill()

    def fault(self, sig: signal.Signals) -> dict[str, str]:
        return {"TB_FAULT": f"op=fsync,signal={int(sig)},path={self.root}/pfs"}

    def test_one_that_was_killed_in_its_drain_keeps_nobody_out(self) -> None:
        self.begin()
        self.check(self.ctl("stop", "-i", self.name, env=self.fault(signal.SIGKILL)), -signal.SIGKILL)
        program = self.program()
        self.assertEqual(self.status()["clients"], 1)
        self.write_synced(program, "second", at=5)
        program.kill()
        self.check(self.ctl("stop", "-i", self.name), 0)
        self.assertEqual(self.read(), "firstsecond")
        self.nothing_is_left()

    def test_one_that_goes_on_keeps_programs_out(self) -> None:
        self.begin()
        stop = subprocess.Popen(
            [BIN / "tierctl", "stop", "-i", self.name],
            env=os.environ | self.fault(signal.SIGSTOP),
            start_new_session=True,
        )
        self.addCleanup(stop.kill)
        until = time.monotonic() + 20
        while "State:\tT" not in state_of(stop.pid):
            self.assertLess(time.monotonic(), until, "it does not stop")
            time.sleep(0.01)
        self.check(self.run_under("cat", self.file), 0, "no such instance runs")
        stop.send_signal(signal.SIGCONT)
        self.assertEqual(stop.wait(timeout=30), 0)
        self.nothing_is_left()


class StopOfMemory(Stop):
    """Without a directory tier: the region is the lease."""

    tiers = ("ram",)
    fsync = "pfs"


class PidNamespace(Instances):
    """Process numbers and the owners of locks mean nothing in another one: refused before the first byte."""

    def test_a_program_in_another_one_ends(self) -> None:
        self.start()
        self.write_synced(self.program(), "buffered")
        done = self.run_under("cat", self.file, before=("unshare", "-p", "-f"))
        self.check(done, 2, f"instance {self.name} cannot be used", "PID namespace", "ends")
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1)
        for command in ("status", "drain", "stop"):
            self.check(self.ctl(command, "-i", self.name, before=("unshare", "-p", "-f")), 2, "PID namespace")
        self.check(
            self.ctl("recover", "-c", self.config, before=("unshare", "-p", "-f")), 0, "0 instances recovered"
        )
        self.assertEqual(self.programs[0].ask("read 99"), "b'buffered'")

    def test_all_of_it_in_one_works(self) -> None:
        script = (
            f"{BIN}/tierctl start -c {self.config} -i {self.name} && LD_PRELOAD={PRELOAD} TIERBENCH_INSTANCE={self.name} "
            f"sh -c 'echo inside > {self.file}' && {BIN}/tierctl stop -i {self.name}"
        )
        done = subprocess.run(
            ["unshare", "-p", "-f", "--mount-proc", "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.check(done, 0)
        self.assertEqual(self.read(), "inside\n")
        self.nothing_is_left()

    def test_recovery_from_another_one(self) -> None:
        self.start()
        self.write_synced(self.program(), "promised")
        self.programs[0].ask("write 8  and kept")
        self.programs[0].kill()
        self.kill_daemons()
        self.check(
            self.ctl("recover", "-c", self.config, before=("unshare", "-p", "-f")), 0, "1 instance recovered"
        )
        self.assertEqual(self.read(), "promised and kept")
        self.nothing_is_left()

    def test_a_child_in_another_one(self) -> None:
        for what, status, says in (
            ("writes", 5, ""),
            ("opens", 2, "PID namespace"),
            ("executes", 2, "PID namespace"),
        ):
            with self.subTest(child=what):
                self.start()
                done = self.run_under(sys.executable, "-c", UNSHARES, self.file, what)
                self.check(done, status, says)
                self.check(self.ctl("stop", "-i", self.name), 0)
                self.assertEqual(self.read(), "parent child parent")
                self.file.unlink()


@unittest.skipUnless(os.getuid() == 0, "needs root to be another user")
class Squatter(Instances):
    """Names in /dev/shm that another user made first."""

    tiers = ("ram",)
    fsync = "none"
    more = "mode: scratch\n"

    def test_is_stepped_around(self) -> None:
        for taken in (self.shm(), Path(f"{self.shm()}.shadow")):
            with self.subTest(taken=taken.name):
                taken.write_text("mine")
                os.chown(taken, 65534, 65534)
                self.start()
                self.assertEqual(self.status()["instance"], self.name)
                program = self.program()
                self.assertEqual(program.ask("write 0 scratch"), "7")
                self.assertEqual(self.program().ask("read 9"), "b'scratch'")
                self.check(self.ctl("start", "-c", self.config, "-i", self.name), 2, "already there")
                for p in self.programs:
                    p.kill()
                self.check(self.ctl("stop", "-i", self.name), 0)
                self.assertEqual(taken.read_text(), "mine")
                taken.unlink()
                self.nothing_is_left()

    def test_after_the_other_name_is_gone(self) -> None:
        self.shm().write_text("mine")
        os.chown(self.shm(), 65534, 65534)
        self.start()
        self.shm().unlink()
        self.assertEqual(self.status()["instance"], self.name)
        self.kill_daemons()
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.nothing_is_left()


class Runs(Instances):
    def test_names_of_runs_differ(self) -> None:
        names = set()
        for _ in range(3):
            done = self.ctl("run", "-c", self.config, "--", "sh", "-c", "echo $TIERBENCH_INSTANCE $PPID")
            self.check(done, 0)
            name, pid = done.stdout.split()
            self.assertRegex(name, f"^run-{pid}-[0-9a-f]{{8}}$")
            names.add(name.rsplit("-", 1)[1])
        self.assertEqual(len(names), 3)
        self.nothing_is_left()


class MemoryOnly(Instances):
    """Without a directory tier the region is its own lease."""

    tiers = ("ram",)
    fsync = "pfs"

    def test_is_left_alone_while_programs_use_it(self) -> None:
        self.start()
        program = self.program()
        self.assertEqual(program.ask("write 0 before"), "6")
        self.kill_daemons()
        self.check(self.ctl("recover", "-c", self.config), 3, f"process {program.process.pid} (")
        self.assertEqual(program.ask("write 6  after"), "6")
        program.kill()
        self.check(self.ctl("recover", "-c", self.config), 0, "1 instance recovered")
        self.assertEqual(self.read(), "before after")
        self.nothing_is_left()

    def test_one_half_made_gives_way(self) -> None:
        self.shm().touch(mode=0o600)
        self.start()
        self.check(self.ctl("stop", "-i", self.name), 0)
        self.shm().touch(mode=0o600)
        with hold_lease(self.shm()):
            self.check(self.ctl("start", "-c", self.config, "-i", self.name), 2)
        self.assertTrue(self.shm().exists())


class Deferred(Instances):
    """Names that wait on the PFS, with no directory tier: the lease lies among them."""

    tiers = ("ram",)
    fsync = "pfs"
    more = "namespace: deferred\n"

    @unittest.skipUnless(can_unshare("-m"), "no mount namespaces here")
    def test_keep_waiting_while_somebody_uses_them(self) -> None:
        self.start()
        program = self.program()
        self.assertEqual(program.ask("write 0 waits"), "5")
        self.assertFalse(self.file.exists())
        self.check(self.ctl("recover", "-c", self.config, before=in_own_shm()), 0, "lives")
        self.assertFalse(self.file.exists())
        self.assertEqual(program.ask("read 9"), "b'waits'")
        self.check(self.ctl("stop", "-i", self.name), 0)
        self.assertEqual(self.read(), "waits")
        program.kill()
        self.nothing_is_left()


if __name__ == "__main__":
    run_in_own_shm()
    unittest.main()
