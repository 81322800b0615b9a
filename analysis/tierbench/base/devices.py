"""What directories are on: file systems, devices, files under these. Places that share one are not apart.

A job runs this file on its own node, where only python3 and its standard library are sure to be there:

    python3 devices.py pfs=/lustre/me nvme=/local/nvme > places.json

Links are followed; a mount is found by the kernel's number for it, so a bind mount is the file system that
it shows. Below a mount are its device, the disk of a partition, the parts of a mapped or striped device, the
file of a loop device, the upper directory of an overlay, and a directory that a mount names as its source.
What a server or a program in user space hides is not seen.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SYSTEM = "/sys"
DEEPEST = 16  # devices on devices
IN_MEMORY = "memory"
_MEMORY_TYPES = ("tmpfs", "ramfs")
_MEMORY_DEVICES = re.compile(r"(zram|ram|brd)\d+$")


class Mount(NamedTuple):
    """A line of /proc/self/mountinfo."""

    device: str
    kind: str
    source: str
    options: str


def described(directory: str) -> dict[str, Any]:
    """Path, where its links lead, and what it is on: words by what is the same for the same thing."""
    found: dict[str, str] = {}
    _add_path(directory, found, 0)
    return {"path": directory, "real": os.path.realpath(directory), "lies_on": found}


def shared(places: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Two names and what both are on, in words, of all places that are not apart."""
    found = []
    for (a, one), (b, other) in combinations(places.items(), 2):
        mine, theirs = one["lies_on"], other["lies_on"]
        common = [words for key, words in mine.items() if key in theirs and key != IN_MEMORY]
        ways = [words for x in (mine, theirs) for key, words in x.items() if key.startswith("file ")]
        if common:
            found.append((a, b, "; ".join(dict.fromkeys([common[0], *ways]))))
    return found


def in_memory(place: Mapping[str, Any]) -> str | None:
    """In words, where it is no file system that stays."""
    words: str | None = place["lies_on"].get(IN_MEMORY)
    return words


# --- a path, its mount, its devices ------------------------------------------------------------------------


def _add_path(path: str, found: dict[str, str], depth: int) -> None:
    """The file system below a path, and what that is on; `found` gets each once."""
    if depth > DEEPEST:
        return
    fd = os.open(path, os.O_PATH)
    try:
        number = os.fstat(fd).st_dev
        mount = _mount_of(fd)
    finally:
        os.close(fd)
    device = f"{os.major(number)}:{os.minor(number)}"
    words = f"{mount.kind} on {mount.source}"
    if mount.kind in _MEMORY_TYPES:
        found.setdefault(IN_MEMORY, f"a {mount.kind}")
    for key in (device, mount.device):
        found.setdefault(f"device {key}", words)
    _add_source(mount, found, depth)
    for key in dict.fromkeys((device, mount.device)):
        _add_block(key, found, depth)


def _mount_of(fd: int) -> Mount:
    """By the kernel's number of it: paths of mounts may cover each other."""
    with Path(f"/proc/self/fdinfo/{fd}").open() as info:
        number = next(line.split()[1] for line in info if line.startswith("mnt_id:"))
    with Path("/proc/self/mountinfo").open() as table:
        for line in table:
            before, _, after = line.partition(" - ")
            if before.split()[0] == number:
                kind, source, options = after.split()[:3]
                return Mount(before.split()[2], kind, _plain(source), _plain(options))
    raise OSError(0, "its mount is not in /proc/self/mountinfo")


def _plain(word: str) -> str:
    r"""The kernel writes a blank as \040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def _add_source(mount: Mount, found: dict[str, str], depth: int) -> None:
    """What a mount names: a server's file system, a pool, a device, a directory of this machine."""
    words, source = f"{mount.kind} of {mount.source}", mount.source
    host, _, exported = source.partition(":")
    if mount.kind == "zfs":
        found.setdefault(f"source zfs {source.split('/')[0]}", words)
    elif ":" in source or source.startswith("//"):
        found.setdefault(f"source {mount.kind} {source}", words)
    upper = re.search(r"(?:^|,)upperdir=([^,]+)", mount.options) if mount.kind == "overlay" else None
    local = exported if host in ("localhost", "127.0.0.1", "::1", socket.gethostname()) else source
    for below in map(Path, filter(os.path.isabs, [local, upper[1] if upper else ""])):
        if below.is_dir():
            _add_path(str(below), found, depth + 1)
        elif below.is_block_device():
            number = below.stat().st_rdev
            _add_block(f"{os.major(number)}:{os.minor(number)}", found, depth)


def _add_block(device: str, found: dict[str, str], depth: int) -> None:
    """A block device, the disk of a partition, the parts of one made of several, the file of a loop."""
    at = Path(SYSTEM, "dev", "block", device)
    if depth > DEEPEST or not at.exists():
        return
    at = at.resolve()
    found.setdefault(f"device {device}", at.name)
    if _MEMORY_DEVICES.match(at.name):
        found.setdefault(IN_MEMORY, at.name)
    if (at / "loop" / "backing_file").exists():
        file = (at / "loop" / "backing_file").read_text().strip()
        found.setdefault(f"file {file}", f"{at.name} is the file {file}")
        if Path(file).exists():
            _add_path(file, found, depth + 1)
    parts = [*at.glob("slaves/*/dev"), *([at.parent / "dev"] if (at / "partition").exists() else [])]
    for part in parts:
        _add_block(part.read_text().strip(), found, depth + 1)


def main(arguments: Sequence[str]) -> int:
    """Tell of NAME=DIRECTORY words; a directory that cannot be looked at is status 2."""
    places = {}
    for word in arguments:
        name, _, directory = word.partition("=")
        try:
            places[name] = described(directory)
        except OSError as e:
            print(f"devices: {name}: {directory}: {e.strerror}; allowed: a directory", file=sys.stderr)
            return 2
    print(json.dumps(places, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
