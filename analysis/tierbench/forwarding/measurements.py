"""Bandwidths of access patterns by the number of I/O nodes: published ones, and those of tb-forge and FORGE.

A table has one line a run, with the columns of `COLUMNS`: compute nodes and processes of the application, its
pattern (`layout`, `spatiality`, `request_kib`), the number of I/O nodes (0: straight to the file system) and
what came out (`bandwidth_mib_s`, bytes over the slowest process's time). The first five make a scenario.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from tierbench.base import schema
from tierbench.base.errors import RunError
from tierbench.base.files import read_text
from tierbench.base.text import shown
from tierbench.outputs import OutputError, read_forge
from tierbench.recipes.published import PUBLISHED_FOLDER

if TYPE_CHECKING:
    import pandas as pd

FOLDER = PUBLISHED_FOLDER / "forwarding"
LAYOUTS = {"individual": "file-per-process", "shared": "shared"}
SPATIALITIES = ("contiguous", "strided")
RESULT = "forge-result.json"
TIMES = "emulation.time"  # of FORGE; tb-forge writes both
NODES = "compute-nodes"  # beside it, as FORGE does not say it: on how many its clients ran
KEY = ["compute_nodes", "processes", "layout", "spatiality", "request_kib"]
COLUMNS = [*KEY, "io_nodes", "bandwidth_mib_s"]
_WHOLE = ("compute_nodes", "processes", "io_nodes")
SOURCES = f"a machine that was published, a folder with {RESULT} or {TIMES} files, or a CSV file"


Pattern: TypeAlias = tuple[str, str, float]  # layout, spatiality, request in KiB


class Scenario(NamedTuple):
    """A deployment and its access pattern; `request_kib` in KiB."""

    compute_nodes: int
    processes: int
    layout: str
    spatiality: str
    request_kib: float

    @property
    def pattern(self) -> Pattern:
        """What the application does, wherever it runs."""
        return self.layout, self.spatiality, self.request_kib

    def words(self) -> str:
        """In a line."""
        return f"{self.compute_nodes} nodes, {self.processes} processes, {pattern_words(self.pattern)}"


def pattern_words(pattern: Pattern) -> str:
    """`shared, strided, 32 KiB`."""
    layout, spatiality, request = pattern
    what = f"{layout}, {spatiality}" if layout == "shared" else layout
    return f"{what}, {request / 1024:g} MiB" if request >= 1024 else f"{what}, {request:g} KiB"


@dataclass(frozen=True)
class Measurements:
    """A table of runs with the name of its machine; `published` says that others measured it."""

    name: str
    table: pd.DataFrame
    published: bool
    source: str

    def scenarios(self) -> Iterator[tuple[Scenario, dict[int, list[float]]]]:
        """Each scenario with its bandwidths in MiB/s by the number of I/O nodes, fewest first."""
        for key, runs in self.table.groupby(KEY, sort=True):
            found = runs.groupby("io_nodes", sort=True)["bandwidth_mib_s"]
            yield (
                Scenario(*cast(tuple[int, int, str, str, float], key)),
                {int(cast(int, n)): [float(v) for v in values] for n, values in found},
            )


def machines() -> list[str]:
    """The published ones."""
    return sorted(file.stem for file in FOLDER.glob("*.csv"))


def read(source: str) -> Measurements:
    """One of `SOURCES`."""
    if source in machines():
        return _read_csv(FOLDER / f"{source}.csv", published=True)
    path = Path(source)
    if path.is_dir():
        return _read_folder(path)
    if path.suffix != ".csv":
        raise RunError(
            f"{shown(source)}: cannot be used; allowed: {SOURCES} (published: {', '.join(machines())})"
        )
    return _read_csv(path, published=False)


def _read_csv(file: Path, published: bool) -> Measurements:
    import pandas as pd

    try:
        table = pd.read_csv(file)
    except (OSError, UnicodeDecodeError, ValueError) as e:
        raise RunError(f"{file}: cannot be read: {shown(e)}; allowed: a CSV file") from e
    source = "Bez et al., PDSW 2020, data of the study" if published else str(file)
    return Measurements(file.stem, _checked(table, str(file)), published, source)


def _checked(table: pd.DataFrame, place: str) -> pd.DataFrame:
    import pandas as pd

    for column in COLUMNS:
        if column not in table:
            raise RunError(f"{place}: lacks the column {column!r}; allowed: {', '.join(COLUMNS)}")
    if table.empty:
        raise RunError(f"{place}: holds no run; allowed: a line a run")
    for column, known in (("layout", tuple(LAYOUTS.values())), ("spatiality", SPATIALITIES)):
        _refuse(table, place, column, ~table[column].isin(known), ", ".join(known))
    for column in (*_WHOLE, "request_kib", "bandwidth_mib_s"):
        numbers = pd.to_numeric(table[column], errors="coerce")
        least = 0 if column == "io_nodes" else 1e-9
        wrong = ~(numbers >= least) | (numbers == float("inf"))
        if column in _WHOLE:
            wrong |= numbers % 1 != 0
        allowed = "a whole number from 0" if column == "io_nodes" else "a number above 0"
        _refuse(table, place, column, wrong, allowed)
    return table[COLUMNS]


def _refuse(table: pd.DataFrame, place: str, column: str, wrong: pd.Series[bool], allowed: str) -> None:
    if wrong.any():
        line = int(wrong.to_numpy().argmax())
        value = shown(table[column].iloc[line])[: schema.LONGEST_VALUE]
        raise RunError(f"{place}:{line + 2}: {column}: {value!r}; allowed: {allowed}")


def _read_folder(folder: Path) -> Measurements:
    import pandas as pd

    ours = sorted(folder.rglob(RESULT))
    theirs = [file for file in sorted(folder.rglob(TIMES)) if not file.with_name(RESULT).exists()]
    if not ours and not theirs:
        raise RunError(f"{folder}: holds no {RESULT} and no {TIMES}; allowed: {SOURCES}")
    lines = [line for file in ours for line in _lines(file)]
    lines += [line for file in theirs for line in _lines_of_forge(file)]
    return Measurements(folder.name, _checked(pd.DataFrame(lines), str(folder)), False, str(folder))


def _lines(file: Path) -> Sequence[dict[str, Any]]:
    """The writes of a result, as the study has writes only."""
    try:
        found = json.loads(read_text(file))
    except (ValueError, RecursionError) as e:
        raise RunError(f"{file}: cannot be read: {shown(e)}; allowed: what tb-forge wrote") from e
    if told := schema.misfit(found, "forge-result"):
        raise RunError(f"{file}: {shown(told)}")
    return [
        {
            "compute_nodes": found["jobs"][p["job"]]["nodes"],
            "processes": found["jobs"][p["job"]]["clients"],
            "layout": LAYOUTS[p["layout"]],
            "spatiality": p["spatiality"],
            "request_kib": p["request_bytes"] / 1024,
            "io_nodes": found["io_nodes"],
            "bandwidth_mib_s": p["bandwidth_mib_s"],
        }
        for p in found["patterns"]
        if p["operation"] == "write"
    ]


def _lines_of_forge(file: Path) -> Sequence[dict[str, Any]]:
    try:
        found = read_forge(file)
    except OutputError as e:
        raise RunError(f"{shown(e)}; allowed: what FORGE wrote") from e
    nodes = _compute_nodes(file.with_name(NODES))
    return [
        {
            "compute_nodes": nodes,
            "processes": found.clients,
            "layout": LAYOUTS[t.layout],
            "spatiality": t.spatiality,
            "request_kib": t.request_kib,
            "io_nodes": found.io_nodes,
            "bandwidth_mib_s": t.bandwidth_mib_s,
        }
        for t in found.transfers
        if t.operation == "write"
    ]


def _compute_nodes(file: Path) -> int:
    text = read_text(file).strip() if file.exists() else "is missing"
    if not text.isdecimal() or int(text) == 0:
        raise RunError(f"{file}: {shown(text)}; allowed: on how many compute nodes FORGE's clients ran")
    return int(text)
