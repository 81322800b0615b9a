"""A run folder as one table.

The suite leaves `results/runs/<id>/` with ReFrame's report(s), provenance and one folder per test case and
repetition (`cases/<case>/<repetition>/`). `read_run` returns it as a `Run`; its `cases` frame has one line
per repetition. Its columns are the fields of `Case`, which `base/schemas/case.schema.json` describes, and
`folder`, the path of the artefacts inside the run folder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tierbench.base.errors import RunError
from tierbench.base.files import read_text
from tierbench.base.strict_json import read_fitting, read_object
from tierbench.base.text import lacks
from tierbench.outputs import OutputError, read_ior
from tierbench.runs.case import Case, read_case

if TYPE_CHECKING:
    import pandas as pd

ALLOWED = "allowed: a run folder, e.g. results/latest (`tierbench list` names them)"
RESULTS = "allowed: a folder with runs/, e.g. results"
_COLUMNS = [f.name for f in fields(Case) if f.name != "site"]
_SECONDS = [name for name in _COLUMNS if name.endswith("_s")]
_NUMBERS = ["value", *_SECONDS, "published", "requirement"]

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


_BEGAN = re.compile(
    r"^tierbench: launch \S+ begins at (\S+)", re.MULTILINE
)  # the suite's clock in stdout.txt
_Repetition: TypeAlias = "tuple[Any, ...]"  # the values of ROW_KEYS, and its number


@dataclass(frozen=True)
class Failure:
    """A test case that ReFrame reports as failed or aborted, and why."""

    name: str
    phase: str
    reason: str


@dataclass(frozen=True)
class Run:
    """A run folder; `plans` and `places` are by case folder, `stats` by that and launch.

    Each only where the case left it. The launch is what follows the dash in `stats-1.json`; it is empty for
    `stats.json`.
    """

    path: Path
    provenance: dict[str, Any]
    cases: pd.DataFrame
    failures: tuple[Failure, ...]
    passed: int
    plans: dict[str, dict[str, Any]]
    places: dict[str, dict[str, Any]]
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
        raise RunError(f"{root}: is not a run folder ({problem}); {ALLOWED}")
    root = root.resolve()
    if not (root / "provenance.json").exists():
        raise RunError(
            f"{root}: is no whole run folder (no provenance.json: its run was ended early, or "
            f"it is another folder); {ALLOWED}"
        )
    provenance = read_fitting(root / "provenance.json", "provenance")
    passed, failures, reported = _reframe(root)
    folders = _case_folders(root)
    if not folders and not failures:
        raise RunError(f"{root}: holds no cases (no cases/*/*/case.json); {ALLOWED}")
    rows = [_case(folder, root) for folder in folders]
    names = [str(folder.relative_to(root)) for folder in folders]
    cases = _frame(rows)
    _check_copies(root, cases)
    _check_against_reports(root, cases, reported)
    return Run(
        path=root,
        provenance=provenance,
        cases=cases,
        failures=failures,
        passed=passed,
        plans=_documents(root, names, "plan"),
        places=_documents(root, names, "places"),
        stats={n: found for n in names if (found := _stats(root / n))},
        files=_texts(root, ("configs", "published")),
    )


def find_runs(results: Path | str) -> list[Path]:
    """The run folders of a results folder, oldest first; also those that `read_run` refuses as incomplete."""
    root = Path(results)
    runs = root / "runs"
    if not root.is_dir():
        raise RunError(
            f"{root}: is not a results folder (it does not exist or is not a directory); {RESULTS}"
        )
    if not runs.is_dir():
        return []
    try:
        return sorted(p for p in runs.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError as e:
        raise RunError(f"{runs}: cannot be read: {e.strerror}") from e


def _reframe(root: Path) -> tuple[int, tuple[Failure, ...], dict[_Repetition, float]]:
    """Passed count, failures and values of all ReFrame reports; no failure is hidden by a retry."""
    reports = sorted(root.glob("reframe*.json"))
    if not reports:
        raise RunError(f"{root}: holds no ReFrame report (no reframe*.json); {ALLOWED}")
    passed, failures = 0, []
    values: dict[_Repetition, float] = {}
    for report in reports:
        document = read_object(report)
        try:
            for case in (case for run in document["runs"] for case in run["testcases"]):
                if case["result"] == "pass":
                    passed += 1
                    values |= {_repetition(c): c["value"] for c in case.get("metrics", {}).get("cases", [])}
                if case["result"] in ("fail", "abort"):
                    failures.append(_failure(case))
        except (KeyError, TypeError, AttributeError) as e:
            raise RunError(
                f"{report}: is not a ReFrame report: {lacks(e)}; allowed: what reframe --report-file writes"
            ) from e
    return passed, tuple(failures), values


def _repetition(case: Mapping[Any, Any]) -> _Repetition:
    return tuple(case[key] for key in (*ROW_KEYS, "repetition"))


def _check_against_reports(root: Path, cases: pd.DataFrame, reported: Mapping[_Repetition, float]) -> None:
    """Each number that passed is there as it was: none of a copy is left out, and none was changed since."""
    found = {_repetition(case): case["value"] for case in cases.to_dict("records")}
    for repetition, value in reported.items():
        if (there := found.get(repetition)) != value:
            about = dict(zip((*ROW_KEYS, "repetition"), repetition, strict=True))
            what = " ".join(str(about[k]) for k in ("test", "tiers", "mode", "policy", "metric"))
            raise RunError(
                f"{root}: repetition {about['repetition']} of {what} is {value} in ReFrame's report and "
                f"{'not' if there is None else there} in cases/; allowed: all that was measured, unchanged"
            )


def _failure(case: dict[str, Any]) -> Failure:
    name = str(case.get("display_name") or case["name"])
    return Failure(name, str(case.get("fail_phase")), " ".join(str(case.get("fail_reason")).split()))


def _case_folders(root: Path) -> list[Path]:
    """Every folder of a repetition; one without case.json belongs to a failed case, which ReFrame reports."""
    return sorted(p.parent for p in root.glob("cases/*/*/case.json"))


def _case(folder: Path, root: Path) -> dict[str, Any]:
    case = read_case(folder / "case.json")
    _check_against_summary(folder, case)
    return {name: getattr(case, name) for name in _COLUMNS} | {"folder": str(folder.relative_to(root))}


def _check_against_summary(folder: Path, case: Case) -> None:
    """The value is in the driver's own output; a number from nowhere is refused."""
    summary = folder / "summary.json"
    if case.scale is not None:
        _check_against_text(folder, case.value)
        return
    if case.metric != "bandwidth" or not summary.exists():
        return
    try:
        results = read_ior(summary).results
    except OutputError as e:
        raise RunError(f"{e}; allowed: the summary of IOR or tb-ior") from e
    printed = [r.bandwidth_mib_s for r in results if r.bandwidth_mib_s is not None]
    if not any(math.isclose(case.value, b, rel_tol=1e-4) for b in printed):
        raise RunError(f"{folder / 'case.json'}: value is {case.value}, but summary.json holds {printed}")


def _check_against_text(folder: Path, value: float) -> None:
    """The same for plain output, of any program, and the summary of what is made of several numbers."""
    summary = folder / "summary.txt"
    text = read_text(folder / "stdout.txt", strict=False)
    text += read_text(summary, strict=False) if summary.exists() else ""
    if not any(math.isclose(value, float(n), rel_tol=1e-4) for n in re.findall(r"\d+(?:\.\d+)?", text)):
        raise RunError(f"{folder / 'case.json'}: value is {value}, which stdout.txt does not hold")


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[*_COLUMNS, "folder"])
    frame[_NUMBERS] = frame[_NUMBERS].astype(float)
    duplicated = frame[frame.duplicated([*ROW_KEYS, "repetition"])]
    if len(duplicated):
        again = duplicated.iloc[0]
        raise RunError(f"{again['folder']}: is repetition {again['repetition']} of the same case once more")
    return frame


def _check_copies(root: Path, cases: pd.DataFrame) -> None:
    """No two repetitions of a row began in the same nanosecond: one of them would be a copy."""
    seen: dict[tuple[Any, ...], str] = {}
    for case in cases.to_dict("records"):
        stdout = root / case["folder"] / "stdout.txt"
        began = _BEGAN.search(read_text(stdout, strict=False)) if stdout.exists() else None
        if began:
            first = seen.setdefault((*(case[key] for key in ROW_KEYS), began[1]), case["folder"])
            if first != case["folder"]:
                raise RunError(f"{root / case['folder']}: is a copy of {first}; allowed: another launch")


def _documents(root: Path, folders: list[str], name: str) -> dict[str, dict[str, Any]]:
    """The file NAME.json of each folder that has one."""
    return {f: read_fitting(file, name) for f in folders if (file := root / f / f"{name}.json").exists()}


def _stats(folder: Path) -> dict[str, dict[str, Any]]:
    """What tierctl counted, by launch."""
    files = sorted(folder.glob("stats*.json"))
    return {f.stem.removeprefix("stats").removeprefix("-"): read_fitting(f, "stats") for f in files}


def _texts(root: Path, folders: tuple[str, ...]) -> dict[str, str]:
    """The run's copies of configuration and published files, by path inside the run folder."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if not path.is_dir():
                found[str(path.relative_to(root))] = read_text(path, strict=False)
    return found
