"""Every cell of the table of life and death in docs/recovery.md: a state is made, a command is tried, what it says is compared.

Whatever the command did, bytes that an fsync promised must be found on the PFS when the instance is ended properly afterwards.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from instances import SOURCE, Instance, can_unshare, hold_lease, in_own_shm

PAGE = SOURCE / "docs" / "recovery.md"
HEADING = "## What each command does in each state"
TEXT = "promised"
NOBODY = 65534


class Cell(Instance):
    """One state of an instance, and what undoes it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: tuple[str, ...] = ()  # words before the command
        self.moved: tuple[Path, Path] | None = None
        self.planted: list[Path] = []
        self.held: list[BinaryIO] = []

    def live(self, *, synced: bool = True) -> None:
        self.start()
        program = self.program()
        self.write_synced(program, TEXT) if synced else None

    def die(self) -> None:
        for program in self.programs:
            program.kill()
        self.programs.clear()
        self.kill_daemons()

    def hold(self, byte: int) -> None:
        self.held.append(hold_lease(self.directory() / "lease", byte))

    def release(self) -> None:
        for file in self.held:
            file.close()
        self.held.clear()

    def mark(self, state: str) -> None:
        with (self.directory() / "lease").open("r+b") as lease:
            lease.seek(lease.read().index(b"living"))
            lease.write(state.encode().ljust(6))

    def move_directory(self) -> None:
        self.moved = (self.directory(), self.root / "elsewhere")
        shutil.move(*self.moved)

    def tell_daemon_to_end(self) -> None:
        for pid in self.daemons():
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + 20
        while self.daemons() and time.monotonic() < until:
            time.sleep(0.01)

    def end_properly(self) -> None:
        """As an administrator would: all bytes to the PFS, nothing left."""
        self.release()
        for program in self.programs:
            program.kill()
        for path in self.planted:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if self.moved and self.moved[1].exists():
            shutil.move(self.moved[1], self.moved[0])
        if self.daemons() and self.ctl("stop", "-i", self.name).returncode:
            self.tell_daemon_to_end()
        self.recover(0)
        assert self.read() == TEXT
        self.nothing_is_left()


def nothing(c: Cell) -> None:
    c.file.write_text(TEXT)


def daemon_dead(c: Cell) -> None:
    c.live()
    c.kill_daemons()


def no_program(c: Cell) -> None:
    c.live()
    c.die()


def told_to_end(c: Cell) -> None:
    c.live()
    c.programs.pop().kill()
    c.tell_daemon_to_end()


def region_lost(c: Cell) -> None:
    c.live()
    c.die()
    c.lose_region()


def name_removed(c: Cell) -> None:
    c.live()
    c.lose_region()


def daemon_dead_name_removed(c: Cell) -> None:
    c.live()
    c.kill_daemons()
    c.lose_region()


def directory_gone(c: Cell) -> None:
    c.live()
    c.move_directory()


def dead_directory_gone(c: Cell) -> None:
    c.live()
    c.die()
    c.move_directory()


def start_killed(c: Cell) -> None:
    """Before anything could be promised: what is there was there before."""
    region_lost(c)
    c.mark("making")
    c.shm().touch(mode=0o600)
    c.file.write_text(TEXT)


def stop_killed(c: Cell) -> None:
    c.live()
    c.check(c.ctl("drain", "-i", c.name), 0)
    c.die()
    c.lose_region()
    c.mark("void")


def name_reused(c: Cell) -> None:
    region_lost(c)
    first, c.tiers, c.fsync = c.config, ("ram", "bb"), "tier"
    c.config = c.write_config("other")
    c.start()
    c.config = first


def other_mounts(c: Cell) -> None:
    c.live()
    c.before = in_own_shm()


def other_pids(c: Cell) -> None:
    c.live()
    c.before = ("unshare", "-p", "-f")


def other_users_directory(c: Cell) -> None:
    c.file.write_text(TEXT)
    c.directory().mkdir()
    (c.directory() / "journal").write_text("planted")
    os.chown(c.directory(), NOBODY, NOBODY)
    c.planted.append(c.directory())


def other_users_name(c: Cell) -> None:
    c.file.write_text(TEXT)
    c.shm().write_text("planted")
    os.chown(c.shm(), NOBODY, NOBODY)
    c.planted.append(c.shm())


def recovered(c: Cell) -> None:
    no_program(c)
    c.hold(0)


def stopped(c: Cell) -> None:
    c.live()
    c.hold(2)


STATES: dict[str, Callable[[Cell], None]] = {
    "nothing is there": nothing,
    "it lives": Cell.live,
    "tierd is dead, a program lives": daemon_dead,
    "tierd is dead, no program lives": no_program,
    "tierd was told to end": told_to_end,
    "all are dead, the region is lost": region_lost,
    "it lives, the region's name was removed": name_removed,
    "tierd is dead, a program lives, the region's name was removed": daemon_dead_name_removed,
    "it lives, a tier's directory is gone": directory_gone,
    "all are dead, a tier's directory is gone": dead_directory_gone,
    "a start was killed": start_killed,
    "a stop was killed": stop_killed,
    "the region is lost, and another configuration uses the name": name_reused,
    "it lives in another mount namespace": other_mounts,
    "it lives in another PID namespace": other_pids,
    "another user made its directory": other_users_directory,
    "another user made its name in /dev/shm": other_users_name,
    "another process recovers it": recovered,
    "another process stops it": stopped,
}
NEEDS = {
    "it lives in another mount namespace": lambda: can_unshare("-m"),
    "it lives in another PID namespace": lambda: can_unshare("-p", "-f"),
    "another user made its directory": lambda: os.getuid() == 0,
    "another user made its name in /dev/shm": lambda: os.getuid() == 0,
}


def start_program(c: Cell) -> subprocess.CompletedProcess[str]:
    if c.held:
        threading.Timer(0.4, c.release).start()  # a recovery ends
    return c.run_under("cat", c.file, before=c.before, env={"TIERBENCH_CONFIG": str(c.config)})


COMMANDS: dict[str, Callable[[Cell], subprocess.CompletedProcess[str]]] = {
    "start": lambda c: c.ctl("start", "-c", c.config, "-i", c.name, before=c.before),
    "run": lambda c: c.ctl("run", "-c", c.config, "--", "true", before=c.before),
    "program": start_program,
    "recover": lambda c: c.ctl("recover", "-c", c.config, before=c.before),
    "stop": lambda c: c.ctl("stop", "-i", c.name, before=c.before),
    "drain": lambda c: c.ctl("drain", "-i", c.name, before=c.before),
    "status": lambda c: c.ctl("status", "-i", c.name, before=c.before),
}


def read_table() -> tuple[list[str], dict[str, list[str]]]:
    """The commands, and the cells of each state."""
    lines = PAGE.read_text().split(HEADING)[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return rows[0][1:], {row[0]: row[1:] for row in rows[1:]}


@pytest.fixture
def cell() -> Iterator[Cell]:
    with Cell() as made:
        yield made


COLUMNS, TABLE = read_table()


def test_the_page_has_these_states_and_commands() -> None:
    assert (set(TABLE), COLUMNS) == (set(STATES), list(COMMANDS))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("state", STATES)
def test_what_a_command_does(cell: Cell, state: str, command: str) -> None:
    if not NEEDS.get(state, lambda: True)():
        pytest.skip("needs root or namespaces")
    status, _, words = TABLE[state][COLUMNS.index(command)].partition(" ")
    STATES[state](cell)
    cell.check(COMMANDS[command](cell), int(status), words)
    cell.end_properly()
