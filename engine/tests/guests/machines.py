"""Two guests of qemu (its own emulation, no KVM) as two nodes: each has a kernel, a /dev/shm and a disk with a file system of its own.

They share a folder of the host at the path that it has there (virtiofs without a cache: what one writes, the other reads, and locks
are real), and a network between the two guests alone. The host is the machine that a job is submitted on: it runs `tierctl run
--per-node` with the script for a list of nodes of docs/nodes.md and OpenSSH, and an sshd answers in each guest.

The power of a guest is cut by SIGKILL to its qemu: its memory and its network are gone at once, its disk has what was synced. What the
guest's kernel had not written is lost; the disk's own cache is the host's, and is not.
"""

import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from disks import make_file_system
from initramfs import (
    Archive,
    MissingError,
    add_program,
    add_python,
    find_kernel,
    find_program,
    interpreter,
    module_order,
)
from instances import BIN, PRELOAD, SOURCE

HERE = Path(__file__).parent
NAMES = ("tb-a", "tb-b")
MEMORY_MIB = 384
LINES = 20
BOOT_S = 180.0
CALL_S = 600.0
"""Emulation on a busy machine."""
MODULES = ("virtio_pci", "virtio_blk", "virtio-rng", "virtio_net", "virtiofs", "ext4")
IMPORTS = "array, ctypes, errno, fcntl, json, mmap, os, pathlib, random, select, signal, site, socket, subprocess, sys, threading, time"
COMMAND_LINE = "console=ttyS0 panic=-1 quiet mitigations=off clocksource=acpi_pm tsc=unstable no_timer_check"
VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
SSH_CONFIG = """Host {node}
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {key}
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 60
"""


class GuestError(Exception):
    """The guest did not do what it was started for."""


def find_virtiofsd() -> Path:
    """What serves a folder of the host to a guest."""
    for path in map(Path, VIRTIOFSD):
        if path.exists():
            return path
    raise MissingError("no virtiofsd here: ci/bootstrap torture installs it")


def make_keys(folder: Path) -> None:
    """Of the user, and of the guests as hosts."""
    ssh_keygen, dropbearkey = find_program("ssh-keygen"), find_program("dropbearkey")
    subprocess.run([ssh_keygen, "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    subprocess.run([dropbearkey, "-t", "ed25519", "-f", folder / "host_key"], check=True, capture_output=True)


def build(keys: Path, modules: Path) -> bytes:
    """The guests' first file system: programs under test at the paths that they have on the host."""
    archive = Archive()
    for name in ("bin", "proc", "sys", "dev", "tmp", "root", "var/log"):
        archive.add(name, 0o040755)
    archive.add("root/.ssh", 0o040700)
    archive.add("root/.ssh/authorized_keys", 0o100600, (keys / "key.pub").read_bytes())
    archive.add("root/host_key", 0o100600, (keys / "host_key").read_bytes())
    archive.add("etc/passwd", 0o100644, b"root:x:0:0:root:/root:/bin/sh\n")
    archive.add_file(HERE / "guest.sh", "init")
    archive.add_file(find_program("busybox"), "bin/busybox")
    add_program(archive, find_program("dropbear"), "bin/dropbear")
    add_program(archive, find_program("stat"), "usr/bin/stat")  # busybox is static: no adapter
    for program in (BIN / "tierctl", BIN / "tierd", PRELOAD):
        add_program(archive, program, str(program))
    add_python(
        archive, f"import {IMPORTS}, encodings.utf_8, encodings.ascii, encodings.latin_1", ("-I", "-S")
    )
    archive.add(sys.executable, 0o120777, str(interpreter()).encode())
    order = module_order(modules, MODULES)
    for path in order:
        archive.add_file(path, f"modules/{path.name}")
    archive.add("modules/order", 0o100644, "".join(f"{path.name}\n" for path in order).encode())
    return archive.bytes()


def free_port() -> int:
    """Of the loopback."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Guest:
    """One node, through as many lives as it gets; its disk stays."""

    guests: "Guests"
    name: str
    other: str
    address: str
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    lives: int = 0

    def command(self) -> list[str]:
        """What starts qemu."""
        g, at = self.guests, self.guests.folder
        told = f"node={self.name} address={self.address} place={g.root}"
        words = ["nice", "-n", "10", str(g.qemu), "-accel", "tcg", "-m", str(MEMORY_MIB), "-smp", "1"]
        words += ["-nodefaults", "-display", "none", "-no-reboot", "-kernel", str(g.kernel)]
        words += [
            "-initrd",
            str(g.archive),
            "-append",
            f"{COMMAND_LINE} {told}",
            "-serial",
            f"file:{self.console()}",
        ]
        words += [
            "-object",
            f"memory-backend-memfd,id=mem,size={MEMORY_MIB}M,share=on",
            "-numa",
            "node,memdev=mem",
        ]
        words += [
            "-drive",
            f"file={at}/{self.name}.disk,format=raw,if=virtio,cache=writeback",
            "-device",
            "virtio-rng-pci",
        ]
        words += [
            "-chardev",
            f"socket,id=fs,path={at}/{self.name}.fs",
            "-device",
            "vhost-user-fs-pci,chardev=fs,tag=shared",
        ]
        words += ["-netdev", f"user,id=host,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"]
        link = f"local.type=unix,local.path={at}/{self.name}.net,remote.type=unix,remote.path={at}/{self.other}.net"
        words += ["-netdev", f"dgram,id=nodes,{link}"]
        for card, net in (("52", "host"), (self.address.rpartition(".")[2], "nodes")):
            words += ["-device", f"virtio-net-pci,netdev={net},mac=52:54:00:12:34:{int(card):02x}"]
        return words

    def console(self) -> Path:
        """What the kernel said in this life."""
        return self.guests.folder / f"{self.name}.console.{self.lives}"

    def begin(self, words: list[str], what: str) -> None:
        """Start one of its processes."""
        with (self.guests.folder / f"{self.name}.{what}.{self.lives}").open("wb") as out:
            self.processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def power_on(self) -> None:
        """It boots; `wait_until_up` says when it is a node."""
        self.lives += 1
        served = self.guests.folder / f"{self.name}.fs"
        for left in (served, self.guests.folder / f"{self.name}.net"):
            left.unlink(missing_ok=True)
        options = f"source={self.guests.root},cache=none,posix_lock,flock"
        self.begin(
            ["nice", "-n", "10", str(self.guests.virtiofsd), f"--socket-path={served}", "-o", options],
            "virtiofsd",
        )
        self.wait(served.exists, 30, "its shared folder is served")
        self.begin(self.command(), "qemu")

    def wait_until_up(self) -> None:
        """Until its sshd does what it is told."""
        self.wait(
            lambda: self.console().exists() and b"up: " in self.console().read_bytes(), BOOT_S, "it is up"
        )
        self.wait(lambda: self.run("true", check=False).returncode == 0, BOOT_S, "its sshd answers")

    def wait(self, is_so: Callable[[], bool], seconds: float, what: str) -> None:
        """Until something holds, as long as its processes live."""
        deadline = time.monotonic() + seconds
        while not is_so():
            dead = [p.args for p in self.processes if p.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise GuestError(f"{self.name}: not that {what}: {dead or seconds}\n{self.said()}")
            time.sleep(0.05)

    def said(self) -> str:
        """The last lines of all logs of this life."""
        logs = sorted(self.guests.folder.glob(f"{self.name}.*.{self.lives}"))
        return "\n".join(
            line
            for log in logs
            for line in [f"{log.name}:", *log.read_text(errors="replace").splitlines()[-LINES:]]
        )

    def is_on(self) -> bool:
        """Whether its qemu runs."""
        return bool(self.processes) and not self.is_broken()

    def is_broken(self) -> bool:
        """One of its processes has ended by itself."""
        return any(p.poll() is not None for p in self.processes)

    def cut_power(self) -> None:
        """Memory, page cache, processes and network are gone at once."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.processes.clear()

    def run(self, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command in the guest, by a shell."""
        ssh = [self.guests.ssh(), self.name, " ".join(map(str, words))]
        done = subprocess.run(
            ssh, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_S, check=False
        )
        if check and done.returncode:
            raise GuestError(f"{self.name}: {words} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done


class Guests:
    """As `Nodes` of test_nodes.py, for what starts jobs on them; the folders are emptied for each test."""

    def __init__(self, cleanup: ExitStack, kernels: Path) -> None:
        self.kernel, modules = find_kernel(kernels)
        self.qemu, self.virtiofsd = find_program("qemu-system-x86_64"), find_virtiofsd()
        find_program("ssh")
        self.folder = Path(
            cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tb-guests-", dir="/var/tmp"))
        )
        self.root = self.folder / "shared"
        for place in ("pfs", "nvme", "meet"):
            (self.root / place).mkdir(parents=True)
        make_keys(self.folder)
        self.archive = self.folder / "archive"
        self.archive.write_bytes(build(self.folder, modules))
        self.node = {
            name: Guest(self, name, other, f"10.9.0.{number}")
            for number, (name, other) in enumerate(zip(NAMES, reversed(NAMES), strict=True), 1)
        }
        self.write_launcher()
        for guest in self.node.values():
            make_file_system(self.folder / f"{guest.name}.disk", "ext4")
            cleanup.callback(guest.cut_power)
        self.power_on()

    def power_on(self) -> None:
        """Those that are off, all at once."""
        off = [guest for guest in self.node.values() if not guest.is_on()]
        for guest in off:
            guest.cut_power()
            guest.power_on()
        for guest in off:
            guest.wait_until_up()

    def ssh(self) -> str:
        """With the names, ports and keys of the guests."""
        return str(self.folder / "bin" / "ssh")

    def write_launcher(self) -> None:
        """The script of the page, word for word but for the names; it finds an ssh that knows these guests."""
        told = [
            SSH_CONFIG.format(node=g.name, port=g.port, key=self.folder / "key") for g in self.node.values()
        ]
        (self.folder / "ssh_config").write_text("".join(told))
        (self.folder / "bin").mkdir()
        write_script(Path(self.ssh()), f'exec {find_program("ssh")} -F {self.folder}/ssh_config "$@"\n')
        page = (SOURCE / "docs" / "nodes.md").read_text()
        text = page.split("    #!/bin/sh\n", 1)[1].split("\n\n", 1)[0]
        lines = [line.removeprefix("    ") for line in text.splitlines()]
        self.launch = self.folder / "each"
        path = f"PATH={self.folder}/bin:$PATH\n"
        write_script(self.launch, path + "\n".join(lines).replace("n1 n2", " ".join(NAMES)) + "\n")

    def empty(self) -> None:
        """What a test left is of no use to the next one."""
        for place in ("pfs", "meet"):
            for entry in (self.root / place).iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for guest in self.node.values():
            guest.run(f"rm -rf /dev/shm/* {self.root}/nvme/tierbench*")

    def left(self) -> list[str]:
        """What is in the nodes' own memory and tiers."""
        listed = [
            g.run(f"ls -d /dev/shm/* {self.root}/nvme/tierbench* 2>/dev/null", check=False)
            for g in self.node.values()
        ]
        return [line for done in listed for line in done.stdout.splitlines()]

    def begin(self, words: Sequence[object], *before: object) -> subprocess.Popen[str]:
        """tierctl on the host, or by a launcher; what it says goes to one pipe."""
        command = list(map(str, ["nice", "-n", "10", *before, BIN / "tierctl", *words]))
        out = subprocess.PIPE
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, text=True
        )

    def await_end(self, running: subprocess.Popen[str]) -> str:
        """What it said. Nobody waits for it where a guest is broken: programs on the others wait for those on that one."""
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                return running.communicate(timeout=1)[0]
            except subprocess.TimeoutExpired:
                broken = [g.said() for g in self.node.values() if g.is_broken()]
            if broken or time.monotonic() > deadline:
                running.kill()
                for guest in self.node.values():
                    guest.cut_power()
                raise GuestError("\n".join(broken) or f"a job did not end in {CALL_S} s")

    def run(self, words: Sequence[object], *before: object) -> tuple[int, str]:
        """The same to its end: its status, and what it said."""
        with self.begin(words, *before) as running:
            said = self.await_end(running)
        return running.returncode, said


def write_script(path: Path, text: str) -> None:
    """For sh, executable."""
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
