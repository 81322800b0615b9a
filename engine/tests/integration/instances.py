"""What tests of whole instances share: a configuration in a folder of its own, tierctl, programs under the adapter."""

import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

F_OFD_SETLK = 37
SOURCE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TB_BUILD_DIR", SOURCE / "build"))
BIN = BUILD / "bin"
PRELOAD = BUILD / "lib" / "libtierbench_preload.so"
TIERS = {
    "ram": "  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}\n",
    "nvme": "  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}\n",
    "bb": "  - {{name: bb, medium: directory, path: {root}/bb, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}\n",
}
CONFIG = """version: 1
max_files: 256
pfs: {{path: {root}/pfs}}
fsync: {fsync}
allow_volatile: true
flush: {{policy: manual}}
{more}tiers:
"""
# Does what it is told by lines on stdin, and answers each: write OFFSET TEXT, fsync, read N, quit.
PROGRAM = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
print("ready", flush=True)
for line in sys.stdin:
    what, _, rest = line.rstrip("\\n").partition(" ")
    try:
        if what == "write":
            at, _, text = rest.partition(" ")
            answer = os.pwrite(fd, text.encode(), int(at))
        elif what == "fsync":
            answer = os.fsync(fd) or "synced"
        elif what == "read":
            answer = os.pread(fd, int(rest), 0)
        elif what == "open":
            answer = os.close(os.open(rest, os.O_RDWR)) or "opened"
        print(answer, flush=True)
    except OSError as error:
        print(error, flush=True)
"""
serial = itertools.count(1)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_gone(state: str) -> bool:
    """A process keeps its locks until all its threads have ended, also if its first thread has."""
    return not state or ("\nState:\tZ" in state and "\nThreads:\t1\n" in state)


class Program:
    """A process under the adapter that is told what to do."""

    def __init__(self, file: Path, instance: str, *before: str, env: dict[str, str] | None = None) -> None:
        under = os.environ | {"TB_LATER_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": instance} | (env or {})
        start = [
            "sh",
            "-c",
            'LD_PRELOAD=$TB_LATER_PRELOAD exec "$@"',
            "sh",
            sys.executable,
            "-c",
            PROGRAM,
            str(file),
        ]
        # In a session of its own: the kernel hangs up a group that loses its last parent while one of the group is stopped.
        self.process = subprocess.Popen(
            [*before, *start],
            env=under,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout
        self.first = self.output.readline().strip()

    def ask(self, line: str) -> str:
        self.input.write(line + "\n")
        self.input.flush()
        readable, _, _ = select.select([self.output], [], [], 30)
        return self.output.readline().strip() if readable else "no answer in 30 s"

    def end(self) -> tuple[int, str]:
        """Its exit status, and what it said on stderr."""
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Instance:
    """A folder, a configuration and a name for an instance; it is not started. At the end all of it is removed."""

    def __init__(self, tiers: tuple[str, ...] = ("ram", "nvme"), fsync: str = "tier", more: str = "") -> None:
        self.tiers, self.fsync, self.more = tiers, fsync, more
        self.name = f"life-{os.getpid()}-{next(serial):03}"  # none begins with another one
        self.cleanup = ExitStack()
        self.programs: list[Program] = []

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="tierbench-life-"))
        self.root.chmod(0o755)
        self.cleanup.callback(shutil.rmtree, self.root, ignore_errors=True)
        for place in ("pfs", "nvme", "bb"):
            (self.root / place).mkdir()
        self.config = self.write_config(self.name)
        self.file = self.root / "pfs" / "f"
        self.cleanup.callback(self.end_all)
        return self

    def __exit__(self, *what: object) -> None:
        self.cleanup.close()

    def write_config(self, name: str) -> Path:
        path = self.root / f"{name}.yaml"
        text = CONFIG + "".join(TIERS[t] for t in self.tiers)
        path.write_text(text.format(root=self.root, fsync=self.fsync, more=self.more))
        return path

    def end_all(self) -> None:
        for program in self.programs:
            program.kill()
        for pid in self.daemons():
            os.kill(pid, signal.SIGKILL)
        for left in Path("/dev/shm").glob(f"tierbench.*{self.name}*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def daemons(self) -> list[int]:
        """Of this test, by their command lines."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"tierd") and any(str(self.root).encode() in w for w in words):
                found.append(int(entry.parent.name))
        return found

    def ctl(
        self, *args: object, before: tuple[str, ...] = (), env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, BIN / "tierctl", *map(str, args)],
            env=os.environ | (env or {}),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, *args: object, before: tuple[str, ...] = ()) -> None:
        done = self.ctl("start", "-c", self.config, "-i", self.name, *args, before=before)
        assert done.returncode == 0, done.stderr

    def refuse_start(self, *says: str) -> None:
        self.check(self.ctl("start", "-c", self.config, "-i", self.name), 2, *says)

    def stop(self) -> None:
        self.check(self.ctl("stop", "-i", self.name), 0)

    def recover(self, status: int, *says: str) -> None:
        self.check(self.ctl("recover", "-c", self.config), status, *says)

    def crash(self, text: str) -> None:
        """It has promised that text, and neither program nor daemon is left."""
        self.start()
        self.write_synced(self.program(), text)
        self.programs.pop().kill()
        self.kill_daemons()

    def program(self, *before: str, file: Path | None = None, env: dict[str, str] | None = None) -> Program:
        program = Program(file or self.file, self.name, *before, env=env)
        self.programs.append(program)
        assert program.first == "ready", program.end()
        return program

    def run_under(
        self, *command: object, before: tuple[str, ...] = (), env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command under the adapter, from its start to its end."""
        words = [*before, "sh", "-c", 'LD_PRELOAD=$TB_LATER_PRELOAD exec "$@"', "sh", *map(str, command)]
        under = os.environ | {"TB_LATER_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": self.name} | (env or {})
        return subprocess.run(words, env=under, capture_output=True, text=True, timeout=60)

    def write_synced(self, program: Program, text: str, at: int = 0) -> None:
        assert program.ask(f"write {at} {text}") == str(len(text))
        assert program.ask("fsync") == "synced"

    def status(self) -> dict[str, Any]:
        done = self.ctl("status", "-i", self.name, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def kill_daemons(self, n: int = 1) -> None:
        """All of them are gone after it."""
        pids = self.daemons()
        assert len(pids) == n
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        for pid in pids:
            while not is_gone(state_of(pid)) and time.monotonic() < until:
                time.sleep(0.002)

    def shm(self) -> Path:
        return Path(f"/dev/shm/tierbench.{os.getuid()}.{self.name}")

    def directory(self, tier: str = "nvme") -> Path:
        return self.root / tier / f"tierbench.{os.getuid()}.{os.uname().nodename}.{self.name}"

    def lose_region(self) -> None:
        self.shm().unlink()

    def read(self) -> str:
        return self.file.read_text() if self.file.exists() else ""

    def check(self, done: subprocess.CompletedProcess[str], status: int, *says: str) -> None:
        """The exit status, and in what is said."""
        said = done.stdout + done.stderr
        assert done.returncode == status, said
        for text in says:
            assert text in said

    def nothing_is_left(self) -> None:
        left = [
            *(self.root / "nvme").iterdir(),
            *(self.root / "bb").iterdir(),
            *Path("/dev/shm").glob(f"tierbench.*{self.name}*"),
        ]
        left += [p for p in (self.root / "pfs").iterdir() if p.name.startswith(".tierbench")]
        assert left == []


def try_lock(file: BinaryIO, lock: bytes) -> bool:
    try:
        fcntl.fcntl(file, F_OFD_SETLK, lock)
    except BlockingIOError:
        return False
    return True


def hold_lease(path: Path, byte: int = 0) -> BinaryIO:
    """As a recovery (byte 0) or a stop (byte 2) does: the file, locked until it is closed."""
    file = path.open("r+b")
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    until = time.monotonic() + 5  # a process that was killed has threads that are still ending
    while not try_lock(file, lock):
        if time.monotonic() > until:
            raise TimeoutError(f"{path} is locked")
        time.sleep(0.01)
    return file


def in_own_shm() -> tuple[str, ...]:
    """Words before a command that give it a /dev/shm of its own, as a container has."""
    return ("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh")


def can_unshare(*flags: str) -> bool:
    return subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode == 0
