"""What a trial runs: the program, the PFS, the tier configurations; written once, read by every run.

`base/schemas/trial.schema.json` is the contract of `trial.json` and says what each field means.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tierbench.base import schema
from tierbench.base.errors import RunError
from tierbench.base.strict_json import read_fitting

VERSION = 1
PFS = "pfs"  # the configuration without tiers, which the others are held against
BARE = "bare"  # without Tierbench at all: once, before the others
PLACEHOLDER = "{pfs}"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """`trial.json`. Paths are absolute."""

    command: tuple[str, ...]  # with {pfs} where the folder of a run is named
    directory: str  # where the program is started
    pfs: str
    folder: str  # of each run, below `pfs`: made, and removed, by each
    inputs: tuple[str, ...]  # below `pfs`, copied into the folder before each run
    read_only: tuple[str, ...]  # below `pfs`, linked into it
    configurations: dict[str, str]  # files by name
    repetitions: int
    tierctl: str
    notes: tuple[str, ...] = ()  # of the places: what limits what can be shown
    required: tuple[str, ...] = ()  # lines of --require
    bare_s: float | None = None  # the program without Tierbench, once
    time_limit_s: int | None = None  # of a run

    def as_json(self) -> dict[str, Any]:
        """The document, with the version of its schema."""
        told = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"version": VERSION, **told}

    def write(self, folder: Path) -> Path:
        """Write `trial.json`; returns its path."""
        file, document = folder / "trial.json", self.as_json()
        if told := schema.misfit(document, "trial"):
            raise RunError(f"{file}: {told}")
        file.write_text(json.dumps(document, indent=1) + "\n")
        return file

    def words(self) -> list[str]:
        """The command with the folder of the run in place of {pfs}."""
        return [word.replace(PLACEHOLDER, self.folder) for word in self.command]


def read(file: Path) -> Trial:
    """The trial in a file; `RunError` names the first thing that the schema refuses."""
    found = read_fitting(file, "trial")
    told = {f.name: found[f.name] for f in fields(Trial) if f.name in found}
    told |= {k: tuple(v) for k, v in told.items() if isinstance(v, list)}
    return Trial(**told)
