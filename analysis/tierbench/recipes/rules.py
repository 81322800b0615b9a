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

import yaml

from tierbench.base.errors import RecipeError
from tierbench.recipes import published
from tierbench.recipes.published import Twin

FIELDS = ("dir", "files", "ppn", "seconds", "status")
NODES = ("all", "sweep")
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
        """The words behind the program, fields filled in."""
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
    names = [r.name for r in found]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"{place}: recipe {name!r} stands there twice; allowed: one of a name")
    return found


def as_json(recipe: RuleRecipe) -> dict[str, Any]:
    """A recipe for scripts; `origin` sets it apart from the published runs, `requirement` is never stated."""
    return {"system": recipe.suite, "origin": "rules", "requirement": None, "numbers": [], **asdict(recipe)}


def _keys(value: Any, place: str, required: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecipeError(f"{place}: {value!r}; allowed: a mapping")
    for key in value:
        if key not in required | optional:
            allowed = ", ".join(sorted(required | optional))
            raise RecipeError(f"{place}: unknown key {key!r}; allowed: {allowed}")
    for key in sorted(required):
        if key not in value:
            raise RecipeError(f"{place}: lacks {key!r}; allowed: {', '.join(sorted(required))}")
    return value


def _read(file: Path) -> list[RuleRecipe]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        raise RecipeError(f"{file}: cannot be read: {' '.join(str(e).split())}") from e
    top = _keys(document, str(file), {"suite", "source", "twin", "rules", "recipes"}, set())
    twin = _keys(top["twin"], f"{file}: twin", {"device", "factor"}, set())
    return [_recipe(raw, top, Twin(**twin), file) for raw in top["recipes"]]


def _recipe(raw: Any, top: dict[str, Any], twin: Twin, file: Path) -> RuleRecipe:
    place = f"{file}: {raw.get('name', 'a recipe') if isinstance(raw, dict) else 'a recipe'}"
    raw = _keys(raw, place, {"name", "title", "nodes", "ranks_per_node", "launches"}, {"notes"})
    _count(raw["nodes"], f"{place}: nodes", NODES)
    _count(raw["ranks_per_node"], f"{place}: ranks_per_node", ("cores",))
    launches = tuple(_launch(x, f"{place}: launch {i}") for i, x in enumerate(raw["launches"], 1))
    return RuleRecipe(top["suite"], raw["name"], raw["title"], raw["nodes"], raw["ranks_per_node"], launches,
                      twin, top["source"], file.name, top["rules"], tuple(raw.get("notes", ())))  # fmt: skip


def _count(value: Any, place: str, words: tuple[str, ...]) -> None:
    if value not in words and not (type(value) is int and value > 0):
        raise RecipeError(f"{place}: {value!r}; allowed: a whole number above 0, {', '.join(words)}")


def _launch(raw: Any, place: str) -> Launch:
    raw = _keys(raw, place, {"line", "measures"}, {"then"})
    for text in (raw["line"], raw.get("then", "")):
        for name in _FIELD.findall(text):
            if name not in FIELDS:
                raise RecipeError(f"{place}: {{{name}}}; allowed: {', '.join(f'{{{f}}}' for f in FIELDS)}")
    if raw["line"].split()[:1] not in [[p] for p in PROGRAMS]:
        raise RecipeError(f"{place}: line: {raw['line']!r} runs none of {', '.join(PROGRAMS)}")
    if not isinstance(raw["measures"], dict) or not raw["measures"]:
        raise RecipeError(f"{place}: measures: {raw['measures']!r}; allowed: a mapping of metrics")
    return Launch(raw["line"], raw["measures"], raw.get("then"))
