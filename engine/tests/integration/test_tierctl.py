"""tierctl as a user meets it: exit statuses, messages, what is left behind, faults while draining, flipped bytes."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

BIN = Path(os.environ["TB_BIN_DIR"])
PRELOAD = BIN.parent / "lib" / "libtierbench_preload.so"
CONFIG = """version: 1
max_files: 256
pfs: {{path: {root}/pfs}}
fsync: tier
allow_volatile: true
flush: {{policy: manual}}
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
"""
WRITE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(fd, bytes(range(256)) * 1024, 0)
os.fsync(fd)
os.close(fd)
"""
BYTES = bytes(range(256)) * 1024
serial = 0


Writes = tuple[tuple[int, int, str], ...]


class Tierctl(unittest.TestCase):
    def setUp(self) -> None:
        global serial
        serial += 1
        self.name = f"ctl-{os.getpid()}-{serial}"
        self.root = Path(tempfile.mkdtemp(prefix="tierbench-ctl-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        for place in ("pfs", "nvme"):
            (self.root / place).mkdir()
        self.config = self.root / f"{self.name}.yaml"
        self.config.write_text(CONFIG.format(root=self.root))
        self.file = self.root / "pfs" / "f"
        self.addCleanup(self.end)

    def end(self) -> None:
        for shm in Path("/dev/shm").glob(f"tierbench.{os.getuid()}.{self.name}*"):
            self.ctl("stop", "-i", shm.name.split(".", 2)[2], "--force")

    def ctl(self, *args: str | Path, fault: str | None = None) -> subprocess.CompletedProcess[str]:
        env = dict(os.environ)
        if fault:
            env["TB_FAULT"] = fault
        return subprocess.run([BIN / "tierctl", *args], env=env, capture_output=True, text=True, timeout=60)

    def start(self, name: str | None = None) -> None:
        done = self.ctl("start", "-c", self.config, "-i", name or self.name)
        self.assertEqual(done.returncode, 0, done.stderr)

    def status(self) -> Any:
        done = self.ctl("status", "-i", self.name, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def shm(self) -> Path:
        return Path(f"/dev/shm/tierbench.{os.getuid()}.{self.name}")

    def write(self) -> None:
        env = os.environ | {"LD_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": self.name}
        subprocess.run([sys.executable, "-c", WRITE, self.file], env=env, check=True)
        self.assertNotEqual(
            self.file.read_bytes() if self.file.exists() else b"", BYTES, "it was not buffered"
        )

    def kill_daemon(self) -> None:
        os.kill(self.status()["daemon_pid"], signal.SIGKILL)
        end = time.monotonic() + 10
        while self.status()["daemon_alive"] and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(self.status()["daemon_alive"])

    def test_bad_input_leaves_nothing(self) -> None:
        good = self.config.read_text()
        for old, new, says in (
            ("max_files: 256", "max_filez: 256", ("max_filez", "allowed")),
            ("max_files: 256", "max_files: 0", ("max_files", '"0"', "allowed")),
            ("4MiB, block: 4KiB", "4MB, block: 4KiB", ("tiers[0].capacity", "4MB", "MiB")),
            (f"{self.root}/nvme", f"{self.root}/none", ("tiers[1].path", f"{self.root}/none", "allowed")),
            (f"{self.root}/pfs", f"{self.root}/none", ("pfs.path", f"{self.root}/none", "allowed")),
            ("fsync: tier", "fsync: none", ("fsync", "none", "scratch")),
        ):
            self.config.write_text(good.replace(old, new, 1))
            for args in (("start", "-i", self.name), ("run",)):
                command = ["--", "true"] if args[0] == "run" else []
                with self.subTest(new=new, command=args[0]):
                    done = self.ctl(args[0], "-c", self.config, *args[1:], *command)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    for text in (str(self.config), *says):
                        self.assertIn(text, done.stderr)
                    self.assertFalse(self.shm().exists())
                    self.assertEqual(list((self.root / "nvme").iterdir()), [])
                    for stat in Path("/proc").glob("[0-9]*/cmdline"):
                        try:
                            line = stat.read_bytes()
                        except OSError:
                            continue
                        self.assertFalse(b"tierd\0" in line and str(self.config).encode() in line)

    def test_start_status_stop(self) -> None:
        self.start()
        state = self.status()
        self.assertEqual((state["instance"], state["daemon_alive"]), (self.name, True))
        self.assertEqual([t["name"] for t in state["tiers"]], ["ram", "nvme"])
        self.assertIn(self.name, self.ctl("status", "-i", self.name).stdout)
        again = self.ctl("start", "-c", self.config, "-i", self.name)
        self.assertEqual(again.returncode, 2)
        self.assertIn(self.name, again.stderr)
        self.assertTrue(self.status()["daemon_alive"])
        other = self.name + "-b"
        self.start(other)
        for command in ("status",):  # only reads: were it broken, it could meet somebody else's instance
            done = self.ctl(command)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn(self.name + " ", done.stderr)
            self.assertIn(other, done.stderr)
        self.assertEqual(self.ctl("stop", "-i", other).returncode, 0)
        self.assertEqual(self.ctl("stop", "-i", self.name).returncode, 0)
        self.assertFalse(self.shm().exists())
        self.assertEqual(list((self.root / "nvme").iterdir()), [])
        self.assertNotEqual(self.ctl("status", "-i", self.name).returncode, 0)

    def watch(self, *args: str | Path, **more: Any) -> subprocess.Popen[Any]:
        command = [BIN / "tierctl", "status", "-i", self.name, "--watch=0.05", *args]
        process: subprocess.Popen[Any] = subprocess.Popen(command, stderr=subprocess.PIPE, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        if process.stderr:
            self.addCleanup(process.stderr.close)
        return process

    def until(self, fd: int, pattern: str, seconds: float = 20) -> str:
        """Everything read until the pattern appears."""
        text, end = "", time.monotonic() + seconds
        while not re.search(pattern, text, re.DOTALL):
            ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"no {pattern} in {text[-2000:]}")
            text += os.read(fd, 65536).decode()
        return text

    def test_daemon_keeps_no_descriptor_of_its_starter(self) -> None:
        """Else a lock that a script holds while it starts an instance would be the daemon's as long as it lives."""
        with (self.root / "lock").open("w") as lock:
            given = os.dup(lock.fileno())
            command = [BIN / "tierctl", "start", "-c", self.config, "-i", self.name]
            subprocess.run(
                [str(word) for word in command], pass_fds=[given], check=True, timeout=60, capture_output=True
            )
            os.close(given)
            mine = Path(f"/proc/{self.status()['daemon_pid']}/fd")
            kept = [str(fd.readlink()) for fd in mine.iterdir()]
            self.assertTrue(kept)
            self.assertNotIn(str(self.root / "lock"), kept)

    def test_watch_redraws_a_terminal(self) -> None:
        self.start()
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = self.watch(stdout=theirs)
        os.close(theirs)
        empty = self.until(ours, r"\033\[J.*\033\[J")
        self.assertIn(f"ram      [{'.' * 18}]", empty)
        self.assertRegex(empty, r"\033\[5A" + self.name)  # over the five lines of the last picture
        self.assertTrue(all(len(line) <= 80 for line in re.sub(r"\033\[\d*\w", "", empty).split("\r\n")))
        self.write()
        self.until(ours, r"nvme +\[#+\.*\] +0\.2 +0\.0")
        self.assertEqual(self.ctl("drain", "-i", self.name).returncode, 0)
        # Both are seen, in one picture or in two: the drain may fall between them.
        self.until(
            ours, r"(?=.*nvme +\[[+.]+\] +0\.0)(?=.*pfs +([0-9]*[1-9][0-9.]*|0\.[0-9]*[1-9]) MiB/s written)"
        )
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=10), 0)
        self.assertEqual(self.status()["clients"], 0)

    def test_watch_writes_lines_and_ends_with_the_instance(self) -> None:
        self.start()
        process = self.watch(stdout=subprocess.PIPE)
        assert process.stdout
        self.addCleanup(process.stdout.close)
        text = self.until(process.stdout.fileno(), r"\n.*\n.*\n")
        self.assertNotIn("\033", text)
        self.assertEqual(self.ctl("stop", "-i", self.name).returncode, 0)
        text += self.until(process.stdout.fileno(), "ended\n")
        lines = text.splitlines()
        self.assertEqual(lines.pop(), f"instance {self.name} ended")
        for line in lines:
            self.assertRegex(
                line,
                r"^[0-9.]+ s  clients [01]  ram: dirty 0.0 clean 0.0 free [0-9.]+ MiB, in 0.0 out 0.0 flush 0.0 MiB/s",
            )
        self.assertEqual(process.wait(timeout=10), 0)

    def test_watch_writes_json_lines(self) -> None:
        self.start()
        process = self.watch("--json", stdout=subprocess.PIPE)
        assert process.stdout
        self.addCleanup(process.stdout.close)
        text = self.until(process.stdout.fileno(), r"\n.*\n.*\n")
        process.terminate()
        self.assertEqual(process.wait(timeout=10), 0)
        text += process.stdout.read().decode()
        for line in text.splitlines():
            self.assertEqual(json.loads(line)["region"]["huge_pages"], self.status()["region"]["huge_pages"])
        self.assertEqual(self.ctl("status", "-i", self.name, "--watch=0").returncode, 2)

    def test_run_status_is_the_commands(self) -> None:
        for command, status in (
            ("exit 0", 0),
            ("exit 7", 7),
            ("kill -9 $$", 137),
            ("no-such-program-here", 127),
        ):
            with self.subTest(command=command):
                done = self.ctl("run", "-c", self.config, "--", "sh", "-c", command)
                self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(self.ctl("run", "-c", self.config, "--", "no-such-program-here").returncode, 127)
        self.assertEqual(list((self.root / "nvme").iterdir()), [])

    def test_run_leaves_no_daemon_when_it_is_ended_early(self) -> None:
        for delay_ms in (0, 1, 2, 3, 5, 8, 12, 20, 40):
            p = subprocess.Popen(
                [BIN / "tierctl", "run", "-c", self.config, "--", "sleep", "30"], stderr=subprocess.DEVNULL
            )
            time.sleep(delay_ms / 1000)
            p.terminate()
            p.wait(timeout=20)
            for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = cmdline.read_bytes().split(b"\0")
                except OSError:
                    continue
                self.assertFalse(
                    any(w.startswith(f"run-{p.pid}-".encode()) for w in words), f"ended after {delay_ms} ms"
                )

    def test_run_refuses_static(self) -> None:
        source = self.root / "s.c"
        source.write_text("int main(void) { return 0; }\n")
        if subprocess.run(["cc", "-static", "-o", self.root / "s", source], capture_output=True).returncode:
            self.skipTest("cc cannot link statically here")
        done = self.ctl("run", "-c", self.config, "--", self.root / "s")
        self.assertEqual(done.returncode, 2)
        self.assertIn("statically linked", done.stderr)

    POLICIES = (
        "max-bandwidth",
        "minimize-io-time",
        "data-locality",
        "hot-data",
        "user-defined",
        "round-robin",
        "random",
    )
    # In pieces that end inside buffers: less than the tiers hold; more, of one file, of another, then of the first again; and
    # the third file, which has units in both tiers.
    SEQUENCES = (
        ((12, 100, "a"), (8, 256, "b")),
        ((20, 100, "a"), (30, 256, "b"), (3, 1500, "a")),
        ((1, 4, "a"), (1, 4, "b"), (12, 256, "c")),
    )
    PROGRAM = """
import os, sys
ends = {}
for group in sys.argv[2:]:
    n, kib, name = group.split(":")
    fd = os.open(os.path.join(sys.argv[1], name), os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(int(n)):
        at = ends.get(name, 0)
        assert os.pwrite(fd, bytes(int(kib) * 1024), at) == int(kib) * 1024
        ends[name] = at + int(kib) * 1024
"""

    def configure(self, policy: str) -> None:
        rules = ", rules: [{pattern: '*/b', tiers: [nvme]}]" if policy == "user-defined" else ""
        text = CONFIG.format(root=self.root).replace(
            "fsync: tier", f"fsync: tier\nplacement: {{policy: {policy}{rules}}}"
        )
        large, small = "{units: 16, share: 1.0}", "{units: 16, share: 0.5}, {units: 1, share: 0.5}"
        self.config.write_text(text.replace(large, small).replace(small, large, 1))

    def planned(self, writes: Writes) -> dict[str, int]:
        """Bytes by tier, and of the PFS."""
        done = self.ctl(
            "plan",
            self.config,
            "--writes",
            ", ".join(f"{n} x {kib} KiB to {name}" for n, kib, name in writes),
            "--json",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        groups = json.loads(done.stdout)["writes"]
        return {t: sum(g["tier_bytes"][t] for g in groups) for t in ("ram", "nvme")} | {
            "PFS": sum(g["pfs_bytes"] for g in groups)
        }

    def taken(self, writes: Writes) -> dict[str, int]:
        """The same of a run."""
        stats = self.root / "stats.json"
        done = self.ctl(
            "run",
            "-c",
            self.config,
            "--stats",
            stats,
            "--",
            sys.executable,
            "-c",
            self.PROGRAM,
            self.root / "pfs",
            *(f"{n}:{kib}:{name}" for n, kib, name in writes),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in {name for _, _, name in writes}:
            (self.root / "pfs" / name).unlink()
        seen = json.loads(stats.read_text())
        return {t["name"]: t["bytes_in"] for t in seen["tiers"]} | {"PFS": seen["spilled"]}

    def test_plan_says_where_writes_go(self) -> None:
        for policy in self.POLICIES:
            for writes in self.SEQUENCES:
                with self.subTest(policy=policy, writes=writes):
                    self.configure(policy)
                    expected = self.planned(writes)
                    self.assertEqual(sum(expected.values()), sum(n * kib * 1024 for n, kib, _ in writes))
                    self.assertEqual(self.taken(writes), expected)

    def test_plan_draws_where_writes_go(self) -> None:
        self.configure("round-robin")
        picture = self.root / "plan.svg"
        done = self.ctl("plan", self.config, "--writes", "4 x 64KiB to <a>", "--svg", picture)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^4 x 64KiB to <a> +0\.12 +0\.12 +0\.00$")
        drawn = ElementTree.parse(picture).getroot()
        texts = ["".join(t.itertext()) for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
        self.assertLessEqual(
            {
                "Where 4 writes go under round-robin",
                "1: 4 x 64 KiB to <a>",
                "ram: 128 KiB",
                "nvme: 128 KiB",
                "PFS: 0 KiB",
            },
            set(texts),
        )

    def test_plan_refuses_bad_writes(self) -> None:
        picture = self.root / "plan.svg"
        for writes in (
            "",
            "4",
            "0 x 1MiB",
            "4 x",
            "x 1MiB",
            "-1 x 1MiB",
            "4 y 1MiB",
            "4 x 1MB",
            "4 x 0B",
            "4 x 1MiB to ",
            "4 x 1MiB to " + "n" * 32,
            "4 x 1MiB,",
            "1000001 x 1B",
            "1000 x 1TiB",
            ", ".join(["1 x 1B"] * 17),
        ):
            with self.subTest(writes=writes):
                done = self.ctl("plan", self.config, "--writes", writes, "--svg", picture)
                self.assertEqual(
                    (done.returncode, done.stderr.count("\n"), done.stdout), (2, 1, ""), done.stderr
                )
                self.assertIn(f"--writes '{writes}': ", done.stderr)
                self.assertFalse(picture.exists())

    def test_run_stats_and_keep(self) -> None:
        stats = self.root / "stats.json"
        done = self.ctl(
            "run", "-c", self.config, "--stats", stats, "--keep", "--", sys.executable, "-c", WRITE, self.file
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(stats.read_text())
        self.assertLessEqual(
            {
                "instance",
                "config",
                "modelled",
                "fsync",
                "policy",
                "mode",
                "tiers",
                "pfs",
                "spilled",
                "fsyncs",
                "files",
                "dirty_files",
                "errors",
                "region",
                "samples",
                "exit_status",
                "program_s",
                "drain_s",
                "drained_bytes",
                "durable_s",
            },
            set(seen),
        )
        self.assertEqual((seen["exit_status"], seen["drained_bytes"]), (0, len(BYTES)))
        samples, flushed = seen["samples"], sum(t["flushed"] for t in seen["tiers"])
        self.assertEqual(
            {t["name"]: t["bytes_in"] for t in seen["tiers"]},
            {n: s[-1] for n, s in samples["bytes_in"].items()},
        )
        self.assertEqual(
            (sum(s[-1] for s in samples["bytes_in"].values()), samples["pfs_bytes_written"][-1]),
            (len(BYTES),) * 2,
        )
        self.assertEqual(
            (sum(s[-1] for s in samples["flushed"].values()), samples["spilled"][-1]), (flushed, 0)
        )
        self.assertEqual(self.file.read_bytes(), BYTES)
        self.name = seen["instance"]
        self.assertTrue(self.status()["daemon_alive"])
        self.assertEqual(self.ctl("stop", "-i", self.name).returncode, 0)
        self.assertFalse(self.shm().exists())

    def test_drain_and_stop_without_daemon(self) -> None:
        self.start()
        self.write()
        self.kill_daemon()
        self.assertEqual(self.ctl("drain", "-i", self.name).returncode, 0)
        self.assertEqual(self.file.read_bytes(), BYTES)
        self.assertEqual(self.ctl("stop", "-i", self.name).returncode, 0)
        self.assertFalse(self.shm().exists())

    def test_failed_drain_keeps_all(self) -> None:
        fault = f"op=pwrite,errno=ENOSPC,count=0,path={self.root}/pfs"
        for command in ("drain", "stop"):
            with self.subTest(command=command):
                self.start()
                self.write()
                self.kill_daemon()
                done = self.ctl(command, "-i", self.name, fault=fault)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertTrue(self.shm().exists())
                self.assertIn(str(self.file), done.stderr)
                self.assertIn("No space left", done.stderr)
                retry = done.stderr.split("try again with: tierctl ")[1].split()
                done = self.ctl(*retry)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.file.read_bytes(), BYTES)
                if command == "drain":
                    self.assertEqual(self.ctl("stop", "-i", self.name).returncode, 0)
                self.assertFalse(self.shm().exists())
                self.file.unlink()

    def test_flipped_byte_is_reported(self) -> None:
        for which, at in (("slab-*", 7), ("journal", 512 + 40)):
            with self.subTest(which=which):
                self.start()
                self.write()
                self.kill_daemon()
                self.shm().unlink()
                flipped = 0
                for path in (self.root / "nvme").glob(f"*/{which}"):
                    with path.open("r+b") as f:
                        f.seek(at)
                        old = f.read(1)
                        f.seek(at)
                        flipped += f.write(bytes([old[0] ^ 0xFF]))
                self.assertGreater(flipped, 0)
                done = self.ctl("recover", "-c", self.config)
                self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                self.assertIn("not recovered", done.stderr)
                found = self.file.read_bytes() if self.file.exists() else b""
                self.assertTrue(
                    all(b in (0, BYTES[i]) for i, b in enumerate(found)), "wrong bytes on the PFS"
                )
                for left in (self.root / "nvme").iterdir():
                    shutil.rmtree(left)
                self.file.unlink(missing_ok=True)


if __name__ == "__main__":
    unittest.main()
