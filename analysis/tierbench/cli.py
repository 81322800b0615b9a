"""The command `tierbench`: `report RUN` and `list [RESULTS]`. Exit status 2 with one line on bad input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tierbench import __version__, report
from tierbench.runs import RunError, find_runs, read_run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.function(options)
    except RunError as e:
        print(f"tierbench: {e}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierbench", description="Judge and report storage tier benchmarks."
    )
    parser.add_argument("--version", action="version", version=f"tierbench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser(
        "report", help="write report.html and report.json for a run and print its verdicts"
    )
    one.add_argument("run", type=Path, metavar="RUN", help="run folder, e.g. results/latest")
    one.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="where to write (default: the run folder)"
    )
    one.set_defaults(function=_report)
    every = commands.add_parser("list", help="list runs with their verdicts")
    every.add_argument("results", type=Path, nargs="?", default=Path("results"), metavar="RESULTS",
                       help="results folder (default: results)")  # fmt: skip
    every.set_defaults(function=_list)
    return parser


def _report(options: argparse.Namespace) -> None:
    made = report.make(read_run(options.run))
    written = report.write(made, options.output or options.run)
    report.print_table(made, _console())
    print("\nWritten: " + ", ".join(str(path) for path in written))


def _list(options: argparse.Namespace) -> None:
    """One line a run; a run that cannot be read is named on stderr, the others are still listed."""
    unreadable: list[str] = []
    table = Table(box=None, pad_edge=False)
    for name in ("run", "started", "commit", "rows", "pass", "fail", "inconclusive"):
        table.add_column(name, no_wrap=True)
    for path in find_runs(options.results):
        try:
            run = read_run(path)
        except RunError as e:
            unreadable.append(str(e))
            continue
        made = report.make(run)
        commit = str(run.provenance.get("commit", "?"))[:10] + ("+" if run.provenance.get("dirty") else "")
        counts = (str(n) for n in made.counts.values())
        table.add_row(run.name, str(run.provenance.get("started", "?")), commit, str(len(made.rows)), *counts)
    if not table.row_count and not unreadable:
        raise RunError(f"{options.results}: holds no runs")
    _console().print(table)
    for problem in unreadable:
        print(f"tierbench: {problem}", file=sys.stderr)


def _console() -> Console:
    """As wide as the terminal; wide where the output is a file, so that nothing is wrapped."""
    return Console(width=None if sys.stdout.isatty() else 160)


if __name__ == "__main__":
    sys.exit(main())
