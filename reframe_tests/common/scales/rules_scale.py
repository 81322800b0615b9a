"""How much of a recipe of rules is run: nodes, ranks, files and seconds, and nothing else of its lines."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tierbench.recipes.rules import RuleRecipe

from ..sites.tiers import ScaleError
from ..sites.twin import device
from .scale import Scale

LEAST_RECORDS, MOST_RECORDS = 1024, 1 << 20

_TIME = re.compile(r"([\d.]+)(ns|us|ms|s)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class RuleSizes:
    """A recipe at a scale; `files` and `seconds` are None where its lines have no such field."""

    nodes: int
    ranks_per_node: int
    files: int | None
    seconds: int | None
    dropped: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.nodes * self.ranks_per_node


def metadata_seconds(recipe: RuleRecipe) -> tuple[float, float]:
    """What a creating open and any other operation on a name take of the twin's metadata server, before K."""
    model = device(recipe.twin.device)
    found = [_TIME.fullmatch(str(model[key])) for key in ("open_time", "metadata_time")]
    open_s, other_s = (float(m[1]) * _SECONDS[m[2]] for m in found if m)
    return open_s, other_s


def twin_rates(recipe: RuleRecipe, factor: int, nodes: int) -> tuple[float, float]:
    """Creating opens and other operations a second of so many nodes' twins, slowed down `factor` times."""
    create, other = (nodes / (seconds * factor) for seconds in metadata_seconds(recipe))
    return create, other


def records_for(files: int) -> int:
    """Of how many files a configuration keeps records: of those at a time and of the phase before."""
    return min(MOST_RECORDS, max(LEAST_RECORDS, 2 * files))


def rule_sizes(
    recipe: RuleRecipe,
    scale: Scale,
    factor: int,
    cores: int,
    site_nodes: int | None,
    *,
    nodes: int = 0,
    ranks_per_node: int = 0,
) -> RuleSizes:
    """The recipe on nodes with so many cores; `nodes` and `ranks_per_node` other than 0 are a search's."""
    wanted = _nodes(recipe, scale, site_nodes, nodes)
    used = min(wanted, scale.nodes or wanted)
    per_node = _per_node(recipe, scale, cores, ranks_per_node)
    text = " ".join(launch.line for launch in recipe.launches)
    files, told = None, []
    if used != wanted or (recipe.nodes == "all" and site_nodes is None):
        told.append(f"nodes: {used} of {wanted if site_nodes else 'all'}")
    if "{files}" in text:
        least = int(recipe.rules["files"])
        files = _files(recipe, scale, factor, least, used, per_node)
        if files * used * per_node < least:
            told.append(f"files: {files * used * per_node} of at least {least}")
    seconds = None
    if "{seconds}" in text:
        whole = int(recipe.rules["stonewall_s"])
        seconds = max(1, round(whole * scale.seconds)) if scale.seconds else whole
        if seconds != whole:
            told.append(f"stonewall: {seconds} of {whole} s")
    return RuleSizes(used, per_node, files, seconds, tuple(told))


def _nodes(recipe: RuleRecipe, scale: Scale, site_nodes: int | None, searched: int) -> int:
    if searched:
        return searched
    if recipe.nodes == "sweep":
        return 2
    if recipe.nodes == "all":
        if site_nodes is None and scale.nodes is None:
            raise ScaleError(
                f"{recipe.name} at scale {scale.name} needs the site's extras to say how many"
                " nodes there are (nodes)"
            )
        return site_nodes or scale.nodes or 1
    return int(recipe.nodes)


def _per_node(recipe: RuleRecipe, scale: Scale, cores: int, searched: int) -> int:
    if searched:
        return searched
    if recipe.ranks_per_node == "cores":
        return scale.ranks_per_node or cores
    return min(int(recipe.ranks_per_node), scale.ranks_per_node or int(recipe.ranks_per_node))


def _files(recipe: RuleRecipe, scale: Scale, factor: int, least: int, nodes: int, per_node: int) -> int:
    """Of a rank: the rules' number, or what a node's twin does in the scale's seconds."""
    if scale.bytes is None or scale.of_memory:
        return math.ceil(least / nodes / per_node)
    of_node = scale.bytes / max(metadata_seconds(recipe)) / factor
    return max(1, math.ceil(min(of_node, least / nodes) / per_node))
