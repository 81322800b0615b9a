"""What the runs of a trial left: `runs/CONFIGURATION/NUMBER/run.json` in the trial's folder.

`base/schemas/trial-run.schema.json` is the contract of `run.json`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tierbench.base.errors import RunError
from tierbench.base.strict_json import read_fitting
from tierbench.base.text import ended, last_words
from tierbench.trial.plan import Trial


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """A `run.json`: seconds, bytes and digests."""

    configuration: str
    exit_status: int
    wall_s: float
    drain_s: float
    sync_s: float
    outputs: Mapping[str, str]
    fsync: str | None
    fsyncs: int
    tiers: Mapping[str, Mapping[str, int]]
    pfs_written_bytes: int
    pfs_read_bytes: int
    spilled_bytes: int
    passed: int
    errors: Sequence[str]
    asked_written_bytes: int | None
    asked_read_bytes: int | None
    io_s: float | None
    fallbacks: int = 0
    new_bytes: int | None = None
    configuration_sha256: str | None = None
    left_processes: Sequence[str] = ()
    mode: str = "persistent-async"
    policy: str = "max-bandwidth"

    @property
    def durable_s(self) -> float:
        """From the program's start until all it wrote was durable on the PFS."""
        return self.wall_s + self.drain_s + self.sync_s


def next_folder(folder: Path, configuration: str) -> Path:
    """Make and return the folder of the next run of a configuration."""
    number = 1
    while (made := folder / "runs" / configuration / str(number)).exists():
        number += 1
    made.mkdir(parents=True)
    return made


def read(file: Path) -> OneRun:
    """One run; `RunError` names the first thing that the schema refuses."""
    found: dict[str, Any] = read_fitting(file, "trial-run")
    return OneRun(**{f.name: found[f.name] for f in fields(OneRun) if f.name in found})


def read_all(trial: Trial, folder: Path) -> tuple[dict[str, list[OneRun]], list[str]]:
    """The good runs of each configuration, and a line for each run that failed."""
    good: dict[str, list[OneRun]] = {name: [] for name in trial.configurations}
    failed = []
    for name in trial.configurations:
        places = [p for p in (folder / "runs" / name).glob("*") if p.name.isdecimal()]
        for place in sorted(places, key=lambda p: int(p.name)):
            told = _failure(place, Path(trial.configurations[name]))
            if told:
                failed.append(f"{name}, run {place.name}: {told}")
            else:
                good[name].append(read(place / "run.json"))
    return good, failed


def digest(file: Path) -> str:
    """Of a configuration: what a run says of one file is not said of another."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as e:
        raise RunError(f"{file}: {e.strerror}") from e


def _failure(place: Path, configuration: Path) -> str | None:
    """Why a run does not count, with the last line that it printed."""
    file = place / "run.json"
    if not file.exists():
        return f"it did not come to its end; {_last_line(place)}"
    try:
        run = read(file)
    except RunError as e:
        return str(e)
    if run.exit_status:
        return f"the program {ended(run.exit_status)}; {_last_line(place)}"
    if run.configuration_sha256 not in (None, digest(configuration)):
        return f"{configuration} was changed after it: try the changed one in a new trial"
    return f"not all bytes reached the PFS: {run.errors[0]}" if run.errors else None


def _last_line(place: Path) -> str:
    try:
        printed = (place / "stderr.txt").read_text(errors="replace")
    except OSError:
        printed = ""
    return f"last line of {place / 'stderr.txt'}: {last_words(printed)}"
