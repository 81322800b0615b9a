"""The engine's performance budget, measured: each path as a ratio to a yardstick of the same run.

    bench.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Both sides of a ratio are repeated in turn, so that what else the machine does meets both.  Writes
OUT_DIR/<time>.json and prints a table.  Being over budget is reported, not an error; exit status 1 means
that something could not be measured, 2 that it could not start.
"""

from __future__ import annotations

import shutil
import sys

from budget import budget, layers
from session import chosen, finish, measuring, parse, provenance, refuse, run
from setting import HUGE_ROWS, MIB, NO_HUGE_PAGES, SHM, huge_pages

SHM_NEEDED_MIB = 2048


def print_layers(steps: list[dict[str, object]]) -> None:
    """Print the layers as a table."""
    print("where the time goes, random 4 KiB blocks of a 64 MiB file, ns an operation:")
    for step in steps:
        print(f"{step['ns']:9.1f}  {step['bytes']:>5} bytes  {step['operation']:<28} {step['layer']}")


def main() -> int:
    """Measure all of it."""
    args = parse()
    for program in ("tb-bench", "tb-layers", "tierctl", "tierd"):
        if not (args.build / "bin" / program).exists():
            refuse(f"{args.build}/bin/{program} is not there; build first")
    if args.repetitions < 1:
        refuse(f"--repetitions {args.repetitions}: at least 1")
    free_mib = shutil.disk_usage(SHM).free // MIB
    if free_mib < SHM_NEEDED_MIB:
        refuse(f"{SHM} has {free_mib} MiB free; {SHM_NEEDED_MIB} are needed")
    rows = chosen(budget(huge_pages(args.build) != NO_HUGE_PAGES), args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, rows)
        if about["huge_pages"] == NO_HUGE_PAGES:
            print(HUGE_ROWS)
        inside = [] if args.only else layers(bench)
    if inside:
        print_layers(inside)
    return finish(args, "", about, rows, layers=inside)


if __name__ == "__main__":
    sys.exit(main())
