"""The traces of a run: each row's logs of the repetition nearest its median, with the proof of the tier."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tierbench.judge.verdict import Row
from tierbench.runs.run_folder import Run
from tierbench.trace import evidence, latency
from tierbench.trace.findings import Finding, served_by_buffers
from tierbench.trace.frames import Traces, read
from tierbench.trace.log import LARGEST_LOG
from tierbench.trace.page import Section, section


def sections(run: Run, rows: Sequence[Row]) -> tuple[list[Section], list[str]]:
    """Sections of every row that has logs, and one line for each log that could not be read."""
    made: list[Section] = []
    errors: list[str] = []
    folders = {row.nearest: row for row in reversed(rows)}  # of rows that share a folder the first names it
    seen: set[str] = set()
    for folder in dict.fromkeys(row.nearest for row in rows):
        plan = run.plans.get(folder, {})
        for launch, logs in _launches(run.path / folder).items():
            if not (digests := {_digest(log) for log in logs}) - seen:
                continue  # the cases of a recipe's writing and reading keep the logs of the same launches
            seen |= digests
            traces = read(logs, evidence.places_of(plan))
            errors += [e.replace(f"{run.path}/", "") for e in traces.errors]
            stats = run.stats.get(folder, {}).get(launch, {})
            label = f"{folders[folder].label}{launch and f', launch {launch}'}"
            made += _of_launch(label, traces, plan, run.places.get(folder, {}), stats, len(made))
    return made, errors


def _launches(folder: Path) -> dict[str, list[Path]]:
    """The logs of a case by launch: both sides of `trace-1.darshan` are of `stats-1.json`."""
    found: dict[str, list[Path]] = {}
    for log in sorted(folder.glob("*.darshan")):
        name = log.name.removesuffix(".darshan").removesuffix(".storage")
        found.setdefault(name.partition("-")[2], []).append(log)
    return found


def _digest(log: Path) -> str:
    """Of the file's bytes; of its path where they can't be read or are too many."""
    try:
        small = log.is_file() and log.stat().st_size <= LARGEST_LOG
        with log.open("rb") if small else io.BytesIO(bytes(log)) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return str(log)


def _of_launch(
    label: str,
    traces: Traces,
    plan: dict[str, Any],
    places_on: dict[str, Any],
    stats: dict[str, Any],
    at: int,
) -> list[Section]:
    """The application's side first, with the proof."""
    sides = traces.job.sort_values("side", key=lambda s: s.astype(str), kind="stable")
    parts = {side: _side(traces, side) for side in ("application", "storage")}
    proof = evidence.gather(label, parts["application"], parts["storage"], plan, stats, places_on)
    periods = latency.flushes(parts["application"], parts["storage"])
    made = []
    for number, job in enumerate(sides.to_dict("records")):
        heading = f"{label}: {job['side']} side ({job['log']})"
        salt, shown = f"trace{at + number}", None if number else proof
        some = section(
            traces,
            str(job["log"]),
            salt,
            heading,
            shown,
            folded=bool(number),
            periods=periods if job["side"] == "application" else None,
        )
        some.findings.extend([] if number else _across(parts["application"], parts["storage"]))
        made.append(some)
    return made


def _side(traces: Traces, side: str) -> Traces | None:
    labels = traces.job["log"][traces.job["side"] == side].astype(str).tolist()
    if not labels:
        return None
    mine: dict[str, Any] = {n: f[f["log"].isin(labels)] for n, f in traces.frames().items()}
    return Traces(**mine)


def _across(application: Traces | None, storage: Traces | None) -> list[Finding]:
    if application is None or storage is None:
        return []
    found = served_by_buffers(application, storage)
    return [found] if found else []


def as_json(made: Section) -> dict[str, Any]:
    """A section for scripts."""
    return {
        "log": made.label,
        "heading": made.heading,
        "proof": made.evidence.sentence if made.evidence else None,
        "proven": made.evidence.proven if made.evidence else None,
        "slowest": made.slowest.__dict__ if made.slowest else None,
        "findings": [f.__dict__ for f in made.findings],
        "latencies": [one.as_json() for one in made.latencies],
    }
