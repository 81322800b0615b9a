"""One run of a trial: `python -m tierbench.trial.one_run TRIAL.json CONFIGURATION`, where its files are kept.

The folder below the PFS is made with its inputs, the program runs under the configuration, processes that it
leaves are ended, what was written is made durable and its digests are taken, the folder is removed. What was
measured is kept in `run.json`; `stats.json` and the traces are tierctl's. After a signal the program is ended
first, then the folder removed.
Where tierctl could not put all bytes on the PFS the folder is kept, since they belong into it.

Exit status: the program's (`tierctl run`: 3 where its bytes did not reach the PFS); 2 where it could not be
started; 128 + N after signal N.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tierbench.trace
from tierbench.base import endings
from tierbench.base.endings import EndedError
from tierbench.base.errors import RunError
from tierbench.trace.frames import Traces
from tierbench.trial import left_processes, plan, results
from tierbench.trial.lease import held
from tierbench.trial.plan import BARE, Trial
from tierbench.trial.working_folder import WorkingFolder

VERSION = 1
TRACE = "trace.darshan"
_PATIENCE_S = 60.0  # for the program to end after a signal


def main(arguments: list[str]) -> int:
    """Run once; returns the exit status."""
    file, configuration = Path(arguments[0]), arguments[1]
    try:
        with endings.noted():
            trial = plan.read(file)
            made = WorkingFolder(Path(trial.pfs), Path(trial.folder), trial.inputs, trial.read_only)
            with held(file.resolve().parent), made as folder:
                record = _run(trial, configuration, folder)
            Path("run.json").write_text(json.dumps(record, indent=1) + "\n")
    except RunError as e:
        print(f"tierbench: {e}", file=sys.stderr)
        return 2
    except EndedError as e:
        print(f"tierbench: {e}", file=sys.stderr)
        return e.status
    return int(record["exit_status"])


def _run(trial: Trial, configuration: str, folder: WorkingFolder) -> dict[str, Any]:
    words = trial.words()
    if configuration != BARE:
        kept = ["--stats", str(Path("stats.json").resolve()), "--trace", str(Path(TRACE).resolve())]
        words = [trial.tierctl, "run", "-c", trial.configurations[configuration], *kept, "--", *words]
    digest = None if configuration == BARE else results.digest(Path(trial.configurations[configuration]))
    others = left_processes.adopt()
    started = time.perf_counter()
    status = endings.run(words, longest_s=_PATIENCE_S, insist=_insist, cwd=trial.directory)
    wall_s = time.perf_counter() - started
    left = left_processes.end(others)
    stats = _stats()
    if configuration != BARE:
        folder.kept = _left(trial, configuration, status, stats)
    endings.heed()
    return {
        "version": VERSION,
        "configuration": configuration,
        "configuration_sha256": digest,
        "exit_status": status,
        "wall_s": stats.get("program_s", wall_s),
        "drain_s": stats.get("drain_s", 0.0),
        "sync_s": folder.sync(),
        "left_processes": left,
        "outputs": folder.digests(),
        "new_bytes": folder.new_bytes(),
        **_counted(stats),
        **_asked(Path(TRACE), trial.folder),
    }


def _left(trial: Trial, configuration: str, status: int, stats: dict[str, Any]) -> str | None:
    """What is left of the instance: its drain failed, or tierctl was killed; None: nothing."""
    name = stats.get("instance")
    if not name:
        killed = "tierctl was killed; put the bytes there by `tierctl gc`, and remove the folder"
        return killed if status > 128 else None
    look = subprocess.run(  # noqa: S603
        [trial.tierctl, "status", "-i", name, "--json"], capture_output=True, check=False
    )
    again = f"tierctl recover -c {trial.configurations[configuration]}"
    told = (
        f"instance {name} has bytes of it that could not be written there; put them there by `tierctl stop "
        f"-i {name}`, or where it lives no more by `{again}`, and remove the folder"
    )
    return told if look.returncode == 0 else None


def _insist(process: int) -> None:
    """End a program that does not heed signals, and let tierctl, which it runs under, do its part."""
    told = f"the program did not end within {_PATIENCE_S:.0f} s after the signal: it is killed"
    print(f"tierbench: {told}", file=sys.stderr)
    below = left_processes.children(process) if _name(process) == "tierctl" else ()
    for number in [child for child, name in below if name != "tierd"] or [process]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _name(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


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
        "mode": stats.get("mode", "bypass"),
        "policy": stats.get("policy", "none"),
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
        "fallbacks": int(stats.get("fallbacks", 0)),
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
