"""`tierctl run` under signals, a closed terminal and SIGKILL: every byte that was acknowledged is on the PFS, and nothing is left."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from instances import BIN, Instance, state_of

# Writes and fsyncs line by line, says each number once it is synced, and ends when the first of the ending signals comes:
# one sent to the whole group comes twice, by itself and passed on.
PROGRAM = """
import os, signal, sys, time
fd, log = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(sig, frame):
    os.write(log, f"signal {sig}\\n".encode())
    if sig not in (signal.SIGUSR1, signal.SIGUSR2):
        for ending in ALL:
            signal.signal(ending, signal.SIG_IGN)
        sys.exit(5)
ALL = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
for sig in ALL:
    if signal.getsignal(sig) != signal.SIG_IGN:
        signal.signal(sig, note)
for i in range(int(sys.argv[3])):
    os.pwrite(fd, b"%07d\\n" % i, 8 * i)
    os.fsync(fd)
    os.write(log, b"%d\\n" % i)
    time.sleep(0.005)
"""
FOREVER, SHORT = 100_000, 200
pytestmark = pytest.mark.usefixtures("own_shm")


def hear_all() -> None:
    """In the child: a background job of a shell ignores SIGINT, and nohup SIGHUP."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Run(Instance):
    """An instance of `tierctl run`."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.log = self.root / "log"
        self.err = self.root / "err"
        self.stderr = self.cleanup.enter_context(self.err.open("wb"))
        return self

    def run_program(
        self, *args: object, n: int = FOREVER, before: tuple[str, ...] = (), **how: Any
    ) -> subprocess.Popen[bytes]:
        program = (sys.executable, "-c", PROGRAM, self.file, self.log, n)
        command = [*before, BIN / "tierctl", "run", "-c", self.config, *args, "--", *program]
        given: dict[str, Any] = {
            "stderr": self.stderr,
            "start_new_session": True,
            "preexec_fn": hear_all,
        } | how
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, **given
        )
        self.cleanup.callback(process.wait)
        self.cleanup.callback(process.kill)
        self.find_run(process)
        self.until(lambda: self.acknowledged() > 20, "the program does not begin")
        return process

    def find_run(self, process: subprocess.Popen[bytes]) -> None:
        """Its instance is named after the process and random digits."""
        regions: list[Path] = []
        pattern = f"tierbench.{os.getuid()}.run-{process.pid}-????????"
        self.until(lambda: regions.__iadd__(Path("/dev/shm").glob(pattern)), "no region")
        self.name = regions[0].name.split(".", 2)[2]

    def until(self, holds: Callable[[], object], what: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"{what}: {self.err.read_text() if self.err.exists() else ''}"
            time.sleep(0.01)

    def is_told(self, line: str) -> bool:
        return line in self.lines()

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def acknowledged(self) -> int:
        return sum(not line.startswith("signal") for line in self.lines())

    def program_pid(self) -> int:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if str(self.log).encode() in words and not words[0].endswith(b"tierctl"):
                return int(entry.parent.name)
        return 0

    def all_is_on_the_pfs(self) -> None:
        assert not self.shm().exists(), f"the region is left: {self.err.read_text()}"
        assert self.daemons() == []
        self.nothing_is_left()
        n, there = self.acknowledged(), self.file.read_bytes()
        assert there[: 8 * n] == b"".join(b"%07d\n" % i for i in range(n))

    def owner_gone(self) -> None:
        """The daemon does it alone."""
        self.until(lambda: not self.shm().exists() and not self.daemons(), "the daemon does not end", 40)
        self.all_is_on_the_pfs()

    def ends(self, process: subprocess.Popen[bytes], status: int) -> None:
        """The process, and all is well."""
        assert process.wait(timeout=60) == status, self.err.read_text()
        self.all_is_on_the_pfs()


@pytest.fixture
def run() -> Iterator[Run]:
    with Run() as made:
        yield made


@pytest.mark.parametrize("sig", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_to_the_group(run: Run, sig: signal.Signals) -> None:
    process = run.run_program()
    os.killpg(process.pid, sig)
    run.ends(process, 5)


def test_a_signal_to_tierctl_alone_is_passed_on(run: Run) -> None:
    process = run.run_program()
    for sig in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        process.send_signal(sig)
        run.until(partial(run.is_told, f"signal {int(sig)}"), f"{sig} does not come")
    run.ends(process, 5)


def test_the_terminal_goes(run: Run) -> None:
    ours, theirs = pty.openpty()

    def make_it_the_terminal() -> None:
        hear_all()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = run.run_program(stdout=theirs, stderr=theirs, preexec_fn=make_it_the_terminal)
    os.close(theirs)
    os.close(ours)
    run.ends(process, 5)


def test_nohup_goes_on(run: Run) -> None:
    process = run.run_program(n=SHORT, before=("nohup",))
    os.killpg(process.pid, signal.SIGHUP)
    assert process.wait(timeout=30) == 0, run.err.read_text()
    assert run.acknowledged() == SHORT
    run.all_is_on_the_pfs()


def test_signals_while_draining(run: Run) -> None:
    """They are answered, and the drain goes on."""
    device = run.root / "slow.yaml"
    device.write_text(
        "name: slow\nsource: none\nwrite_bandwidth: 1MiB/s\nread_bandwidth: 100MiB/s\nsync_time: 3s\nchannels: 1\n"
    )
    run.config.write_text(run.config.read_text().replace("/pfs}", f"/pfs, model: {device}}}"))
    process = run.run_program()
    process.terminate()
    run.until(lambda: not run.program_pid(), "the program does not end")
    time.sleep(0.3)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process.send_signal(sig)
        time.sleep(0.2)
    assert process.wait(timeout=60) == 5
    assert "the program has ended" in run.err.read_text()
    run.all_is_on_the_pfs()


def test_tierctl_killed(run: Run) -> None:
    process = run.run_program(n=SHORT)
    process.kill()
    run.until(lambda: run.acknowledged() == SHORT, "the program does not go on")
    run.owner_gone()


def test_all_but_the_daemon_killed(run: Run) -> None:
    process = run.run_program()
    os.killpg(process.pid, signal.SIGKILL)
    run.owner_gone()


def test_tierctl_killed_and_a_program_that_has_not_attached_yet(run: Run) -> None:
    command = f"sleep 3; exec {sys.executable} -c '{PROGRAM}' {run.file} {run.log} 50"
    process = subprocess.Popen(
        [BIN / "tierctl", "run", "-c", run.config, "--", "sh", "-c", command],
        start_new_session=True,
        stderr=run.stderr,
    )
    run.cleanup.callback(process.kill)
    run.find_run(process)
    time.sleep(0.5)
    process.kill()
    process.wait()
    run.until(lambda: run.acknowledged() == 50, "the program does not come")
    run.owner_gone()


def test_owner_gone_and_a_pfs_that_fails_for_a_while(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TB_FAULT", f"op=pwrite,errno=EIO,count=2,path={run.root}/pfs")
    process = run.run_program()
    os.killpg(process.pid, signal.SIGKILL)
    run.owner_gone()


@pytest.mark.usefixtures("alone")
def test_gc(run: Run) -> None:
    """What is left when the daemon was killed too; a living instance is left alone."""
    process = run.run_program()
    os.kill(run.daemons()[0], signal.SIGKILL)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    dead, run.name = run.name, "living-" + run.name
    run.start()
    done = run.ctl("gc")
    run.check(done, 0, f"instance {dead} ", "1 instance cleared")
    assert run.name not in done.stdout
    assert run.status()["daemon_alive"]
    run.check(run.ctl("gc"), 0, "0 instances cleared")
    run.stop()
    run.all_is_on_the_pfs()


def test_keep(run: Run) -> None:
    process = run.run_program("--keep", n=50)
    assert process.wait(timeout=30) == 0, run.err.read_text()
    time.sleep(2)
    assert run.status()["daemon_alive"]
    run.stop()
    run.all_is_on_the_pfs()


def test_the_daemon_is_out_of_reach(run: Run) -> None:
    """Of signals to the group, and of the terminal; and a SIGHUP of its own makes it drain."""
    process = run.run_program()
    daemon = run.daemons()[0]
    assert os.getsid(daemon) == daemon
    os.kill(daemon, signal.SIGHUP)
    run.until(lambda: not run.daemons() or "State:\tZ" in state_of(daemon), "it does not end")
    assert run.file.stat().st_size > 0
    os.killpg(process.pid, signal.SIGTERM)
    run.ends(process, 5)
