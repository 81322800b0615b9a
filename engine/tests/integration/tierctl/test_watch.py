"""`tierctl status --watch`: on a terminal, as lines, as JSON."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from buffered import write_buffered
from instances import BIN, Instance


def watch(instance: Instance, *args: str | Path, **more: Any) -> subprocess.Popen[Any]:
    command = [BIN / "tierctl", "status", "-i", instance.name, "--watch=0.05", *args]
    process: subprocess.Popen[Any] = subprocess.Popen(command, stderr=subprocess.PIPE, **more)
    instance.cleanup.callback(process.wait)
    instance.cleanup.callback(process.kill)
    assert process.stderr
    instance.cleanup.callback(process.stderr.close)
    return process


def until(fd: int, pattern: str, seconds: float = 20) -> str:
    """Everything read until the pattern appears."""
    text, end = "", time.monotonic() + seconds
    while not re.search(pattern, text, re.DOTALL):
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        assert ready, f"no {pattern} in {text[-2000:]}"
        text += os.read(fd, 65536).decode()
    return text


def test_watch_redraws_a_terminal(instance: Instance) -> None:
    instance.start()
    ours, theirs = pty.openpty()
    instance.cleanup.callback(os.close, ours)
    process = watch(instance, stdout=theirs)
    os.close(theirs)
    empty = until(ours, r"\033\[J.*\033\[J")
    assert f"ram      [{'.' * 18}]" in empty
    assert re.search(r"\033\[5A" + instance.name, empty)  # over the five lines of the last picture
    assert all(len(line) <= 80 for line in re.sub(r"\033\[\d*\w", "", empty).split("\r\n"))
    write_buffered(instance)
    until(ours, r"nvme +\[#+\.*\] +0\.2 +0\.0")
    instance.check(instance.ctl("drain", "-i", instance.name), 0)
    # Both are seen, in one picture or in two: the drain may fall between them.
    until(ours, r"(?=.*nvme +\[[+.]+\] +0\.0)(?=.*pfs +([0-9]*[1-9][0-9.]*|0\.[0-9]*[1-9]) MiB/s written)")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 0
    assert instance.status()["clients"] == 0


def test_watch_writes_lines_and_ends_with_the_instance(instance: Instance) -> None:
    instance.start()
    process = watch(instance, stdout=subprocess.PIPE)
    assert process.stdout
    instance.cleanup.callback(process.stdout.close)
    text = until(process.stdout.fileno(), r"\n.*\n.*\n")
    assert "\033" not in text
    instance.stop()
    text += until(process.stdout.fileno(), "ended\n")
    lines = text.splitlines()
    assert lines.pop() == f"instance {instance.name} ended"
    for line in lines:
        assert re.search(
            r"^[0-9.]+ s  clients [01]  ram: dirty 0.0 clean 0.0 free [0-9.]+ MiB, in 0.0 out 0.0 flush 0.0 MiB/s",
            line,
        )
    assert process.wait(timeout=10) == 0


def test_watch_writes_json_lines(instance: Instance) -> None:
    instance.start()
    process = watch(instance, "--json", stdout=subprocess.PIPE)
    assert process.stdout
    instance.cleanup.callback(process.stdout.close)
    text = until(process.stdout.fileno(), r"\n.*\n.*\n")
    process.terminate()
    assert process.wait(timeout=10) == 0
    text += process.stdout.read().decode()
    for line in text.splitlines():
        assert json.loads(line)["region"]["huge_pages"] == instance.status()["region"]["huge_pages"]
    assert instance.ctl("status", "-i", instance.name, "--watch=0").returncode == 2
