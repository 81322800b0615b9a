"""Signals that end a trial: noted, passed on once, heeded where nothing is half made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tierbench.base import endings
from tierbench.base.endings import SIGNALS, EndedError
from tierbench.base.errors import RunError

# Counts the signals that it gets; ends by itself with 7 when a file says so.
COUNTER = """
import os, pathlib, signal, sys, time
told = pathlib.Path(sys.argv[1])
for n in (1, 2, 15):
    signal.signal(n, lambda n, _: told.open('a').write(f'{n}\\n'))
pathlib.Path(sys.argv[1] + '.up').touch()
while not pathlib.Path(sys.argv[1] + '.go').exists():
    time.sleep(0.01)
sys.exit(7)
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """As in a terminal: a shell's background job ignores SIGINT."""
    given = {n: signal.signal(n, signal.SIG_DFL) for n in SIGNALS}
    yield
    assert all(signal.getsignal(n) is signal.SIG_DFL for n in SIGNALS)
    for number, handler in given.items():
        signal.signal(number, handler)


def when(condition: Path, act: Any, *words: Any) -> threading.Thread:
    """Act as soon as the file is there."""

    def wait() -> None:
        while not condition.exists():
            time.sleep(0.01)
        act(*words)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_place_where_it_is_heeded(number: signal.Signals) -> None:
    done = []
    with pytest.raises(EndedError) as e, endings.noted():
        os.kill(os.getpid(), number)
        done.append("whole")
        endings.heed()
        done.append("never")
    assert done == ["whole"] and e.value.status == 128 + number and number.name in str(e.value)


def test_what_comes_last_is_raised_at_the_end() -> None:
    with pytest.raises(EndedError), endings.noted():
        os.kill(os.getpid(), signal.SIGTERM)
    endings.heed()  # it is answered


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with endings.noted():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_child_is_told_once_and_waited_for(tmp_path: Path) -> None:
    told = tmp_path / "told"

    def tell() -> None:
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
            time.sleep(0.1)
        Path(f"{told}.go").touch()

    with pytest.raises(EndedError) as e, endings.noted():
        thread = when(Path(f"{told}.up"), tell)
        assert endings.run([sys.executable, "-c", COUNTER, str(told)], start_new_session=True) == 7
        thread.join()
        endings.heed()
    assert e.value.number == signal.SIGINT and told.read_text() == "2\n15\n"


def test_a_signal_between_the_fork_and_the_first_wait_reaches_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = subprocess.Popen

    def popen(*words: Any, **options: Any) -> Any:
        made = real(*words, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        return made

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(EndedError), endings.noted():
        assert endings.run(["sleep", "600"], start_new_session=True) == 128 + signal.SIGTERM


def test_no_child_is_started_after_a_signal(tmp_path: Path) -> None:
    with pytest.raises(EndedError), endings.noted():
        os.kill(os.getpid(), signal.SIGTERM)
        endings.run(["touch", str(tmp_path / "made")])
    assert not (tmp_path / "made").exists()


def test_a_child_that_does_not_end_is_insisted_on(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with pytest.raises(EndedError), endings.noted():
        when(Path(f"{told}.up"), os.kill, os.getpid(), signal.SIGTERM)
        status = endings.run(
            [sys.executable, "-c", COUNTER, str(told)],
            longest_s=0.2,
            insist=lambda process: os.kill(process, signal.SIGKILL),
        )
        assert status == 128 + signal.SIGKILL
    assert told.read_text() == "15\n"


def test_a_child_has_its_time() -> None:
    with pytest.raises(TimeoutError, match="did not end within 0 s"):
        endings.run(["sleep", "600"], limit_s=0.2)
    assert endings.run(["true"], limit_s=600) == 0


def test_a_program_that_is_none() -> None:
    with pytest.raises(RunError, match="/nonesuch: cannot be started: No such file"):
        endings.run(["/nonesuch"])


SLEEPER = "import signal, time; signal.pthread_sigmask(signal.SIG_UNBLOCK, {15}); time.sleep(20)"


def test_a_signal_that_comes_as_the_wait_begins_is_answered() -> None:
    """Another thread gets it, so nothing interrupts the wait: as where it came just before."""
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    began = time.monotonic()
    try:
        with pytest.raises(EndedError), endings.noted():
            assert endings.run([sys.executable, "-c", SLEEPER]) == 143
        assert time.monotonic() - began < 15
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
