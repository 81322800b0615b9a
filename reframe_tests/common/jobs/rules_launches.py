"""The script of a recipe of rules: launches one after the other, each with its output, errors and status."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from tierbench.recipes.rules import Launch, RuleRecipe

from ..outcome.launch_numbers import START
from ..scales.rules_scale import RuleSizes
from .limits import Limit, of_deadline, of_operations, of_start
from .script import NOTHING, Script

_SCRIPT = """\
# The launches of the test, one after the other. Each leaves its output, errors and exit status.
failed=0
launch() {
    name=$1; shift
    began=$(command -p date '+%s.%N %z')
    "$@" > "launches/$name.out" 2> "launches/$name.err"
    status=$?
    ended=$(command -p date '+%s.%N %z')
    echo $status > "launches/$name.status"
    echo "tierbench: launch $name begins at $began"
    cat "launches/$name.out"
    echo "tierbench: launch $name ends at $ended"
    cat "launches/$name.err" >&2
    [ $status -eq 0 ] || failed=$status
}
"""


def write_launches(
    stage: Path,
    script: Script,
    rule: RuleRecipe,
    sizes: RuleSizes,
    pfs: str,
    programs: Mapping[str, str],
    least_rate: float,
) -> dict[str, tuple[str, ...]]:
    """Write launches.sh; returns the command lines by the names of the launches.

    `least_rate`: the least operations a second that all ranks together are expected to make.
    """
    fields = {
        "dir": pfs,
        "status": str(stage / "status"),
        "files": str(sizes.files),
        "seconds": str(sizes.seconds),
        "ppn": str(sizes.ranks_per_node),
    }
    told: dict[str, tuple[str, ...]] = {}
    script.directly(of_start())
    lines = [f"launch {START} {script.line(NOTHING, ())}\n"]
    most_phases = max(len(launch.measures) for launch in rule.launches)
    folders: set[str] = set()
    for launch in rule.launches:
        name, program, arguments = _name_of(launch), programs[launch.program], launch.arguments(fields)
        told[name] = (Path(program).name, *arguments)
        script.directly(_limit(name, sizes, most_phases, least_rate))
        lines.append(f"launch {name} {script.line(program, [shlex.join(arguments)])}\n")
        lines += [launch.then.format_map(fields) + " || failed=1\n"] if launch.then else []
        made = [Path(a) for a in arguments if a.startswith(f"{pfs}/")]
        folders |= {str(a if "mdtest" in a.name else a.parent) for a in made}
    before = f"mkdir -p {shlex.join(sorted(folders) or [pfs])}\n"
    (stage / "launches.sh").write_text("".join([_SCRIPT, before, *lines, "exit $failed\n"]))
    return told


def _name_of(launch: Launch) -> str:
    """What the launch is called among its outputs."""
    return next(iter(launch.measures)) if len(launch.measures) == 1 else launch.program


def _limit(name: str, sizes: RuleSizes, phases: int, least_rate: float) -> Limit:
    """By the stonewall, which bounds what later phases work on; else by all phases on all files."""
    if sizes.seconds:
        return of_deadline(name, 2 * sizes.seconds)
    return of_operations(name, phases * (sizes.files or 0) * sizes.ranks, least_rate)
