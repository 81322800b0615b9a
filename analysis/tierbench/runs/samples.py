"""Measurements of any source as one table, a line a repetition.

`read` takes a run folder, a ReFrame report (JSON), ReFrame's results store (SQLite; `FILE@UUID` names one of
its sessions, by the beginning of its id), a result of `make bench` (JSON; a row is a test, called `bench` and
its path) or a folder of plain IOR and mdtest output, and gives these columns:

===============  ======================================================================================
source, run      what was named on the command line, and the run, session or folder in it
when             seconds since 1970 when the run started; NaN where the source does not say
commit, site     of the run; empty where the source does not say
test, system,    what ran, as in `runs`; of plain output, the program and operation (`ior write`), and
tiers, mode,     everything it does not say is `-`
policy
fsync            the promise (`pfs`, `tier`, `none`); of plain output, the sync options it was given
driver           the program that measured, `modelled` whether devices were modelled (None: not said)
nodes, ranks,    the scale; 0 where the source does not say
bytes
options          the command line without its files, for plain output
repetition       1, 2 ...; 0 where only the order of the lines says
metric, unit     and `direction`, whether `higher` or `lower` is better
value            the number
===============  ======================================================================================
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import shlex
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tierbench.base.errors import RunError
from tierbench.base.sizes import MIB
from tierbench.base.strict_json import parse, read_object
from tierbench.base.text import lacks, shown
from tierbench.outputs import IorOutput, MdtestOutput, OutputError, read_ior, read_mdtest
from tierbench.runs.run_folder import read_run
from tierbench.runs.sample_lines import refuse_strange

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = [
    "source",
    "run",
    "when",
    "commit",
    "site",
    "test",
    "system",
    "tiers",
    "mode",
    "policy",
    "fsync",
    "driver",
    "modelled",
    "nodes",
    "ranks",
    "bytes",
    "options",
    "repetition",
    "metric",
    "unit",
    "direction",
    "value",
]
_UNSAID = {
    "run": "",
    "when": math.nan,
    "commit": "",
    "site": "",
    "system": "-",
    "tiers": "-",
    "mode": "-",
    "policy": "-",
    "fsync": "-",
    "driver": "-",
    "modelled": None,
    "nodes": 0,
    "ranks": 0,
    "bytes": 0,
    "options": "",
    "repetition": 0,
}
SOURCES = (
    "run folder, ReFrame report (JSON), results store (SQLite, FILE@UUID for one session), "
    "result of make bench (JSON) or folder of output"
)
GROUPINGS = ("run", "tiers", "commit", "site")  # by which columns samples are compared
# Documents that hold no repetitions: the keys that tell them, and what they are.
_OTHERS = (
    ({"instance", "tiers"}, "the counters of an instance (`tierctl --stats`), which hold no repetitions"),
    ({"region", "tiers"}, "a plan (`tierctl plan --json`), which holds no measurements"),
    ({"run", "rows", "steps"}, "a report of tierbench, which was made of a run folder"),
    ({"test", "metric", "value"}, "one repetition of a run folder"),
    ({"configurations", "tierctl"}, "the plan of a trial, which holds no measurements"),
    ({"bare_s", "advice"}, "the answer of a trial, which holds no repetitions"),
    ({"configuration", "wall_s"}, "one run of a trial"),
)
_Output = TypeVar("_Output", IorOutput, MdtestOutput)
_LOWER_IS_BETTER = {"s", "ms", "us", "ns", "seconds", "ms/op"}
_LARGEST_OUTPUT = 64 << 20  # bytes of a file that may be output of IOR or mdtest


def read(source: str) -> pd.DataFrame:
    """All measurements of a source; `RunError` names what is wrong with it."""
    import pandas as pd

    path, session = Path(source), ""
    if not path.exists() and "@" in source:
        before, _, session = source.rpartition("@")
        path = Path(before)
    if not path.exists():
        raise RunError(f"{source}: does not exist; allowed: {SOURCES}")
    if path.is_dir():
        if session:
            raise RunError(f"{source}: a session of a folder; allowed: {SOURCES}")
        lines = _run_folder(path) if (path / "cases").is_dir() else _plain_folder(path)
    elif _is_sqlite(path):
        lines = _store(path, session)
    else:
        document = read_object(path)
        lines = _bench(document, str(path)) if _is_bench(document) else _report(document, str(path))
    if not lines:
        raise RunError(f"{source}: holds no measurements; allowed: {SOURCES}")
    refuse_strange(source, lines)
    told = [{k: shown(v) if isinstance(v, str) else v for k, v in line.items()} for line in lines]
    made = pd.DataFrame([{**_UNSAID, "source": source, **line} for line in told], columns=COLUMNS)
    made["nodes"] = made["nodes"].fillna(0).astype(int)
    return made


def read_all(sources: Iterable[str], problems: list[str] | None = None) -> pd.DataFrame:
    """The measurements of several sources, one after the other.

    With a list of `problems` what is wrong with a source goes there, and the others are read; `RunError`
    where none can be.
    """
    import pandas as pd

    named: dict[str, int] = {}
    parts = []
    for source in sources:
        named[source] = named.get(source, 0) + 1
        label = source if named[source] == 1 else f"{source} ({named[source]})"
        try:
            parts.append(read(source).assign(source=label))
        except RunError as e:
            if problems is None:
                raise
            problems.append(str(e))
    if not parts:
        raise RunError("\n".join(problems or ["no source"]))
    return pd.concat(parts, ignore_index=True)


def _run_folder(path: Path) -> list[dict[str, Any]]:
    run = read_run(path)
    said = run.provenance
    about = {
        "run": run.name,
        "when": _seconds(said.get("started")),
        "commit": str(said.get("commit", "")) + ("+" if said.get("dirty") else ""),
        "site": str(said.get("site", "")),
    }
    wanted = [c for c in COLUMNS if c in run.cases.columns]
    return [{**about, **line} for line in run.cases[wanted].to_dict("records")]  # type: ignore[dict-item]


def _seconds(text: Any) -> float:
    import pandas as pd

    try:
        return float(pd.Timestamp(str(text)).timestamp())
    except ValueError:
        return math.nan


# --- make bench --------------------------------------------------------------------------------------------


def _is_bench(document: Any) -> bool:
    rows = document.get("rows") if isinstance(document, dict) else None
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], dict) and "yardstick" in rows[0]


def _bench(document: Any, name: str) -> list[dict[str, Any]]:
    """Ratios to the yardstick of the same run, one a repetition; a row that was not measured has none."""
    try:
        run = document["run"]
        about = {
            "run": str(run["started"]),
            "when": _seconds(run["started"]),
            "commit": str(run["commit"] or ""),
        }
        kind = {"driver": "make bench", "metric": "ratio", "unit": "x"}
        return [
            {
                **about,
                **kind,
                "test": f"bench {row['path']}",
                "system": str(row["yardstick"]),
                "direction": {"at most": "lower", "at least": "higher"}[row["direction"]],
                "repetition": number,
                "value": float(value),
            }
            for row in document["rows"]
            for number, value in enumerate(row["values"], 1)
        ]
    except (KeyError, TypeError, ValueError) as e:
        raise RunError(f"{name}: is not a result of make bench ({lacks(e)}); allowed: {SOURCES}") from e


# --- ReFrame -----------------------------------------------------------------------------------------------


def _is_sqlite(path: Path) -> bool:
    """Of a fifo or a device nothing is read."""
    try:
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError as e:
        raise RunError(f"{path}: cannot be read: {e.strerror}; allowed: {SOURCES}") from e


def _store(path: Path, session: str) -> list[dict[str, Any]]:
    """Every session of ReFrame's store with an id that begins with `session`: whole reports in JSON."""
    lines: list[dict[str, Any]] = []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as store:
            query = "SELECT uuid, json_blob FROM sessions ORDER BY session_start_unix"
            for uuid, blob in store.execute(query):
                if str(uuid).startswith(session):
                    lines += _report(parse(str(blob), f"{path}@{uuid}"), f"{path}@{uuid}")
    except (sqlite3.Error, ValueError, TypeError) as e:
        raise RunError(f"{path}: is not a results store of ReFrame: {shown(e)}; allowed: {SOURCES}") from e
    if session and not lines:
        raise RunError(
            f"{path}: holds no measurements of a session {session!r}; allowed: the beginning of an id"
        )
    return lines


def _report(document: Any, name: str) -> list[dict[str, Any]]:
    """Passed cases of a report: the suite's own say all (`metrics`), of others every performance variable."""
    try:
        session = document["session_info"]
        about = {"run": str(session["uuid"]), "when": float(session["time_start_unix"])}
        cases = [c for run in document["runs"] for c in run["testcases"] if c["result"] == "pass"]
        return [line for case in cases for line in _case(case, about)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
        keys = set(document) if isinstance(document, dict) else set()
        if other := next((what for told, what in _OTHERS if told <= keys), None):
            raise RunError(f"{name}: is {other}; allowed: {SOURCES}") from e
        raise RunError(f"{name}: is not a ReFrame report ({lacks(e)}); allowed: {SOURCES}") from e


def _case(case: dict[str, Any], about: dict[str, Any]) -> list[dict[str, Any]]:
    metrics = case.get("metrics")
    records = metrics.get("cases", [metrics]) if isinstance(metrics, dict) else []
    if own := [r for r in records if {"test", "metric", "value", "unit", "direction"} <= r.keys()]:
        said = [{k: r[k] for k in COLUMNS if k in r} for r in own]
        return [{**about, "site": case["system"], **r, "value": float(r["value"])} for r in said]
    where = {"site": case["system"], "system": f"{case['system']}:{case['partition']}+{case['environ']}"}
    scale = {"test": case["display_name"], "ranks": int(case.get("num_tasks") or 0)}
    lines = []
    for key, values in (case.get("perfvalues") or {}).items():
        unit = str(values[4])
        direction = "lower" if unit in _LOWER_IS_BETTER else "higher"
        kind = {"metric": key.rsplit(":", 1)[-1], "unit": unit, "direction": direction}
        lines.append({**about, **where, **scale, **kind, "value": float(values[0])})
    return lines


# --- plain output ------------------------------------------------------------------------------------------


def _plain_folder(path: Path) -> list[dict[str, Any]]:
    """Every file below that is output of IOR or mdtest; one that begins as such and is damaged is refused.

    So is a copy, which would count a repetition twice: times in two outputs are never all the same.
    """
    lines: list[dict[str, Any]] = []
    first: dict[bytes, Path] = {}
    for file in sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith(".")):
        if file.stat().st_size <= _LARGEST_OUTPUT and (found := _plain(file)):
            same = first.setdefault(hashlib.sha256(file.read_bytes()).digest(), file)
            if same != file:
                raise RunError(f"{file}: is a copy of {same}; allowed: each output once")
            lines += found
    if not lines:
        raise RunError(
            f"{path}: holds neither a run (cases/) nor output of IOR or mdtest; allowed: {SOURCES}"
        )
    when = min(p.stat().st_mtime for p in path.rglob("*") if p.is_file())
    return [{"run": path.name or os.fspath(path), "when": when, **line} for line in lines]


def _plain(file: Path) -> list[dict[str, Any]]:
    problems = []
    try:
        return _ior(_good(read_ior(file)))
    except OutputError as e:
        problems.append(str(e))
    try:
        return _mdtest(_good(read_mdtest(file)))
    except OutputError as e:
        problems.append(str(e))
    strangers = ("is not output of", "is empty", "is not text", "not UTF-8")
    told = [p for p in problems if not any(s in p for s in strangers)]
    if told:
        raise RunError(told[0])
    return []


def _good(output: _Output) -> _Output:
    """Both programs end with status 0 and print numbers where bytes are wrong or files are missing."""
    if failures := output.failures:
        told = shown(failures[0])[:200] + (f" (and {more} more)" if (more := len(failures) - 1) else "")
        raise RunError(f"{output.path}: its run went wrong: {told}; allowed: runs without failures")
    return output


def _ior(output: IorOutput) -> list[dict[str, Any]]:
    options = _options(output.command)
    about = {
        "driver": output.driver or "-",
        "nodes": int(nodes) if (nodes := output.options.get("nodes", "")).isdigit() else 0,
        "ranks": output.tasks or 0,
        "options": " ".join(options),
        "fsync": " ".join(o for o in options if o in ("-e", "-Y")) or "no sync",
    }
    moved = {s.operation: round((s.moved_mib or 0) * MIB) for s in output.summaries}
    kind = {"metric": "bandwidth", "unit": "MiB/s", "direction": "higher"}
    return [
        {
            **about,
            **kind,
            "test": f"ior {r.access}",
            "bytes": moved.get(r.access, 0),
            "value": r.bandwidth_mib_s,
        }
        for r in output.results
        if r.bandwidth_mib_s is not None
    ]


def _mdtest(output: MdtestOutput) -> list[dict[str, Any]]:
    """Rates of the iterations where they were printed (`-v`), else the means of the summary."""
    about = {
        "driver": output.driver,
        "nodes": output.nodes or 0,
        "ranks": output.tasks,
        "options": " ".join(_options(output.command)),
    }
    rate = {"metric": "rate", "unit": "ops/s", "direction": "higher"}
    if output.iterations:
        return [
            {**about, **rate, "test": f"mdtest {i.operation}", "value": i.rate}
            for i in output.iterations
            if i.rate
        ]
    lines = []
    for row in output.rows:
        time = {"metric": "time", "unit": row.unit, "direction": "lower"}
        kind = rate if row.unit == "ops/s" else time
        if row.mean > 0:
            lines.append({**about, **kind, "test": f"mdtest {row.operation}", "value": row.mean})
    return lines


def _options(command: str | None) -> list[str]:
    """The options of a command line without the program and without names of files (-o, -d, summaryFile)."""
    try:
        words = shlex.split(command or "")
    except ValueError:
        words = (command or "").split()
    kept: list[str] = []
    for word in words[1:]:
        before = kept[-1] if kept else ""
        if before in ("-o", "-d") or (before == "-O" and word.startswith("summaryFile=")):
            kept.pop()
        else:
            kept.append(word)
    return kept
