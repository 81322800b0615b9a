"""Published flags as the program at hand spells them: IOR 4 has long names for some of IOR 3's letters."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

_LONG = {"-H": "--mpiio.showHints", "-B": "--posix.odirect"}
_STRIPES = re.compile(r"lustrestripecount=(\d+)", re.IGNORECASE)


def respelled(program: str, arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same command line in the words of `program`, and what it has no word for."""
    if Path(program).name == "tb-ior":  # knows both
        return arguments, ()
    made = list(arguments)
    for short, long in _LONG.items():
        if short in made and not re.search(rf"^\s*{short}\b", _help(program), re.MULTILINE):
            made[made.index(short)] = long
    for at in range(len(made) - 1):
        stripes = _STRIPES.fullmatch(made[at + 1]) if made[at] == "-O" else None
        if stripes and "lustrestripecount" not in _help(program).lower():
            knows_lustre = "--posix.lustre.stripecount" in _help(program)
            lost = () if knows_lustre else (f"flag: -O {made[at + 1]} (the driver was built without Lustre)",)
            made[at : at + 2] = [f"--posix.lustre.stripecount={stripes[1]}"] if knows_lustre else []
            return tuple(made), lost
    return tuple(made), ()


@functools.cache
def _help(program: str) -> str:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr
