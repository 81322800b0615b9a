"""What a site's `extras` require of its tests (`require`), held against what the suite can measure."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from tierbench.base.errors import RecipeError, RunError
from tierbench.judge import io500, requirement
from tierbench.judge.requirement import Measured
from tierbench.recipes.published import read_recipes
from tierbench.recipes.rules import RuleRecipe, read_rules
from tierbench.runs.case import Case

from .site import Site
from .tiers import ScaleError

_BANDWIDTH, _IO500_RATE = Measured("bandwidth", "GiB/s", "higher"), Measured("rate", "kIOPS", "higher")


@functools.cache
def known_tests() -> dict[str, list[Measured]]:
    """What each test of the suite measures."""
    of_webinar = [Measured("bandwidth", "MiB/s", "higher")]
    found = dict.fromkeys(("webinar-write", "webinar-write-Y"), of_webinar)
    for recipe in read_recipes():
        for n in recipe.numbers:
            found[f"{recipe.name}-{n.access}"] = [Measured(n.metric, n.unit, n.direction)]
    for rule in read_rules():
        found |= {f"{rule.name}-{name}": [measured] for name, measured in _of_rules(rule).items()}
    return found


def _of_rules(rule: RuleRecipe) -> dict[str, Measured]:
    if rule.suite != "io500":
        names = [name for launch in rule.launches for name in launch.measures]
        return dict.fromkeys(names, Measured("rate", "op/s", "higher"))
    phases = {
        name: _BANDWIDTH if group == io500.BANDWIDTH else _IO500_RATE for name, group in io500.PHASES.items()
    }
    score = Measured("rate", "score", "higher")
    return {**phases, "bandwidth": _BANDWIDTH, "metadata": _IO500_RATE, "score": score}


def check(require: Any) -> None:
    """`ScaleError` where a site requires what no test measures."""
    try:
        requirement.check(requirement.of_site(require), known_tests())
    except (RunError, RecipeError) as e:
        raise ScaleError(str(e)) from None


def required(site: Site, case: Case) -> Case:
    """The case with the site's requirement, where it has one of this test."""
    found = requirement.find(requirement.of_site(site.require), case.test, case.metric)
    return replace(case, requirement=found.limit, requirement_source=found.source) if found else case
