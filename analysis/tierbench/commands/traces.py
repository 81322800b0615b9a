"""`tierbench trace`: what Darshan logs say."""

from __future__ import annotations

import argparse
from pathlib import Path

from tierbench.base import atomic_write
from tierbench.base.errors import RunError
from tierbench.base.strict_json import read_fitting
from tierbench.commands.arguments import Commands
from tierbench.commands.messages import complain


def add(commands: Commands) -> None:
    """trace."""
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
                      help="a tier and where its files are, pfs too; may be repeated "
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
    return 2 if traces.errors else 0
