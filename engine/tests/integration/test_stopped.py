"""A client that is stopped (SIGSTOP) while it flushes a file: a drain names it, does the other files, and has an end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from instances import BIN, PRELOAD, Instances, run_side_by_side, state_of


class Stopped(Instances):
    """It stops itself in its flush, before the PFS is synced, while it has the file's claim."""

    fsync = "pfs"

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.other = self.program(file=self.root / "pfs" / "other")
        self.assertEqual(self.other.ask("write 0 other"), "5")
        fault = f"op=fsync,signal={int(signal.SIGSTOP)},path={self.root}/pfs"
        self.writer = self.program(env={"TB_FAULT": fault})
        self.assertEqual(self.writer.ask("write 0 stopped"), "7")
        self.writer.input.write("fsync\n")
        self.writer.input.flush()
        self.pid = self.writer.process.pid
        self.addCleanup(self.go_on)
        until = time.monotonic() + 20
        while "State:\tT" not in state_of(self.pid):
            self.assertLess(time.monotonic(), until, "it does not stop")
            time.sleep(0.01)

    def go_on(self) -> None:
        if self.writer.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)

    def begin_drain(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [BIN / "tierctl", "drain", "-i", self.name], stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.kill)
        time.sleep(4)
        return process

    def test_it_is_named_and_the_drain_goes_on_with_it(self) -> None:
        drain = self.begin_drain()
        self.assertIsNone(drain.poll())
        self.assertEqual((self.root / "pfs" / "other").read_text(), "other")
        waits = self.status()["waits"]
        self.assertIn((drain.pid, self.pid, True), [(w["pid"], w["for"], w["stopped"]) for w in waits])
        self.assertIn(f"for process {self.pid} (", self.ctl("status", "-i", self.name).stdout)
        os.kill(self.pid, signal.SIGCONT)
        _, said = drain.communicate(timeout=40)
        self.assertEqual(drain.returncode, 0, said)
        self.assertRegex(said, rf"waited \d+ s for process {self.pid} \(.*, stopped\)")
        self.assertEqual(self.read(), "stopped")
        self.assertEqual(self.status()["waits"], [])

    def test_its_death_ends_the_wait(self) -> None:
        drain = self.begin_drain()
        os.kill(self.pid, signal.SIGKILL)
        _, said = drain.communicate(timeout=40)
        self.assertEqual(drain.returncode, 0, said)
        self.assertEqual(self.read(), "stopped")

    def test_the_drain_gives_up(self) -> None:
        drain = self.begin_drain()
        _, said = drain.communicate(timeout=90)
        self.assertEqual(drain.returncode, 3, said)
        self.assertRegex(
            said, rf"{Path(self.file)}: not flushed: it waits for process {self.pid} \(.*, stopped\)"
        )
        self.assertIn("try again with: tierctl drain", said)
        self.assertEqual((self.root / "pfs" / "other").read_text(), "other")
        os.kill(self.pid, signal.SIGCONT)
        self.assertEqual(self.writer.output.readline().strip(), "synced")
        self.assertEqual(self.writer.ask("write 0 S"), "1")
        self.check(self.ctl("drain", "-i", self.name), 0)
        self.assertEqual(self.read(), "Stopped")


class Held(Instances):
    """A client is stopped while it has a lock that others need."""

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.writer = self.program()
        self.assertEqual(self.writer.ask("write 0 bytes"), "5")

    def hold(self, which: str) -> int:
        """Its process number."""
        holder = subprocess.Popen(
            [BIN / "test_hold", self.name, which], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.addCleanup(holder.communicate)
        self.addCleanup(holder.kill)
        assert holder.stdout
        self.assertEqual(holder.stdout.readline(), "held\n")
        self.until(lambda: "State:\tT" in state_of(holder.pid), "it does not stop")
        return holder.pid

    def until(self, holds: Callable[[], bool], what: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def begin(self, *args: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (env or {}),
        )
        self.addCleanup(process.kill)
        return process

    def ends(self, process: subprocess.Popen[str], status: int, *says: str) -> None:
        out, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, status, out + err)
        for text in says:
            self.assertRegex(out + err, text)

    def daemon_waits(self) -> None:
        daemon = self.daemons()[0]
        self.until(
            lambda: any(w["pid"] == daemon for w in self.status()["waits"]), "the daemon does not wait"
        )

    def goes_on(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.writer.ask("read 9"), "b'bytes'")
        self.check(self.ctl("stop", "-i", self.name), 0)
        self.assertEqual(self.read(), "bytes")
        self.nothing_is_left()

    def test_status_names_who_keeps_others_from_attaching(self) -> None:
        pid = self.hold("clients")
        began = time.monotonic()
        self.assertRegex(
            self.ctl("status", "-i", self.name).stdout,
            rf"has waited 1 s for process {pid} \(test_hold, stopped\)",
        )
        self.assertIn((pid, True), [(w["for"], w["stopped"]) for w in self.status()["waits"]])
        self.assertLess(time.monotonic() - began, 20)
        program = self.begin(
            "sh",
            "-c",
            'LD_PRELOAD=$TB_LATER_PRELOAD exec "$@"',
            "sh",
            "cat",
            self.file,
            env={"TB_LATER_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": self.name},
        )
        time.sleep(3)
        self.assertIsNone(program.poll())
        os.kill(pid, signal.SIGCONT)
        self.ends(
            program, 0, rf"this program has waited 1 s for process {pid} \(test_hold, stopped\)", "bytes"
        )
        self.goes_on(pid)

    def test_status_names_who_locks_the_names(self) -> None:
        pid = self.hold("names")
        self.assertIn((pid, True), [(w["for"], w["stopped"]) for w in self.status()["waits"]])
        self.goes_on(pid)

    def test_commands_that_attach_give_up(self) -> None:
        pid = self.hold("clients")
        commands = [self.begin(BIN / "tierctl", command, "-i", self.name) for command in ("drain", "stop")]
        for command in commands:
            self.ends(
                command,
                3,
                rf"has waited 1 s for process {pid} \(",
                rf"gives up .* process {pid} \(test_hold, stopped\)",
            )
        self.goes_on(pid)

    def test_a_repair_that_waits_is_named_by_who_waits_for_it(self) -> None:
        """The daemon repairs after a killed program, with the lock that registers, and waits for the one that is stopped."""
        pid = self.hold("chunk")
        other = self.program(file=self.root / "pfs" / "other")
        self.assertEqual(other.ask("write 0 other"), "5")
        other.kill()
        self.daemon_waits()
        daemon = self.daemons()[0]
        self.ends(
            self.begin(BIN / "tierctl", "drain", "-i", self.name),
            3,
            rf"gives up .* process {daemon} \(tierd\), which waits for process {pid} \(test_hold, stopped\)",
        )
        self.goes_on(pid)
        self.assertEqual((self.root / "pfs" / "other").read_text(), "other")

    def test_the_daemon_ends(self) -> None:
        """Its flush threads wait; its drain does not."""
        pid = self.hold("queue")
        self.daemon_waits()
        os.kill(self.daemons()[0], signal.SIGTERM)
        self.until(lambda: self.read() == "bytes", "it does not drain")
        self.until(lambda: not self.daemons(), "it does not end", 60)
        self.assertFalse(self.status()["daemon_alive"])
        self.goes_on(pid)

    def test_a_stop_whose_daemon_cannot_end(self) -> None:
        pid = self.hold("queue")
        self.daemon_waits()
        self.ends(
            self.begin(BIN / "tierctl", "stop", "-i", self.name),
            3,
            rf"(waits for|which waits for) process {pid} \(test_hold, stopped\)|its daemon waited for a process that is stopped",
        )
        self.assertEqual(self.read(), "bytes")
        self.assertEqual(self.status()["clients"], 2)
        self.until(lambda: not self.daemons(), "the daemon does not end", 60)
        self.goes_on(pid)

    def test_a_drain_whose_repair_waits_flushes_the_rest(self) -> None:
        self.kill_daemons()
        pid = self.hold("chunk")
        other = self.program(file=self.root / "pfs" / "other")
        self.assertEqual(other.ask("write 0 other"), "5")
        other.kill()
        self.ends(
            self.begin(BIN / "tierctl", "drain", "-i", self.name),
            3,
            rf"what killed programs left: .* waits for process {pid} \(",
        )
        self.goes_on(pid)
        self.assertEqual((self.root / "pfs" / "other").read_text(), "other")


if __name__ == "__main__":
    run_side_by_side()
