"""A run folder as one table.

The suite leaves `results/runs/<id>/` with ReFrame's report(s), provenance and one folder per test case and
repetition (`cases/<case>/<repetition>/`). `read_run` returns it as a `Run`; its `cases` frame has one line
per repetition and these columns:

===============  ======================================================================================
test, system     what ran where; `tiers` is the configuration (`pfs`, `bb`, `bb-nvme` ...)
mode, fsync      how buffered bytes were treated and what an fsync promised (`pfs`, `tier`, `none`)
policy           the placement policy, `none` without tiers
metric, unit     `bandwidth` in MiB/s; `direction` says whether `higher` or `lower` is better
repetition       1, 2 ...
value            the measured number, as the driver printed it
open_s, write_s  seconds the driver reports for open, transfer and close, and `total_s` from first open to
close_s, total_s last close
drain_s          seconds after the program's end until every byte was on the PFS; NaN where nothing drains
verified         True, False, or None where nothing was to be verified
driver           which program measured, `modelled` whether devices were modelled
command          the command line; `ranks` and `bytes` (moved, all ranks together)
published        the published number, `published_source` where it stands, `requirement` what must be reached
folder           path of the artefacts inside the run folder
===============  ======================================================================================

Acceptance recipes say more, which is None (`factor`: 1, `dropped`: empty) where a case does not:

===============  ======================================================================================
expected         on a twin: the published share, which a harness without faults shows
factor           by how much the twin is slower than what it models; results times it are the published scale
scale, dropped   the scale that ran, and in words what it left out of the published run and its rules
nodes            how many; `full_percent` how full the file system was before the run
read_limit       what the device reads at most, in the unit of `value`: the twin's, or as the site says
medium           on a twin: what the machine's own medium does below it, in the unit of `value`
invalid          why the benchmark's own rules (IO500) don't accept the number; empty where they do
sustained        no rank reached the end of its data before the deadline; `sustained_by` what shows it
===============  ======================================================================================
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tierbench.base.errors import RunError
from tierbench.base.text import shown
from tierbench.outputs import OutputError, read_ior
from tierbench.runs import shapes

# What case.json must hold, and the types of each value; None is allowed where it stands.
_FIELDS: dict[str, tuple[type, ...]] = {
    "test": (str,),
    "system": (str,),
    "tiers": (str,),
    "mode": (str,),
    "fsync": (str,),
    "policy": (str,),
    "repetition": (int,),
    "metric": (str,),
    "unit": (str,),
    "direction": (str,),
    "value": (int, float),
    "open_s": (int, float, type(None)),
    "write_s": (int, float, type(None)),
    "close_s": (int, float, type(None)),
    "total_s": (int, float, type(None)),
    "drain_s": (int, float, type(None)),
    "verified": (bool, type(None)),
    "driver": (str,),
    "modelled": (bool,),
    "command": (str,),
    "ranks": (int,),
    "bytes": (int,),
    "published": (int, float, type(None)),
    "published_source": (str, type(None)),
    "requirement": (int, float, type(None)),
}
# What acceptance recipes add, and its value where a case does not say.
_MORE: dict[str, tuple[tuple[type, ...], Any]] = {
    "expected": ((int, float, type(None)), None),
    "factor": ((int,), 1),
    "scale": ((str, type(None)), None),
    "dropped": ((list,), []),
    "nodes": ((int, type(None)), None),
    "full_percent": ((int, float, type(None)), None),
    "read_limit": ((int, float, type(None)), None),
    "medium": ((int, float, type(None)), None),
    "invalid": ((list,), []),
    "sustained": ((bool, type(None)), None),
    "sustained_by": ((str, type(None)), None),
}
_CHOICES = {
    "metric": ("bandwidth", "iops", "rate", "time"),
    "direction": ("higher", "lower"),
    "fsync": ("pfs", "tier", "none"),
    "mode": ("bypass", "persistent-async", "persistent-sync", "scratch"),
}
_NUMBERS = [name for name, types in _FIELDS.items() if float in types]

# Repetitions that agree in these are samples of the same thing.
ROW_KEYS = [
    "test",
    "system",
    "tiers",
    "mode",
    "fsync",
    "policy",
    "metric",
    "unit",
    "direction",
    "driver",
    "modelled",
]


@dataclass(frozen=True)
class Failure:
    """A test case that ReFrame reports as failed or aborted, and why."""

    name: str
    phase: str
    reason: str


@dataclass(frozen=True)
class Run:
    """A run folder; `plans` are by case folder, `stats` by that and launch, where the case left them.

    The launch is what stands behind the dash in `stats-1.json`, empty for `stats.json`.
    """

    path: Path
    provenance: dict[str, Any]
    cases: pd.DataFrame
    failures: tuple[Failure, ...]
    passed: int
    plans: dict[str, dict[str, Any]]
    stats: dict[str, dict[str, dict[str, Any]]]
    files: dict[str, str]

    @property
    def name(self) -> str:
        """The run's id: the folder's name."""
        return self.path.name


def read_run(path: Path | str) -> Run:
    """Read a run folder; `RunError` names the first file that is missing, unreadable or contradictory."""
    root = Path(path)
    if not root.is_dir():
        problem = "it is not a directory" if root.exists() else "it does not exist"
        raise RunError(f"{root}: is not a run folder ({problem})")
    root = root.resolve()
    provenance = _shaped(root / "provenance.json", shapes.PROVENANCE)
    passed, failures = _reframe(root)
    folders = _case_folders(root)
    if not folders and not failures:
        raise RunError(f"{root}: holds no cases (no cases/*/*/case.json)")
    rows = [_case(folder, root) for folder in folders]
    names = [str(folder.relative_to(root)) for folder in folders]
    return Run(
        path=root,
        provenance=provenance,
        cases=_frame(rows),
        failures=failures,
        passed=passed,
        plans={n: _shaped(plan, shapes.PLAN) for n in names if (plan := root / n / "plan.json").exists()},
        stats={n: found for n in names if (found := _stats(root / n))},
        files=_texts(root, ("configs", "published")),
    )


def find_runs(results: Path | str) -> list[Path]:
    """The run folders of a results folder, oldest first."""
    root = Path(results)
    runs = root / "runs"
    if not root.is_dir():
        raise RunError(f"{root}: is not a results folder (it does not exist or is not a directory)")
    if not runs.is_dir():
        return []
    try:
        return sorted(p for p in runs.iterdir() if (p / "provenance.json").exists())
    except OSError as e:
        raise RunError(f"{runs}: cannot be read: {e.strerror}") from e


def _load(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise RunError(f"{path}: cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise RunError(f"{path}: is not text: {e.reason}") from e
    return parse(text, str(path))


def parse(text: str, name: str) -> Any:
    """JSON that can be written again; `RunError` names the source, and the line or the key."""
    try:
        value = json.loads(text, parse_int=_integer)
        told = shapes.unwritable(value)
    except json.JSONDecodeError as e:
        raise RunError(f"{name}:{e.lineno}: is not valid JSON: {e.msg}") from e
    except (ValueError, RecursionError) as e:
        raise RunError(f"{name}: is not valid JSON: {shown(e)}") from e
    if told:
        raise RunError(f"{name}: {shown(told)}")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"{digits[:20]}... is too large")
    return int(digits)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; `RunError` where it is none."""
    value = _load(path)
    if not isinstance(value, dict):
        raise RunError(f"{path}: holds {type(value).__name__}, expected an object")
    return value


def _reframe(root: Path) -> tuple[int, tuple[Failure, ...]]:
    """Passed count and failures of all ReFrame reports; nothing that failed once is hidden by a retry."""
    reports = sorted(root.glob("reframe*.json"))
    if not reports:
        raise RunError(f"{root}: holds no ReFrame report (no reframe*.json)")
    passed, failures = 0, []
    for report in reports:
        document = read_object(report)
        try:
            for case in (case for run in document["runs"] for case in run["testcases"]):
                passed += case["result"] == "pass"
                if case["result"] in ("fail", "abort"):
                    failures.append(_failure(case))
        except (KeyError, TypeError) as e:
            raise RunError(f"{report}: is not a ReFrame report: {type(e).__name__} {e}") from e
    return passed, tuple(failures)


def _failure(case: dict[str, Any]) -> Failure:
    name = str(case.get("display_name") or case["name"])
    return Failure(name, str(case.get("fail_phase")), " ".join(str(case.get("fail_reason")).split()))


def _case_folders(root: Path) -> list[Path]:
    """Every folder of a repetition; one without case.json belongs to a failed case, which ReFrame reports."""
    return sorted(p.parent for p in root.glob("cases/*/*/case.json"))


def _case(folder: Path, root: Path) -> dict[str, Any]:
    path = folder / "case.json"
    raw = read_object(path)
    missing = [name for name in _FIELDS if name not in raw]
    if missing:
        raise RunError(f"{path}: lacks {missing[0]!r}")
    raw = {name: given for name, (_, given) in _MORE.items()} | raw
    for name, types in (_FIELDS | {name: types for name, (types, _) in _MORE.items()}).items():
        value = raw[name]
        if type(value) not in types:
            allowed = " or ".join("null" if t is type(None) else t.__name__ for t in types)
            raise RunError(f"{path}: {name} is {value!r}, expected {allowed}")
        if isinstance(value, float) and not math.isfinite(value):
            raise RunError(f"{path}: {name} is {value!r}, expected a finite number")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise RunError(f"{path}: {name} is {value!r}, expected one of {', '.join(_CHOICES[name])}")
    if raw["value"] <= 0:
        raise RunError(f"{path}: value is {raw['value']!r}, expected a positive number")
    _check_against_summary(folder, raw)
    return {name: raw[name] for name in (*_FIELDS, *_MORE)} | {"folder": str(folder.relative_to(root))}


def _check_against_summary(folder: Path, case: dict[str, Any]) -> None:
    """The value stands in the driver's own output; a number from nowhere is refused."""
    summary = folder / "summary.json"
    if case["scale"] is not None:
        _check_against_text(folder, case["value"])
        return
    if case["metric"] != "bandwidth" or not summary.exists():
        return
    try:
        results = read_ior(summary).results
    except OutputError as e:
        raise RunError(str(e)) from e
    printed = [r.bandwidth_mib_s for r in results if r.bandwidth_mib_s is not None]
    if not any(math.isclose(case["value"], b, rel_tol=1e-4) for b in printed):
        raise RunError(f"{folder / 'case.json'}: value is {case['value']}, but summary.json holds {printed}")


def _check_against_text(folder: Path, value: float) -> None:
    """The same for plain output, of whichever program, and the summary of what is made of several numbers."""
    summary = folder / "summary.txt"
    try:
        text = (folder / "stdout.txt").read_text(encoding="utf-8", errors="replace")
        text += summary.read_text(encoding="utf-8", errors="replace") if summary.exists() else ""
    except OSError as e:
        raise RunError(f"{folder / 'stdout.txt'}: cannot be read: {e.strerror}") from e
    if not any(math.isclose(value, float(n), rel_tol=1e-4) for n in re.findall(r"\d+(?:\.\d+)?", text)):
        raise RunError(f"{folder / 'case.json'}: value is {value}, which stdout.txt does not hold")


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*_FIELDS, *_MORE, "folder"])
    frame[_NUMBERS] = frame[_NUMBERS].astype(float)
    duplicated = frame[frame.duplicated([*ROW_KEYS, "repetition"])]
    if len(duplicated):
        again = duplicated.iloc[0]
        raise RunError(f"{again['folder']}: is repetition {again['repetition']} of the same case once more")
    return frame


def _stats(folder: Path) -> dict[str, dict[str, Any]]:
    """What tierctl counted, by launch."""
    files = sorted(folder.glob("stats*.json"))
    return {f.stem.removeprefix("stats").removeprefix("-"): _shaped(f, shapes.STATS) for f in files}


def _shaped(path: Path, shape: dict[str, Any]) -> dict[str, Any]:
    """An object that is what its reader expects."""
    found = read_object(path)
    if told := shapes.misfit(found, shape):
        raise RunError(f"{path}: {shown(told)}")
    return found


def _texts(root: Path, folders: tuple[str, ...]) -> dict[str, str]:
    """The run's copies of configuration and published files, by path inside the run folder."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                try:
                    found[str(path.relative_to(root))] = path.read_text(encoding="utf-8", errors="replace")
                except OSError as e:
                    raise RunError(f"{path}: cannot be read: {e.strerror}") from e
    return found
