"""The command `tierbench`: try, site, report, list, trace, compare, history, power, recipes, project, help.

Its exit statuses are in `manual.STATUSES`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tierbench import __version__, manual
from tierbench.base import atomic_write, endings
from tierbench.base.endings import EndedError
from tierbench.base.errors import RecipeError, RunError
from tierbench.base.strict_json import read_fitting
from tierbench.base.text import shown
from tierbench.judge import compare, history, power, requirement
from tierbench.judge.verdict import FAIL
from tierbench.pages import comparison_page, history_page, report, report_record, terminal, trial_page
from tierbench.recipes import projection, published, rules
from tierbench.runs import samples
from tierbench.runs.run_folder import find_runs, read_run
from tierbench.site import site_file
from tierbench.trial import answer, plan, start, tier_files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = manual.parse(_parser(), arguments)
    try:
        status = options.function(options)
        sys.stdout.flush()
    except (RunError, RecipeError) as e:
        _complain(str(e).split("\n"))
        return 2
    except BrokenPipeError:  # the reader has seen enough: `tierbench list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as e:  # a name that the system refuses, a folder that may not be read
        _complain([f"{shown(e.filename or '')[:200]}: {e.strerror}"])
        return 2
    except KeyboardInterrupt:
        return 130
    return int(status or 0)


def _complain(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"tierbench: {line}", file=sys.stderr)


def _parser() -> manual.Parser:
    parser = manual.Parser(
        prog="tierbench",
        description="Judge and report storage tier benchmarks.",
        epilog=manual.status_lines(),
    )
    parser.add_argument(
        "--version", action="version", version=f"tierbench {__version__}", help="print the version"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_try(commands)
    _add_site(commands)
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
    every.add_argument("results", type=Path, nargs="?", default=Path("results"), metavar="RESULTS",
                       help="results folder (default: results)")  # fmt: skip
    every.set_defaults(function=_list)
    _add_trace(commands)
    _add_compare(commands)
    _add_history(commands)
    _add_power(commands)
    _add_recipes(commands)
    _add_help(commands)
    return parser


_TRY = """\
Runs a program on the PFS alone and under each tier configuration of the places at hand, in turn, through
ReFrame, and says what each buys. Write {pfs} where the program's data are: each run works in a new folder
below the PFS, into which the inputs that the command names are copied; nothing else is changed. The folder
is removed after the run.

  tierbench try --pfs /lustre/me --nvme /local/nvme --ram 8GiB -- python train.py {pfs}/data
  tierbench try --pfs /lustre/me --ram 8GiB -n 9 --read-only big -- ./model --in {pfs}/big --out {pfs}/out
  tierbench try --pfs /lustre/me -c mine.yaml -- ./model {pfs}/out
"""


def _add_try(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    one = commands.add_parser("try",
                              epilog="example:\n  tierbench try --pfs /me --ram 8GiB -- ./model {pfs}/out",
                              help="which tiers pay for a program of your own", description=_TRY,
                              formatter_class=argparse.RawDescriptionHelpFormatter,
                              usage="tierbench try --pfs DIR [OPTIONS] -- COMMAND...")  # fmt: skip
    one.add_argument(
        "--pfs",
        required=True,
        metavar="DIR",
        help="a directory of yours on the parallel file system (required)",
    )
    one.add_argument("--ram", metavar="SIZE", help="a tier in memory of that size, e.g. 8GiB (default: none)")
    one.add_argument(
        "--nvme",
        metavar="DIR[:SIZE]",
        help="a tier on a local disk (default: none; its SIZE: half of what is free)",
    )
    one.add_argument(
        "--bb",
        metavar="DIR[:SIZE]",
        help="a tier on a burst buffer, slower than NVMe (default: none; its SIZE: half of what is free)",
    )
    one.add_argument("-c", dest="own", action="append", default=[], type=Path, metavar="FILE",
                     help="a tier configuration of your own; may be repeated (default: none)")  # fmt: skip
    one.add_argument("-n", dest="repetitions", type=_count, default=5, metavar="N",
                     help="runs of each configuration, 1 to 1000 (default: 5)")  # fmt: skip
    one.add_argument("--read-only", action="append", default=[], metavar="NAME",
                     help="an input that is only read: linked, not copied; may be repeated "
                          "(default: none)")  # fmt: skip
    one.add_argument("-o", "--output", type=Path, metavar="DIR",
                     help="where to keep it all (default: tierbench-try-TIME, here)")  # fmt: skip
    one.add_argument("command", nargs="+", metavar="COMMAND", help="the program and its arguments")
    one.set_defaults(function=_try)


def _add_site(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    init = commands.add_parser(
        "site",
        epilog="example:\n  tierbench site init --pfs /lustre/me --nvme /local/nvme -o mysite.py",
        help="init: write a site file of this machine, with what can be detected, and check it",
    )
    init.add_argument("action", choices=["init"], metavar="init", help="write the site file and check it")
    init.add_argument("--pfs", required=True, metavar="DIR", help="a directory on the PFS (required)")
    init.add_argument("--nvme", metavar="DIR", help="a directory on a local disk (default: no such tier)")
    init.add_argument("--bb", metavar="DIR", help="a directory on a burst buffer (default: no such tier)")
    init.add_argument("--scheduler", choices=site_file.SCHEDULERS, default="local",
                      help="what starts jobs (default: local, on this machine)")  # fmt: skip
    init.add_argument("-o", "--output", type=Path, default=Path("mysite.py"), metavar="FILE",
                      help="the site file (default: mysite.py, here)")  # fmt: skip
    init.set_defaults(function=_site_init)


def _site_init(options: argparse.Namespace) -> int:
    """1 where the site is written but its trial failed."""
    named = [(name, getattr(options, name)) for name in ("pfs", "nvme", "bb") if getattr(options, name)]
    places = {name: tier_files.directory(f"--{name}", path) for name, path in named}
    site_file.write(site_file.site(places, options.scheduler), options.output)
    for told in site_file.one_thing(places):
        _say(f"{told}: tests run, and nothing is claimed of tiers (apart: False)")
    _say(f"{options.output} is written; a trial of about 30 s checks it")
    try:
        with endings.noted():
            holds, told = site_file.check(options.output)
    except EndedError as e:
        _complain([f"{e}: {options.output} is left, unchecked"])
        return e.status
    print(f"{options.output}: {told}")
    return 0 if holds else 1


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number from 1 to 1000")
    return int(text)


def _try(options: argparse.Namespace) -> int:
    """ReFrame's status where runs failed; the answer is made of those that did not."""
    tiers = [tier_files.Tier("ram", None, tier_files.parse_size(options.ram, "--ram"))] if options.ram else []
    named = [(name, getattr(options, name)) for name in ("nvme", "bb") if getattr(options, name)]
    tiers += [tier_files.directory_tier(name, text) for name, text in named]
    if not tiers and not options.own:
        raise RunError("no tier: allowed: at least one of --ram, --nvme, --bb and -c")
    folder = options.output or Path(time.strftime("tierbench-try-%Y%m%d-%H%M%S"))
    wish = start.Wish(
        command=tuple(options.command),
        pfs=tier_files.directory("--pfs", options.pfs),
        tiers=tuple(tiers),
        own=tuple(options.own),
        read_only=tuple(options.read_only),
        repetitions=options.repetitions,
        folder=folder,
    )
    try:
        with endings.noted():
            trial = start.prepare(wish, _say)
            status = start.run(trial, folder.resolve(), _say)
    except EndedError as e:
        _complain([f"{e}: {start.left(folder.resolve())}"])
        return e.status
    _answer(folder)
    return status


def _say(text: str) -> None:
    """What is going on, for people who wait."""
    print(f"tierbench: {text}", file=sys.stderr, flush=True)


def _answer(folder: Path) -> None:
    made = answer.make(plan.read(folder / "trial.json"), folder.resolve())
    written = trial_page.write(made, folder.resolve())
    trial_page.print_answer(made, _console())
    print("\nWritten: " + ", ".join(os.path.relpath(path) for path in written))


def _add_trace(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    logs = commands.add_parser(
        "trace",
        epilog="example:\n  tierbench trace app.darshan storage.darshan --tier nvme=/scratch/nvme -o out",
        help="what Darshan logs say: findings, tiers, slowest ranks and files",
    )
    logs.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="a Darshan log")
    logs.add_argument("-o", "--output", type=Path, metavar="DIR",
                      help="write trace.html, trace.md and every frame as CSV and Parquet there "
                           "(default: nothing is written)")  # fmt: skip
    logs.add_argument("--tier", action="append", default=[], type=_place, metavar="NAME=PATH",
                      help="a tier and where its files lie, pfs too; may be repeated "
                           "(default: mount points)")  # fmt: skip
    logs.add_argument("--chrome", type=Path, metavar="FILE",
                      help="write segments as Chrome trace events (default: none)")  # fmt: skip
    logs.add_argument("--stats", type=Path, metavar="FILE",
                      help="of tierctl run --stats: counters of --chrome (default: none)")  # fmt: skip
    logs.set_defaults(function=_trace)


def _place(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not name or not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: NAME=/PATH")
    return path, name


def _trace(options: argparse.Namespace) -> int:
    """Status 2 when any log could not be read; the others are still shown."""
    from tierbench import trace
    from tierbench.trace import chrome, page

    if options.stats and not options.chrome:
        raise RunError("--stats: allowed with --chrome")
    stats = read_fitting(options.stats, "stats") if options.stats else {}
    traces = trace.read(options.logs, dict(options.tier))
    _complain(traces.errors)
    if len(traces.job):
        print(page.as_text(traces))
    if options.output and len(traces.job):
        written = page.write_all(traces, options.output)
        print("Written: " + ", ".join(str(path) for path in written))
    if options.chrome and len(traces.job):
        left_out = chrome.write(traces, stats, options.chrome)
        print(
            f"Written: {options.chrome}"
            + f", without {left_out} segments whose times are nonsense" * bool(left_out)
        )
    return 2 if traces.errors else 0


def _add_compare(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    both = commands.add_parser(
        "compare",
        epilog="example:\n  tierbench compare results/runs/A results/runs/B --threshold 10 -o out",
        help="ratios with intervals; exits 1 on a significant regression",
    )
    both.add_argument("runs", nargs="+", metavar="RUN", help=f"the first is the baseline; {samples.SOURCES}")
    both.add_argument(
        "--by", choices=compare.GROUPINGS, default="run", help="what is compared (default: run)"
    )
    both.add_argument(
        "--baseline", metavar="NAME", help="the group of --by to compare with (default: the first)"
    )
    _add_threshold(both)
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
    both.add_argument("-o", "--output", type=Path, metavar="DIR",
                      help="write comparison.html, .md, .json, .csv and .parquet there "
                           "(default: nothing is written)")  # fmt: skip
    both.set_defaults(function=_compare)


def _add_history(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    past = commands.add_parser(
        "history",
        epilog="example:\n  tierbench history 'webinar*' -o out",
        help="a test over many runs, and when its level changed",
    )
    past.add_argument("test", metavar="TEST", help="name of the test; * and ? stand for anything")
    past.add_argument(
        "runs", nargs="*", metavar="RUN", help=f"{samples.SOURCES} (default: all runs of results/)"
    )
    _add_threshold(past)
    past.add_argument("-o", "--output", type=Path, metavar="DIR",
                      help="write history.html, .md, .json, .csv and .parquet there "
                           "(default: nothing is written)")  # fmt: skip
    past.set_defaults(function=_history)


def _add_power(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    needed = commands.add_parser(
        "power",
        epilog="example:\n  tierbench power results/latest --difference 10",
        help="how many repetitions compare needs to show a difference",
    )
    noise = needed.add_mutually_exclusive_group(required=True)
    noise.add_argument(
        "runs", nargs="*", default=[], metavar="RUN", help=f"whose noise is taken; {samples.SOURCES}"
    )
    noise.add_argument("--noise", type=_above_zero, metavar="PERCENT",
                       help="relative standard deviation of the repetitions, above 0 and below 100 "
                            "(default: of RUN)")  # fmt: skip
    needed.add_argument("--difference", type=_above_zero, required=True, metavar="PERCENT",
                        help="the slowdown to be shown, above 0 and below 100 (required)")  # fmt: skip
    needed.add_argument("--power", type=_above_zero, default=0.9, metavar="PERCENT",
                        help="how often it is to be shown, above 0 and below 100 (default: 90)")  # fmt: skip
    needed.add_argument("--metrics", type=_count, default=1, metavar="N",
                        help="metrics that are compared in one command, 1 to 1000 (default: 1)")  # fmt: skip
    _add_threshold(needed)
    needed.add_argument("--json", action="store_true", help="the figures, for scripts (default: sentences)")
    needed.set_defaults(function=_power)


def _add_recipes(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    known = commands.add_parser(
        "recipes",
        epilog="example:\n  tierbench recipes summit --json",
        help="list the acceptance recipes with what was published",
    )
    known.add_argument("names", nargs="*", metavar="NAME", help="of recipes or systems (default: all)")
    known.add_argument(
        "--json", action="store_true", help="everything they say, for scripts (default: a table)"
    )
    known.set_defaults(function=_recipes)
    ahead = commands.add_parser(
        "project",
        epilog="example:\n  tierbench project --json",
        help="scale-out of Summit's GPFS and NVMe from published numbers",
    )
    ahead.add_argument("--json", action="store_true", help="the figures, for scripts (default: sentences)")
    ahead.set_defaults(function=_project)


def _add_help(commands: argparse._SubParsersAction[manual.Parser]) -> None:
    told = commands.add_parser(
        "help", epilog="example:\n  tierbench help --man > tierbench.1", help="explain the commands"
    )
    told.add_argument("topic", nargs="?", metavar="COMMAND", help="of which command (default: all)")
    form = told.add_mutually_exclusive_group()
    form.add_argument("--man", action="store_true", help="the man page (default: plain text)")
    form.add_argument("--bash", action="store_true", help="completion for bash (default: plain text)")
    told.set_defaults(function=_help)


def _help(options: argparse.Namespace) -> None:
    parser = _parser()
    if options.man:
        print(manual.man_page(parser, __version__), end="")
    elif options.bash:
        print(manual.completion(parser), end="")
    else:
        manual.parse(parser, [options.topic, "--help"] if options.topic else ["--help"])


def _add_threshold(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threshold", type=_percent, default=0.05, metavar="PERCENT",
                        help="smaller changes of the median are no news, 0 to 1000 (default: 5)")  # fmt: skip


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1000:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number from 0 to 1000")
    return value / 100


def _above_zero(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number above 0 and below 100")
    return value / 100


def _compare(options: argparse.Namespace) -> int:
    found = samples.read_all(options.runs)
    result = compare.compare(found, options.by, options.threshold, options.force, options.baseline)
    if options.json:
        atomic_write.replace_all(options.json.parent, {options.json.name: terminal.as_json(result)})
    terminal.print_comparison(result, _console())
    if options.output:
        written = comparison_page.write(result, options.output)
        print("\nWritten: " + ", ".join(str(path) for path in written))
    return 1 if result.regressed else 0


def _history(options: argparse.Namespace) -> int:
    """Status 2 when a run that was named could not be read; the others are still shown."""
    sources = options.runs or [str(p) for p in find_runs(Path("results"))]
    if not sources:
        raise RunError("results: holds no runs")
    problems: list[str] = []
    read = samples.read_all(sources, problems)
    _complain(problems)
    found = history.history(read, options.test, options.threshold)
    for series in found:
        terminal.print_series(series, _console())
    if options.output:
        written = history_page.write(found, options.test, options.output)
        print("\nWritten: " + ", ".join(str(path) for path in written))
    return 2 if problems and options.runs else 0


def _power(options: argparse.Namespace) -> None:
    given = {"noise as given": options.noise}
    noises = given if options.noise else power.noises(samples.read_all(options.runs))
    found = [
        power.power(name, noise, options.difference, options.threshold, options.metrics, options.power)
        for name, noise in noises.items()
    ]
    if options.json:
        print(json.dumps([p.as_json() for p in found], indent=1))
        return
    for p in found:
        print("\n".join(power.words(p)))


def _recipes(options: argparse.Namespace) -> None:
    """The published runs, then those that follow from rules."""
    known_runs, ruled = published.read_recipes(), rules.read_rules()
    known = [name for r in known_runs for name in (r.system, r.name)]
    known += [name for r in ruled for name in (r.suite, r.name)]
    for name in options.names:
        if name not in known:
            allowed = ", ".join(dict.fromkeys(known))
            raise RecipeError(f"recipe or system {name!r}{manual.nearest(name, known)}; allowed: {allowed}")
    wanted = set(options.names or known)
    known_runs = [r for r in known_runs if {r.system, r.name} & wanted]
    ruled = [r for r in ruled if {r.suite, r.name} & wanted]
    if options.json:
        print(json.dumps([*map(published.as_json, known_runs), *map(rules.as_json, ruled)], indent=1))
    else:
        terminal.print_recipes(known_runs, ruled, _console())


def _project(options: argparse.Namespace) -> None:
    found = projection.project()
    if options.json:
        print(json.dumps([projection.as_json(p) for p in found], indent=1))
    else:
        print("\n".join(line for p in found for line in projection.sentences(p)))


def _report(options: argparse.Namespace) -> int:
    if (options.run / "trial.json").exists():
        if options.require:
            raise RunError(
                f"--require: {options.run} is a trial, which has no tests; allowed: with a run folder"
            )
        _answer(options.run)
        return 0
    if options.run.is_dir() and not (options.run / "provenance.json").exists():
        raise RunError(
            f"{options.run}: holds neither a run (provenance.json) nor a trial (trial.json); allowed: "
            "a run folder, e.g. results/latest (`tierbench list` names them), or the folder of a trial"
        )
    made = report_record.make(read_run(options.run), [requirement.parse(text) for text in options.require])
    written = report.write(made, options.output or options.run)
    terminal.print_report(made, _console())
    print("\nWritten: " + ", ".join(str(path) for path in written))
    failed = made.counts[FAIL] or made.run.failures
    return 1 if options.check and failed else 0


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
        made = report_record.make(run)
        commit = str(run.provenance.get("commit", "?"))[:10] + ("+" if run.provenance.get("dirty") else "")
        counts = (str(n) for n in made.counts.values())
        table.add_row(run.name, str(run.provenance.get("started", "?")), commit, str(len(made.rows)), *counts)
    if not table.row_count and not unreadable:
        raise RunError(f"{options.results}: holds no runs")
    if table.row_count:
        _console().print(table)
    _complain(unreadable)


def _console() -> Console:
    """As wide as the terminal; wide where the output is a file, so that nothing is wrapped."""
    return Console(width=None if sys.stdout.isatty() else 160)


if __name__ == "__main__":
    sys.exit(main())
