"""A client that is stopped (SIGSTOP) while it flushes a file: a drain names it, does the other files, and has an end."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from instances import BIN, PRELOAD, Instance, state_of


class Stopped(Instance):
    """It stops itself in its flush, before the PFS is synced, while it has the file's claim."""

    def begin(self) -> None:
        self.start()
        self.other = self.program(file=self.root / "pfs" / "other")
        assert self.other.ask("write 0 other") == "5"
        fault = f"op=fsync,signal={int(signal.SIGSTOP)},path={self.root}/pfs"
        self.writer = self.program(env={"TB_FAULT": fault})
        assert self.writer.ask("write 0 stopped") == "7"
        self.writer.input.write("fsync\n")
        self.writer.input.flush()
        self.pid = self.writer.process.pid
        self.cleanup.callback(self.go_on)
        until = time.monotonic() + 20
        while "State:\tT" not in state_of(self.pid):
            assert time.monotonic() < until, "it does not stop"
            time.sleep(0.01)

    def go_on(self) -> None:
        if self.writer.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)

    def begin_drain(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [BIN / "tierctl", "drain", "-i", self.name], stderr=subprocess.PIPE, text=True
        )
        self.cleanup.callback(process.kill)
        time.sleep(4)
        return process


@pytest.fixture
def stopped() -> Iterator[Stopped]:
    with Stopped(fsync="pfs") as made:
        made.begin()
        yield made


def test_it_is_named_and_the_drain_goes_on_with_it(stopped: Stopped) -> None:
    drain = stopped.begin_drain()
    assert drain.poll() is None
    assert (stopped.root / "pfs" / "other").read_text() == "other"
    waits = stopped.status()["waits"]
    assert (drain.pid, stopped.pid, True) in [(w["pid"], w["for"], w["stopped"]) for w in waits]
    assert f"for process {stopped.pid} (" in stopped.ctl("status", "-i", stopped.name).stdout
    os.kill(stopped.pid, signal.SIGCONT)
    _, said = drain.communicate(timeout=40)
    assert drain.returncode == 0, said
    assert re.search(rf"waited \d+ s for process {stopped.pid} \(.*, stopped\)", said)
    assert stopped.read() == "stopped"
    assert stopped.status()["waits"] == []


def test_its_death_ends_the_wait(stopped: Stopped) -> None:
    drain = stopped.begin_drain()
    os.kill(stopped.pid, signal.SIGKILL)
    _, said = drain.communicate(timeout=40)
    assert drain.returncode == 0, said
    assert stopped.read() == "stopped"


def test_the_drain_gives_up(stopped: Stopped) -> None:
    drain = stopped.begin_drain()
    _, said = drain.communicate(timeout=90)
    assert drain.returncode == 3, said
    assert re.search(
        rf"{stopped.file}: not flushed: it waits for process {stopped.pid} \(.*, stopped\)", said
    )
    assert "try again with: tierctl drain" in said
    assert (stopped.root / "pfs" / "other").read_text() == "other"
    os.kill(stopped.pid, signal.SIGCONT)
    assert stopped.writer.output.readline().strip() == "synced"
    assert stopped.writer.ask("write 0 S") == "1"
    stopped.check(stopped.ctl("drain", "-i", stopped.name), 0)
    assert stopped.read() == "Stopped"


class Held(Instance):
    """A client is stopped while it has a lock that others need."""

    def begin(self) -> None:
        self.start()
        self.writer = self.program()
        assert self.writer.ask("write 0 bytes") == "5"

    def hold(self, which: str) -> int:
        """Its process number."""
        holder = subprocess.Popen(
            [BIN / "test_hold", self.name, which], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.cleanup.callback(holder.communicate)
        self.cleanup.callback(holder.kill)
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        self.until(lambda: "State:\tT" in state_of(holder.pid), "it does not stop")
        return holder.pid

    def until(self, holds: Callable[[], bool], what: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, what
            time.sleep(0.02)

    def command(self, *args: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (env or {}),
        )
        self.cleanup.callback(process.kill)
        return process

    def ends(self, process: subprocess.Popen[str], status: int, *says: str) -> None:
        out, err = process.communicate(timeout=100)
        assert process.returncode == status, out + err
        for text in says:
            assert re.search(text, out + err)

    def daemon_waits(self) -> None:
        daemon = self.daemons()[0]
        self.until(
            lambda: any(w["pid"] == daemon for w in self.status()["waits"]), "the daemon does not wait"
        )

    def goes_on(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        assert self.writer.ask("read 9") == "b'bytes'"
        self.stop()
        assert self.read() == "bytes"
        self.nothing_is_left()


@pytest.fixture
def held() -> Iterator[Held]:
    with Held() as made:
        made.begin()
        yield made


def test_status_names_who_keeps_others_from_attaching(held: Held) -> None:
    pid = held.hold("clients")
    began = time.monotonic()
    assert re.search(
        rf"has waited 1 s for process {pid} \(test_hold, stopped\)",
        held.ctl("status", "-i", held.name).stdout,
    )
    assert (pid, True) in [(w["for"], w["stopped"]) for w in held.status()["waits"]]
    assert time.monotonic() - began < 20
    program = held.command(
        "sh",
        "-c",
        'LD_PRELOAD=$TB_LATER_PRELOAD exec "$@"',
        "sh",
        "cat",
        held.file,
        env={"TB_LATER_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": held.name},
    )
    time.sleep(3)
    assert program.poll() is None
    os.kill(pid, signal.SIGCONT)
    held.ends(program, 0, rf"this program has waited 1 s for process {pid} \(test_hold, stopped\)", "bytes")
    held.goes_on(pid)


def test_status_names_who_locks_the_names(held: Held) -> None:
    pid = held.hold("names")
    assert (pid, True) in [(w["for"], w["stopped"]) for w in held.status()["waits"]]
    held.goes_on(pid)


def test_commands_that_attach_give_up(held: Held) -> None:
    pid = held.hold("clients")
    commands = [held.command(BIN / "tierctl", command, "-i", held.name) for command in ("drain", "stop")]
    for command in commands:
        held.ends(
            command,
            3,
            rf"has waited 1 s for process {pid} \(",
            rf"gives up .* process {pid} \(test_hold, stopped\)",
        )
    held.goes_on(pid)


def test_a_program_that_is_killed_in_a_call_is_repaired(held: Held) -> None:
    """The look at all buffers waits for the stopped one; for a program that ended between its calls there is none."""
    pid = held.hold("bytes")
    other = held.program()
    other.input.write("write 9000 other\n")
    other.input.flush()
    held.until(
        lambda: any(w["pid"] == other.process.pid for w in held.status()["waits"]), "the call does not wait"
    )
    other.kill()
    held.daemon_waits()
    assert held.daemons()[0] in [w["pid"] for w in held.status()["waits"] if w["for"] == pid]
    held.goes_on(pid)


def test_a_repair_that_waits_is_named_by_who_waits_for_it(held: Held) -> None:
    """The daemon repairs after a program that was killed in a call, with the lock that registers, and waits for the one that is stopped."""
    pid = held.hold("chunk")
    other = held.program(file=held.root / "pfs" / "other")
    assert other.ask("write 0 other") == "5"
    other.kill()  # in no call: nothing waits for this one's repair
    os.kill(held.hold("queue"), signal.SIGKILL)
    held.daemon_waits()
    daemon = held.daemons()[0]
    held.ends(
        held.command(BIN / "tierctl", "drain", "-i", held.name),
        3,
        rf"gives up .* process {daemon} \(tierd\), which waits for process {pid} \(test_hold, stopped\)",
    )
    held.goes_on(pid)
    assert (held.root / "pfs" / "other").read_text() == "other"


def test_the_daemon_ends(held: Held) -> None:
    """Its flush threads wait; its drain does not."""
    pid = held.hold("queue")
    held.daemon_waits()
    os.kill(held.daemons()[0], signal.SIGTERM)
    held.until(lambda: held.read() == "bytes", "it does not drain")
    held.until(lambda: not held.daemons(), "it does not end", 60)
    assert not held.status()["daemon_alive"]
    held.goes_on(pid)


def test_a_stop_whose_daemon_cannot_end(held: Held) -> None:
    pid = held.hold("queue")
    held.daemon_waits()
    held.ends(
        held.command(BIN / "tierctl", "stop", "-i", held.name),
        3,
        rf"(waits for|which waits for) process {pid} \(test_hold, stopped\)|its daemon waited for a process that is stopped",
    )
    assert held.read() == "bytes"
    assert held.status()["clients"] == 2
    held.until(lambda: not held.daemons(), "the daemon does not end", 60)
    held.goes_on(pid)


def test_a_drain_whose_repair_waits_flushes_the_rest(held: Held) -> None:
    held.kill_daemons()
    pid = held.hold("chunk")
    other = held.program(file=held.root / "pfs" / "other")
    assert other.ask("write 0 other") == "5"
    other.kill()
    held.ends(
        held.command(BIN / "tierctl", "drain", "-i", held.name),
        3,
        rf"what killed programs left: .* waits for process {pid} \(",
    )
    assert (held.root / "pfs" / "other").read_text() == "other"
    held.goes_on(pid)


def test_who_asks_for_the_daemon_is_not_taken_for_it(held: Held) -> None:
    """Each asker has the daemon's mutex for a moment; with a dead daemon a recovery then left all, and said 0."""
    held.kill_daemons()
    held.hold("daemon")
    held.recover(3, "its daemon is dead", "still uses it")
