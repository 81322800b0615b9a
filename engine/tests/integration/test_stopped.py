"""A client that is stopped (SIGSTOP) while it flushes a file: a drain names it, does the other files, and has an end."""

import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from instances import BIN, Instances, state_of


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
        self.writer.process.stdin.write("fsync\n")
        self.writer.process.stdin.flush()
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
        process = subprocess.Popen([BIN / "tierctl", "drain", "-i", self.name], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        time.sleep(4)
        return process

    def test_it_is_named_and_the_drain_goes_on_with_it(self):
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

    def test_its_death_ends_the_wait(self):
        drain = self.begin_drain()
        os.kill(self.pid, signal.SIGKILL)
        _, said = drain.communicate(timeout=40)
        self.assertEqual(drain.returncode, 0, said)
        self.assertEqual(self.read(), "stopped")

    def test_the_drain_gives_up(self):
        drain = self.begin_drain()
        _, said = drain.communicate(timeout=90)
        self.assertEqual(drain.returncode, 3, said)
        self.assertRegex(said, rf"{Path(self.file)}: not flushed: it waits for process {self.pid} \(.*, stopped\)")
        self.assertIn("try again with: tierctl drain", said)
        self.assertEqual((self.root / "pfs" / "other").read_text(), "other")
        os.kill(self.pid, signal.SIGCONT)
        self.assertEqual(self.writer.process.stdout.readline().strip(), "synced")
        self.assertEqual(self.writer.ask("write 0 S"), "1")
        self.check(self.ctl("drain", "-i", self.name), 0)
        self.assertEqual(self.read(), "Stopped")


if __name__ == "__main__":
    unittest.main()
