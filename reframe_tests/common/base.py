"""The base of all tests: bad input, the site, the places of the data, the tier configuration, the records.

A subclass says what is run: `make_plan`, `write_script`, and what came out: `case_names`, `make_cases`.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PipelineError
from reframe.core.runtime import runtime

from tierbench.base.errors import RunError
from tierbench.outputs import OutputError
from tierbench.runs.case import Case

from .jobs import ending
from .jobs.script import TIERCTL, TOUCH, Script
from .outcome.results import Results
from .sites import requirements
from .sites.extras import check_extras
from .sites.places import Places
from .sites.plan import Plan
from .sites.site import Site, check_system
from .sites.tiers import TIERS, ScaleError
from .unwarned import leave_out_the_search

leave_out_the_search()


def refuse(message: str) -> NoReturn:
    """End ReFrame with status 2: an exception would only skip the test, and a run of no tests passes."""
    print(f"reframe_tests: {message}", file=sys.stderr)
    sys.exit(2)


def refuse_unknown(what: str, value: str, known: Collection[str]) -> None:
    """A value that there is none of."""
    if value not in known:
        refuse(f"{what}={value!r}; allowed: {', '.join(known)}")


class TierTest(rfm.RunOnlyRegressionTest):
    """One measurement on one tier configuration."""

    #: The tier configuration: a file of configs/tiers.
    tiers = parameter(TIERS, type=str, loggable=True)
    #: The placement policy of the tiers.
    policy = variable(str, value="max-bandwidth", loggable=True)
    #: Darshan logs of both sides of the tiers: the report proves the tiers from them.
    trace = variable(bool, value=False, loggable=True)
    #: Memory is touched before a launch: always, never, or auto (on a twin, where idle memory is taken back).
    touch = variable(str, value="auto", loggable=True)
    #: What came out, for ReFrame's report.
    metrics = variable(dict, value={}, loggable=True)

    known_tiers: tuple[str, ...] = TIERS  # that `tiers` may be
    time_limit: Any  # ReFrame's
    prerun_cmds: Any
    valid_systems = ["*"]
    valid_prog_environs = ["*"]

    # --- what a subclass says -------------------------------------------------------------------------

    def check_input(self) -> None:
        """Refuse bad input beyond `tiers`; say tags and description."""

    def make_plan(self, site: Site) -> Plan:
        """What is run here; `ScaleError` where that can't be told."""
        raise NotImplementedError

    def find_programs(self) -> None:
        """Raise `PipelineError` where a program is missing."""

    def check_room(self, places: Places) -> None:
        """Raise `PipelineError` where the run has no room."""

    def measure_medium(self, places: Places) -> dict[str, float]:
        """What the machine's own medium does below the twin, by metric; refused where it is too slow."""
        raise NotImplementedError

    def write_script(self, script: Script) -> None:
        """The commands of the job."""
        raise NotImplementedError

    def case_names(self) -> dict[str, str]:
        """The name of each metric's case; all that there must be."""
        raise NotImplementedError

    def make_cases(self, results: Results) -> dict[str, Case]:
        """The record of each metric; raises what can't be read."""
        raise NotImplementedError

    def problems(self) -> list[str]:
        """What else went wrong."""
        return []

    def summary(self) -> dict[str, Any]:
        """What ReFrame's report says beyond values and whether bytes are right."""
        return {}

    @property
    def config_name(self) -> str:
        """What the configuration is called among those of the run."""
        return f"{self.plan.name}-{self.tiers}"

    @property
    def scale_record(self) -> dict[str, Any]:
        """What the run's provenance says of its scale."""
        return {"name": self.plan.scale}

    # --- the pipeline ---------------------------------------------------------------------------------

    @run_after("init")
    def choose(self) -> None:
        """Bad input is refused before anything runs."""
        self.check_input()
        refuse_unknown("tiers", self.tiers, self.known_tiers)
        refuse_unknown("touch", self.touch, TOUCH)
        try:
            check_system(runtime().site_config)
            for partition in runtime().system.partitions:
                check_extras(partition.extras)
                requirements.check(partition.extras.get("require", []))
                partition._max_jobs = 1  # measurements that share a machine would measure each other
        except ScaleError as e:
            refuse(str(e))

    @run_before("setup")
    def heed_signals(self) -> None:
        """A session that is asked to end starts no further job."""
        ending.heed_signals()

    @run_after("setup")
    def size(self) -> None:
        """What is run on this site; what it can't run is skipped."""
        self.site = Site.of(self.current_system, self.current_partition)
        try:
            self.plan = self.make_plan(self.site)
        except ScaleError as e:
            refuse(str(e))
        plan = self.plan
        missing = [] if plan.to_the_letter and self.tiers == "pfs" else self.site.lacks(self.tiers)
        self.skip_if(bool(missing), f"the site names no directory of {', '.join(missing)}")
        self.refused = self.site.refusal(plan.nodes) if plan.managed else None
        self.skip_if(not self.site.modelled and self.refused is not None, str(self.refused))
        self.num_tasks, self.num_tasks_per_node = plan.ranks, plan.ranks_per_node
        self.time_limit = self.time_limit or plan.time_limit

    @run_before("run")
    def prepare(self) -> None:
        """Places, configuration and job script; nothing is launched where something lacks."""
        stage, self.kept = Path(self.stagedir), self.is_dry_run()
        self.cases: dict[str, Case] = {}
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        self.find_programs()
        self.places = Places.choose(self.site, self.plan, stage, self.hashcode)
        atexit.register(self._keep_at_exit)
        if not self.is_dry_run():
            self.check_room(self.places)
        if self.refused:
            raise PipelineError(self.refused)
        if not self.is_dry_run():  # which removes nothing at its end
            self._make_places()
        wanted = self.plan.judged and not self.is_dry_run()
        self.media = self.measure_medium(self.places) if wanted else {}
        self._write_config(stage)
        self.write_script(Script(self.job, self.site, self.plan, self.touch))
        self.prerun_cmds = [ending.WAIT_FOR_THE_PROGRAM, *self.prerun_cmds]
        if self.site.slurm:
            self.job.options += [f"--nodes={self.plan.nodes}"]
        ending.heed_signals_for(self.job)

    def _make_places(self) -> None:
        try:
            self.places.make()
        except ScaleError as e:
            raise PipelineError(str(e)) from None

    def _write_config(self, stage: Path) -> None:
        """The tier configuration; none where lines run as they are, straight on the PFS."""
        if not self.plan.managed:
            return
        if self.places.root:
            self.env_vars["TB_ROOT"] = str(self.places.root)
        try:
            self.places.write_config(self.site, self.plan, stage)
            if not self.is_dry_run():
                self.places.check_config(TIERCTL, stage)
        except ScaleError as e:
            raise PipelineError(str(e)) from None

    @run_before("sanity")
    def keep(self) -> None:
        """Artefacts and records, on failure too."""
        if self.kept:
            return
        self.kept, stage = True, Path(self.stagedir)
        self.results = Results.begin(stage, self.site, self.plan, self.case_names())
        try:
            found = self.make_cases(self.results)
            self.cases = {m: requirements.required(self.site, case) for m, case in found.items()}
            values = {metric: case.value for metric, case in self.cases.items()}
            right = all(case.verified is not False for case in self.cases.values())
            records = [case.as_json() for case in self.cases.values()]
            self.metrics = {"values": values, "verified": right, "cases": records} | self.summary()
        except (OSError, ValueError, KeyError, OutputError) as e:
            self.metrics = {"error": f"{type(e).__name__}: {e}"}
        finally:
            self.places.remove()
        output = {"stdout.txt": self.stdout, "stderr.txt": self.stderr, "job.sh": self.job.script_filename}
        kept = {name: stage / str(file) for name, file in output.items()}
        try:
            self.results.keep(kept, self.config_name, self.scale_record, self.cases)
        except RunError as e:
            self.metrics = {"error": str(e)}

    @run_before("sanity")
    def end_if_asked(self) -> None:
        """The session ends here after a signal: what the job left is kept by now."""
        ending.ended(self.job)

    def _keep_at_exit(self) -> None:
        """A job that ReFrame killed never comes to its sanity, and a refused one leaves empty folders."""
        ending.wait_for(self.job)
        if not self.kept and self.job.jobid:
            self.keep()
        elif not self.kept:
            self.places.remove()

    @sanity_function
    def all_there(self) -> Any:
        """Every number was printed, nothing failed, the right bytes are on the PFS."""
        values, wanted = self.metrics.get("values", {}), self.case_names()
        other = list(dict.fromkeys(x for case in self.cases.values() for x in case.disagreements))
        return sn.all(
            [
                sn.assert_not_in("error", self.metrics, f"numbers are missing: {self.metrics.get('error')}"),
                sn.assert_eq(self.problems(), [], "went wrong: {0}"),
                sn.assert_eq(other, [], "is not what was asked for: {0}"),
                sn.assert_eq(sorted(values), sorted(wanted), "other numbers than {1} were printed: {0}"),
                sn.assert_true(all(v > 0 for v in values.values()), "a number is not above 0"),
                sn.assert_eq(self.job.exitcode or 0, 0, "the job ended with {0}"),
                sn.assert_in(self.metrics.get("verified"), (True, None), "the PFS holds other bytes"),
            ]
        )

    @run_before("performance")
    def report_numbers(self) -> None:
        """A variable for each metric, without a reference: verdicts are `tierbench report`'s."""
        for metric, case in self.cases.items():
            name = metric.replace("-", "_")
            self.perf_variables[name] = sn.make_performance_function(sn.defer(case.value), case.unit)
