"""The signals that end a trial: SIGTERM, SIGINT and SIGHUP.

They interrupt nothing. Each is noted, passed on once to the child that runs, and answered by `heed`. That is
called only where nothing is half made. So no folder is left half copied or half removed, and no child is left
without its parent. A signal that the caller ignores (`nohup`) stays ignored. Handlers belong to the process,
and so does what is noted.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from tierbench.base.errors import RunError

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndedError(Exception):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number

    @property
    def status(self) -> int:
        """The exit status of a process that ends of it."""
        return 128 + self.number


class _Child:
    """The child that runs, and what it was told."""

    def __init__(
        self, process: subprocess.Popen[bytes], longest_s: float, insist: Callable[[int], None] | None
    ) -> None:
        self.process, self.told, self.overran = process, set[int](), False
        self.longest_s, self.insist = longest_s, insist
        self.timers: list[threading.Timer] = []

    def tell(self) -> None:
        """Each signal once: a second SIGINT would end mpirun before its ranks."""
        for number in [n for n in _noted if n not in self.told]:
            self.send(number)

    def send(self, number: int) -> None:
        """One signal; from the first on the child has `longest_s`."""
        self.told.add(number)
        self.process.send_signal(number)
        if self.insist and len(self.told) == 1:
            self.after(self.longest_s, self.insist, self.process.pid)

    def after(self, wait_s: float, act: Callable[..., None], *words: Any) -> None:
        """Act where the child still runs after that time."""
        timer = threading.Timer(wait_s, act, words)
        timer.daemon = True
        self.timers.append(timer)
        timer.start()

    def overrun(self) -> None:
        """It had all the time that it was given."""
        self.overran = True
        self.send(signal.SIGTERM)

    def wait(self) -> int:
        """Its status as a shell says it. Its number is not given to another process until it is reaped."""
        _wait_for_end(self.process.pid)
        for timer in self.timers:
            timer.cancel()
        status = self.process.wait()
        return 128 - status if status < 0 else status


def _wait_for_end(number: int) -> None:
    """Until the process has ended; signals are answered while it lives.

    Python answers a signal between two of its steps, so one that comes just before a call that waits would
    be answered after it. The pipe, which gets a byte as the signal comes, wakes this one.
    """
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    process = os.pidfd_open(number)
    try:
        while process not in select.select([process, woken], [], [])[0]:
            os.read(woken, 4096)
    finally:
        signal.set_wakeup_fd(before)
        for descriptor in (process, woken, wakes):
            os.close(descriptor)


_noted: list[int] = []
_child: _Child | None = None


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Within, the signals are noted; what came after the last `heed` is raised at the end."""
    before = {n: signal.getsignal(n) for n in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _note)
    try:
        yield
        heed()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _noted.clear()


def heed() -> None:
    """Raise the first signal that was noted."""
    if _noted:
        raise EndedError(_noted[0])


def _note(number: int, _: FrameType | None) -> None:
    if number not in _noted:
        _noted.append(number)
    if _child:
        _child.tell()


def run(
    words: Sequence[str],
    *,
    limit_s: float | None = None,
    longest_s: float = 0,
    insist: Callable[[int], None] | None = None,
    **options: Any,
) -> int:
    """Run a child to its end, whatever comes; returns its status as a shell says it.

    A signal is passed on to the child; the caller heeds it after that. Where the child goes on for
    `longest_s` after it was told, `insist` is called with its process number. After `limit_s` it is told to
    end as by a signal, and `TimeoutError` is raised when it has.
    """
    global _child
    heed()
    try:
        process = subprocess.Popen(words, **options)  # noqa: S603
    except OSError as e:
        raise RunError(f"{words[0]}: cannot be started: {e.strerror}") from e
    child = _child = _Child(process, longest_s, insist)
    try:
        child.tell()  # what came between
        if limit_s is not None:
            child.after(limit_s, child.overrun)
        status = child.wait()
    finally:
        _child = None
    if child.overran:
        raise TimeoutError(f"did not end within {limit_s:.0f} s")
    return status
