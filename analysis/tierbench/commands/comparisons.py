"""`tierbench compare`, `history` and `power`: runs against each other, over time, and how many it takes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tierbench.base import atomic_write
from tierbench.base.errors import RunError
from tierbench.commands.arguments import Commands, above_zero, add_threshold, count
from tierbench.commands.messages import complain, console
from tierbench.runs import samples
from tierbench.runs.run_folder import RESULTS, find_runs


def add(commands: Commands) -> None:
    """compare, history and power."""
    _add_compare(commands)
    _add_history(commands)
    _add_power(commands)


def _add_compare(commands: Commands) -> None:
    both = commands.add_parser(
        "compare",
        epilog="example:\n  tierbench compare results/runs/A results/runs/B --threshold 10 -o out",
        help="ratios with intervals; exits 1 on a significant regression",
    )
    both.add_argument("runs", nargs="+", metavar="RUN", help=f"the first is the baseline; {samples.SOURCES}")
    both.add_argument(
        "--by", choices=samples.GROUPINGS, default="run", help="what is compared (default: run)"
    )
    both.add_argument(
        "--baseline", metavar="NAME", help="the group of --by to compare with (default: the first)"
    )
    add_threshold(both)
    both.add_argument(
        "--force",
        action="store_true",
        help="compare what was taken under different conditions (default: it is refused)",
    )
    both.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the comparison for scripts too (default: nothing is written)",
    )
    both.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write comparison.html, .md, .json, .csv and .parquet there (default: nothing is written)",
    )
    both.set_defaults(function=_compare)


def _add_history(commands: Commands) -> None:
    past = commands.add_parser(
        "history",
        epilog="example:\n  tierbench history 'webinar*' -o out",
        help="a test over many runs, and when its level changed",
    )
    past.add_argument("test", metavar="TEST", help="name of the test; * and ? match anything")
    past.add_argument("runs", nargs="*", metavar="RUN", help=f"{samples.SOURCES} (default: all of results/)")
    add_threshold(past)
    past.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write history.html, .md, .json, .csv and .parquet there (default: nothing is written)",
    )
    past.set_defaults(function=_history)


def _add_power(commands: Commands) -> None:
    needed = commands.add_parser(
        "power",
        epilog="example:\n  tierbench power results/latest --difference 10",
        help="how many repetitions compare needs to show a difference",
    )
    noise = needed.add_mutually_exclusive_group(required=True)
    noise.add_argument(
        "runs", nargs="*", default=[], metavar="RUN", help=f"where the noise is taken from; {samples.SOURCES}"
    )
    noise.add_argument(
        "--noise",
        type=above_zero,
        metavar="PERCENT",
        help="relative standard deviation of the repetitions, above 0 and below 100 (default: of RUN)",
    )
    needed.add_argument(
        "--difference",
        type=above_zero,
        required=True,
        metavar="PERCENT",
        help="the slowdown to be shown, above 0 and below 100 (required)",
    )
    needed.add_argument(
        "--power",
        type=above_zero,
        default=0.9,
        metavar="PERCENT",
        help="how often it is to be shown, above 0 and below 100 (default: 90)",
    )
    needed.add_argument(
        "--metrics",
        type=count,
        default=1,
        metavar="N",
        help="metrics that are compared in one command, 1 to 1000 (default: 1)",
    )
    add_threshold(needed)
    needed.add_argument("--json", action="store_true", help="the figures, for scripts (default: sentences)")
    needed.set_defaults(function=_power)


def _compare(options: argparse.Namespace) -> int:
    from tierbench.judge import compare
    from tierbench.pages import comparison_page, terminal

    atomic_write.check(options.output, options.json)
    found = samples.read_all(options.runs)
    result = compare.compare(found, options.by, options.threshold, options.force, options.baseline)
    if options.json:
        atomic_write.replace_all(options.json.parent, {options.json.name: terminal.as_json(result)})
    terminal.print_comparison(result, console())
    if options.output:
        written = comparison_page.write(result, options.output)
        print("\nWritten: " + ", ".join(str(path) for path in written))
    return 1 if result.regressed else 0


def _history(options: argparse.Namespace) -> int:
    """Status 2 when a run that was named could not be read; the others are still shown."""
    from tierbench.judge import history
    from tierbench.pages import history_page, terminal

    atomic_write.check(options.output)
    sources = options.runs or [str(p) for p in _all_results(Path("results"))]
    if not sources:
        raise RunError(f"results: holds no runs; {RESULTS}")
    problems: list[str] = []
    read = samples.read_all(sources, problems)
    complain(problems)
    found = history.history(read, options.test, options.threshold)
    for series in found:
        terminal.print_series(series, console())
    if options.output:
        written = history_page.write(found, options.test, options.output)
        print("\nWritten: " + ", ".join(str(path) for path in written))
    return 2 if problems and options.runs else 0


def _all_results(folder: Path) -> list[Path]:
    """Its runs and its results of `make bench`."""
    return [*find_runs(folder), *sorted(folder.glob("bench/*.json"))]


def _power(options: argparse.Namespace) -> None:
    from tierbench.judge import power

    given = {"noise as given": power.Noise(options.noise)}
    noises = given if options.noise else power.noises(samples.read_all(options.runs))
    found = [
        power.answer(name, noise, options.difference, options.threshold, options.metrics, options.power)
        for name, noise in noises.items()
    ]
    if options.json:
        print(json.dumps([p.as_json() for p in found], indent=1))
        return
    for p in found:
        print("\n".join(power.words(p)))
    print(power.rules(options.threshold, options.metrics))
