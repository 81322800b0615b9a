"""Totals over runs: a table to which each run of a part adds a row.

Numbers are written as they were counted.  The lines of totals are made again from all rows.  A run writes to
build/reliability.md; one that is to be kept in the project names docs/reliability.md (make torture RECORD=1).

reliability.py --record FILE --fsx OUTPUT [--failed]         the row of torture_fsx, of its OUTPUT
reliability.py --record FILE --cases XML... --part P --seed S   that of runs of pytest, of what --junitxml wrote
"""

import argparse
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

BEGIN, END = "<!-- totals -->", "<!-- end of totals -->"
KEPT = "docs/reliability.md"
FSX_SHARD = re.compile(r"^seed (\d+): (\d+) operations, (\d+) kills, .* (none wrong|FAILED)$", re.MULTILINE)


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
    """Of the sources that this file is in; with a mark where they differ from it, except for the rows of this run."""

    def git(*words: str) -> str:
        here = Path(__file__).parent
        return subprocess.run(
            ["git", *words], cwd=here, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", f":(top,exclude){KEPT}")
    return (git("describe", "--always", "--abbrev=10") or "unknown") + ("-dirty" if changed else "")


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
    """To a file that has a place for it, or to a new one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{BEGIN}\n{END}\n")
    text = path.read_text()
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{path}: has no place for totals ({BEGIN} ... {END})")
    head, rest = text.split(BEGIN)
    body, tail = rest.split(END)
    rows = [*read(body), row]
    names = [field.name.replace("_", " ") for field in fields(Row)]
    table = ["| " + " | ".join(names) + " |", "|" + "---|" * 4 + "---:|" * (len(names) - 4), *map(line, rows)]
    path.write_text(f"{head}{BEGIN}\n{totals(rows)}\n\n" + "\n".join(table) + f"\n{END}{tail}")


def fsx_row(text: str, failed: bool) -> Row:
    """A shard compares each of its operations with a model; one that fails, or ends without a word, counts as lost."""
    shards = [
        (int(seed), int(done), int(kills), verdict == "FAILED")
        for seed, done, kills, verdict in FSX_SHARD.findall(text)
    ]
    wrong = sum(shard[3] for shard in shards)
    silent = int(failed and not wrong)
    operations = sum(shard[1] for shard in shards)
    return Row(
        date=today(),
        commit=commit(),
        part="fsx",
        seed=str(min((shard[0] for shard in shards), default="unknown")),
        run=len(shards) + silent,
        passed=len(shards) - wrong,
        not_run=0,
        operations=operations,
        promised=operations,
        kills=sum(shard[2] for shard in shards),
        lost=wrong + silent,
    )


def cases_row(files: list[Path], part: str, seed: str) -> Row:
    """A case is a round, and one that fails counts as lost; what else it counted it has recorded as properties."""
    cases = [case for file in files for case in ET.parse(file).getroot().iter("testcase")]
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)

    def counted(name: str) -> int:
        found = [case.iterfind(f"properties/property[@name='{name}']") for case in cases]
        return sum(int(one.get("value", 0)) for properties in found for one in properties)

    return Row(
        date=today(),
        commit=commit(),
        part=part,
        seed=seed,
        run=len(cases) - skipped,
        passed=len(cases) - skipped - failed,
        not_run=skipped,
        operations=counted("operations"),
        promised=counted("promised"),
        kills=counted("kills"),
        lost=failed,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--fsx", type=Path)
    parser.add_argument("--failed", action="store_true")
    parser.add_argument("--cases", type=Path, nargs="+")
    parser.add_argument("--part", default="")
    parser.add_argument("--seed", default="")
    options = parser.parse_args()
    if options.cases:
        add(options.record, cases_row(options.cases, options.part, options.seed))
    else:
        add(options.record, fsx_row(options.fsx.read_text(), options.failed))


if __name__ == "__main__":
    main()
