"""Two builds by turns: is this tree slower than another commit's?

    compare_trees.py [BUILD_DIR] --base COMMIT [--repetitions N] [--only WORD] [--threshold PERCENT]

Checks COMMIT out in this tree's build folder, builds it there, and measures the rows of bench.py, fresh.py,
many.py and promises.py in both builds by turns.  A value is a ratio to a yardstick of the same moment, so
what else the machine does meets both.  `tierbench compare` judges: exit status 1 is a significant slowdown, 2
that it could not be measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from budget import budget
from fresh import fresh_rows
from many import many_rows
from promises import promise_rows
from rows import CannotMeasureError, Row
from session import arguments, chosen, measuring, provenance, refuse
from setting import NO_HUGE_PAGES, Bench, huge_pages

HOUSE = Path(__file__).resolve().parents[2]
TARGETS = ("tierctl", "tierd", "tierbench_preload", "tb-layers", "tb-ior")
MEASURES = "bin/tb-bench"
"""Knows nothing of the engine: this tree's measures both, and another commit's may lack a case."""


def call(*command: str | Path) -> None:
    """Run a step of the preparation; its failure ends the comparison."""
    done = subprocess.run([str(word) for word in command], check=False, stdout=sys.stderr)  # noqa: S603
    if done.returncode != 0:
        refuse(f"{' '.join(map(str, command))}: exit status {done.returncode}")


def built(commit: str, folder: Path, ours: Path) -> Path:
    """Check the commit out, and build it as this tree is built in `ours`; returns its build folder."""
    tree, build = folder / "tree", folder / "build"
    git = ["git", "-C", str(HOUSE)]
    if tree.exists():
        call("git", "-C", tree, "checkout", "--detach", "--quiet", commit)
    else:
        call(*git, "worktree", "add", "--force", "--detach", "--quiet", tree, commit)
    call("cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    call("cmake", "--build", build, "--target", *TARGETS)
    shutil.copy2(ours / MEASURES, build / MEASURES)
    return build


def by_turns(rows: list[Row], sides: list[Bench], repetitions: int) -> list[list[dict[str, object]]]:
    """Measure each row once in each build, again and again; the rows of each build."""
    found: list[list[dict[str, object]]] = [[] for _ in sides]
    for row in rows:
        pairs: list[list[tuple[float, float]]] = [[] for _ in sides]
        print(f"measuring {row.path}", file=sys.stderr, flush=True)
        for _ in range(repetitions):
            for mine, side in zip(pairs, sides, strict=True):
                mine += row.measure(side)
        for mine, of_side in zip(pairs, found, strict=True):
            row.pairs = mine
            of_side.append(row.as_json())
    return found


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = arguments("Compare this tree's build with another commit's, row by row.")
    parser.add_argument("--base", required=True, metavar="COMMIT", help="what to compare with")
    parser.add_argument(
        "--threshold", default="5", metavar="PERCENT", help="least difference that counts (5)"
    )
    return parser.parse_args()


def main() -> int:
    """Build, measure, judge."""
    args = parse()
    folder = args.build.resolve() / "compare"
    theirs = built(args.base, folder, args.build.resolve())
    huge = huge_pages(args.build) != NO_HUGE_PAGES
    fresh = fresh_rows(str(args.build.resolve() / "bin/tb-ior"), every=False, huge=huge)
    rows = chosen([*budget(huge), *fresh, *many_rows(), *promise_rows()], args)
    with measuring(args) as bench:
        here = replace(bench, repetitions=1)
        about = provenance(here)
        try:
            found = by_turns(rows, [replace(here, build=theirs), here], args.repetitions)
        except (CannotMeasureError, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as error:
            refuse(f"{type(error).__name__}: {error}")
    results = [folder / "base.json", folder / "here.json"]
    for result, commit, measured in zip(results, (args.base, about["commit"]), found, strict=True):
        result.write_text(json.dumps({"run": about | {"commit": commit}, "rows": measured}, indent=1) + "\n")
    tierbench = Path(sys.executable).parent / "tierbench"
    judge = [str(tierbench), "compare", *map(str, results), "--threshold", args.threshold]
    return subprocess.run(judge, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
