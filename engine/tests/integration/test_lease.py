"""The lease tells which processes use an instance: while a process uses it, no other starts over it, recovers it or removes it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from instances import BIN, PRELOAD, Instance, can_unshare, hold_lease, in_own_shm, state_of

TB_LEASE_ENDING = 2


class TestStart:
    def lose_all_but_the_tier(self, instance: Instance) -> None:
        instance.crash("promised")
        instance.lose_region()

    def test_of_a_name_with_an_unrecovered_journal(self, instance: Instance) -> None:
        self.lose_all_but_the_tier(instance)
        before = {p.name: p.stat().st_size for p in instance.directory().iterdir()}
        again = instance.ctl("start", "-c", instance.config, "-i", instance.name)
        instance.check(again, 2, f"tierctl recover -c {instance.config}", instance.name)
        assert again.stderr.count("\n") == 1
        assert {p.name: p.stat().st_size for p in instance.directory().iterdir()} == before
        assert not instance.shm().exists()
        instance.recover(0, "1 instance recovered")
        assert instance.read() == "promised"
        instance.start()
        instance.stop()
        instance.nothing_is_left()

    def test_its_advice_names_the_mode(self, instance: Instance) -> None:
        instance.start("--mode", "persistent-async")
        instance.kill_daemons()
        instance.lose_region()
        instance.config.write_text(instance.config.read_text().replace("pfs:", "mode: persistent-sync\npfs:"))
        again = instance.ctl("start", "-c", instance.config, "-i", instance.name)
        instance.check(again, 2, f"tierctl recover -c {instance.config} --mode persistent-async")
        instance.check(
            instance.ctl("recover", "-c", instance.config, "--mode", "persistent-async"),
            0,
            "1 instance recovered",
        )
        instance.nothing_is_left()

    @pytest.mark.parametrize("state", ["making", "void  "])
    def test_over_what_was_never_ready_or_is_void(self, instance: Instance, state: str) -> None:
        self.lose_all_but_the_tier(instance)
        with (instance.directory() / "lease").open("r+b") as lease:
            text = lease.read()
            lease.seek(text.index(b"living"))
            lease.write(state.encode())
        instance.start()
        instance.stop()
        instance.nothing_is_left()

    def test_of_a_directory_that_is_in_the_way(self, instance: Instance) -> None:
        instance.directory("bb").mkdir()
        (instance.directory("bb") / "kept").write_text("kept")
        instance.tiers = ("ram", "nvme", "bb")
        instance.config = instance.write_config(instance.name)
        instance.refuse_start(instance.name)
        assert (instance.directory("bb") / "kept").read_text() == "kept"
        assert not instance.directory().exists()
        assert not instance.shm().exists()


class TestRecover:
    def test_leaves_alone_what_programs_use(self, instance: Instance) -> None:
        instance.start()
        program = instance.program()
        instance.write_synced(program, "before")
        instance.kill_daemons()
        done = instance.ctl("recover", "-c", instance.config)
        instance.check(
            done,
            3,
            f"instance {instance.name}",
            "its daemon is dead",
            f"process {program.process.pid} (",
            "left alone",
        )
        instance.write_synced(program, " after", at=6)
        assert program.ask("read 99") == "b'before after'"
        program.kill()
        instance.recover(0, "1 instance recovered")
        assert instance.read() == "before after"
        instance.nothing_is_left()

    def test_with_nothing_dirty_it_is_no_failure(self, instance: Instance) -> None:
        instance.start()
        program = instance.program()
        instance.kill_daemons()
        instance.recover(
            0,
            f"process {program.process.pid} (",
            "0 instances recovered",
        )
        program.kill()
        instance.recover(0, "1 instance recovered")
        instance.nothing_is_left()

    @pytest.mark.skipif(not can_unshare("-m"), reason="no mount namespaces here")
    def test_from_another_mount_namespace(self, instance: Instance) -> None:
        instance.start()
        program = instance.program()
        instance.write_synced(program, "before")
        done = instance.ctl("recover", "-c", instance.config, before=in_own_shm())
        instance.check(done, 0, f"instance {instance.name}: lives", "left alone", "0 instances recovered")
        instance.check(
            instance.ctl("start", "-c", instance.config, "-i", instance.name, before=in_own_shm()),
            2,
            "already there",
        )
        instance.write_synced(program, " after", at=6)
        instance.kill_daemons()
        done = instance.ctl("recover", "-c", instance.config, before=in_own_shm())
        instance.check(done, 3, "its daemon is dead", f"process {program.process.pid} (")
        instance.write_synced(program, " all", at=12)
        program.kill()
        instance.recover(0, "1 instance recovered")
        assert instance.read() == "before after all"
        instance.nothing_is_left()

    def test_is_alone(self, instance: Instance) -> None:
        instance.crash("promised")
        with hold_lease(instance.directory() / "lease"):
            for command in (
                ("status", "-i", instance.name),
                ("drain", "-i", instance.name),
                ("stop", "-i", instance.name),
            ):
                instance.check(
                    instance.ctl(*command), 2, "it is being recovered by", f"process {os.getpid()} ("
                )
            instance.recover(3, f"process {os.getpid()} (")
        instance.recover(0, "1 instance recovered")
        assert instance.read() == "promised"

    def test_a_program_waits_for_it(self, instance: Instance) -> None:
        instance.crash("promised")
        held = hold_lease(instance.directory() / "lease")
        threading.Timer(0.5, held.close).start()
        began = time.monotonic()
        assert instance.program().ask("read 99") == "b'promised'"
        assert time.monotonic() - began > 0.45

    def test_without_a_lease_nobody_knows(self, instance: Instance) -> None:
        instance.crash("promised")
        instance.lose_region()
        lease = instance.directory() / "lease"
        lease.unlink()
        instance.recover(3, str(lease), "not known")
        lease.touch()
        instance.recover(0, "1 instance recovered")
        assert instance.read() == "promised"
        instance.nothing_is_left()

    @pytest.mark.skipif(os.getuid() != 0, reason="needs root to make another user's files")
    def test_never_replays_what_another_user_planted(self, instance: Instance) -> None:
        instance.crash("planted")
        instance.lose_region()
        instance.file.write_text("victim!")
        for path in (*instance.directory().iterdir(), instance.directory()):
            os.chown(path, 65534, 65534)
        (instance.root / "nvme").chmod(0o1777)
        instance.recover(0, "not a directory of this user", "0 instances recovered")
        assert instance.read() == "victim!"
        elsewhere = instance.root / "elsewhere"
        shutil.move(instance.directory(), elsewhere)
        for path in (elsewhere, *elsewhere.iterdir()):
            os.chown(path, 0, 0)
        instance.directory().symlink_to(elsewhere)
        instance.recover(0, "not a directory of this user", "0 instances recovered")
        assert instance.read() == "victim!"
        instance.refuse_start()
        assert (elsewhere / "journal").exists()


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


@pytest.mark.skipif(not can_unshare("-p", "-f"), reason="no PID namespaces here")
@pytest.mark.usefixtures("alone")
class TestTierGone:
    """A job's epilog removed the directory of a tier, with the lease, and left the region."""

    def begin(self, instance: Instance) -> None:
        instance.start()
        instance.write_synced(instance.program(), "promised")

    def remove_tier(self, instance: Instance) -> None:
        instance.kill_daemons()
        shutil.rmtree(instance.directory())

    @pytest.mark.parametrize("whole", [False, True])
    def test_gc_clears_what_is_on_the_pfs(self, instance: Instance, whole: bool) -> None:
        (instance.root / "nvme").mkdir(exist_ok=True)
        self.begin(instance)
        instance.programs.pop().kill()
        instance.check(instance.ctl("drain", "-i", instance.name), 0)
        self.remove_tier(instance)
        if whole:
            (instance.root / "nvme").rmdir()
        trace = Path(f"{instance.shm()}.trace")
        trace.mkdir()
        (trace / "job").touch()
        instance.check(instance.ctl("gc"), 0, "1 instance cleared")
        assert not instance.shm().exists()
        assert not trace.exists()
        assert instance.read() == "promised"

    def test_gc_leaves_a_trace_of_which_logs_are_being_made(self, instance: Instance) -> None:
        self.begin(instance)
        instance.programs.pop().kill()
        instance.check(instance.ctl("drain", "-i", instance.name), 0)
        self.remove_tier(instance)
        trace = Path(f"{instance.shm()}.trace")
        trace.mkdir()
        (trace / "job").touch()
        with hold_lease(trace / "job"):
            instance.check(instance.ctl("gc"), 0, "1 instance cleared")
        assert (trace / "job").exists()

    def test_gc_names_each_once_that_it_keeps(self, instance: Instance) -> None:
        names = [instance.name, f"{instance.name}-b", f"{instance.name}-c"]
        for instance.name in names:
            self.begin(instance)
            instance.programs.pop().kill()
        instance.kill_daemons(len(names))
        for instance.name in names:
            shutil.rmtree(instance.directory())
        done = instance.ctl("gc")
        instance.check(done, 3, "0 instances cleared")
        assert len(done.stderr.splitlines()) == len(names), done.stderr
        for instance.name in names:
            command = f"tierctl stop -i {instance.name} --force"
            assert (
                f"8 bytes are not on the PFS; no process uses it: bring that back and try again, or give them up: {command}\n"
                in done.stderr
            )
            instance.check(instance.ctl("stop", "-i", instance.name), 2, "directories are gone")
            instance.check(instance.ctl(*command.split()[1:]), 0)
            assert not instance.shm().exists()

    def test_nothing_is_cleared_under_a_program(self, instance: Instance) -> None:
        self.begin(instance)
        instance.check(instance.ctl("drain", "-i", instance.name), 0)
        self.remove_tier(instance)
        program = instance.programs[0]
        instance.check(
            instance.ctl("gc"), 3, f"process {program.process.pid} (", "still uses it", "0 instances cleared"
        )
        instance.check(instance.ctl("stop", "-i", instance.name, "--force"), 2, "directories are gone")
        assert program.ask("read 99") == "b'promised'"
        program.kill()
        instance.check(instance.ctl("gc"), 0, "1 instance cleared")
        assert not instance.shm().exists()

    def test_one_that_comes_back_is_recovered(self, instance: Instance) -> None:
        self.begin(instance)
        instance.programs.pop().kill()
        instance.kill_daemons()
        instance.directory().rename(instance.root / "away")
        instance.check(instance.ctl("gc"), 3, "bring that back")
        (instance.root / "away").rename(instance.directory())
        instance.check(instance.ctl("gc"), 0, "1 instance cleared")
        assert instance.read() == "promised"
        instance.nothing_is_left()


class TestStop:
    """One that is killed, or stopped itself, while it flushes."""

    def begin(self, instance: Instance) -> None:
        instance.start()
        assert instance.program().ask("write 0 first") == "5"
        instance.programs.pop().kill()

    def fault(self, instance: Instance, sig: signal.Signals) -> dict[str, str]:
        return {"TB_FAULT": f"op=fsync,signal={int(sig)},path={instance.root}/pfs"}

    def lease(self, instance: Instance) -> Path:
        return instance.directory() / "lease"

    def test_one_that_was_killed_in_its_drain_keeps_nobody_out(self, instance: Instance) -> None:
        self.begin(instance)
        instance.check(
            instance.ctl("stop", "-i", instance.name, env=self.fault(instance, signal.SIGKILL)),
            -signal.SIGKILL,
        )
        program = instance.program()
        assert instance.status()["clients"] == 1
        instance.write_synced(program, "second", at=5)
        program.kill()
        instance.stop()
        assert instance.read() == "firstsecond"
        instance.nothing_is_left()

    @pytest.mark.usefixtures("alone")
    def test_gc_leaves_it_to_a_stop_that_goes_on(self, instance: Instance) -> None:
        """A stop has ended the daemon, and is about to remove the instance."""
        self.begin(instance)
        instance.check(instance.ctl("drain", "-i", instance.name), 0)
        instance.kill_daemons()
        with hold_lease(self.lease(instance), TB_LEASE_ENDING):
            done = instance.ctl("gc")
            instance.check(done, 0)
            assert (done.stdout, done.stderr) == ("0 instances cleared\n", "")
        instance.check(instance.ctl("gc"), 0, f"instance {instance.name}  config", "1 instance cleared")
        instance.nothing_is_left()

    @pytest.mark.parametrize("names", ["the instance", "the configuration, too"])
    def test_a_program_waits_for_one_that_goes_on(self, instance: Instance, names: str) -> None:
        """Until all of it is on the PFS the program would read old bytes there."""
        self.begin(instance)
        stop = subprocess.Popen(
            [BIN / "tierctl", "stop", "-i", instance.name],
            env=os.environ | self.fault(instance, signal.SIGSTOP),
            start_new_session=True,
        )
        instance.cleanup.callback(stop.kill)
        until = time.monotonic() + 20
        while "State:\tT" not in state_of(stop.pid):
            assert time.monotonic() < until, "it does not stop"
            time.sleep(0.01)
        timer = threading.Timer(2.5, stop.send_signal, [signal.SIGCONT])
        timer.start()
        env = {"TIERBENCH_CONFIG": str(instance.config)} if names != "the instance" else {}
        done = instance.run_under("cat", instance.file, env=env)
        timer.join()
        instance.check(done, 0, "has waited 1 s for the drain", "no such instance runs", "first")
        assert stop.wait(timeout=30) == 0
        instance.nothing_is_left()


@pytest.mark.config(tiers=("ram",), fsync="pfs")
class TestStopOfMemory(TestStop):
    """Without a directory tier: the region is the lease."""

    def lease(self, instance: Instance) -> Path:
        return instance.shm()


class TestPidNamespace:
    """Process numbers and the owners of locks mean nothing in another one: refused before the first byte."""

    def test_a_program_in_another_one_ends(self, instance: Instance) -> None:
        instance.start()
        instance.write_synced(instance.program(), "buffered")
        done = instance.run_under("cat", instance.file, before=("unshare", "-p", "-f"))
        instance.check(done, 2, f"instance {instance.name} cannot be used", "PID namespace", "ends")
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        for command in ("status", "drain", "stop"):
            instance.check(
                instance.ctl(command, "-i", instance.name, before=("unshare", "-p", "-f")), 2, "PID namespace"
            )
        instance.check(
            instance.ctl("recover", "-c", instance.config, before=("unshare", "-p", "-f")),
            0,
            "0 instances recovered",
        )
        assert instance.programs[0].ask("read 99") == "b'buffered'"

    def test_all_of_it_in_one_works(self, instance: Instance) -> None:
        script = (
            f"{BIN}/tierctl start -c {instance.config} -i {instance.name} && LD_PRELOAD={PRELOAD} TIERBENCH_INSTANCE={instance.name} "
            f"sh -c 'echo inside > {instance.file}' && {BIN}/tierctl stop -i {instance.name}"
        )
        done = subprocess.run(
            ["unshare", "-p", "-f", "--mount-proc", "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=60,
        )
        instance.check(done, 0)
        assert instance.read() == "inside\n"
        instance.nothing_is_left()

    def test_recovery_from_another_one(self, instance: Instance) -> None:
        instance.start()
        instance.write_synced(instance.program(), "promised")
        instance.programs[0].ask("write 8  and kept")
        instance.programs[0].kill()
        instance.kill_daemons()
        instance.check(
            instance.ctl("recover", "-c", instance.config, before=("unshare", "-p", "-f")),
            0,
            "1 instance recovered",
        )
        assert instance.read() == "promised and kept"
        instance.nothing_is_left()

    @pytest.mark.parametrize(
        "what, status, says",
        [
            ("writes", 5, ""),
            ("opens", 2, "PID namespace"),
            ("executes", 2, "PID namespace"),
        ],
    )
    def test_a_child_in_another_one(self, instance: Instance, what: str, status: int, says: str) -> None:
        instance.start()
        done = instance.run_under(sys.executable, "-c", UNSHARES, instance.file, what)
        instance.check(done, status, says)
        instance.stop()
        assert instance.read() == "parent child parent"
        instance.file.unlink()


@pytest.mark.config(tiers=("ram",), fsync="none", more="mode: scratch\n")
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to be another user")
class TestSquatter:
    """Names in /dev/shm that another user made first."""

    @pytest.mark.parametrize("suffix", ["", ".shadow"])
    def test_is_stepped_around(self, instance: Instance, suffix: str) -> None:
        taken = Path(f"{instance.shm()}{suffix}")
        taken.write_text("mine")
        os.chown(taken, 65534, 65534)
        instance.start()
        assert instance.status()["instance"] == instance.name
        program = instance.program()
        assert program.ask("write 0 scratch") == "7"
        assert instance.program().ask("read 9") == "b'scratch'"
        instance.refuse_start("already there")
        for p in instance.programs:
            p.kill()
        instance.stop()
        assert taken.read_text() == "mine"
        taken.unlink()
        instance.nothing_is_left()

    def test_after_the_other_name_is_gone(self, instance: Instance) -> None:
        instance.shm().write_text("mine")
        os.chown(instance.shm(), 65534, 65534)
        instance.start()
        instance.shm().unlink()
        assert instance.status()["instance"] == instance.name
        instance.kill_daemons()
        instance.recover(0, "1 instance recovered")
        instance.nothing_is_left()


@pytest.mark.config(more="max_clients: 64\n")
class TestTooMany:
    """A program without a place in the table of clients would read what the PFS has, which may be older than what was acknowledged."""

    SLOTS = 64 - 8 - 1  # of programs: 8 are kept for tierctl, the daemon has one

    def test_a_program_too_many_ends_before_it_reads(self, instance: Instance) -> None:
        instance.file.write_text("old")
        instance.start()
        writer = instance.program()
        instance.write_synced(writer, "NEW")
        under = os.environ | {"LD_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": instance.name}
        pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        readers = [
            subprocess.Popen(["cat", str(instance.file), "-"], env=under, **pipe)
            for _ in range(self.SLOTS - 1)
        ]
        for reader in readers:
            assert reader.stdout and reader.stdout.read(3) == "NEW"
        late = instance.run_under("cat", instance.file)
        instance.check(late, 2, "max_clients", "it would read old bytes")
        assert "old" not in late.stdout
        instance.check(instance.ctl("status", "-i", instance.name), 0)
        readers.pop().communicate()
        instance.check(instance.run_under("cat", instance.file), 0, "NEW")
        for reader in readers:
            reader.communicate()
        writer.end()
        instance.stop()
        assert instance.read() == "NEW"


class TestRuns:
    def test_names_of_runs_differ(self, instance: Instance) -> None:
        names = set()
        for _ in range(3):
            done = instance.ctl(
                "run", "-c", instance.config, "--", "sh", "-c", "echo $TIERBENCH_INSTANCE $PPID"
            )
            instance.check(done, 0)
            name, pid = done.stdout.split()
            assert re.search(f"^run-{pid}-[0-9a-f]{{8}}$", name)
            names.add(name.rsplit("-", 1)[1])
        assert len(names) == 3
        instance.nothing_is_left()


@pytest.mark.config(tiers=("ram",), fsync="pfs")
class TestMemoryOnly:
    """Without a directory tier the region is its own lease."""

    def test_is_left_alone_while_programs_use_it(self, instance: Instance) -> None:
        instance.start()
        program = instance.program()
        assert program.ask("write 0 before") == "6"
        instance.kill_daemons()
        instance.recover(3, f"process {program.process.pid} (")
        assert program.ask("write 6  after") == "6"
        program.kill()
        instance.recover(0, "1 instance recovered")
        assert instance.read() == "before after"
        instance.nothing_is_left()

    def test_one_half_made_gives_way(self, instance: Instance) -> None:
        instance.shm().touch(mode=0o600)
        instance.start()
        instance.stop()
        instance.shm().touch(mode=0o600)
        with hold_lease(instance.shm()):
            instance.refuse_start()
        assert instance.shm().exists()

    @pytest.mark.usefixtures("alone")
    def test_of_a_killed_start_is_given_back(self, instance: Instance) -> None:
        """Killed for its memory while it touched it: the region has no magic, and there is no lease to find it by."""
        with instance.shm().open("xb") as region:
            instance.shm().chmod(0o600)
            region.truncate(1 << 20)
        with hold_lease(instance.shm()):  # its maker lives
            instance.check(instance.ctl("gc"), 0, "0 instances cleared")
        instance.check(instance.ctl("stop", "-i", instance.name), 2, "half made", "tierctl gc")
        instance.check(
            instance.ctl("gc"), 0, f"instance {instance.name}: its start was killed", "1 instance cleared"
        )
        assert not instance.shm().exists()


@pytest.mark.config(tiers=("ram",), fsync="pfs", more="namespace: deferred\n")
class TestDeferred:
    """Names that wait on the PFS, with no directory tier: the lease is among them."""

    @pytest.mark.skipif(not can_unshare("-m"), reason="no mount namespaces here")
    def test_keep_waiting_while_somebody_uses_them(self, instance: Instance) -> None:
        instance.start()
        program = instance.program()
        assert program.ask("write 0 waits") == "5"
        assert not instance.file.exists()
        instance.check(instance.ctl("recover", "-c", instance.config, before=in_own_shm()), 0, "lives")
        assert not instance.file.exists()
        assert program.ask("read 9") == "b'waits'"
        instance.stop()
        assert instance.read() == "waits"
        program.kill()
        instance.nothing_is_left()
