"""How a session of ReFrame ends after a signal: the program first, then its tiers, and nothing is left.

ReFrame raises an error in its main thread, wherever that is. Where a library swallows the error, the session
goes on and hears no further signal; where a second signal comes, the job is never told. So the handler here
raises nothing: it cancels the jobs that run, their records are kept as always, and the session ends at the
next hook of a test.

A cancelled job gets SIGTERM, and SIGKILL as soon as its shell is gone, or 2 s later. `tierctl run` then has
no time to drain and to remove its instance, so the shell waits for it, and ReFrame waits longer.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from types import FrameType
from typing import Any

from reframe.core.exceptions import ForceExitError, JobNotStartedError
from reframe.core.schedulers.local import LocalJobScheduler

GRACE_S = 120  # until ReFrame kills: buffered bytes are written to the PFS first

LocalJobScheduler.CANCEL_GRACE_PERIOD = GRACE_S

WAIT_FOR_THE_PROGRAM = "trap 'exit 143' TERM"  # a shell acts on it when its program has ended

_AGAIN_S = 0.1
_jobs: list[Any] = []  # that run now, or are being submitted
_asked: list[signal.Signals] = []  # signals that came


def heed_signals() -> None:
    """Before a test's set-up: from now on a signal ends the session in order; after one, it ends here.

    What is ignored stays so: a session under nohup goes on after a hang-up.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    _end_if_asked()


def heed_signals_for(job: Any) -> None:
    """Before a job's submission: a signal ends the job from now on."""
    _jobs.append(job)


def ended(job: Any) -> None:
    """After a job's end, when what it left is kept: the session ends here where a signal asked for it."""
    if job in _jobs:
        _jobs.remove(job)
    _end_if_asked()


def wait_for(job: Any) -> None:
    """Wait until a job on this machine has ended: a session that ends by an error does not."""
    process = getattr(job, "_proc", None)
    if process is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)


def _end(number: int, _: FrameType | None) -> None:
    """The first signal counts: a terminal and the program that started ReFrame both send one."""
    _asked.append(signal.Signals(number))
    if len(_asked) == 1:
        signal.signal(signal.SIGALRM, _cancel)
        _cancel()


def _cancel(*_: object) -> None:
    """Cancel the jobs; one that is being submitted has no number yet and is cancelled a little later.

    A job that has ended, but failed before its records were kept, is left alone: another process may have its
    number now.
    """
    for job in filter(_goes_on, _jobs):
        try:
            job.cancel()
        except JobNotStartedError:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _goes_on(job: Any) -> bool:
    """Only jobs on this machine know of a signal that ended them."""
    return job.exitcode is None and getattr(job, "signal", None) is None


def _end_if_asked() -> None:
    if _asked:
        raise ForceExitError(f"received signal {_asked[0].name}")
