"""`tierbench report` and `tierbench list`: what runs say, with their verdicts."""

from __future__ import annotations

import argparse
from pathlib import Path

from tierbench.base import atomic_write
from tierbench.base.errors import RunError
from tierbench.commands.arguments import Commands
from tierbench.commands.messages import complain, console
from tierbench.commands.trials import print_answer
from tierbench.judge import requirement
from tierbench.runs.run_folder import RESULTS, find_runs, read_run


def add(commands: Commands) -> None:
    """report and list."""
    one = commands.add_parser(
        "report",
        epilog="example:\n  tierbench report results/latest --check",
        help="write a run's report (HTML, JSON, Markdown, CSV, Parquet) and print its verdicts",
    )
    one.add_argument(
        "run", type=Path, metavar="RUN", help="run folder, e.g. results/latest, or the folder of a trial"
    )
    one.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="where to write (default: the run folder)"
    )
    one.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 when a case or a row failed (default: only bad input is told by the status)",
    )
    told = f"a requirement of your own: {requirement.FORM}; may be repeated (default: the site's)"
    one.add_argument("--require", action="append", default=[], metavar="LINE", help=told)
    one.set_defaults(function=_report)
    every = commands.add_parser(
        "list", epilog="example:\n  tierbench list results", help="list runs with their verdicts"
    )
    every.add_argument(
        "results",
        type=Path,
        nargs="?",
        default=Path("results"),
        metavar="RESULTS",
        help="results folder (default: results)",
    )
    every.set_defaults(function=_list)


def _report(options: argparse.Namespace) -> int:
    from tierbench.judge.verdict import FAIL
    from tierbench.pages import report, report_record, terminal

    if (options.run / "trial.json").exists():
        held = print_answer(options.run, options.require)
        return 1 if options.check and not held else 0
    if options.run.is_dir() and not (options.run / "provenance.json").exists():
        raise RunError(
            f"{options.run}: holds neither a run (provenance.json) nor a trial (trial.json); allowed: "
            "a run folder, e.g. results/latest (`tierbench list` names them), or the folder of a trial"
        )
    atomic_write.check(options.output)
    made = report_record.make(read_run(options.run), [requirement.parse(text) for text in options.require])
    written = report.write(made, options.output or options.run)
    terminal.print_report(made, console())
    print("\nWritten: " + ", ".join(str(path) for path in written))
    failed = made.counts[FAIL] or made.run.failures
    return 1 if options.check and failed else 0


def _list(options: argparse.Namespace) -> None:
    """One line a run; a run that cannot be read is named on stderr, the others are still listed."""
    from rich.table import Table

    from tierbench.pages import report_record

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
        made = report_record.make(run)
        commit = str(run.provenance.get("commit", "?"))[:10] + ("+" if run.provenance.get("dirty") else "")
        counts = (str(n) for n in made.counts.values())
        table.add_row(run.name, str(run.provenance.get("started", "?")), commit, str(len(made.rows)), *counts)
    if not table.row_count and not unreadable:
        raise RunError(f"{options.results}: holds no runs; {RESULTS}")
    if table.row_count:
        console().print(table)
    complain(unreadable)
