"""What a published number is here: the share of the nodes that run, slowed by the twin's factor."""

from __future__ import annotations

from dataclasses import dataclass

from tierbench.base.sizes import MIB
from tierbench.recipes.published import Recipe

from ..sites.site import Site
from ..sites.twin import read_limit
from .scale import Sizes


@dataclass(frozen=True)
class Shares:
    """The published numbers of a recipe as a run of these sizes would show them."""

    recipe: Recipe
    sizes: Sizes
    factor: int

    def of(self, access: str) -> float:
        """The number, in its unit."""
        n = self.recipe.number(access)
        if n.metric == "time":
            return n.value * (self.sizes.operations or 1) / 1_000_000 * self.factor
        return n.per_node * self.sizes.nodes / self.factor

    def bytes_s(self, access: str, transfer: int) -> float:
        """The number as bytes a second, of a bandwidth or of transfers a second."""
        return self.of(access) * (MIB if self.recipe.number(access).metric == "bandwidth" else transfer)

    def source(self, access: str) -> str:
        """Where it was published, and what is taken of it."""
        n = self.recipe.number(access)
        whole = self.sizes.nodes == self.recipe.nodes and not self.sizes.dropped
        told = f"{n.text} {n.unit} of {n.nodes} nodes ({n.source})"
        return told if whole else f"{told}, {self._words()}"

    def _words(self) -> str:
        nodes = "a node's share" if self.sizes.nodes == 1 else f"the share of {self.sizes.nodes} nodes"
        return nodes + (f", slowed by {self.factor}" if self.factor > 1 else "")

    def read_limit(self, site: Site, transfer: int, metric: str) -> float | None:
        """What the twin, or a node of the site as its extras say, reads at most, in the metric's unit."""
        limit = site.read_limit_mib_s and site.read_limit_mib_s * MIB
        if site.modelled:
            limit = read_limit(self.recipe, transfer)
        return limit and limit / (transfer if metric == "iops" else MIB) / self.factor * self.sizes.nodes
