"""A guest: qemu's own emulation of a PC (no KVM), its disks, three ports to files on this machine, and its end.

A port is written by the processor that the guest's write runs on (ioeventfd=off), so a line is in the host's file before the
guest's `write` returns: what a client says before an operation is here before the operation has any effect.

A boot takes seconds of emulation, so a machine can be saved once, when its kernel runs and has kept nothing of its disks, and
go on from there with other disks, another boot id and the right time.
"""

import io
import subprocess
import tarfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LIMIT_S = 600.0  # emulation on a busy machine
MEMORY_MIB = 384
PORTS = ("manifest", "states", "tree")
JOB_BYTES = 1 << 16
COMMAND_LINE = "console=ttyS0 panic=-1 quiet mitigations=off tsc=reliable no_timer_check"  # the timer is late on a busy host


class GuestError(Exception):
    """The guest did not do what it was started for."""


@dataclass(frozen=True)
class Machine:
    """What all guests of a run share."""

    qemu: Path
    kernel: Path
    archive: Path


def command(machine: Machine, folder: Path, disks: list[Path]) -> list[str]:
    """What starts a guest with ports that lead into a folder."""
    words = [
        "nice",
        "-n",
        "5",
        str(machine.qemu),
        "-accel",
        "tcg",
        "-m",
        str(MEMORY_MIB),
        "-smp",
        "1",
        "-nodefaults",
    ]
    words += [
        "-display",
        "none",
        "-no-reboot",
        "-kernel",
        str(machine.kernel),
        "-initrd",
        str(machine.archive),
    ]
    words += ["-append", COMMAND_LINE, "-serial", f"file:{folder / 'console'}"]
    for disk in disks:
        words += ["-drive", f"file={disk},format=raw,if=virtio,cache=writeback"]
    words += ["-device", "virtio-serial-pci,ioeventfd=off", "-device", "virtio-rng-pci"]
    for number, port in enumerate(PORTS, 1):
        words += ["-chardev", f"file,id={port},path={folder / port}"]
        words += ["-device", f"virtserialport,chardev={port},nr={number}"]
    return words


def pack(files: dict[str, str]) -> bytes:
    """A tar archive of small files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def start(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start qemu; the ports' files are there from the beginning."""
    for port in PORTS:
        (folder / port).touch()
    with (folder / "qemu.err").open("wb") as errors:
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors)


@dataclass
class Guest:
    """One life of the machine: from power on, or from where `saved` was, to its end."""

    machine: Machine
    folder: Path
    disks: list[Path]
    job: dict[str, str] | None  # none: it waits for one
    saved: Path | None = None
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        job = self.folder / "job.tar"
        job.write_bytes((pack(self.whole_job()) if self.job else b"").ljust(JOB_BYTES, b"\0"))
        words = command(self.machine, self.folder, [*self.disks, job])
        words += ["-incoming", f"exec:cat {self.saved}"] if self.saved else []
        words += [] if self.job else ["-monitor", "stdio"]
        self.process = start(words, self.folder)

    def whole_job(self) -> dict[str, str]:
        """With what a saved machine can't know: the time, and that it is another boot."""
        files = dict(self.job or {})
        if self.saved:
            files["boot_id"] = f"{uuid.uuid4()}\n"
            boot = "mount -o bind /job/boot_id /proc/sys/kernel/random/boot_id"
            files["job.sh"] = f"date -s @{int(time.time())} > /dev/null\n{boot}\n{files['job.sh']}"
        return files

    def text(self, port: str) -> str:
        """What the guest has said, whole lines only."""
        said = (self.folder / port).read_bytes()
        return said[: said.rfind(b"\n") + 1].decode()

    def wait_for(self, state: str, may_end: bool = False) -> None:
        """Until the guest has said that it is in this state, or has ended where it may."""
        said = f"\n{state}\n"
        self.wait_until(
            lambda: said in "\n" + self.text("states") or (may_end and self.has_ended()), f"it said `{state}`"
        )

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Until something holds, as long as the guest lives."""
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            if self.has_ended() and not is_so():
                raise GuestError(f"the guest ended before {what}: {self.folder}")
            if time.monotonic() > deadline:
                self.cut_power()
                raise GuestError(f"{LIMIT_S:.0f} s and not yet that {what}: {self.folder}")
            time.sleep(0.02)

    def has_ended(self) -> bool:
        """Whether there is no qemu any more."""
        return self.process.poll() is not None

    def cut_power(self) -> None:
        """The page cache of the guest, its memory and its processes are gone at once."""
        self.process.kill()
        self.process.wait()

    def wait_for_end(self) -> None:
        """Until it has switched itself off."""
        self.wait_for("end")
        self.process.wait(LIMIT_S)


def save_machine(machine: Machine, folder: Path, disks: list[Path]) -> Path:
    """Boot a guest with disks of these sizes until it waits for a job, and save it."""
    guest, saved = Guest(machine, folder, disks, None), folder / "saved"
    guest.wait_for("waiting for a job")
    guest.process.communicate(f'migrate "exec:cat > {saved}"\nquit\n'.encode(), LIMIT_S)
    if not saved.exists() or not saved.stat().st_size:
        raise GuestError(f"the machine was not saved: {folder}")
    return saved
