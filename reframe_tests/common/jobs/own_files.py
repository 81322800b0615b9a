"""The files that a job's launches leave at a place of the user's. Runs in the job, with python3 alone.

usage: own_files.py note LIST BASE...     before the first launch: what is there already is the user's
       own_files.py remove LIST           at the job's end, however it ends: what came since goes

Of a BASE, as -o names it, are the file itself and those of its ranks (BASE.00000012). Links, files of other
users and anything else stay. Two jobs of one user on one BASE would overwrite each other's files, too.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path


def of_base(base: str) -> list[Path]:
    """The files of a base that are there."""
    path = Path(base)
    pattern = re.compile(re.escape(path.name) + r"(\.\d{8}(\.\d+)?)?")
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    named = (p for p in there if pattern.fullmatch(p.name))
    return [p for p in named if p.is_file() and not p.is_symlink() and p.stat().st_uid == os.geteuid()]


def note(listed: Path, bases: list[str]) -> None:
    """Write down what is there."""
    found = {str(Path(base).absolute()): [str(p.absolute()) for p in of_base(base)] for base in bases}
    listed.write_text(json.dumps(found))


def remove(listed: Path) -> int:
    """Remove what came since; how many files."""
    gone = 0
    for base, theirs in json.loads(listed.read_text()).items():
        for path in of_base(base):
            if str(path) not in theirs:
                path.unlink(missing_ok=True)
                gone += 1
    return gone


if __name__ == "__main__":
    if sys.argv[1] == "note":
        note(Path(sys.argv[2]), sys.argv[3:])
    else:
        print(f"tierbench: {remove(Path(sys.argv[2]))} files that this job made were removed")
