"""A benchmark in the place of a program: a line of IOR's, or a recipe that is known by its name.

IOR's files are kept and have the same bytes in each run (`-k`, `-G`), so outputs can be compared. A recipe
keeps its access pattern and gets the size of this node: its processes, 1 GiB or 10,000 files in all, and no
deadline, so that the same work is timed.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tierbench.base.errors import RunError
from tierbench.base.text import size
from tierbench.judge.asked import IorAsked
from tierbench.recipes import published, rules
from tierbench.recipes.published import Recipe
from tierbench.recipes.rules import RuleRecipe
from tierbench.site import site_file
from tierbench.site.home import program
from tierbench.trial.plan import PLACEHOLDER

_NAMES = ("ior", "tb-ior")
_LAUNCHERS = ("mpirun", "mpiexec")
_FILE = f"{PLACEHOLDER}/ior.data"
_RECIPE_BYTES = 1 << 30
_RECIPE_FILES = 10_000


@dataclass(frozen=True)
class Driver:
    """What is run, and what is to be said of it."""

    command: tuple[str, ...]
    notes: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()  # of the environment, without which it does not start


def command(words: Sequence[str]) -> Driver:
    """A program of the user's own, after a launcher or without one."""
    return Driver(tuple(words), *_of_launcher(words))


def ior(line: str) -> Driver:
    """`-w -r -t 1m -b 64m`, or the same after a launcher: `mpirun -n 4 ior -w ...`."""
    words = _words(line)
    at = next((i for i, word in enumerate(words) if PurePath(word).name.lower() in _NAMES), None)
    launcher, given = ((), words) if at is None else (words[:at], words[at + 1 :])
    if at is None and not (words and words[0].startswith("-")):
        raise RunError(f"--ior: {line!r}; allowed: options of IOR, or a launcher, ior and its options")
    found = os.environ.get("IOR") or shutil.which("ior")
    what = "of this site" if found else "the embedded one, since PATH has no ior"
    where = found or str(program("tb-ior"))
    notes, variables = _of_launcher(launcher)
    return Driver((*launcher, where, *_kept(given, "--ior")), (f"IOR is {where}: {what}", *notes), variables)


def _of_launcher(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Open MPI refuses root without two variables; a note says that they are set."""
    named = any(PurePath(word).name in _LAUNCHERS for word in words) and shutil.which("mpirun")
    lacking = [(n, v) for n, v in site_file.root_variables() if n not in os.environ] if named else []
    told = f"mpirun runs as root by {' and '.join(f'{n}={v}' for n, v in lacking)}"
    return ((told,) if lacking else ()), tuple(lacking)


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as e:
        raise RunError(f"--ior: {line!r}: {e}; allowed: words as a shell reads them") from e


def _kept(given: Sequence[str], option: str) -> tuple[str, ...]:
    """IOR's file is below the folder of the run, stays there and has the same bytes each time."""
    asked = IorAsked(tuple(given), 1).options
    files = [*asked.letters.get("o", []), *(v for k, v in asked.longs.items() if k == "testFile")]
    if bad := next((f for f in files if PLACEHOLDER not in f), None):
        raise RunError(f"{option}: -o {bad}; allowed: a name below {PLACEHOLDER}, as {_FILE}")
    more = [] if files else ["-o", _FILE]
    more += [] if asked.has("k") or "keepFile" in asked.longs else ["-k"]
    more += [] if asked.has("G") or "setTimeStampSignature" in asked.longs else ["-G", "1"]
    return (*given, *more)


def recipe(name: str) -> Driver:
    """A published run or one that rules describe, at the size of this node."""
    runs = {r.name: r for r in published.read_recipes() if _is_ior(r)}
    ruled = {r.name: r for r in rules.read_rules() if _is_mdtest(r)}
    if name in runs:
        return _published(runs[name])
    if name in ruled:
        return _of_rules(ruled[name])
    allowed = f"{', '.join([*runs, *ruled])} (`tierbench recipes` explains them)"
    raise RunError(f"--recipe: {name!r}; allowed: {allowed}")


def _is_ior(found: Recipe) -> bool:
    return all(launch.program_name == "ior" for launch in found.launches)


def _is_mdtest(found: RuleRecipe) -> bool:
    return all(launch.program == "mdtest" for launch in found.launches)


def _published(found: Recipe) -> Driver:
    ranks = min(found.ranks_per_node, _cores())
    lines, whole = [], 0
    for launch in found.launches:
        arguments = _sized(launch.arguments, ranks)
        asked = IorAsked(arguments, ranks).options
        whole = ranks * (asked.size("b", "1m") or 0) * (asked.count("s", 1) or 1)
        lines.append([*_launcher(ranks), str(program("tb-ior")), *arguments])
    told = f"{ranks} of {found.ranks} processes, {size(whole)} in all, without the site's settings"
    return _script(lines, f"{found.name}: {told}")


def _sized(given: Sequence[str], ranks: int) -> tuple[str, ...]:
    """The last of an option's values counts."""
    asked = IorAsked(tuple(given), ranks).options
    block, transfer = asked.size("b", "1m") or 1, asked.size("t", "256k") or 1
    each = max(transfer, _RECIPE_BYTES // ranks)
    block = min(block, each // transfer * transfer)
    segments = max(1, min(asked.count("s", 1) or 1, each // block))
    made = [*given, "-o", _FILE, "-b", str(block), "-s", str(segments)]
    return (*made, *(["-D", "0"] if asked.has("D") else []), "-k", "-G", "1")


def _of_rules(found: RuleRecipe) -> Driver:
    ranks = _cores() if found.ranks_per_node == "cores" else int(found.ranks_per_node)
    folder = f"{PLACEHOLDER}/{found.suite}"
    values = {"dir": folder, "files": str(_RECIPE_FILES // ranks), "ppn": str(ranks)}
    line = [*_launcher(ranks), str(program("tb-mdtest"))]
    lines = [[*line, *launch.arguments(values)] for launch in found.launches]
    told = f"{ranks} processes, {_RECIPE_FILES} files in all"
    return _script([["mkdir", "-p", folder], *lines], f"{found.name}: {told}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if shutil.which("mpirun") else 1


def _launcher(ranks: int) -> list[str]:
    return ["mpirun", "-n", str(ranks)] if shutil.which("mpirun") else []


def _script(lines: Sequence[Sequence[str]], told: str) -> Driver:
    """One program that runs all lines; its first argument is the folder of the run."""
    variables = site_file.mpi_variables() if shutil.which("mpirun") else []
    exported = [f"export {name}={shlex.quote(value)}" for name, value in variables]
    script = "\n".join(["set -e", *exported, *map(_line, lines)])
    return Driver(("sh", "-c", script, "sh", PLACEHOLDER), (f"recipe {told}",))


def _line(words: Sequence[str]) -> str:
    """As a shell reads it: the folder is the script's first argument, whatever its name has in it."""
    return " ".join(
        '"' + word.replace(PLACEHOLDER, "$1") + '"' if PLACEHOLDER in word else shlex.quote(word)
        for word in words
    )
