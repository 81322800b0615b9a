"""The acceptance recipes: what was run on which machine, by which rules, and what came out.

A recipe is data. `configs/recipes/SYSTEM.yaml` holds command lines to the letter with the conditions before
a run and the rules; `results/published/` holds the numbers. `read_recipes` joins the two, refuses what
contradicts the schema or what only one of them has (`RecipeError`: file, place, value, what is allowed), and
knows nothing of how a recipe is run. Like `tierbench.outputs`, the suite may import it.
"""

from __future__ import annotations

import ast
import csv
import operator
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tierbench.base import schema, strict_yaml
from tierbench.base.errors import RecipeError
from tierbench.base.text import shown

# In the package: a wheel holds copies, in a checkout they are links to configs/recipes and results/published.
RECIPE_FOLDER, PUBLISHED_FOLDER = (
    Path(__file__).parent.joinpath("data", name).resolve() for name in ("recipes", "published")
)
ACCESSES = ("write", "read", "metadata")
UNITS = {"bandwidth": "MiB/s", "iops": "op/s", "time": "s"}
PROGRAM = re.compile(r"(?:\S*/)?(?P<name>ior|mdtest|metadata|io500)$", re.IGNORECASE)


@dataclass(frozen=True)
class Number:
    """A published result; `text` has its digits as published, for all nodes together."""

    access: str
    metric: str
    text: str
    unit: str
    nodes: int
    ranks: int
    source: str

    @property
    def value(self) -> float:
        """The number."""
        return float(self.text)

    @property
    def direction(self) -> str:
        """Whether higher or lower is better."""
        return "lower" if self.metric == "time" else "higher"

    @property
    def per_node(self) -> float:
        """A node's share; a time is the same for all nodes."""
        return self.value if self.metric == "time" else self.value / self.nodes


@dataclass(frozen=True)
class Launch:
    """One launch of a program; without `measures` it only generates a dataset.

    `line` is the published one; where the source describes it instead, `derived` has its words.
    """

    line: str
    measures: tuple[str, ...]
    derived: str | None = None

    @cached_property
    def _words(self) -> list[str]:
        """The line's words, quotes and `$` as they are, arithmetic computed as a shell does."""
        return shlex.split(_computed(self.line), posix=False)

    @cached_property
    def _place(self) -> int:
        return next(i for i, word in enumerate(self._words) if PROGRAM.match(word))

    @property
    def launcher(self) -> tuple[str, ...]:
        """The words before the program; empty where the source leaves the launcher out."""
        return tuple(self._words[: self._place])

    @property
    def program(self) -> str:
        """The program as published, e.g. `./ior`."""
        return self._words[self._place]

    @property
    def program_name(self) -> str:
        """Which program it is: ior, mdtest, metadata or io500."""
        match = PROGRAM.match(self.program)
        assert match
        return match["name"].lower()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the program."""
        return tuple(self._words[self._place + 1 :])


@dataclass(frozen=True)
class Contradiction:
    """What a source states and what follows from the rest of it; `used` is what is run."""

    what: str
    stated: str
    computed: str
    used: str
    why: str


@dataclass(frozen=True)
class Twin:
    """The device model of a node's share (`configs/devices/`), slowed down by `factor`."""

    device: str
    factor: int


@dataclass(frozen=True)
class Recipe:
    """One published run."""

    system: str
    name: str
    title: str
    nodes: int
    ranks_per_node: int
    ranks: int
    launcher: str
    launches: tuple[Launch, ...]
    twin: Twin
    source: str
    file: str
    numbers: tuple[Number, ...] = ()
    sets_per_node: int = 1
    minutes: int = 60
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    hints: dict[str, str] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    contradictions: tuple[Contradiction, ...] = ()
    notes: tuple[str, ...] = ()

    def number(self, access: str) -> Number:
        """The published result of one access."""
        return next(n for n in self.numbers if n.access == access)


def read_recipes(recipes: Path | None = None, published: Path | None = None) -> list[Recipe]:
    """All recipes of a folder with their published numbers, in the order of the files and within them."""
    folder = recipes or RECIPE_FOLDER
    results = published or PUBLISHED_FOLDER
    if not folder.is_dir():
        raise RecipeError(f"{folder}: is not a folder of recipes")
    found = [recipe for file in sorted(folder.glob("*.yaml")) for recipe in _read_file(file, results)]
    if not found:
        raise RecipeError(f"{folder}: holds no recipe (no *.yaml)")
    return found


def as_json(recipe: Recipe) -> dict[str, Any]:
    """A recipe for scripts; published numbers as the text that was published and as numbers."""
    made = asdict(recipe)
    made["numbers"] = [{**asdict(n), "value": n.value, "per_node": n.per_node} for n in recipe.numbers]
    return made


# --- reading -----------------------------------------------------------------------------------------------


def read_document(file: Path, schema_name: str) -> dict[str, Any]:
    """A file of recipes that is as its schema asks."""
    document = strict_yaml.read(file, RecipeError)
    if told := schema.misfit(document, schema_name):
        raise RecipeError(f"{file}: {shown(told)}")
    found: dict[str, Any] = document
    return found


def refuse_twice(names: Sequence[str], place: Path) -> None:
    """A recipe has one name, and a name one recipe."""
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"{place}: recipe {name!r} is there twice; allowed: once")


def _read_file(file: Path, results: Path) -> list[Recipe]:
    top = read_document(file, "recipe")
    numbers = read_published(results / f"{file.stem}.csv")
    recipes = [_recipe(raw, top, file, numbers) for raw in top["recipes"]]
    names = [r.name for r in recipes]
    refuse_twice(names, file)
    for test in numbers:
        if test not in names:
            raise RecipeError(
                f"{results / file.stem}.csv: test {test!r} has no recipe; allowed: {', '.join(names)}"
            )
    return recipes


def _recipe(raw: dict[str, Any], top: dict[str, Any], file: Path, numbers: dict[str, list[Number]]) -> Recipe:
    place = f"{file}: recipes[{raw['name']}]"
    launches = tuple(_launch(x, f"{place}.launches[{i}]") for i, x in enumerate(raw["launches"]))
    told = tuple(Contradiction(**{k: str(v) for k, v in x.items()}) for x in raw.get("contradictions", []))
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    fields |= {name: top[name] for name in ("system", "source", "launcher")}
    fields |= {"twin": Twin(**raw["twin"]), "launches": launches, "contradictions": told, "file": file.name}
    fields |= {"ranks": raw.get("ranks", raw["nodes"] * raw["ranks_per_node"])}
    recipe = Recipe(**fields, numbers=tuple(numbers.get(raw["name"], ())))
    _check_numbers(recipe, place)
    return recipe


def _launch(raw: dict[str, Any], place: str) -> Launch:
    made = Launch(raw["line"], tuple(raw["measures"]), raw.get("derived"))
    try:
        words = shlex.split(_computed(raw["line"]), posix=False)
    except (ValueError, SyntaxError, KeyError) as e:
        raise RecipeError(f"{place}.line: {raw['line']!r}: {e}; allowed: a command line") from e
    if not any(PROGRAM.match(word) for word in words):
        raise RecipeError(
            f"{place}.line: {raw['line']!r} runs no program; allowed: ior, mdtest, metadata, io500"
        )
    return made


def _check_numbers(recipe: Recipe, place: str) -> None:
    """Every measured access was published once, with the recipe's nodes and ranks."""
    measured = sorted(a for launch in recipe.launches for a in launch.measures)
    told = sorted(n.access for n in recipe.numbers)
    if measured != told:
        raise RecipeError(f"{place}: measures {measured}, published are {told}; allowed: the same, each once")
    for n in recipe.numbers:
        if (n.nodes, n.ranks) != (recipe.nodes, recipe.ranks):
            raise RecipeError(
                f"{place}: {recipe.nodes} nodes, {recipe.ranks} ranks; published with {n.nodes} and {n.ranks}"
            )


_COLUMNS = ("system", "test", "access", "metric", "value", "unit", "nodes", "ranks", "source")


def read_published(file: Path) -> dict[str, list[Number]]:
    """The published numbers of a file, by test."""
    try:
        with file.open(newline="", encoding="utf-8") as text:
            lines = list(csv.DictReader(text))
    except (OSError, UnicodeDecodeError) as e:
        raise RecipeError(f"{file}: cannot be read: {e}") from e
    found: dict[str, list[Number]] = {}
    for number, line in enumerate(lines, 2):
        found.setdefault(line.get("test") or "", []).append(_published(line, f"{file}:{number}"))
    return found


def _published(line: dict[str, str], place: str) -> Number:
    for column in _COLUMNS:
        if not line.get(column):
            raise RecipeError(f"{place}: lacks {column!r}; allowed: {', '.join(_COLUMNS)}")
    if UNITS.get(line["metric"]) != line["unit"]:
        units = ", ".join(f"{m} in {u}" for m, u in UNITS.items())
        raise RecipeError(f"{place}: metric {line['metric']!r} in {line['unit']!r}; allowed: {units}")
    if line["access"] not in ACCESSES:
        raise RecipeError(f"{place}: access: {line['access']!r}; allowed: {', '.join(ACCESSES)}")
    for column, pattern in (("value", r"\d+\.\d+"), ("nodes", r"[1-9]\d*"), ("ranks", r"[1-9]\d*")):
        if not re.fullmatch(pattern, line[column]):
            raise RecipeError(f"{place}: {column}: {line[column]!r}; allowed: a number above 0")
    return Number(
        line["access"],
        line["metric"],
        line["value"],
        line["unit"],
        int(line["nodes"]),
        int(line["ranks"]),
        line["source"],
    )


# --- shell arithmetic --------------------------------------------------------------------------------------

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,  # a shell knows whole numbers only
}


def _computed(line: str) -> str:
    """The line with its `$((...))` computed."""
    return re.sub(r"\$\(\((.*?)\)\)(?!\))", lambda m: str(_value(ast.parse(m[1], mode="eval").body)), line)


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("arithmetic of whole numbers only")
