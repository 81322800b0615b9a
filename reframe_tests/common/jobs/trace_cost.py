"""What a trace of a launch would cost, measured before it. Runs in the job, with python3 alone.

usage: trace_cost.py TIERCTL CONFIG MODE BYTES FILE NAME

Prints `--trace NAME.darshan` where the trace takes less than 1 % of a call, for the launch's `tierctl run`,
and nothing else; NAME-cost.json says what was found. A call is a write of BYTES to FILE through the tiers as
they are configured, or with 0 bytes a file made, looked at and removed; what a trace adds to one is measured
on this node's own /tmp. One process is asked: several of a node share what is below them, and wait longer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MOST = 0.01  # of a call's time
LEAST_S = (
    90e-9  # of a transfer or a name, quiet machine (docs/testing/trace.md): less was not measured but missed
)
BATCHES, BATCH_S, TURNS = 10, 0.02, 3
LONGEST_S = 120  # of one look: a place that hangs leaves the launch to go on without a trace
LOOP = "loop"
GRACE_S = 30  # for one that was asked to end
SLICE_S = 0.1
_asked: list[int] = []  # signals that came


def timed(file: str, size: int) -> float:
    """Seconds of a call, in the best of some batches: what else runs on the node only adds."""
    data = b"x" * size
    fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600) if size else -1
    best, count = float("inf"), 1
    for _ in range(BATCHES):
        began = time.perf_counter()
        for _ in range(count):
            one_call(fd, data, file)
        lasted = time.perf_counter() - began
        best = min(best, lasted / count)
        count = max(1, min(100_000, int(BATCH_S / best)))
    return best


def one_call(fd: int, data: bytes, file: str) -> None:
    """A write, or a file from its making to its end."""
    if data:
        os.pwrite(fd, data, 0)
        return
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    os.stat(file)  # noqa: PTH116 - as few calls around it as can be
    os.unlink(file)  # noqa: PTH108


def measured(tierctl: str, config: str, mode: str, file: str, size: int, *, trace: str = "") -> float:
    """The same under `tierctl run`, in a process group of its own: all of it ends by one signal."""
    traced = ["--trace", trace] if trace else []
    line = [tierctl, "run", "-c", config, "--mode", mode, *traced, "--"]
    line += [sys.executable, __file__, LOOP, file, str(size)]
    _end_if_asked()
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        out, told = _said(process)
    _end_if_asked()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, line, out, told)
    return float(out)


def _said(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed. The wait is cut in slices: a signal that comes just before it interrupts nothing."""
    last = time.monotonic() + LONGEST_S
    while not _asked and time.monotonic() < last:
        try:
            return process.communicate(timeout=SLICE_S)
        except subprocess.TimeoutExpired:
            continue
    said = _ended(process)
    if not _asked:
        raise TimeoutError(f"a look took more than {LONGEST_S} s")
    return said


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """`tierctl run` ends what it started when it is asked to."""
    os.killpg(process.pid, signal.SIGTERM)  # it was not waited for: its group is there
    try:
        return process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()


def heed_signals() -> None:
    """After a signal `tierctl run` ends first, then this, and the folder for the looks goes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _asked.append(number))


def _end_if_asked() -> None:
    if _asked:
        raise SystemExit(128 + _asked[0])


def look(tierctl: str, config: str, mode: str, size: int, file: str) -> dict[str, Any]:
    """What a call takes there, and what a trace adds."""
    with tempfile.TemporaryDirectory(prefix="tierbench-cost-") as folder:
        here, log = f"{folder}/file", f"{folder}/cost.darshan"
        least = min(size, 1)
        both = [
            [measured(tierctl, config, "bypass", here, least, trace=t) for t in ("", log)]
            for _ in range(TURNS)
        ]
    try:
        call_s = measured(tierctl, config, mode, file, size)
    finally:
        Path(file).unlink(missing_ok=True)
    plain, traced = (min(times) for times in zip(*both))  # noqa: B905 - nodes' Python may be old
    added_s = max(LEAST_S if size else 3 * LEAST_S, traced - plain)
    return {"call_s": call_s, "trace_s": added_s, "share": added_s / call_s}


def main(arguments: list[str]) -> int:
    """A launch goes on without a trace where nothing could be measured."""
    if arguments[0] == LOOP:
        print(timed(arguments[1], int(arguments[2])))
        return 0
    heed_signals()
    tierctl, config, mode, size, file, name = arguments
    found: dict[str, Any]
    try:
        found = look(tierctl, config, mode, int(size), file)
    except (OSError, ValueError, subprocess.CalledProcessError) as e:
        said = e.stderr.strip() if isinstance(e, subprocess.CalledProcessError) else ""
        found = {"problem": said or str(e)}
    found["traced"] = found.get("share", 1.0) < MOST
    Path(f"{name}-cost.json").write_text(json.dumps(found))
    if found["traced"]:
        print(f"--trace {name}.darshan")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
