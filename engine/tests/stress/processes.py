"""Unmodified programs in numbers: processes, clients, files, descriptors, offsets; and the region's size as planned.

Run by ctest: processes.py BIN_DIR LIB_DIR. Every check compares what the PFS holds after the drain.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BIN, LIB = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
PROCESSES = 64
CLIENTS = 247  # that may attach, beside the daemon and tools

CONFIG = """
version: 1
max_files: {max_files}
pfs: {{path: {root}/pfs}}
fsync: pfs
flush: {{policy: {flush}, threads: 2}}
tiers:
  - {{name: ram, medium: memory, capacity: {capacity}, block: 4KiB, slabs: [{{units: 1, share: 0.25}}, {{units: 16, share: 0.75}}]}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 8MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
"""

SHARED = """
import os, sys
rank, ranks, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
for k in range(40):
    os.pwrite(fd, bytes([rank]) * 1000, (k * ranks + rank) * 1000)
for k in range(40):
    assert os.pread(fd, 1000, (k * ranks + rank) * 1000) == bytes([rank]) * 1000
os.close(fd)
"""

MANY = """
import os, sys
folder, n = sys.argv[1], int(sys.argv[2])
for k in range(n):
    with open(f"{folder}/f{k}", "w") as file:
        file.write(f"this is {k}\\n")
for k in range(n):
    with open(f"{folder}/f{k}") as file:
        assert file.read() == f"this is {k}\\n"
"""

DESCRIPTORS = """
import errno, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
fds = []
try:
    while True:
        fds.append(os.open(f"{sys.argv[1]}/d{len(fds)}", os.O_RDWR | os.O_CREAT, 0o600))
        os.write(fds[-1], b"%d" % len(fds))
except OSError as error:
    assert error.errno == errno.EMFILE, error
assert len(fds) > 950, len(fds)
for k, fd in enumerate(fds):
    assert os.pread(fd, 100, 0) == b"%d" % (k + 1)
print(len(fds))
"""

LARGE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
for at in map(int, sys.argv[2:]):
    assert os.pwrite(fd, b"at %d" % at, at) == len(b"at %d" % at)
    assert os.lseek(fd, 0, os.SEEK_END) == at + len(b"at %d" % at) == os.fstat(fd).st_size
    assert os.pread(fd, 100, at - 50) == bytes(50) + b"at %d" % at
os.ftruncate(fd, int(sys.argv[-1]) + 5)
"""


EXECUTING = '[ "$1" = 0 ] || exec sh "$0" $(($1 - 1))\n'

STARTING = """
import os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b"written")
subprocess.Popen(["sleep", "30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.close(fd)
sys.stdin.read()
"""

PASSING_ON = """
import os, subprocess, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
os.write(fd, b"before ")
child = subprocess.Popen(["sh", "-c", f"read line; echo behind >&{fd}"], stdin=subprocess.PIPE, pass_fds=[fd])
os.close(fd)
time.sleep(0.3)
with open(sys.argv[1], "rb", buffering=0) as file:
    assert file.read() == b"before "
    child.communicate(b"go\\n")
    file.seek(0)
    assert file.read() == b"before behind\\n"
"""


class Instance:
    """A started instance in a fresh folder; stopped, with a drain, on leaving."""

    def __init__(self, capacity: str = "16MiB", max_files: int = 1024, flush: str = "manual") -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="tierbench-processes-")
        self.root = Path(self.folder.name)
        self.name = f"processes-{os.getpid()}"
        self.config = self.root / "tiers.yaml"
        for place in ("pfs", "nvme"):
            (self.root / place).mkdir()
        text = CONFIG.format(root=self.root, capacity=capacity, max_files=max_files, flush=flush)
        self.config.write_text(text)
        self.env = os.environ | {
            "LD_PRELOAD": str(LIB / "libtierbench_preload.so"),
            "TIERBENCH_INSTANCE": self.name,
        }

    def __enter__(self) -> "Instance":
        self.tierctl("start", "-c", self.config, "-i", self.name)
        return self

    def __exit__(self, *_: object) -> None:
        if Path(f"/dev/shm/tierbench.{os.getuid()}.{self.name}").exists():
            self.tierctl("stop", "-i", self.name)
        self.folder.cleanup()

    def tierctl(self, *arguments: object) -> str:
        command = [str(BIN / "tierctl"), *map(str, arguments)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.tierctl("status", "-i", self.name, "--json"))
        return found

    def stop(self) -> None:
        assert self.status()["daemon_alive"], "the daemon died: see its log"
        self.tierctl("stop", "-i", self.name)

    def python(self, program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        return subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


def finish(process: subprocess.Popen[str]) -> str:
    """What it printed; it must have ended well and said nothing on stderr."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and not err, (process.returncode, err)
    return out


def the_region_is_as_planned() -> None:
    for capacity, max_files in (("8MiB", 64), ("16MiB", 5000), ("100MiB", 65536), ("333MiB", 200000)):
        with Instance(capacity, max_files) as x:
            planned = json.loads(x.tierctl("plan", x.config, "--json"))["region"]["total_bytes"]
            made = Path(f"/dev/shm/tierbench.{os.getuid()}.{x.name}").stat().st_size
            assert planned == made == x.status()["region"]["bytes"], (planned, made)


def sixty_four_processes_write_one_file() -> None:
    with Instance() as x:
        path = x.root / "pfs/shared"
        for process in [x.python(SHARED, rank, PROCESSES, path) for rank in range(PROCESSES)]:
            finish(process)
        assert x.status()["clients"] == 0
        x.stop()
        data = path.read_bytes()
        assert len(data) == 40 * PROCESSES * 1000
        for k in range(40 * PROCESSES):
            assert data[k * 1000 : (k + 1) * 1000] == bytes([k % PROCESSES]) * 1000, k


def wait_for_clients(x: Instance, n: int) -> None:
    limit = time.monotonic() + 30
    while (clients := x.status()["clients"]) != n:
        assert time.monotonic() < limit, clients
        time.sleep(0.01)


def one_client_too_many_ends() -> None:
    """Past the buffers it would read old bytes. Tools still attach: some slots are theirs."""
    with Instance() as x:
        sleepers = [
            subprocess.Popen(["sleep", "60"], env=x.env, stderr=subprocess.DEVNULL)
            for _ in range(CLIENTS + 4)
        ]
        try:
            wait_for_clients(x, CLIENTS)
            late = x.python("import sys; open(sys.argv[1], 'w').write('late')", x.root / "pfs/late")
            _, said = late.communicate(timeout=60)
            assert late.returncode == 2, said
            assert "tierbench: instance" in said and "clients are attached" in said, said
            assert not (x.root / "pfs/late").exists()
        finally:
            for sleeper in sleepers:
                sleeper.kill()
            for sleeper in sleepers:
                sleeper.wait()
        finish(x.python(SHARED, 0, 1, x.root / "pfs/again"))
        assert x.status()["dirty_files"] == 1


def more_files_than_max_files() -> None:
    with Instance(max_files=64) as x:
        finish(x.python(MANY, x.root / "pfs", 2500))
        passed = x.status()["passed"]
        assert passed >= 1400, passed
        assert f"{passed} opens passed through unbuffered: max_files 64" in x.tierctl("status", "-i", x.name)
        x.stop()
        for k in range(2500):
            assert (x.root / f"pfs/f{k}").read_text() == f"this is {k}\n"


def a_thousand_descriptors() -> None:
    with Instance(max_files=2048) as x:
        n = int(finish(x.python(DESCRIPTORS, x.root / "pfs")))
        x.stop()
        for k in range(n):
            assert (x.root / f"pfs/d{k}").read_text() == str(k + 1)


def large_offsets() -> None:
    places = [2**32 + 10, 2**40 + 10, 2**43 + 10]
    with Instance() as x:
        path = x.root / "pfs/large"
        finish(x.python(LARGE, path, *places))
        x.stop()
        with path.open("rb") as file:
            for at in places[:-1]:
                file.seek(at - 50)
                assert file.read(100)[:70].rstrip(b"\0") == bytes(50) + b"at %d" % at
        assert path.stat().st_size == places[-1] + 5


def executing_leaves_no_client() -> None:
    """A process that executes one program after the other is one client all the time."""
    with Instance() as x:
        script = x.root / "execute.sh"
        script.write_text(EXECUTING)
        finish(subprocess.Popen(["sh", str(script), "300"], env=x.env, stderr=subprocess.PIPE, text=True))


def a_program_holds_what_it_inherits_alone() -> None:
    """A file that was open when a program was started is flushed at its close; one that was passed on stays coherent."""
    with Instance(flush="on-close") as x:
        path = x.root / "pfs/closed"
        starter = subprocess.Popen([sys.executable, "-c", STARTING, path], env=x.env, stdin=subprocess.PIPE)
        limit = time.monotonic() + 20
        while not path.exists() or path.read_bytes() != b"written":
            assert time.monotonic() < limit, "the program that was started holds the file"
            time.sleep(0.05)
        starter.communicate()
        finish(x.python(PASSING_ON, x.root / "pfs/passed"))


TESTS: list[Callable[[], None]] = [
    the_region_is_as_planned,
    sixty_four_processes_write_one_file,
    one_client_too_many_ends,
    more_files_than_max_files,
    a_thousand_descriptors,
    large_offsets,
    executing_leaves_no_client,
    a_program_holds_what_it_inherits_alone,
]

for test in TESTS:
    test()
    print(f"{test.__name__}: ok", flush=True)
