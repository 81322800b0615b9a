"""`tierbench recipes` and `tierbench project`: what was published, and what follows from it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tierbench import manual
from tierbench.base.errors import RecipeError
from tierbench.commands.arguments import Commands
from tierbench.commands.messages import console
from tierbench.recipes import projection, published, rules, scaling


def add(commands: Commands) -> None:
    """recipes and project."""
    known = commands.add_parser(
        "recipes",
        epilog="example:\n  tierbench recipes summit --json",
        help="list the acceptance recipes with what was published",
    )
    known.add_argument("names", nargs="*", metavar="NAME", help="of recipes or systems (default: all)")
    known.add_argument(
        "--json", action="store_true", help="everything they say, for scripts (default: a table)"
    )
    known.set_defaults(function=_recipes)
    ahead = commands.add_parser(
        "project",
        epilog="example:\n  tierbench project --json",
        help="scale-out of Summit's GPFS and NVMe from published numbers",
    )
    ahead.add_argument("--json", action="store_true", help="the figures, for scripts (default: sentences)")
    ahead.add_argument(
        "--measured",
        type=Path,
        metavar="NODES.json",
        help="of make bench-nodes: how nodes that share their tiers scale (default: none)",
    )
    ahead.set_defaults(function=_project)


def _recipes(options: argparse.Namespace) -> None:
    """The published runs, then those that follow from rules."""
    from tierbench.pages import recipes_list

    known_runs, ruled = published.read_recipes(), rules.read_rules()
    known = [name for r in known_runs for name in (r.system, r.name)]
    known += [name for r in ruled for name in (r.suite, r.name)]
    for name in options.names:
        if name not in known:
            allowed = ", ".join(dict.fromkeys(known))
            raise RecipeError(f"recipe or system {name!r}{manual.nearest(name, known)}; allowed: {allowed}")
    wanted = set(options.names or known)
    known_runs = [r for r in known_runs if {r.system, r.name} & wanted]
    ruled = [r for r in ruled if {r.suite, r.name} & wanted]
    if options.json:
        print(json.dumps([*map(published.as_json, known_runs), *map(rules.as_json, ruled)], indent=1))
    else:
        recipes_list.print_recipes(known_runs, ruled, console())


def _project(options: argparse.Namespace) -> None:
    if options.measured:
        _scale(options.measured, as_json=options.json)
        return
    found = projection.project()
    if options.json:
        print(json.dumps([projection.as_json(p) for p in found], indent=1))
    else:
        print("\n".join(line for p in found for line in projection.sentences(p)))


def _scale(file: Path, *, as_json: bool) -> None:
    lines = scaling.read_costs(file)
    if as_json:
        print(json.dumps(scaling.as_json(lines, file), indent=1))
    else:
        print("\n".join(scaling.sentences(lines, file)))
