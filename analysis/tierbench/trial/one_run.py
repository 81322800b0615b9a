"""One run of a trial: `python -m tierbench.trial.one_run TRIAL.json CONFIGURATION`, where its files are kept.

The folder below the PFS is made with its inputs, the program runs under the configuration, everything it
wrote is made durable and its digests are taken, the folder is removed. `run.json` keeps what was measured;
`stats.json` and the traces are tierctl's. After a signal the program is ended first, then the folder removed.

Exit status: the program's (`tierctl run`: 3 where its bytes did not reach the PFS); 2 where it could not be
started; 128 + N after signal N.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import tierbench.trace
from tierbench.base.errors import RunError
from tierbench.trace.frames import Traces
from tierbench.trial import plan
from tierbench.trial.lease import ENDINGS, held
from tierbench.trial.plan import BARE, Trial
from tierbench.trial.working_folder import WorkingFolder

VERSION = 1
TRACE = "trace.darshan"
_PATIENCE_S = 60.0  # for tierctl to drain and end after a signal


class _EndedError(Exception):
    """A signal asked this run to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(arguments: list[str]) -> int:
    """Run once; returns the exit status."""
    file, configuration = Path(arguments[0]), arguments[1]
    for number in ENDINGS:
        signal.signal(number, _end)
    try:
        trial = plan.read(file)
        made = WorkingFolder(Path(trial.pfs), Path(trial.folder), trial.inputs, trial.read_only)
        with held(file.resolve().parent), made as folder:
            record = _run(trial, configuration, folder)
        Path("run.json").write_text(json.dumps(record, indent=1) + "\n")
    except RunError as e:
        print(f"tierbench: {e}", file=sys.stderr)
        return 2
    except _EndedError as e:
        print(f"tierbench: ended by signal {e.number}; the folder of the run is removed", file=sys.stderr)
        return 128 + e.number
    return int(record["exit_status"])


def _end(number: int, _: FrameType | None) -> None:
    raise _EndedError(number)


def _run(trial: Trial, configuration: str, folder: WorkingFolder) -> dict[str, Any]:
    words = trial.words()
    if configuration != BARE:
        kept = ["--stats", str(Path("stats.json").resolve()), "--trace", str(Path(TRACE).resolve())]
        words = [trial.tierctl, "run", "-c", trial.configurations[configuration], *kept, "--", *words]
    started = time.perf_counter()
    status = _program(words, trial.directory)
    wall_s = time.perf_counter() - started
    stats = _stats()
    return {
        "version": VERSION,
        "configuration": configuration,
        "exit_status": status,
        "wall_s": stats.get("program_s", wall_s),
        "drain_s": stats.get("drain_s", 0.0),
        "sync_s": folder.sync(),
        "outputs": folder.digests(),
        **_counted(stats),
        **_asked(Path(TRACE), trial.folder),
    }


def _program(words: list[str], directory: str) -> int:
    """The exit status; after a signal the program is ended before the signal goes on."""
    try:
        process = subprocess.Popen(words, cwd=directory)  # noqa: S603
    except OSError as e:
        raise RunError(f"{words[0]}: cannot be started: {e.strerror}") from e
    try:
        status = process.wait()
    except _EndedError as e:
        _stop(process, e.number)
        raise
    return 128 - status if status < 0 else status


def _stop(process: subprocess.Popen[bytes], number: int) -> None:
    """Pass the signal on, and wait until tierctl has cleared what it made."""
    for other in ENDINGS:
        signal.signal(other, signal.SIG_IGN)
    process.send_signal(number)
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        print(f"tierbench: process {process.pid} did not end within {_PATIENCE_S:.0f} s", file=sys.stderr)
        process.kill()
        process.wait()


def _stats() -> dict[str, Any]:
    file = Path("stats.json")
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _counted(stats: dict[str, Any]) -> dict[str, Any]:
    """What the engine counted. `peak_bytes` by tier is of samples, so a short peak may be higher."""
    used = (stats.get("samples") or {}).get("used", {})
    tiers = [t for t in stats.get("tiers", []) if stats.get("mode") != "bypass"]
    return {
        "fsync": stats.get("fsync"),
        "fsyncs": int(stats.get("fsyncs", 0)),
        "tiers": {
            t["name"]: {
                "written_bytes": int(t["bytes_in"]),
                "read_bytes": int(t["bytes_out"]),
                "peak_bytes": int(max(used.get(t["name"]) or [0])),
                "capacity_bytes": int(t["capacity"]),
            }
            for t in tiers
        },
        "pfs_written_bytes": int((stats.get("pfs") or {}).get("bytes_written", 0)),
        "pfs_read_bytes": int((stats.get("pfs") or {}).get("bytes_read", 0)),
        "spilled_bytes": int(stats.get("spilled", 0)),
        "passed": int(stats.get("passed", 0)),
        "errors": [f"{e.get('path')}: {e.get('error')}" for e in stats.get("errors", [])],
    }


def _asked(log: Path, folder: str) -> dict[str, Any]:
    """What the program asked of its folder: bytes, and seconds in I/O calls of all its processes together."""
    if not log.exists():
        return {"asked_written_bytes": None, "asked_read_bytes": None, "io_s": None}
    files = _files_in(tierbench.trace.read([log]), folder)
    seconds = files[["read_s", "write_s", "meta_s"]].sum().sum()
    return {
        "asked_written_bytes": int(files["bytes_written"].sum()),
        "asked_read_bytes": int(files["bytes_read"].sum()),
        "io_s": float(seconds),
    }


def _files_in(traces: Traces, folder: str) -> Any:
    """The records of POSIX and STDIO below the folder: MPI-IO's and HDF5's bytes are counted in these too."""
    files = traces.files[traces.files["module"].isin(["POSIX", "STDIO"])]
    return files[files["file"].astype(str).str.startswith(folder + os.sep)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
