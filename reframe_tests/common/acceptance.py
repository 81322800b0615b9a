"""A published acceptance run as a ReFrame test: a recipe, at a scale, on a tier configuration.

On the recipe's own site (`extras: {"published": True}`) the job script holds the published command lines,
their conditions and directives to the letter. Elsewhere the lines keep their flags and get the scale's sizes,
the site's launcher and a file on its PFS; a site without one (`"tiers": "modelled"`) is the recipe's twin.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reframe.core.builtins import variable
from reframe.core.exceptions import PipelineError

from tierbench.recipes.published import Recipe
from tierbench.runs.case import Case

from .base import refuse, refuse_unknown
from .jobs.ior import needed_program
from .jobs.launches import Launches
from .jobs.script import Script
from .outcome.launch_numbers import outputs_of
from .outcome.results import Results
from .outcome.rundir import run_dir
from .recipe_case import RecipeTest, recipes_of
from .scales.medium import media_of, too_slow
from .scales.scale import size_of, sizes, value_of
from .scales.shares import Shares
from .sites.capacity_checks import hog_bytes, short_of_disk, short_of_memory
from .sites.nodes import shows_others
from .sites.places import Places
from .sites.plan import LEAST_CONFIG_BYTES, Plan
from .sites.site import Site
from .sites.tiers import ScaleError


class Acceptance(RecipeTest):
    """Base of the tests of a system; a subclass says of which (`system`) and its parameter `recipe`."""

    #: What IOR's -M occupies, as 80% or 2g.
    memory_hog = variable(str, value="", loggable=True)

    system: str
    recipe: str

    def check_input(self) -> None:
        """The recipe, the scale and the hog."""
        known = recipes_of(self.system)
        refuse_unknown("recipe", self.recipe, known)
        self.refuse_unknown_scale()
        try:
            self.hogged = hog_bytes(self.memory_hog)
        except ScaleError as e:
            refuse(str(e))
        self.published_run: Recipe = known[self.recipe]
        self.tags = {"acceptance", self.system}
        self.descr = self.published_run.title

    def make_plan(self, site: Site) -> Plan:
        """Nodes, ranks and bytes of this site and scale."""
        elsewhere = site.published and self.system != site.name
        self.skip_if(elsewhere, f"{self.recipe} is another system's: {self.system}")
        recipe = self.published_run
        scale = self.scale_at(site)
        factor = self.factor_at(site, recipe)
        found = self.sizes = sizes(recipe, scale, factor, max(0, site.memory - self.hogged))
        self.shares = Shares(recipe, found, factor)
        return self.recipe_plan(
            recipe,
            site,
            scale,
            found,
            to_the_letter=site.published,
            config_bytes=max(LEAST_CONFIG_BYTES, found.total_bytes // found.nodes),
            place_bytes=(1 if self.tiers == "pfs" else 4) * found.total_bytes + self.hogged,
            close_to_open=any(map(shows_others, found.arguments)),
            time_limit=f"{recipe.minutes}m",
        )

    # --- the job ---------------------------------------------------------------------------------------

    def find_programs(self) -> None:
        """The site's own program, or ours; at home a dry run takes the published name."""
        build = not (self.site.published and self.is_dry_run())
        program = self.published_run.launches[0]
        otherwise = program.program if self.is_dry_run() else None
        self.program = needed_program(program.program_name, build=build, otherwise=otherwise)

    def check_room(self, places: Places) -> None:
        """Memory for the hog and the memory tier, disk for the data."""
        if not places.pfs:
            return
        total = self.sizes.total_bytes
        needs = {
            "memory_hog": self.hogged,
            "memory tier": self.plan.config_bytes if "ram" in self.tiers else 0,
        }
        lacks = short_of_memory(needs, self.site.memory) or short_of_disk(places.pfs, total)
        if lacks:
            raise PipelineError(f"{self.tiers}: {self.recipe} at scale {self.plan.scale} {lacks}")

    def measure_medium(self, places: Places) -> dict[str, float]:
        """A twin is right only where the medium does twice the share."""
        assert places.pfs
        recipe, record = self.published_run, run_dir() / "medium.json"
        media = media_of(recipe, self.sizes, places.pfs, record)
        shares = {access: self.shares.of(access) for access in media}
        lacks = too_slow(recipe, media, shares, self.plan.factor)
        if lacks:
            raise PipelineError(f"{self.recipe}: {lacks}, or a faster place than {places.pfs.parent.parent}")
        return media

    def write_script(self, script: Script) -> None:
        """Conditions, launches, checks."""
        recipe, pfs = self.published_run, self.places.pfs
        given = value_of(recipe.launches[0].arguments, "-o")
        file = str(pfs / (Path(given).name if given else self.recipe)) if pfs else given
        self.launches = Launches(
            recipe, self.sizes, script, self.program, file, self.shares, self.memory_hog, self.trace
        )
        self.launches.set_launcher(pfs)
        self.env_vars |= self.launches.hints(Path(self.stagedir))
        if script.plan.to_the_letter:
            self.job.options += [*recipe.directives]
        conditions, afterwards = self.launches.conditions(pfs)
        before, after = self.launches.lines()
        place = pfs or Path(file or ".").parent
        full = [f"df -P -k {place} > df.txt || true", f"df -P -i {place} >> df.txt || true"]
        self.prerun_cmds = [*conditions, *full, *script.plan_lines(pfs), *before]
        self.executable, self.executable_opts = self.program, [*self.launches.arguments[self.launches.main]]
        self.postrun_cmds = [*after, *afterwards]

    # --- results ---------------------------------------------------------------------------------------

    def case_names(self) -> dict[str, str]:
        """One of each access that is measured."""
        accesses = [access for launch in self.published_run.launches for access in launch.measures]
        return {access: f"{self.recipe}-{access}_{self.tiers}" for access in accesses}

    def make_cases(self, results: Results) -> dict[str, Case]:
        """From what the launches printed."""
        outputs = outputs_of((results.stage / str(self.stdout)).read_text(errors="replace"))
        numbers = {a: self.launches.measured(a, outputs, results.stage) for a in self.case_names()}
        also = {
            "verified": self.launches.verified(outputs),
            **self.launches.held(outputs, results.stage).record(),
        }
        return {a: Case(**self._record(a, results), **n, **also) for a, n in numbers.items()}

    def _record(self, access: str, results: Results) -> dict[str, Any]:
        recipe, number = self.published_run, self.launches.launch_of(access)
        published, arguments = recipe.number(access), self.launches.arguments[number]
        share = self.shares.of(access)
        right = share if self.plan.judged and self.tiers == "pfs" else None
        conditions = [] if self.site.published else [*recipe.directives, *recipe.before]
        transfer = size_of(arguments, "-t") if access == "read" else 0
        return results.common(access, f"stats-{number + 1}.json") | {
            "test": f"{self.recipe}-{access}",
            "system": self.system,
            "metric": published.metric,
            "unit": published.unit,
            "direction": published.direction,
            "command": " ".join([Path(self.program).name, *arguments]),
            "bytes": self.sizes.total_bytes,
            "published": share,
            "published_source": self.shares.source(access),
            "requirement": right,
            "expected": right,
            "dropped": (
                *self.plan.dropped,
                *self.launches.unspelled,
                *(f"condition: {c}" for c in conditions),
            ),
            "read_limit": self.shares.read_limit(self.site, transfer, published.metric) if transfer else None,
            "medium": self.media.get(access),
        }

    def problems(self) -> list[str]:
        """Read faster than the deadline allows, the data came from elsewhere."""
        reached = any(case.sustained is False for case in self.cases.values())
        return ["a rank reached its data's end"] if reached else []
