"""The script of a recipe of rules: launches one after the other, each with its output, errors and status."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from tierbench.recipes.rules import Launch, RuleRecipe

from ..scales.rules_scale import RuleSizes
from .limits import Limit
from .script import Script

_SCRIPT = """\
# The launches of the test, one after the other. Each leaves its output, errors and exit status.
failed=0
launch() {
    name=$1; shift
    began=$(date '+%s.%N %z')
    "$@" > "launches/$name.out" 2> "launches/$name.err"
    status=$?
    ended=$(date '+%s.%N %z')
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
    limit_of: Callable[[str], Limit],
) -> dict[str, tuple[str, ...]]:
    """Write launches.sh; returns the command lines by the names of the launches."""
    fields = {
        "dir": pfs,
        "status": str(stage / "status"),
        "files": str(sizes.files),
        "seconds": str(sizes.seconds),
        "ppn": str(sizes.ranks_per_node),
    }
    told: dict[str, tuple[str, ...]] = {}
    lines: list[str] = []
    folders: set[str] = set()
    for launch in rule.launches:
        name, program, arguments = _name_of(launch), programs[launch.program], launch.arguments(fields)
        told[name] = (Path(program).name, *arguments)
        script.directly(limit_of(name))
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
