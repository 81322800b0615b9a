"""A recipe of rules as a ReFrame test: launches one after the other, under one instance of the tiers.

The launches stand in a script of their own, which `tierctl run` starts: what a launch wrote is buffered for
the next, and drained once, at the end. Each leaves its output, errors and exit status; one that fails does
not end the others, so that the result can say what all of them did.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
import yaml
from reframe.core.backends import getlauncher
from reframe.core.builtins import (
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import PipelineError

from tierbench.base.errors import RecipeError
from tierbench.outputs import OutputError
from tierbench.recipes.rules import Launch, RuleRecipe, read_rules
from tierbench.runs.case import Case

from .acceptance import LEAST_CONFIG_BYTES, refuse, refuse_unknown
from .capacity_checks import full_percent, memory_bytes, memory_place, short_of_disk
from .ior import find_program
from .medium import LEAST_HEADROOM, remembered
from .nodes import per_node_options, refusal, set_nodes
from .rules_scale import RuleSizes, metadata_seconds, rule_sizes
from .rundir import keep_config, next_repetition, run_dir, write_provenance
from .scale import MIB, acceptance_scale
from .tiers import ROOT, TIERS, ScaleError, check_config, write_config
from .traced import Traced
from .twin import write_devices

LEAST_FILES, MOST_FILES = 1024, 1 << 20  # that a configuration keeps records of

_SCRIPT = """\
# The launches of the test, one after the other. Each leaves its output, errors and exit status.
failed=0
launch() {
    name=$1; shift
    "$@" > "launches/$name.out" 2> "launches/$name.err"
    status=$?
    echo $status > "launches/$name.status"
    echo "tierbench: launch $name begins"
    cat "launches/$name.out"
    echo "tierbench: launch $name ends"
    cat "launches/$name.err" >&2
    [ $status -eq 0 ] || failed=$status
}
"""


def rules_of(suite: str) -> dict[str, RuleRecipe]:
    """The recipes of a suite by name."""
    try:
        return {r.name: r for r in read_rules() if r.suite == suite}
    except RecipeError as e:
        refuse(str(e))


class RuleTest(rfm.RunOnlyRegressionTest, Traced):
    """Base of both suites; a subclass has a parameter `recipe` and says what its numbers are."""

    tiers = parameter(TIERS, type=str, loggable=True)
    policy = variable(str, value="max-bandwidth", loggable=True)
    scale = variable(str, value="site", loggable=True)
    twin_factor = variable(int, value=0, loggable=True)  # K instead of the recipe's; 0: the recipe's
    metrics = variable(dict, value={}, loggable=True)

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    suite: str
    searched: dict[str, int] = {}

    @run_after("init")
    def choose(self) -> None:
        """Bad input is refused before anything runs."""
        known = rules_of(self.suite)
        refuse_unknown(self.recipe, known, self.tiers, self.scale)
        self.rule: RuleRecipe = known[self.recipe]
        self.tags = {"metadata", self.suite}
        self.descr = self.rule.title
        self.mode = "bypass" if self.tiers == "pfs" else "persistent-async"

    @run_after("setup")
    def size(self) -> None:
        """Nodes, ranks, files and seconds of this site and scale."""
        extras = self.current_partition.extras
        self.modelled = extras.get("tiers", "modelled") == "modelled" and not extras.get("published")
        self.judged = self.modelled and bool(extras.get("measures", True))
        self.factor = (self.twin_factor or self.rule.twin.factor) if self.modelled else 1
        cores = int(extras.get("ranks_per_node", 0)) or self.current_partition.processor.num_cores
        try:
            self.wanted = acceptance_scale(
                self.scale if self.scale != "site" else extras.get("scale", "local")
            )
            self.sizes: RuleSizes = rule_sizes(
                self.rule, self.wanted, self.factor, cores or os.cpu_count() or 1, extras.get("nodes"),
                **self.searched,
            )  # fmt: skip
        except ScaleError as e:
            refuse(str(e))
        self.skip_if(
            self.rule.nodes == "sweep" and self.sizes.nodes == 1,
            f"{self.recipe} needs several nodes; scale {self.wanted.name} has one",
        )
        self.places = {k: v for k, v in extras.items() if k in ("pfs", "nvme", "bb")}
        needed = set() if self.modelled else {"pfs", *self.tiers.split("-")} - {"ram"}
        missing = sorted(needed - self.places.keys())
        self.skip_if(bool(missing), f"the site names no directory of {', '.join(missing)}")
        refused = refusal(extras, self.sizes.nodes, traced=self.trace)
        self.skip_if((self.modelled or self.mode != "bypass") and refused is not None, str(refused))
        self.num_tasks, self.num_tasks_per_node = self.sizes.ranks, self.sizes.ranks_per_node
        self.time_limit = "4h"

    # --- the job ---------------------------------------------------------------------------------------

    def bytes_per_node(self) -> int:
        """What capacities of tiers are scaled by: about what a node writes."""
        return LEAST_CONFIG_BYTES

    def files_per_node(self) -> int:
        """How many files there are at a time, about."""
        return (self.sizes.files or 0) * self.sizes.ranks_per_node

    @run_before("run")
    def prepare(self) -> None:
        """The script of the launches, what it runs on, and the job around it."""
        stage = Path(self.stagedir)
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        if self.current_partition.scheduler.registered_name.startswith(("slurm", "squeue")):
            self.job.options += [f"--nodes={self.sizes.nodes}"]
        self.tierctl = ROOT / "build" / "bin" / "tierctl"
        self._choose_places(stage)
        self._check_medium()
        self.env_vars["SLURM_KILL_BAD_EXIT"] = "1"  # else ranks wait in a barrier for one that crashed
        self._write_config(stage)
        self._write_launches(stage)
        self.job.launcher = getlauncher("local")()
        around = (
            [str(self.tierctl), "run", "-c", "tiers.yaml", "--mode", self.mode, "--stats", "stats.json",
             *self.trace_options(), *per_node_options(self.current_partition.extras, self.sizes.nodes), "--"]
            if self.managed
            else []
        )  # fmt: skip
        self.executable, *self.executable_opts = [*around, "bash", "launches.sh"]
        plan = f"{self.tierctl} plan --json --mode {self.mode} tiers.yaml > plan.json"
        self.prerun_cmds = [
            f"mkdir -p launches status {self.pfs}",
            f"df -P -k {self.pfs} > df.txt || true",
            *([plan] if self.managed else []),
        ]

    def _choose_places(self, stage: Path) -> None:
        self.root: Path | None = None
        self.volatile = False
        if self.modelled:
            needed = 2 * self.bytes_per_node()
            wanted = memory_place(self.current_partition.extras.get("root"), needed)
            self.volatile = wanted is not None
            self.root = Path(wanted, f"tierbench-{os.getpid()}-{self.hashcode}") if wanted else stage / "work"
            self.pfs = self.root / "pfs"
            lacks = short_of_disk(self.root, needed)
            if lacks and not self.is_dry_run():
                raise PipelineError(f"{self.recipe} at scale {self.wanted.name}: {lacks}")
        else:
            self.pfs = Path(os.path.expandvars(self.places["pfs"]), f"tierbench-{self.hashcode}")

    def expected(self) -> dict[str, float]:
        """What the twin gives, where that is known, by metric and in its unit."""
        raise NotImplementedError

    def media_of(self, second: dict[str, float]) -> dict[str, float]:
        """The same of the medium below it, from what that does in a second: files, MiB written and read."""
        raise NotImplementedError

    def _check_medium(self) -> None:
        """A twin is right only where the medium does twice as much; what it does stands in the results."""
        self.media: dict[str, float] = {}
        if not self.judged or self.is_dry_run():
            return
        sizes, record = {"metadata": 0, "write": 2 * MIB, "read": 2 * MIB}, run_dir() / "medium.json"
        second = {
            access: self.sizes.nodes
            * max(1, size // MIB)
            * remembered(self.pfs, access, size, record, scattered=False)
            for access, size in sizes.items()
        }
        self.media = self.media_of(second)
        for metric, right in self.expected().items():
            times = self.media[metric] / right
            if times < LEAST_HEADROOM:
                needed = math.ceil(self.factor * LEAST_HEADROOM / times)
                does = f"the medium does {self.media[metric]:.4g}, less than twice the twin's {right:.4g}"
                raise PipelineError(f"{metric}: {does} (K = {self.factor}); needs -S twin_factor={needed}")

    def _write_config(self, stage: Path) -> None:
        """The tier configuration; none on the site's own PFS alone."""
        self.managed = self.modelled or self.tiers != "pfs"
        if not self.managed:
            return
        models = write_devices(self.rule, self.factor, stage / "devices") if self.modelled else None
        places, file = None if self.modelled else self.places, stage / "tiers.yaml"
        if self.root:
            self.env_vars["TB_ROOT"] = str(self.root)
            for place in ("pfs", "nvme", "bb"):
                (self.root / place).mkdir(parents=True, exist_ok=True)
        try:
            write_config(self.tiers, self.bytes_per_node(), self.policy, places, file, models=models,
                         volatile=self.volatile)  # fmt: skip
            set_files(file, min(MOST_FILES, max(LEAST_FILES, 2 * self.files_per_node())))
            if self.sizes.nodes > 1:
                set_nodes(file, close_to_open=True)  # each phase looks at what other nodes made
            if not self.is_dry_run():
                check_config(self.tierctl, file, self.root)
        except ScaleError as e:
            raise PipelineError(str(e)) from e

    def _program(self, launch: Launch) -> str:
        """The site's own ior or mdtest; tb-find is the only find that counts with all ranks."""
        ours = ROOT / "build" / "bin" / f"tb-{launch.program}"
        found = str(ours) if launch.program == "find" else find_program(launch.program)
        if not self.is_dry_run() and not (found and Path(found).exists()):
            name = launch.program
            raise PipelineError(f"no {name}: needs {name.upper()} set to a program, {name} on PATH, or `make"
                                " build`")  # fmt: skip
        return found or launch.program

    def _write_launches(self, stage: Path) -> None:
        fields = {
            "dir": str(self.pfs),
            "status": str(stage / "status"),
            "files": str(self.sizes.files),
            "seconds": str(self.sizes.seconds),
            "ppn": str(self.sizes.ranks_per_node),
        }
        lines, self.lines = [_SCRIPT], {}
        start = self.job.launcher.run_command(self.job)
        for launch in self.rule.launches:
            name, arguments = self.name_of(launch), launch.arguments(fields)
            self.lines[name] = (Path(self._program(launch)).name, *arguments)
            lines += [f"launch {name} {start} {self._program(launch)} {shlex.join(arguments)}\n"]
            if launch.then:
                lines += [launch.then.format_map(fields) + " || failed=1\n"]
        made = (a for x in self.rule.launches for a in x.arguments(fields) if a.startswith(f"{self.pfs}/"))
        folders = sorted({str(Path(a) if "mdtest" in Path(a).name else Path(a).parent) for a in made})
        (stage / "launches.sh").write_text(
            lines[0] + f"mkdir -p {shlex.join(folders or [str(self.pfs)])}\n" + "".join(lines[1:])
            + "exit $failed\n"
        )  # fmt: skip

    def name_of(self, launch: Launch) -> str:
        """What the launch is called among its outputs."""
        return next(iter(launch.measures)) if len(launch.measures) == 1 else launch.program

    # --- results ---------------------------------------------------------------------------------------

    def results(self, stage: Path) -> dict[str, dict[str, Any]]:
        """What each metric's case says beyond what all have in common; raises what can't be read."""
        raise NotImplementedError

    def metric_names(self) -> list[str]:
        """All that there must be."""
        return [metric for launch in self.rule.launches for metric in launch.measures]

    def case_name(self) -> str:
        """The recipe, and of a search with how much."""
        short = {"nodes": "n", "ranks_per_node": "x"}
        return self.recipe + "".join(f"-{short[k]}{v}" for k, v in self.searched.items() if v)

    @run_before("sanity")
    def keep(self) -> None:
        """Artefacts and numbers, on failure too."""
        if self.is_dry_run():
            return
        stage, name = Path(self.stagedir), self.case_name()
        folders = {m: next_repetition(f"{name}-{m}_{self.tiers}") for m in self.metric_names()}
        self.folders = {m: folder for m, (_, folder) in folders.items()}
        self.metrics = {}
        try:
            found = self.results(stage)
            self.metrics = {"values": {m: case["value"] for m, case in found.items()}}
            self.metrics |= {"verified": all(case["verified"] is not False for case in found.values())}
        except (OSError, ValueError, KeyError, OutputError) as e:
            found = {}
            self.metrics = {"error": f"{type(e).__name__}: {e}"}
        finally:
            shutil.rmtree(self.root or self.pfs, ignore_errors=True)
        for metric, (repetition, folder) in folders.items():
            self._keep_artefacts(stage, folder)
            if metric in found:
                case = Case(**self._common(stage, metric, repetition) | found[metric])
                case.write(folder)
                write_provenance(self.current_system.name, {"name": self.wanted.name}, case.driver)

    def _keep_artefacts(self, stage: Path, folder: Path) -> None:
        for name in ("plan.json", "tiers.yaml", "df.txt", "stats.json", "launches.sh"):
            if (stage / name).exists():
                shutil.copy(stage / name, folder / name)
        self.keep_traces(stage, folder)
        shutil.copy(stage / str(self.stdout), folder / "stdout.txt")
        shutil.copy(stage / str(self.stderr), folder / "stderr.txt")
        shutil.copy(stage / str(self.job.script_filename), folder / "job.sh")
        if (stage / "tiers.yaml").exists():
            keep_config(f"{self.recipe}-{self.tiers}", stage / "tiers.yaml")

    def _common(self, stage: Path, metric: str, repetition: int) -> dict[str, Any]:
        plan = json.loads((stage / "plan.json").read_text()) if (stage / "plan.json").exists() else {}
        told = json.loads((stage / "stats.json").read_text()) if (stage / "stats.json").exists() else {}
        times = dict.fromkeys(("open_s", "write_s", "close_s", "total_s"))
        return {
            "test": f"{self.case_name()}-{metric}",
            "system": self.suite,
            "site": self.current_system.name,
            "tiers": self.tiers,
            "mode": self.mode,
            "fsync": plan.get("fsync", "pfs"),
            "policy": "none" if self.tiers == "pfs" else self.policy,
            "repetition": repetition,
            "direction": "higher",
            **times,
            "drain_s": told.get("drain_s") if self.mode != "bypass" else None,
            "modelled": self.modelled,
            "ranks": self.sizes.ranks,
            "nodes": self.sizes.nodes,
            "bytes": 0,
            "published": None,
            "published_source": f"none: {self.rule.source}",
            "requirement": None,
            "expected": self.expected().get(metric) if self.answers else None,
            "medium": self.media.get(metric),
            "factor": self.factor,
            "scale": self.wanted.name,
            "dropped": self.sizes.dropped,
            "full_percent": full_percent(stage / "df.txt"),
        }

    def twin_rates(self) -> tuple[float, float]:
        """What the twins' metadata servers, one a node, do a second: creating opens, and others."""
        each = metadata_seconds(self.rule)
        open_s, other_s = (seconds * self.factor / self.sizes.nodes for seconds in each)
        return 1 / open_s, 1 / other_s

    @property
    def answers(self) -> bool:
        """The right answers are known: those of the twin, with nothing in front of it."""
        return bool(self.judged and self.tiers == "pfs")

    def problems(self) -> list[str]:
        """What else went wrong."""
        return []

    @sanity_function
    def all_there(self) -> bool:
        """Every number was printed, nothing failed, what was left on the PFS is right."""
        values, wanted = self.metrics.get("values", {}), self.metric_names()
        return sn.all(
            [
                sn.assert_not_in("error", self.metrics, f"numbers are missing: {self.metrics.get('error')}"),
                sn.assert_eq(self.problems(), [], "went wrong: {0}"),
                sn.assert_eq(sorted(values), sorted(wanted), "other numbers than {1} were printed: {0}"),
                sn.assert_true(all(v > 0 for v in values.values()), "a number is not above 0"),
                sn.assert_eq(self.job.exitcode or 0, 0, "the job ended with {0}"),
                sn.assert_true(self.metrics.get("verified"), "the PFS holds something else"),
            ]
        )

    @run_before("performance")
    def report_numbers(self) -> None:
        """A variable for each metric, without a reference: verdicts are `tierbench report`'s."""
        for metric, value in self.metrics.get("values", {}).items():
            unit = json.loads((self.folders[metric] / "case.json").read_text())["unit"]
            name = metric.replace("-", "_")
            self.perf_variables[name] = sn.make_performance_function(sn.defer(value), unit)


def set_files(config: Path, files: int) -> None:
    """How many files a configuration keeps records of."""
    text = config.read_text()
    made = yaml.safe_load(text) | {"max_files": files}
    config.write_text(text.splitlines()[0] + "\n" + yaml.safe_dump(made, sort_keys=False))


def node_memory(test: RuleTest) -> int:
    """Memory of a node that could cache files: as the site says, else this machine's."""
    return int(test.current_partition.extras.get("memory_bytes", 0)) or memory_bytes()
