"""Disks of a round's own: an ext4 on a loop device for each place, so that a real file system fails or loses its power.

They are mounted in a mount namespace of the round's own and vanish with it.  Needs root.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

SIZE = 96 << 20
SHUTDOWN, WITHOUT_LOG = 0x8004587D, 2  # FS_IOC_SHUTDOWN, and its way that writes nothing more


def missing() -> str:
    """Why there can be none here; empty: there can."""
    if os.geteuid():
        return "a disk of its own needs root"
    tools = [tool for tool in ("mkfs.ext4", "e2fsck") if not shutil.which(tool)]
    if tools:
        return f"a disk of its own needs {', '.join(tools)}"
    return "" if Path("/dev/loop-control").exists() else "a disk of its own needs loop devices"


def make(place: Path) -> None:
    """A new disk, mounted there; after an error it becomes read-only, as most sites mount theirs."""
    with image_of(place).open("wb") as image:
        image.truncate(SIZE)
    run("mkfs.ext4", "-q", "-F", image_of(place))
    mount(place)


def fail(place: Path) -> None:
    """The file system finds an error of its own: from now on it is read-only, and what was not written is lost."""
    device = place.stat().st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("1")


def cut_power(place: Path) -> None:
    """What is not on the disk now is lost, of mappings too."""
    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SHUTDOWN, WITHOUT_LOG.to_bytes(4, "little"))
    finally:
        os.close(fd)


def mount_again(place: Path) -> None:
    """As after a boot: the disk is checked, its log replayed."""
    run("umount", place)
    run("e2fsck", "-f", "-y", image_of(place), allowed=(0, 1))
    mount(place)


def image_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.disk")


def mount(place: Path) -> None:
    run("mount", "-o", "loop,errors=remount-ro", image_of(place), place)
    with contextlib.suppress(FileNotFoundError):
        (place / "lost+found").rmdir()


def run(*words: object, allowed: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode not in allowed:
        raise OSError(f"{' '.join(map(str, words))}: {done.returncode}: {done.stderr.strip()}")
