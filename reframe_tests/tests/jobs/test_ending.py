"""A signal to a session: the jobs that run are cancelled, the session ends at the next hook."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import ForceExitError, JobNotStartedError

from common.jobs import ending


class Job(SimpleNamespace):
    """Counts how often it was cancelled; one that is being submitted can't be yet."""

    exitcode: int | None = None
    submitted = True
    cancelled = 0

    def cancel(self) -> None:
        if not self.submitted:
            self.submitted = True
            raise JobNotStartedError("cannot cancel a job that is not started")
        self.cancelled += 1


@pytest.fixture
def session() -> Iterator[None]:
    """With the suite's handlers; without a trace of it after that."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup` ignores, and then the suite does, too
    ending.heed_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    ending._jobs.clear()
    ending._asked.clear()


@pytest.mark.usefixtures("session")
def test_the_first_signal_cancels_and_the_session_ends_at_a_hook() -> None:
    job = Job()
    ending.heed_signals_for(job)
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    assert job.cancelled == 1
    with pytest.raises(ForceExitError, match="SIGTERM"):
        ending.ended(job)
    with pytest.raises(ForceExitError, match="SIGTERM"):
        ending.heed_signals()


@pytest.mark.usefixtures("session")
def test_a_job_that_is_being_submitted_is_cancelled_later() -> None:
    job = Job(submitted=False)
    ending.heed_signals_for(job)
    signal.raise_signal(signal.SIGHUP)
    deadline = time.monotonic() + 20
    while not job.cancelled and time.monotonic() < deadline:
        time.sleep(0.01)
    assert job.cancelled == 1


@pytest.mark.usefixtures("session")
def test_a_job_that_has_ended_is_left_alone() -> None:
    """Its process number may be used again."""
    job = Job(exitcode=1)
    ending.heed_signals_for(job)
    signal.raise_signal(signal.SIGTERM)
    assert job.cancelled == 0
