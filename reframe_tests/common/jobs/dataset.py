"""Is the dataset there that a launch reads? Runs in the job, before that launch, with python3 alone.

usage: dataset.py BASE RANKS BYTES_PER_RANK shared|separate complete|stonewalled

Prints what is there in one line. Exit status 2, naming what is needed, where a file is missing, empty, or, of
a complete dataset, too short. Files are looked at, not read: a read would fill the cache.
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    """Look and tell."""
    base, ranks, per_rank, layout, extent = arguments[0], int(arguments[1]), int(arguments[2]), *arguments[3:]
    names = [base] if layout == "shared" else [f"{base}.{rank:08d}" for rank in range(ranks)]
    needed = per_rank * ranks if layout == "shared" else per_rank
    found = [os.stat(name).st_size if os.path.exists(name) else -1 for name in names]  # noqa: PTH110, PTH116
    least = min(found)
    count = sum(size >= 0 for size in found)
    told = f"{count} of {len(names)} files, {max(least, 0)} to {max(found)} bytes each"
    if least < (needed if extent == "complete" else 1):
        wanted = f"needs {len(names)} files of {needed} bytes; there are {told}"
        print(f"tierbench: dataset {base}: is not generated: {wanted}", file=sys.stderr)
        return 2
    print(f"tierbench: dataset: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
