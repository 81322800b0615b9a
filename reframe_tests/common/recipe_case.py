"""The base of tests that are a recipe at a scale: on the site's own tiers, or on the recipe's twin."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from reframe.core.builtins import variable

from tierbench.base.errors import RecipeError
from tierbench.recipes.published import Recipe, read_recipes
from tierbench.recipes.rules import RuleRecipe, read_rules

from .base import TierTest, refuse, refuse_unknown
from .scales.rules_scale import RuleSizes
from .scales.scale import Scale, Sizes, acceptance_scale
from .sites.nodes import NODES
from .sites.plan import Plan
from .sites.site import Site
from .sites.tiers import ScaleError

_Read = TypeVar("_Read")


@functools.cache
def _all(read: Callable[[], list[_Read]]) -> list[_Read]:
    try:
        return read()
    except RecipeError as e:
        refuse(str(e))


def recipes_of(system: str) -> dict[str, Recipe]:
    """The published recipes of a system by name."""
    return {r.name: r for r in _all(read_recipes) if r.system == system}


def share_of_a_node(system: str, recipe: str) -> dict[str, float]:
    """A node's published MiB/s, by access."""
    return {n.access: n.per_node for n in recipes_of(system)[recipe].numbers}


def rules_of(suite: str) -> dict[str, RuleRecipe]:
    """The recipes of a suite of rules by name."""
    return {r.name: r for r in _all(read_rules) if r.suite == suite}


class RecipeTest(TierTest):
    """A subclass has a parameter `recipe`."""

    #: A file of configs/scales; `site`: the site's.
    scale = variable(str, value="site", loggable=True)
    #: K instead of the recipe's; 0: the recipe's.
    twin_factor = variable(int, value=0, loggable=True)
    #: What nodes see of each other: `several` (by the PFS), `shared` (each other's tiers), or the site's.
    nodes_see = variable(str, value="site", loggable=True)

    def refuse_unknown_scale(self) -> None:
        """A scale that there is none of, or that is wrong; and how nodes see each other."""
        refuse_unknown("nodes_see", self.nodes_see, ("site", *NODES))
        try:
            if self.scale != "site":
                acceptance_scale(self.scale)
        except ScaleError as e:
            refuse(str(e))

    def scale_at(self, site: Site) -> Scale:
        """The scale that was asked for, else the site's."""
        return acceptance_scale(self.scale if self.scale != "site" else site.scale)

    def nodes_see_at(self, site: Site) -> str:
        """What nodes see of each other, of the two that there are."""
        asked = site.nodes_see if self.nodes_see == "site" else self.nodes_see
        refuse_unknown("nodes_see", asked, NODES)
        return asked

    def factor_at(self, site: Site, recipe: Recipe | RuleRecipe) -> int:
        """K: 1 where nothing is modelled."""
        return (self.twin_factor or recipe.twin.factor) if site.modelled else 1

    def recipe_plan(
        self, recipe: Recipe | RuleRecipe, site: Site, scale: Scale, sizes: Sizes | RuleSizes, **more: Any
    ) -> Plan:
        """The plan of a recipe of these sizes; `more`: what is a kind of recipe's own."""
        return Plan(
            name=recipe.name,
            tiers=self.tiers,
            policy=self.policy,
            mode="bypass" if self.tiers == "pfs" else "persistent-async",
            ranks=sizes.ranks,
            nodes=sizes.nodes,
            nodes_see=self.nodes_see_at(site),
            ranks_per_node=min(sizes.ranks_per_node, sizes.ranks),
            scale=scale.name,
            factor=self.factor_at(site, recipe),
            dropped=sizes.dropped,
            managed=site.modelled or self.tiers != "pfs" or (sizes.nodes == 1 and not site.published),
            judged=site.modelled and site.measures,
            device=recipe.twin.device if site.modelled else None,
            **more,
        )
