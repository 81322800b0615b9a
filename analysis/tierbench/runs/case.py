"""The record of one repetition of one measurement: what the suite writes and the analysis reads.

`base/schemas/case.schema.json` is the published contract of `case.json` and says what each field means.
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


@dataclass(frozen=True, kw_only=True)
class Case:
    """One `case.json`; fields with a default are what acceptance recipes add."""

    test: str
    system: str
    site: str = ""
    tiers: str
    mode: str
    fsync: str
    policy: str
    repetition: int
    metric: str
    unit: str
    direction: str
    value: float
    open_s: float | None
    write_s: float | None
    close_s: float | None
    total_s: float | None
    drain_s: float | None
    verified: bool | None
    driver: str
    modelled: bool
    command: str
    ranks: int
    bytes: int
    published: float | None
    published_source: str | None
    requirement: float | None
    requirement_source: str | None = None
    expected: float | None = None
    factor: int = 1
    scale: str | None = None
    dropped: tuple[str, ...] = ()
    nodes: int | None = None
    full_percent: float | None = None
    touched: int | None = None
    read_limit: float | None = None
    medium: float | None = None
    invalid: tuple[str, ...] = ()
    sustained: bool | None = None
    sustained_by: str | None = None
    disagreements: tuple[str, ...] = ()
    witness: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The document, with the version of its schema."""
        told = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"version": VERSION, **told}

    def write(self, folder: Path) -> None:
        """Write `case.json`; a record that the schema refuses is not written."""
        document = self.as_json()
        if told := schema.misfit(document, "case"):
            raise RunError(f"{folder / 'case.json'}: {told}")
        (folder / "case.json").write_text(json.dumps(document, indent=1))


def read_case(path: Path) -> Case:
    """The record in a file; `RunError` names the first thing that the schema refuses."""
    found = read_fitting(path, "case")
    told: dict[str, Any] = {f.name: found[f.name] for f in fields(Case) if f.name in found}
    told |= {k: tuple(v) for k, v in told.items() if isinstance(v, list)}
    return Case(**told)
