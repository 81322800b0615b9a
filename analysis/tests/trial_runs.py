"""Runs of a trial, made up: what `run.json` of each says. Nothing here was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tierbench.trial import results
from tierbench.trial.plan import Trial


def run(**changes: Any) -> dict[str, Any]:
    """A good run of 10 s."""
    return {
        "version": 1,
        "configuration": "pfs",
        "exit_status": 0,
        "wall_s": 10.0,
        "drain_s": 0.0,
        "sync_s": 0.1,
        "outputs": {"out": "a" * 64},
        "fsync": "pfs",
        "fsyncs": 0,
        "tiers": {},
        "pfs_written_bytes": 0,
        "pfs_read_bytes": 0,
        "spilled_bytes": 0,
        "passed": 0,
        "errors": [],
        "asked_written_bytes": 1 << 20,
        "asked_read_bytes": 1 << 20,
        "io_s": 4.0,
        **changes,
    }


def tier(written: int = 1 << 20, read: int = 1 << 19, name: str = "ram") -> dict[str, dict[str, int]]:
    return {
        name: {
            "written_bytes": written,
            "read_bytes": read,
            "peak_bytes": 1 << 19,
            "capacity_bytes": 1 << 20,
        }
    }


def a_trial(folder: Path, runs: Mapping[str, Sequence[dict[str, Any]]]) -> Trial:
    """A trial with these runs by configuration."""
    files = {}
    for name, found in runs.items():
        (folder / f"{name}.yaml").write_text(f"# {name}\n")
        files[name] = str(folder / f"{name}.yaml")
        for document in found:
            place = results.next_folder(folder, name)
            tiers = document["tiers"] or (tier() if name == "ram" else {})
            (place / "run.json").write_text(json.dumps(document | {"configuration": name, "tiers": tiers}))
    places: dict[str, Any] = {"directory": "/", "pfs": "/p", "folder": "/p/f", "tierctl": "/bin/true"}
    trial = Trial(
        command=("true", "{pfs}/x"),
        inputs=(),
        read_only=(),
        configurations=files,
        repetitions=5,
        bare_s=9.5,
        **places,
    )
    trial.write(folder)
    return trial


def walls(*seconds: float, **changes: Any) -> list[dict[str, Any]]:
    return [run(wall_s=s, **changes) for s in seconds]


FASTER = [6.9, 7.0, 7.1, 7.05, 6.95]
AS_FAST = [10.0, 10.2, 9.8, 10.1, 9.9]
