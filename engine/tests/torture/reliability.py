"""Totals over runs: a table in docs/reliability.md, to which each run adds a row.

Numbers are written as they were counted.  The lines of totals are made anew from all rows.
"""

import subprocess
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

BEGIN, END = "<!-- totals -->", "<!-- end of totals -->"


@dataclass(frozen=True)
class Row:
    """One run of a part of the torture."""

    date: str
    commit: str
    part: str
    seed: str
    run: int
    passed: int
    not_run: int
    operations: int
    promised: int
    kills: int
    lost: int


def commit() -> str:
    """Of the sources that this file is in; with a mark where they differ from it."""
    here = Path(__file__).parent
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=10"], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def read(text: str) -> list[Row]:
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| 2") and len(cells) == len(fields(Row)):
            rows.append(Row(*cells[:4], *(int(cell.replace(",", "")) for cell in cells[4:])))  # type: ignore[arg-type]
    return rows


def totals(rows: list[Row]) -> str:
    def total(name: str) -> str:
        return f"{sum(getattr(row, name) for row in rows):,}"

    return (
        f"Since {min(row.date for row in rows)}: {total('operations')} operations, {total('promised')} of them promised; "
        f"{total('kills')} kills; {total('lost')} promises lost.\n"
        f"Of {total('run')} rounds and sequences {total('passed')} passed; {total('not_run')} kinds of rounds could not run."
    )


def line(row: Row) -> str:
    return "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in astuple(row)) + " |"


def add(path: Path, row: Row) -> None:
    text = path.read_text()
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{path}: has no place for totals ({BEGIN} ... {END})")
    head, rest = text.split(BEGIN)
    body, tail = rest.split(END)
    rows = [*read(body), row]
    names = [field.name.replace("_", " ") for field in fields(Row)]
    table = ["| " + " | ".join(names) + " |", "|" + "---|" * 4 + "---:|" * (len(names) - 4), *map(line, rows)]
    path.write_text(f"{head}{BEGIN}\n{totals(rows)}\n\n" + "\n".join(table) + f"\n{END}{tail}")
