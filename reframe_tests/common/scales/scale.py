"""How much of a recipe is run: nodes, ranks, bytes and seconds, and nothing else of its command lines.

`configs/scales/README.md` says what a scale may hold. `sizes` turns a recipe's published arguments into those
of a scale and lists in words what the scale drops of the published run and its rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tierbench.base import strict_yaml
from tierbench.base.sizes import KIB, MIB
from tierbench.recipes.published import Launch, Recipe

from ..sites.tiers import ScaleError, parse_bytes, scale_file

# With a deadline the data is this many times what a node's share moves until then: no rank reaches its end.
HEADROOM = 3
METADATA_OPERATIONS = 1_000_000  # of a rank; what the program makes when it is told nothing


@dataclass(frozen=True)
class Scale:
    """Of a scale file what concerns the acceptance recipes; None: as published."""

    name: str
    nodes: int | None
    ranks_per_node: int | None
    bytes: float | None  # seconds of the published share, or times the memory
    of_memory: bool
    seconds: Fraction | None


@dataclass(frozen=True)
class Sizes:
    """A recipe at a scale: arguments of each launch, bytes of the file or part of a rank."""

    nodes: int
    ranks: int
    ranks_per_node: int
    arguments: tuple[tuple[str, ...], ...]
    bytes_per_rank: int
    operations: int | None
    dropped: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all ranks."""
        return self.ranks * self.bytes_per_rank


def acceptance_scale(name: str) -> Scale:
    """The part for acceptance of configs/scales/NAME.yaml."""
    return read_acceptance(scale_file(name))


_KEYS = {
    "nodes": (r"[1-9]\d*", "published or a whole number above 0"),
    "ranks_per_node": (r"[1-9]\d*", "published or a whole number above 0"),
    "bytes": (r"(\d+(?:\.\d+)?) (s|memory)", "published, a number and s, or a number and memory"),
    "seconds": (r"[1-9]\d*/[1-9]\d*", "published or a fraction such as 1/45"),
}


def read_acceptance(file: Path) -> Scale:
    """The part for acceptance of a scale file."""
    given = strict_yaml.read_mapping(file, ScaleError).get("acceptance")
    if not isinstance(given, dict) or given.keys() != _KEYS.keys():
        raise ScaleError(f"{file}: acceptance: {given!r}; allowed: a mapping of {', '.join(_KEYS)}")
    words: dict[str, Any] = {}
    for key, (pattern, allowed) in _KEYS.items():
        match = re.fullmatch(pattern, str(given[key]))
        if given[key] != "published" and not match:
            raise ScaleError(f"{file}: acceptance: {key}: {given[key]!r}; allowed: {allowed}")
        words[key] = match
    amount = words["bytes"]
    return Scale(
        file.stem,
        int(words["nodes"][0]) if words["nodes"] else None,
        int(words["ranks_per_node"][0]) if words["ranks_per_node"] else None,
        float(amount[1]) if amount else None,
        bool(amount) and amount[2] == "memory",
        Fraction(words["seconds"][0]) if words["seconds"] else None,
    )


# --- arguments of IOR --------------------------------------------------------------------------------------


def value_of(arguments: Sequence[str], option: str) -> str | None:
    """The value of an option, or None."""
    return arguments[arguments.index(option) + 1] if option in arguments[:-1] else None


def with_value(arguments: Sequence[str], option: str, value: str) -> tuple[str, ...]:
    """The arguments with another value of an option that they have."""
    at = arguments.index(option) + 1
    return (*arguments[:at], value, *arguments[at + 1 :])


def size_of(arguments: Sequence[str], option: str) -> int:
    """Bytes of `-t` or `-b`."""
    return parse_bytes(value_of(arguments, option) or "")


def segments_of(arguments: Sequence[str]) -> int:
    """The segment count, 1 where it isn't given."""
    return int(value_of(arguments, "-s") or 1)


def _size_text(size: int) -> str:
    for unit, letter in ((MIB, "m"), (KIB, "k")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


# --- sizes -------------------------------------------------------------------------------------------------


def sizes(recipe: Recipe, scale: Scale, factor: int, memory_bytes: int) -> Sizes:
    """The recipe at that scale, on a twin slowed by `factor` (else 1), on nodes with that much memory."""
    nodes = min(scale.nodes or recipe.nodes, recipe.nodes)
    per_node = min(scale.ranks_per_node or recipe.ranks_per_node, recipe.ranks_per_node)
    whole = (nodes, per_node) == (recipe.nodes, recipe.ranks_per_node)
    ranks = recipe.ranks if whole else nodes * per_node
    if recipe.launches[0].program_name == "metadata":
        made = _metadata(recipe, scale, factor)
        arguments = tuple((*launch.arguments, *made[1]) for launch in recipe.launches)
        return Sizes(
            nodes,
            ranks,
            per_node,
            arguments,
            0,
            made[0],
            _dropped(recipe, nodes, per_node, arguments, made[0]),
        )
    timed = tuple(_timed(launch, scale) for launch in recipe.launches)
    arguments = tuple(_sized(recipe, scale, timed, factor, memory_bytes, nodes / ranks))
    per_rank = size_of(arguments[0], "-b") * segments_of(arguments[0])
    dropped = _dropped(recipe, nodes, per_node, arguments, None)
    return Sizes(nodes, ranks, per_node, arguments, per_rank, None, dropped)


def _timed(launch: Launch, scale: Scale) -> tuple[str, ...]:
    deadline = value_of(launch.arguments, "-D")
    if deadline is None or scale.seconds is None:
        return launch.arguments
    return with_value(launch.arguments, "-D", str(max(1, round(int(deadline) * scale.seconds))))


def _share_bytes_s(recipe: Recipe) -> float:
    """Bytes a second that a node moves in the slowest of what is measured."""
    return min(
        n.per_node * (MIB if n.metric == "bandwidth" else size_of(launch.arguments, "-t"))
        for launch in recipe.launches
        for n in map(recipe.number, launch.measures)
    )


def _sized(
    recipe: Recipe,
    scale: Scale,
    timed: tuple[tuple[str, ...], ...],
    factor: int,
    memory_bytes: int,
    nodes_per_rank: float,
) -> list[tuple[str, ...]]:
    if scale.bytes is None:
        return list(timed)
    first = timed[0]
    block, segments = size_of(first, "-b"), segments_of(first)
    if scale.of_memory:
        wanted = max(block * segments, scale.bytes * memory_bytes * nodes_per_rank)
    else:
        deadlines = [
            int(value_of(a, "-D") or 0) for a, x in zip(timed, recipe.launches, strict=True) if x.measures
        ]
        seconds = HEADROOM * max(deadlines) if any(deadlines) else scale.bytes
        wanted = seconds * _share_bytes_s(recipe) / factor * nodes_per_rank
    whole = max(size_of(a, "-t") for a in timed)
    if any("-D" in a for a in timed):
        wanted += 2 * whole  # what begins before the deadline ends after it
    if segments > 1:
        return [with_value(a, "-s", str(max(1, math.ceil(wanted / block)))) for a in timed]
    return [with_value(a, "-b", _size_text(max(1, math.ceil(wanted / whole)) * whole)) for a in timed]


def _metadata(recipe: Recipe, scale: Scale, factor: int) -> tuple[int, tuple[str, ...]]:
    """Operations of a rank, and the argument that says so where it isn't the published number."""
    if scale.bytes is None or scale.of_memory:
        return METADATA_OPERATIONS, ()
    seconds = recipe.numbers[0].value
    count = max(1, round(METADATA_OPERATIONS * scale.bytes / seconds / factor))
    return count, (str(count),)


def _dropped(
    recipe: Recipe,
    nodes: int,
    per_node: int,
    arguments: tuple[tuple[str, ...], ...],
    operations: int | None,
) -> tuple[str, ...]:
    told = []
    if nodes != recipe.nodes:
        share = recipe.rules.get("nodes_percent")
        told.append(f"nodes: {nodes} of {recipe.nodes}" + (f" ({share} % of the machine's)" if share else ""))
        if any("-C" in a for a in arguments) and nodes == 1:
            told.append("rank shift (-C): stays on the node")
    if per_node != recipe.ranks_per_node:
        told.append(f"processes a node: {per_node} of {recipe.ranks_per_node}")
    if operations not in (None, METADATA_OPERATIONS):
        told.append(f"operations a rank: {operations} of {METADATA_OPERATIONS}")
    for launch, now in zip(recipe.launches, arguments, strict=True):
        told += [line for line in _changes(launch, now) if line not in told]
    return tuple(told)


def _changes(launch: Launch, now: tuple[str, ...]) -> list[str]:
    told = []
    if value_of(now, "-b"):
        before, after = (size_of(a, "-b") * segments_of(a) for a in (launch.arguments, now))
        if before != after:
            told.append(f"bytes a rank: {after / MIB:.6g} of {before / MIB:.6g} MiB")
    before_s, after_s = value_of(launch.arguments, "-D"), value_of(now, "-D")
    if before_s != after_s:
        kind = "sustained" if launch.measures else "generated for"
        told.append(f"{kind}: {after_s} of {before_s} s")
    return told
