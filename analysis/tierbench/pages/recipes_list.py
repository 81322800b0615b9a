"""The acceptance recipes in the terminal."""

from __future__ import annotations

from rich.console import Console

from tierbench.recipes.published import Recipe
from tierbench.recipes.rules import RuleRecipe


def print_recipes(recipes: list[Recipe], ruled: list[RuleRecipe], console: Console) -> None:
    """Each recipe with its command lines, conditions, rules and what was published."""
    for name, lines in (
        *((r.name, _recipe_lines(r)) for r in recipes),
        *((r.name, _rule_lines(r)) for r in ruled),
    ):
        console.print(name, style="bold", end="", highlight=False)
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    told = f"{len(recipes)} recipes, {sum(len(r.numbers) for r in recipes)} published numbers"
    console.print(f"{told}; {len(ruled)} recipes from rules", highlight=False, markup=False)


_NODES = {"all": "all of the site", "sweep": "the fewest that reach the peak, searched"}
_RANKS = {"cores": "one a core, or the best of a search"}


def _rule_lines(r: RuleRecipe) -> list[str]:
    nodes, ranks = _NODES.get(str(r.nodes), r.nodes), _RANKS.get(str(r.ranks_per_node), r.ranks_per_node)
    lines = [f": {r.title}", f"  nodes: {nodes}; processes a node: {ranks}; {r.source}"]
    for launch in r.launches:
        lines.append(f"  run: {launch.line}")
        lines += [f"  then: {launch.then}"] if launch.then else []
    lines.append("  rules: " + "; ".join(f"{k.replace('_', ' ')}: {v}" for k, v in r.rules.items()))
    lines += [f"  note: {note}" for note in r.notes]
    return [*lines, "  published: nothing; from rules, requirement null", ""]


def _recipe_lines(r: Recipe) -> list[str]:
    lines = [
        f": {r.title}",
        f"  nodes {r.nodes}, processes a node {r.ranks_per_node}, ranks {r.ranks}; {r.source}",
    ]
    lines += [f"  condition: {line}" for line in (*r.directives, *r.before)]
    lines += [f"  condition: MPI-IO hint {name}={value}" for name, value in r.hints.items()]
    for launch in r.launches:
        origin = f'  (described: "{launch.derived}")' if launch.derived else ""
        lines.append(f"  {'run' if launch.measures else 'generate'}: {launch.line}{origin}")
    if r.rules:
        lines.append(
            "  rules: "
            + ", ".join(k.replace("_", " ") + (f" {v}" if v is not True else "") for k, v in r.rules.items())
        )
    for c in r.contradictions:
        lines.append(f"  {c.what}: stated {c.stated}, computed {c.computed}, run with {c.used}: {c.why}")
    lines += [f"  note: {note}" for note in r.notes]
    lines += [f"  published: {n.access} {n.text} {n.unit}" for n in r.numbers]
    return [*lines, ""]
