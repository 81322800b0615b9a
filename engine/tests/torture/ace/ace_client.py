"""Executes sequences of operations under the adapter, each in a process of its own.  ace_client.py PLAN.json

A server forks a process for each sequence of the plan, and the next one when it has come to its last operation.  That
process then waits to be killed, ends by a kill of its own (`suicide` in the plan), or ends well at SIGTERM.  It tells in
JSON lines what each operation gave; for `drain` it asks, and waits for a line.
"""

import ctypes
import fcntl
import json
import os
import signal
import struct
import sys
from typing import Any

from ace_model import fill

LIBC = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
F_OFD_SETLK = 37


def fallocate(fd: int, mode: int, offset: int, length: int) -> None:
    if LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def tell(**what: Any) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


class Files:
    """The names of one sequence, and its descriptors as the model has them."""

    def __init__(self, folder: str, tag: str) -> None:
        self.folder, self.tag = folder, tag
        self.fds: dict[str, int] = {}

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def fd(self, name: str, flags: int = os.O_RDWR | os.O_CREAT, suffix: str = "") -> int:
        key = name + suffix
        if key not in self.fds:
            self.fds[key] = os.open(self.path(name), flags, 0o600)
        return self.fds[key]

    def forget(self, name: str) -> None:
        """Its descriptors stay open."""
        self.fds.pop(name, None)
        self.fds.pop(f"{name}+", None)

    def apply(self, step: int, operation: str) -> None:
        word, *names = operation.split()
        getattr(self, word)(
            *names, *([f"{self.tag}.{step}"] if word in ("append", "log", "overwrite", "hole") else [])
        )

    def creat(self, name: str) -> None:
        self.fds[name] = os.open(self.path(name), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def append(self, name: str, tag: str) -> None:
        os.lseek(self.fd(name), 0, os.SEEK_END)
        os.write(self.fd(name), fill(tag, 5_000))

    def log(self, name: str, tag: str) -> None:
        os.write(self.fd(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "+"), fill(tag, 700))

    def overwrite(self, name: str, tag: str) -> None:
        os.pwrite(self.fd(name), fill(tag, 3_000), 2_000)

    def hole(self, name: str, tag: str) -> None:
        os.pwrite(self.fd(name), fill(tag, 2_000), os.fstat(self.fd(name)).st_size + 100_000)

    def cut(self, name: str) -> None:
        os.truncate(self.path(name), 6_000)

    def extend(self, name: str) -> None:
        os.ftruncate(self.fd(name), os.fstat(self.fd(name)).st_size + 7_000)

    def allocate(self, name: str) -> None:
        fallocate(self.fd(name), 0, os.fstat(self.fd(name)).st_size, 5_000)

    def keep(self, name: str) -> None:
        fallocate(self.fd(name), KEEP_SIZE, os.fstat(self.fd(name)).st_size, 5_000)

    def punch(self, name: str) -> None:
        fallocate(self.fd(name), PUNCH_HOLE | KEEP_SIZE, 1_000, 5_000)

    def zero(self, name: str) -> None:
        fallocate(self.fd(name), ZERO_RANGE, 3_000, 9_000)

    def rename(self, old: str, new: str) -> None:
        os.rename(self.path(old), self.path(new))
        if os.path.isdir(self.path(new)):
            self.fds = {
                new + k[len(old) :] if k.startswith(f"{old}/") else k: fd for k, fd in self.fds.items()
            }
        elif not os.path.lexists(self.path(old)):  # two names of one file both stay
            self.forget(new)
            for suffix in ("", "+"):
                if old + suffix in self.fds:
                    self.fds[new + suffix] = self.fds.pop(old + suffix)

    def link(self, old: str, new: str) -> None:
        os.link(self.path(old), self.path(new))

    def unlink(self, name: str) -> None:
        os.unlink(self.path(name))
        self.forget(name)

    def mkdir(self, name: str) -> None:
        os.mkdir(self.path(name))

    def fsync(self, name: str) -> None:
        if not os.path.isdir(self.path(name)):
            os.fsync(self.fd(name))
            return
        fd = os.open(self.path(name), os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(fd)
        os.close(fd)

    def fdatasync(self, name: str) -> None:
        if os.path.isdir(self.path(name)):
            self.fsync(name)
        else:
            os.fdatasync(self.fd(name))

    def close(self, name: str) -> None:
        os.close(self.fds.pop(name))

    def drain(self) -> None:
        tell(ask="drain")
        sys.stdin.readline()

    def lock(self, name: str) -> None:
        fcntl.fcntl(self.fd(name), fcntl.F_SETLK, WHOLE_FILE)

    def flock(self, name: str) -> None:
        fcntl.flock(self.fd(name), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def ofd(self, name: str) -> None:
        fcntl.fcntl(self.fd(name), F_OFD_SETLK, WHOLE_FILE)

    def names(self) -> list[str]:
        found = []
        for base, folders, files in os.walk(self.folder):
            found += [os.path.relpath(f"{base}/{name}", self.folder) for name in folders + files]
        return sorted(found)


def held(path: str) -> str:
    """The locks that a process meets which holds none: r(ecord), f(lock)."""
    fd = os.open(path, os.O_RDONLY)
    met = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, WHOLE_FILE))[0]
    letters = "" if met == fcntl.F_UNLCK else "r"
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        letters += "f"
    os.close(fd)
    return letters


def probe(files: Files) -> dict[str, str]:
    """Which locks another process finds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        found = {
            name: held(files.path(name)) for name in files.names() if not os.path.isdir(files.path(name))
        }
        os.write(writer, json.dumps({name: letters for name, letters in found.items() if letters}).encode())
        os._exit(0)
    os.close(writer)
    told = b"".join(iter(lambda: os.read(reader, 65536), b""))
    os.close(reader)
    os.waitpid(child, 0)
    return json.loads(told) if told else {"probe": "ended"}


def look(files: Files) -> dict[str, list[Any]]:
    """Content and links as the program sees them."""
    seen: dict[str, list[Any]] = {}
    for name in files.names():
        path = files.path(name)
        if os.path.isdir(path):
            seen[name] = [None, 1]
            continue
        with open(path, "rb") as file:
            seen[name] = [file.read().hex(), os.stat(path).st_nlink]
    return seen


def execute(folder: str, number: int, sequence: dict[str, Any]) -> None:
    files = Files(f"{folder}/{sequence['tag']}", sequence["tag"])
    for step, operation in enumerate(sequence["operations"]):
        try:
            files.apply(step, operation)
            tell(sequence=number, step=step, locks=probe(files) if sequence["locks"] else {})
        except OSError as error:
            tell(sequence=number, step=step, error=f"{operation}: {error}")
            return
    if sequence["look"]:
        tell(sequence=number, seen=look(files))
    tell(sequence=number, pid=os.getpid())


def run_one(plan: dict[str, Any], number: int, come: int) -> None:
    """In the process of one sequence: until it is killed, or ends well."""
    ended = False

    def end(*_: Any) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    execute(plan["folder"], number, plan["sequences"][number])
    if plan["suicide"]:
        os.kill(os.getpid(), signal.SIGKILL)
    os.write(come, b".")
    while not ended:
        signal.sigtimedwait([signal.SIGUSR1], 0.05)
    sys.exit(0)


def main() -> None:
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    signal.signal(signal.SIGTERM, lambda *_: None)
    for number in range(len(plan["sequences"])):
        reader, writer = os.pipe()
        if not os.fork():
            os.close(reader)
            run_one(plan, number, writer)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
    tell(all="there")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break


if __name__ == "__main__":
    main()
