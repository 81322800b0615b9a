"""Recipes that follow from rules, without a published number: mdtest as procurements ask for it, and IO500.

`configs/recipes/rules/SUITE.yaml` holds the command lines with the places where a site's own counts go
(`Recipe.fields`), the levels of concurrency and the rules. What contradicts the schema is refused
(`RecipeError`: file, place, value, what is allowed).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tierbench.base.errors import RecipeError
from tierbench.recipes import published
from tierbench.recipes.published import Twin

FIELDS = ("dir", "files", "ppn", "seconds", "status")
PROGRAMS = ("ior", "mdtest", "find")
_FIELD = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True)
class Launch:
    """One launch: a line with fields, what of its output is which metric, and what is run then."""

    line: str
    measures: dict[str, str]
    then: str | None = None

    @property
    def program(self) -> str:
        """ior, mdtest or find."""
        return self.line.split()[0]

    def arguments(self, values: dict[str, str]) -> tuple[str, ...]:
        """The arguments of the program, fields filled in."""
        return tuple(_FIELD.sub(lambda m: values[m[1]], word) for word in shlex.split(self.line)[1:])


@dataclass(frozen=True)
class RuleRecipe:
    """A run that rules describe; `nodes` may be `all` or `sweep`, `ranks_per_node` may be `cores`."""

    suite: str
    name: str
    title: str
    nodes: int | str
    ranks_per_node: int | str
    launches: tuple[Launch, ...]
    twin: Twin
    source: str
    file: str
    rules: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_rules(folder: Path | None = None) -> list[RuleRecipe]:
    """All of them, in the order of the files and within them."""
    place = folder or published.RECIPE_FOLDER / "rules"
    found = [recipe for file in sorted(place.glob("*.yaml")) for recipe in _read(file)]
    if not found:
        raise RecipeError(f"{place}: holds no recipe (no *.yaml)")
    published.refuse_twice([r.name for r in found], place)
    return found


def as_json(recipe: RuleRecipe) -> dict[str, Any]:
    """A recipe for scripts; `origin` sets it apart from the published runs, `requirement` is never stated."""
    return {"system": recipe.suite, "origin": "rules", "requirement": None, "numbers": [], **asdict(recipe)}


def _read(file: Path) -> list[RuleRecipe]:
    top = published.read_document(file, "rules")
    return [_recipe(raw, top, file) for raw in top["recipes"]]


def _recipe(raw: dict[str, Any], top: dict[str, Any], file: Path) -> RuleRecipe:
    place = f"{file}: recipes[{raw['name']}]"
    launches = tuple(_launch(x, f"{place}.launches[{i}]") for i, x in enumerate(raw["launches"]))
    return RuleRecipe(
        top["suite"],
        raw["name"],
        raw["title"],
        raw["nodes"],
        raw["ranks_per_node"],
        launches,
        Twin(**top["twin"]),
        top["source"],
        file.name,
        top["rules"],
        tuple(raw.get("notes", ())),
    )


def _launch(raw: dict[str, Any], place: str) -> Launch:
    for text in (raw["line"], raw.get("then", "")):
        for name in _FIELD.findall(text):
            if name not in FIELDS:
                raise RecipeError(f"{place}: {{{name}}}; allowed: {', '.join(f'{{{f}}}' for f in FIELDS)}")
    if raw["line"].split()[:1] not in [[p] for p in PROGRAMS]:
        raise RecipeError(f"{place}.line: {raw['line']!r} runs none of {', '.join(PROGRAMS)}")
    return Launch(raw["line"], raw["measures"], raw.get("then"))
