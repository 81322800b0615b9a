"""What surrounds an instance: limits and umask of its processes, the host's name, namespaces, its name, how many others there are."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from instances import BIN, Instance, can_unshare

MIB = 1 << 20


def limited(n: int, which: str = "") -> tuple[str, ...]:
    """Words before a command: RLIMIT_FSIZE, as `ulimit -f` and a batch system's limit of file sizes set it."""
    return ("prlimit", f"--fsize={n}{which}")


def await_end_of_daemons(instance: Instance) -> None:
    until = time.monotonic() + 30
    while instance.daemons() and time.monotonic() < until:
        time.sleep(0.01)


class TestLimitOfFileSizes:
    @pytest.mark.config(tiers=("nvme",))
    def test_is_not_asked_for_slabs(self, instance: Instance) -> None:
        """Ten files of a quarter of the limit: their places in the slabs are past it."""
        source = instance.root / "source"
        source.write_bytes(os.urandom(MIB // 4))
        instance.start()
        for i in range(10):
            done = instance.run_under("cp", source, instance.root / f"pfs/{i}", before=limited(MIB))
            assert done.returncode == 0, done
        instance.stop()
        for i in range(10):
            assert (instance.root / f"pfs/{i}").read_bytes() == source.read_bytes()

    @pytest.mark.config(tiers=("nvme",))
    def test_is_not_asked_for_what_others_wrote_there(self, instance: Instance) -> None:
        """Each block of a file lies somewhere in the slab; all of them are written again by a program with the least limit."""
        size = 3 * MIB
        instance.start()
        free = instance.program()
        for at in range(0, size, 65536):
            assert free.ask(f"write {at} free") == "4"
        bound = instance.program(*limited(size))
        for at in range(0, size, 65536):
            assert bound.ask(f"write {at + 2} bound") == "5"
        assert bound.ask("fsync") == "synced"
        for program in (free, bound):
            program.end()
        instance.programs.clear()
        instance.stop()
        data = instance.file.read_bytes()
        assert [data[at : at + 7] for at in range(0, size, 65536)] == [b"frbound"] * (size // 65536)

    def test_refuses_a_start_in_one_line(self, instance: Instance) -> None:
        done = instance.ctl("start", "-c", instance.config, "-i", instance.name, before=limited(MIB))
        instance.check(done, 2, "File too large")
        assert done.stderr.count("\n") == 1
        instance.nothing_is_left()

    def test_of_a_daemon_is_as_high_as_may_be(self, instance: Instance) -> None:
        instance.start(before=limited(6 * MIB, ":unlimited"))
        assert instance.program().ask(f"write {8 * MIB} far") == "3"
        instance.programs.pop().end()
        os.kill(instance.daemons()[0], signal.SIGTERM)
        await_end_of_daemons(instance)
        assert instance.file.read_bytes()[8 * MIB :] == b"far"
        instance.stop()

    def test_is_the_programs_own_in_a_run_within_a_run(self, instance: Instance) -> None:
        """The outer instance is drained without it, before the program starts."""
        instance.start()
        within = {"TIERBENCH_INSTANCE": instance.name}
        asks = ("sh", "-c", "ulimit -S -f; grep SigIgn /proc/self/status")
        words = ("run", "-c", instance.config, "--", *asks)
        bound = instance.ctl(*words, env=within, before=limited(6 * MIB, ":unlimited"))
        instance.check(bound, 0, "drained first")
        limit, ignored = bound.stdout.split("\n")[:2]
        assert int(limit) * 512 == 6 * MIB
        assert not int(ignored.split()[1], 16) >> (signal.SIGXFSZ - 1) & 1

    def test_is_an_error_of_a_drain(self, instance: Instance) -> None:
        instance.start()
        assert instance.program().ask(f"write {8 * MIB} far") == "3"
        instance.programs.pop().end()
        instance.check(
            instance.ctl("stop", "-i", instance.name, before=limited(6 * MIB)),
            3,
            f"{instance.file}: not flushed: File too large",
            f"tierctl stop -i {instance.name}",
        )
        instance.stop()
        assert instance.file.read_bytes()[8 * MIB :] == b"far"
        instance.nothing_is_left()


class TestUmask:
    @pytest.mark.skipif(os.getuid() != 0, reason="root makes the other user")
    @pytest.mark.parametrize("mask", ["0777", "0377", "0077", "0000"])
    def test_keeps_nothing_from_its_user(self, instance: Instance, mask: str) -> None:
        """Root may enter a directory of mode 0."""
        for place in (instance.root, instance.root / "nvme", instance.root / "pfs"):
            os.chown(place, 4242, 4242)
        user = ("setpriv", "--reuid=4242", "--regid=4242", "--clear-groups")
        words = ("sh", "-c", f'umask {mask} && exec "$@"', "sh")
        done = instance.ctl("run", "-c", instance.config, "--", "true", before=(*user, *words))
        instance.check(done, 0)
        instance.nothing_is_left()


class TestLimitOfProcesses:
    @pytest.mark.skipif(os.getuid() != 0, reason="root makes the other user, as root has no such limit")
    @pytest.mark.parametrize("command", [("start", "-c"), ("run", "-c")])
    def test_refuses_a_start_in_one_line(self, instance: Instance, command: tuple[str, ...]) -> None:
        for place in (instance.root, instance.root / "nvme", instance.root / "pfs"):
            os.chown(place, 4243, 4243)
        user = ("setpriv", "--reuid=4243", "--regid=4243", "--clear-groups", "prlimit", "--nproc=1")
        words = (*command, instance.config, *(("--", "true") if command[0] == "run" else ()))
        instance.check(instance.ctl(*words, before=user), 2, "tierctl: cannot fork: ")


class TestManyOthers:
    pytestmark = pytest.mark.usefixtures("alone")

    def test_recover_leaves_none_out(self, instance: Instance) -> None:
        names = [f"{instance.name}-{i}" for i in range(66)]
        for name in names:
            instance.check(instance.ctl("start", "-c", instance.config, "-i", name), 0)
        instance.kill_daemons(len(names))
        instance.recover(0, "66 instances recovered")
        instance.nothing_is_left()


# Each lock is late by a third of a second: the region has its name, and is not held yet.
SLOW_LOCKS = (
    "strace",
    "-D",
    "-f",
    "-qq",
    "-o",
    "/dev/null",
    "-e",
    "trace=fcntl",
    "-e",
    "inject=fcntl:delay_enter=300000",
)


@pytest.mark.usefixtures("alone")
@pytest.mark.config(tiers=("ram",), fsync="pfs")
class TestGcDuringAStart:
    def test_that_takes_the_new_region_for_a_left_one(self, instance: Instance) -> None:
        if not shutil.which("strace"):
            pytest.skip("no strace here")
        words = (*SLOW_LOCKS, BIN / "tierctl", "start", "-c", instance.config, "-i", instance.name)
        said = instance.root / "said"  # no pipe: strace has it open as long as the daemon lives
        with said.open("w") as out, subprocess.Popen(words, stdout=out, stderr=out) as start:
            took = False
            while start.poll() is None and not took:
                took = "its start was killed" in instance.ctl("gc").stdout
            status = start.wait(60)
        assert took
        assert status == 0, said.read_text()
        instance.stop()


class TestOneMoreOverTheSameFolder:
    """Each reads what the other has flushed: the second start says so, where they have a folder in common."""

    def second(
        self, instance: Instance, *options: str, inside: str = "", env: dict[str, str] | None = None
    ) -> str:
        config = instance.root / "second.yaml"
        folder = instance.root / "pfs" / inside
        folder.mkdir(exist_ok=True)
        text = instance.config.read_text()
        config.write_text(text.replace(f"path: {instance.root}/pfs}}", f"path: {folder}}}"))
        done = instance.ctl("run", "-c", config, *options, "--", "true", env=env)
        assert done.returncode == 0, done.stderr
        return done.stderr

    @pytest.mark.parametrize("inside", ["", "below"])
    def test_is_told(self, instance: Instance, inside: str) -> None:
        instance.start()
        told = self.second(instance, inside=inside)
        folder = instance.root / "pfs" / inside
        assert f" and {instance.name} both have {str(folder).rstrip('/')}: each reads" in told, told

    def test_is_fine_in_scratch_and_after_the_first(self, instance: Instance) -> None:
        instance.start("--mode", "scratch")
        assert "both have" not in self.second(instance, "--mode", "scratch")
        assert "both have" in self.second(instance)
        instance.stop()
        assert "both have" not in self.second(instance)

    def test_is_told_otherwise_within_a_run(self, instance: Instance) -> None:
        instance.start()
        told = self.second(instance, env={"TIERBENCH_INSTANCE": instance.name})
        assert "drained first" in told and "both have" not in told


class TestHostName:
    def test_that_changed_keeps_no_instance_from_recovery(self, instance: Instance) -> None:
        if not can_unshare("-u"):
            pytest.skip("no UTS namespaces here")
        renamed = ("unshare", "-u", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh")
        instance.crash("promised")
        done = instance.ctl("recover", "-c", instance.config, before=renamed)
        instance.check(done, 0, "1 instance recovered")
        assert instance.read() == "promised"
        instance.nothing_is_left()


OWN_SHM = 'hostname elsewhere && mount -t tmpfs tmpfs /dev/shm && exec "$@"'
ELSEWHERE = {
    "user": (("-U",), ("unshare", "-U")),
    "host and mounts": (("-mu",), ("unshare", "-mu", "sh", "-c", OWN_SHM, "sh")),
}


# Ends at once; its child, which is in another time namespace, writes by what it inherited when it is told to.
LEAVES = """
import ctypes, os, sys, time
file, go, gone = sys.argv[1:]
f = os.open(file, os.O_RDWR | os.O_CREAT)
os.write(f, b"parent ")
if ctypes.CDLL(None).unshare(0x80):
    os._exit(9)
with open("/proc/self/timens_offsets", "w") as offsets:
    offsets.write("boottime 100000 0")
if os.fork() == 0:
    os.closerange(1, 3)
    until = time.monotonic() + 30
    while not os.path.exists(go) and time.monotonic() < until:
        time.sleep(0.01)
    os.write(f, b"child")
    os.close(f)
    os.mkdir(gone)
"""


class TestNamespaces:
    """In which the names that lead to an instance are other ones. A program there would read what the PFS has."""

    def refuse(self, instance: Instance, where: str) -> None:
        flags, words = ELSEWHERE[where]
        if not can_unshare(*flags):
            pytest.skip(f"no namespaces here: {where}")
        instance.start()
        instance.file.write_text("old")
        assert instance.program().ask("write 0 new") == "3"
        done = instance.run_under(
            "cat", instance.file, before=words, env={"TIERBENCH_CONFIG": str(instance.config)}
        )
        instance.check(done, 2, "another user or UTS namespace", "this program ends")
        assert done.stdout == ""

    @pytest.mark.parametrize("where", ELSEWHERE)
    def test_are_refused(self, instance: Instance, where: str) -> None:
        self.refuse(instance, where)

    @pytest.mark.parametrize("where", ELSEWHERE)
    @pytest.mark.config(tiers=("ram",), fsync="pfs", more="namespace: deferred\n")
    def test_are_refused_where_the_pfs_has_the_lease(self, instance: Instance, where: str) -> None:
        self.refuse(instance, where)

    @pytest.mark.config(tiers=("ram",), fsync="pfs")
    def test_of_users_are_refused_without_a_lease(self, instance: Instance) -> None:
        self.refuse(instance, "user")

    def test_of_time_are_refused(self, instance: Instance) -> None:
        """There a living process seems to be another one that got its number: it would be taken for dead."""
        there = ("unshare", "-T", "--fork", "--boottime", "100000")
        if not can_unshare(*there[1:]):
            pytest.skip("no time namespaces here")
        instance.start()
        program = instance.program()
        assert program.ask("write 0 alive") == "5"
        instance.check(instance.run_under("cat", instance.file, before=there), 2, "time namespace")
        instance.check(instance.ctl("drain", "-i", instance.name, before=there), 2, "time namespace")
        assert instance.status()["clients"] == 1
        assert program.ask("read 9") == "b'alive'"

    def test_of_time_of_a_child_are_too(self, instance: Instance) -> None:
        """It passes through with what it inherited, as in another PID namespace, where a repair would take its offset away."""
        instance.start()
        go, gone = instance.root / "go", instance.root / "gone"
        done = instance.run_under(sys.executable, "-c", LEAVES, instance.file, go, gone)
        if done.returncode == 9:
            pytest.skip("no time namespaces here")
        instance.check(done, 0)
        instance.check(instance.ctl("drain", "-i", instance.name), 0)
        go.touch()
        until = time.monotonic() + 30
        while not gone.exists() and time.monotonic() < until:
            time.sleep(0.01)
        instance.stop()
        assert instance.read() == "parent child"

    def test_are_not_seen_in_a_name_with_a_dot(self, instance: Instance) -> None:
        env = {"TIERBENCH_CONFIG": str(instance.config), "TIERBENCH_INSTANCE": "part"}
        instance.check(instance.ctl("start", "-c", instance.config, "-i", f"{instance.name}.part"), 0)
        instance.file.write_text("all")
        instance.check(instance.run_under("cat", instance.file, env=env), 0, "all", "no such instance runs")
        instance.check(instance.ctl("stop", "-i", f"{instance.name}.part"), 0)

    def test_do_not_matter_after_the_end(self, instance: Instance) -> None:
        flags, words = ELSEWHERE["host and mounts"]
        if not can_unshare(*flags):
            pytest.skip("no such namespaces here")
        instance.start()
        instance.stop()
        instance.file.write_text("all")
        env = {"TIERBENCH_CONFIG": str(instance.config)}
        done = instance.run_under("cat", instance.file, before=words, env=env)
        instance.check(done, 0, "all", "no such instance runs")


class TestNoSharedMemory:
    @pytest.mark.parametrize("command", ["check", "start -c"])
    def test_is_told_in_one_line(self, instance: Instance, command: str) -> None:
        if not can_unshare("-m"):
            pytest.skip("no mount namespaces here")
        without = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /dev && exec "$@"', "sh")
        done = instance.ctl(*command.split(), instance.config, before=without)
        says = f"tierctl: {instance.config}: the region: /dev/shm: No such file or directory; allowed: a tmpfs there\n"
        assert (done.returncode, done.stderr) == (2, says)
        instance.nothing_is_left()


class TestFilesOfATier:
    def test_that_another_program_removed_are_missed(self, instance: Instance) -> None:
        """As one that clears old files does. The daemon has them open: what is in them is not lost."""
        instance.start()
        program = instance.program()
        for at in range(0, 5 * MIB, 65536):
            assert program.ask(f"write {at} kept") == "4"
        instance.programs.pop().end()
        for slab in instance.directory().glob("slab-*"):
            slab.unlink()
        instance.check(instance.run_under("cat", instance.file), 2, "lack files", "this program ends")
        instance.check(instance.ctl("stop", "-i", instance.name), 2, "lack files")
        os.kill(instance.daemons()[0], signal.SIGTERM)
        await_end_of_daemons(instance)
        data = instance.file.read_bytes()
        assert [data[at : at + 4] for at in range(0, 5 * MIB, 65536)] == [b"kept"] * 80


class TestRunInARun:
    def test_sees_and_keeps_what_both_wrote(self, instance: Instance) -> None:
        """A job script that runs its steps under tiers of their own: the outer instance would write its old bytes over theirs."""
        step = f"{BIN}/tierctl run -c {instance.config} --"
        (instance.root / "one").write_text("one\n")
        (instance.root / "two").write_text("two, longer\n")
        script = f"cp one pfs/f && {step} cat pfs/f && {step} cp two pfs/f && cat pfs/f && cp one pfs/g"
        words = (BIN / "tierctl", "run", "-c", instance.config, "--", "sh", "-c", script)
        done = subprocess.run(words, cwd=instance.root, capture_output=True, text=True, timeout=60)
        instance.check(done, 0, "this runs under instance run-")
        assert done.stdout == "one\ntwo, longer\n"
        assert (instance.root / "pfs/f").read_text() == "two, longer\n"
        assert (instance.root / "pfs/g").read_text() == "one\n"
        instance.nothing_is_left()


LONGEST = "n" * 63


class TestNames:
    @pytest.mark.parametrize("name", ["", "a/b", "../a", "a~0123456789abcdef", "a\nb", LONGEST + "n"])
    def test_that_are_none_are_refused(self, instance: Instance, name: str) -> None:
        done = instance.ctl("start", "-c", instance.config, "-i", name)
        instance.check(done, 2, "not a name; allowed: 1 to 63 characters")
        assert done.stderr.count("\n") == 1
        daemon = subprocess.run(
            [BIN / "tierd", instance.config, "-i", name], capture_output=True, text=True, timeout=60
        )
        instance.check(daemon, 2, "not a name; allowed: 1 to 63 characters")
        assert not list((instance.root / "nvme").iterdir())

    def test_the_longest_and_an_odd_one_serve(self, instance: Instance) -> None:
        for name in (f"{instance.name}-{LONGEST}"[:63], f"{instance.name} é %s"):
            instance.check(instance.ctl("start", "-c", instance.config, "-i", name), 0, name)
            instance.check(instance.ctl("stop", "-i", name), 0)
            instance.nothing_is_left()
