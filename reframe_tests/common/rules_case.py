"""A recipe of rules as a ReFrame test: launches one after the other, under one instance of the tiers.

The launches are in a script of their own, which `tierctl run` starts: what a launch wrote is buffered for
the next, and drained once, at the end. Each leaves its output, errors and exit status; one that fails does
not end the others, so that the result can say what all of them did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.exceptions import PipelineError

from tierbench.recipes.rules import RuleRecipe
from tierbench.runs.case import Case

from .base import refuse_unknown
from .jobs.ior import needed_program
from .jobs.limits import LEAST_OPERATIONS_S
from .jobs.rules_launches import write_launches
from .jobs.script import TIERCTL, Script
from .outcome.held_rules import held_rules
from .outcome.launch_numbers import outputs_of
from .outcome.results import Results
from .outcome.rundir import run_dir
from .recipe_case import RecipeTest, rules_of
from .scales.medium import in_a_second, too_slow_for
from .scales.rules_scale import RuleSizes, records_for, rule_sizes, twin_rates
from .sites.capacity_checks import short_of_disk
from .sites.places import Places
from .sites.plan import LEAST_CONFIG_BYTES, Plan
from .sites.site import Site


class RuleTest(RecipeTest):
    """Base of both suites; a subclass has a parameter `recipe` and says what its numbers are."""

    suite: str
    recipe: str

    @property
    def searched(self) -> dict[str, int]:
        """Nodes and processes a node that a search asks for; 0: as the recipe says."""
        return {}

    # --- what a suite says ----------------------------------------------------------------------------

    def bytes_per_node(self) -> int:
        """What capacities of tiers are scaled by: about what a node writes."""
        return LEAST_CONFIG_BYTES

    def files_per_node(self) -> int:
        """How many files there are at a time, about."""
        return (self.sizes.files or 0) * self.sizes.ranks_per_node

    def expected(self) -> dict[str, float]:
        """What the twin gives, where that is known, by metric and in its unit."""
        raise NotImplementedError

    def media_of(self, second: dict[str, float]) -> dict[str, float]:
        """The same of the medium below it, from what that does in a second: files, MiB written and read."""
        raise NotImplementedError

    def numbers(self, results: Results) -> dict[str, dict[str, Any]]:
        """What each metric's record says beyond what all have in common; raises what can't be read."""
        raise NotImplementedError

    def metric_names(self) -> list[str]:
        """All that there must be."""
        return [metric for launch in self.rule.launches for metric in launch.measures]

    # --- what is run ----------------------------------------------------------------------------------

    def check_input(self) -> None:
        """The recipe and the scale."""
        known = rules_of(self.suite)
        refuse_unknown("recipe", self.recipe, known)
        self.refuse_unknown_scale()
        self.rule: RuleRecipe = known[self.recipe]
        self.tags = {"metadata", self.suite}
        self.descr = self.rule.title

    def make_plan(self, site: Site) -> Plan:
        """Nodes, ranks, files and seconds of this site and scale."""
        scale = self.scale_at(site)
        self.factor = self.factor_at(site, self.rule)
        self.sizes: RuleSizes = rule_sizes(
            self.rule, scale, self.factor, site.cores, site.nodes, **self.searched
        )
        nodes = self.sizes.nodes
        alone = self.rule.nodes == "sweep" and nodes == 1
        self.skip_if(alone, f"{self.recipe} needs several nodes; scale {scale.name} has one")
        refused = site.refusal(nodes)
        self.skip_if(site.modelled and refused is not None, str(refused))
        size = self.bytes_per_node()
        return self.recipe_plan(
            self.rule,
            site,
            scale,
            self.sizes,
            config_bytes=size,
            place_bytes=2 * size,
            max_files=records_for(self.files_per_node()),
            close_to_open=True,  # each phase looks at what other nodes made
            time_limit="4h",
        )

    def twin_rates(self) -> tuple[float, float]:
        """What the twins' metadata servers, one a node, do a second: creating opens, and others."""
        return twin_rates(self.rule, self.factor, self.sizes.nodes)

    def check_room(self, places: Places) -> None:
        """Disk for a twin's data."""
        lacks = short_of_disk(places.root, self.plan.place_bytes) if places.root else None
        if lacks:
            raise PipelineError(f"{self.recipe} at scale {self.plan.scale}: {lacks}")

    def measure_medium(self, places: Places) -> dict[str, float]:
        """A twin is right only where the medium does twice as much."""
        assert places.pfs
        media = self.media_of(in_a_second(places.pfs, self.sizes.nodes, run_dir() / "medium.json"))
        lacks = too_slow_for(media, self.expected(), self.plan.factor)
        if lacks:
            raise PipelineError(lacks)
        return media

    # --- the job --------------------------------------------------------------------------------------

    def find_programs(self) -> None:
        """The site's own ior or mdtest; tb-find is the only find that counts with all ranks."""
        dry_run = self.is_dry_run()
        self.programs = {
            name: needed_program(name, otherwise=name if dry_run else None, ours=name == "find")
            for name in {launch.program for launch in self.rule.launches}
        }

    def write_script(self, script: Script) -> None:
        """The script of the launches, and the job around it."""
        pfs = self.places.pfs
        self.env_vars["SLURM_KILL_BAD_EXIT"] = "1"  # else ranks wait in a barrier for one that crashed
        stage = Path(self.stagedir)
        least = min(self.twin_rates()) if self.site.modelled else LEAST_OPERATIONS_S * self.sizes.nodes
        self.lines = write_launches(stage, script, self.rule, self.sizes, str(pfs), self.programs, least)
        self.job.launcher = getlauncher("local")()
        # All launches have one trace: what it costs is asked of names, which are most of its calls.
        foreign = next(filter(script.needs_witness, self.programs.values()), "tb-mdtest")
        calibration, trace = script.trace("trace", foreign, 0, pfs, wanted=self.trace)
        options = script.run_options("stats.json", trace)
        around = [str(TIERCTL), *options] if self.plan.managed else []
        self.executable, *self.executable_opts = [*around, "bash", "launches.sh"]
        made = f"mkdir -p launches status {pfs}"
        self.prerun_cmds = [made, f"df -P -k {pfs} > df.txt || true", *script.plan_lines(pfs), *calibration]

    # --- results --------------------------------------------------------------------------------------

    @property
    def searched_name(self) -> str:
        """The recipe, and of a search with how much."""
        short = {"nodes": "n", "ranks_per_node": "x"}
        return self.recipe + "".join(f"-{short[k]}{v}" for k, v in self.searched.items() if v)

    def case_names(self) -> dict[str, str]:
        """One of each metric."""
        return {m: f"{self.searched_name}-{m}_{self.tiers}" for m in self.metric_names()}

    def make_cases(self, results: Results) -> dict[str, Case]:
        """Of each metric there is; on the twin, with nothing in front of it, the right answers are known."""
        expected = self.expected() if self.plan.judged and self.tiers == "pfs" else {}
        outputs = outputs_of((results.stage / str(self.stdout)).read_text(errors="replace"))
        held = held_rules(self.lines, outputs, self.sizes, results.stage, self.site, self.files_of).record()
        return {
            metric: Case(
                **results.common(metric) | self._unmeasured(metric) | numbers,
                **held,
                expected=expected.get(metric),
            )
            for metric, numbers in self.numbers(results).items()
        }

    def files_of(self, name: str) -> int | None:
        """That each rank works on in a launch of mdtest; None: not known."""
        del name
        return self.sizes.files

    def _unmeasured(self, metric: str) -> dict[str, Any]:
        return {
            "test": f"{self.searched_name}-{metric}",
            "system": self.suite,
            "direction": "higher",
            **dict.fromkeys(("open_s", "write_s", "close_s", "total_s")),
            "bytes": 0,
            "published": None,
            "published_source": f"none: {self.rule.source}",
            "requirement": None,
            "dropped": self.plan.dropped,
            "medium": self.media.get(metric),
        }
