"""What all benchmarks of this folder share: their command line, and their rows run, printed and written."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rows import CannotMeasureError, Row
from setting import SHM, Bench, huge_pages


def arguments(description: str) -> argparse.ArgumentParser:
    """What the command lines of all benchmarks have in common."""
    parser = argparse.ArgumentParser(description=description)
    house = Path(__file__).resolve().parents[2]
    parser.add_argument("build", type=Path, nargs="?", default=house / "build", help="build folder (build)")
    parser.add_argument(
        "out", type=Path, nargs="?", default=house / "results/bench", help="for the result (results/bench)"
    )
    parser.add_argument("--repetitions", type=int, default=7, help="of each side of each ratio (7)")
    parser.add_argument("--only", default="", help="measure only paths with this word in their description")
    return parser


def parse() -> argparse.Namespace:
    """Read the command line."""
    return arguments("Measure the engine's performance budget.").parse_args()


def refuse(message: str) -> None:
    """End before anything was measured."""
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(2)


def chosen(rows: list[Row], args: argparse.Namespace) -> list[Row]:
    """The rows that --only asks for."""
    found = [row for row in rows if args.only in row.path]
    if not found:
        refuse(f"--only {args.only}: no path contains that")
    return found


@contextlib.contextmanager
def measuring(args: argparse.Namespace) -> Iterator[Bench]:
    """Folders to measure in, in memory and on the build folder's disk, for as long as it takes."""
    args.out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="tb-bench.", dir=SHM) as root,
        tempfile.TemporaryDirectory(prefix="tb-bench.", dir=args.build) as disk,
    ):
        yield Bench(args.build.resolve(), Path(root), Path(disk).resolve(), args.repetitions)


def provenance(bench: Bench) -> dict[str, object]:
    """Say what was measured, where."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return {
        "commit": commit or None,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "huge_pages": huge_pages(bench.build),
        "repetitions": bench.repetitions,
    }


def run(bench: Bench, rows: list[Row]) -> None:
    """Measure each row and print it."""
    print(f"{'ratio':>7} {'range':>15}  {'budget':<14} {'':<6} path / yardstick")
    for row in rows:
        try:
            row.pairs = row.measure(bench)
        except (CannotMeasureError, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as error:
            row.error = f"{type(error).__name__}: {error}"
            print(f"{'-':>7} {'':>15}  {'':<14} {'FAILED':<6} {row.path}: {row.error}", flush=True)
            continue
        values = row.values
        span = f"{min(values):.3f}-{max(values):.3f}"
        bound = f"{row.direction} {row.budget}" if row.budget is not None else "none"
        mark = {True: "ok", False: "OVER", None: ""}[row.within]
        ratio = statistics.median(values)
        print(f"{ratio:7.3f} {span:>15}  {bound:<14} {mark:<6} {row.path} / {row.yardstick}", flush=True)


def finish(
    args: argparse.Namespace, name: str, about: dict[str, object], rows: list[Row], **more: object
) -> int:
    """Write what was measured and say what is over budget; the exit status."""
    result = args.out / f"{name}{time.strftime('%Y%m%d-%H%M%S')}.json"
    document = {"run": about, "rows": [row.as_json() for row in rows], **more}
    result.write_text(json.dumps(document, indent=1) + "\n")
    over = sum(row.within is False for row in rows)
    print(f"{over} of {len(rows)} over budget; {result}")
    return 1 if any(row.error for row in rows) else 0
