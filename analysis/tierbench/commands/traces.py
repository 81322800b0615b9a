"""`tierbench trace`: what Darshan logs say."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tierbench.base import atomic_write
from tierbench.base.errors import RunError
from tierbench.base.strict_json import read_fitting
from tierbench.base.text import counted
from tierbench.commands.arguments import Commands
from tierbench.commands.messages import complain

if TYPE_CHECKING:
    from tierbench.trace import commits


def add(commands: Commands) -> None:
    """trace."""
    logs = commands.add_parser(
        "trace",
        epilog="example:\n  tierbench trace app.darshan storage.darshan --tier nvme=/scratch/nvme -o out",
        help="what Darshan logs say: findings, tiers, slowest ranks and files",
    )
    logs.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="a Darshan log")
    logs.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write trace.html, trace.md and every frame as CSV and Parquet there "
        "(default: nothing is written)",
    )
    logs.add_argument(
        "--tier",
        action="append",
        default=[],
        type=_place,
        metavar="NAME=PATH",
        help="a tier and where its files are, pfs too; may be repeated (default: mount points)",
    )
    logs.add_argument(
        "--chrome", type=Path, metavar="FILE", help="write segments as Chrome trace events (default: none)"
    )
    logs.add_argument(
        "--stats",
        type=Path,
        metavar="FILE",
        help="of tierctl run --stats: counters of --chrome (default: none)",
    )
    logs.add_argument(
        "--model",
        choices=("commit",),
        help="name accesses of two nodes that this model of consistency does not order, "
        "docs/testing/trace.md (default: not looked at)",
    )
    logs.set_defaults(function=_trace)


def _place(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not name or not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: NAME=/PATH")
    return path, name


def _trace(options: argparse.Namespace) -> int:
    """Status 2 when any log could not be read; the others are still shown. 1: accesses without an order."""
    from tierbench import trace
    from tierbench.trace import chrome, page
    from tierbench.trace.commits import check

    if options.stats and not options.chrome:
        raise RunError("--stats: allowed with --chrome")
    atomic_write.check(options.output, options.chrome)
    stats = read_fitting(options.stats, "stats") if options.stats else {}
    if options.stats and not stats.get("tiers"):
        raise RunError(f"{options.stats}: holds no tiers; allowed: what tierctl run --stats wrote")
    traces = trace.read(options.logs, dict(options.tier))
    complain(traces.errors)
    if len(traces.job):
        print(page.as_text(traces))
    if options.output and len(traces.job):
        written = page.write_all(traces, options.output)
        print("Written: " + ", ".join(str(path) for path in written))
    if options.chrome and len(traces.job):
        left_out = chrome.write(traces, stats, options.chrome)
        print(
            f"Written: {options.chrome}"
            + f", without {left_out} segments with impossible times" * bool(left_out)
        )
    found = check(traces) if options.model else None
    if found:
        print(_orders(found))
    return 2 if traces.errors else 1 if found and found.unordered else 0


def _orders(found: commits.Verdict) -> str:
    from tierbench.trace.commits import MOST_NAMED

    named = found.unordered[:MOST_NAMED]
    head = (
        f"{counted(found.pairs, 'pair')} of accesses of two nodes to the same bytes: "
        f"{len(found.unordered)} not ordered by commits"
    )
    more = len(found.unordered) - len(named)
    return "\n".join([head, *map(str, named), *([f"and {more} more"] if more else [])])
