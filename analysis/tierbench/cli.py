"""The command `tierbench`: try, site, report, list, trace, compare, history, power, recipes, project,
forwarding, allocate, help.

Its exit statuses are in `manual.STATUSES`; the subcommands are in the room `commands`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tierbench import __version__, manual
from tierbench.base.errors import RecipeError, RunError
from tierbench.base.text import shown
from tierbench.commands import comparisons, forwarding_studies, published_runs, reports, traces, trials
from tierbench.commands.arguments import Commands
from tierbench.commands.messages import complain


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = manual.parse(_parser(), arguments)
    try:
        status = options.function(options)
        sys.stdout.flush()
    except (RunError, RecipeError) as e:
        complain(str(e).split("\n"))
        return 2
    except BrokenPipeError:  # the reader has seen enough: `tierbench list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as e:  # a name that the system refuses, a folder that may not be read
        complain([f"{shown(e.filename or '')[:200]}: {e.strerror}"])
        return 2
    except KeyboardInterrupt:
        return 130
    return int(status or 0)


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
    for group in (trials, reports, traces, comparisons, published_runs, forwarding_studies):
        group.add(commands)
    _add_help(commands)
    return parser


def _add_help(commands: Commands) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
