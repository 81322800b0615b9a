"""Whether a run of a trial still lives: it holds a lock on `run.lock` in the trial's folder until its end."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

from tierbench.base.errors import RunError


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lease; `RunError` where another run has it."""
    with (folder / "run.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = "another run of this trial goes on; allowed: one at a time"
            raise RunError(f"{folder / 'run.lock'}: {told}") from None
        yield


def wait_for_runs(folder: Path, longest_s: float) -> bool:
    """Wait until no run has the lease; False where one still has it after `longest_s`."""
    deadline = time.monotonic() + longest_s
    while True:
        try:
            with held(folder):
                return True
        except RunError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
