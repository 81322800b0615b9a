"""A published acceptance run as a ReFrame test: a recipe, at a scale, on a tier configuration.

On the recipe's own site (`extras: {"published": True}`) the job script holds the published command lines,
their conditions and directives to the letter. Elsewhere the lines keep their flags and get the scale's sizes,
the site's launcher and a file on its PFS; a site without one (`"tiers": "modelled"`) is the recipe's twin.

One job makes all launches of a recipe, one after the other: datasets, what is measured, and then, where the
program removed its files, a launch that is not measured and keeps them, for the check of the bytes.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import reframe as rfm
import reframe.utility.sanity as sn
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
from tierbench.recipes.published import Launch, Recipe, read_recipes
from tierbench.runs.case import Case

from .capacity_checks import (
    full_percent,
    hog_bytes,
    memory_bytes,
    memory_place,
    short_of_disk,
    short_of_memory,
)
from .driver_flags import respelled
from .ior import find_program
from .launch_numbers import LaunchOutput, content_of, measured, outputs_of
from .medium import media_of, too_slow
from .nodes import per_node_options, refusal, set_nodes, shows_others
from .rundir import keep_config, next_repetition, run_dir, write_provenance
from .scale import Scale, Sizes, acceptance_scale, size_of, sizes, value_of, with_value
from .tiers import ROOT, TIERS, ScaleError, check_config, write_config
from .traced import Traced
from .twin import read_limit, write_devices

LEAST_CONFIG_BYTES = 64 << 20  # tiers smaller than for that much data have no room for their own metadata
PRINTED_TENTH = (1 << 20) // 20  # drivers print the bytes moved in tenths of a MiB
SIGNATURE = "1638301383"  # -G of the launch that is only checked


def refuse(message: str) -> NoReturn:
    """End ReFrame with status 2: an exception would only skip the test, and a run of no tests passes."""
    print(f"reframe_tests: {message}", file=sys.stderr)
    sys.exit(2)


@functools.cache
def _all_recipes() -> list[Recipe]:
    try:
        return read_recipes()
    except RecipeError as e:
        refuse(str(e))


def recipes_of(system: str) -> dict[str, Recipe]:
    """The recipes of a system by name."""
    return {r.name: r for r in _all_recipes() if r.system == system}


def refuse_unknown(recipe: str, known: Collection[str], tiers: str, scale: str) -> None:
    """A recipe, configuration of tiers or scale that there is none of."""
    if recipe not in known:
        refuse(f"recipe={recipe!r}; allowed: {', '.join(known)}")
    if tiers not in TIERS:
        refuse(f"tiers={tiers!r}; allowed: {', '.join(TIERS)}")
    try:
        if scale != "site":
            acceptance_scale(scale)
    except ScaleError as e:
        refuse(str(e))


class Acceptance(rfm.RunOnlyRegressionTest, Traced):
    """Base of the tests of a system; a subclass says of which (`system`) and its parameter `recipe`."""

    tiers = parameter(TIERS, type=str, loggable=True)
    policy = variable(str, value="max-bandwidth", loggable=True)
    scale = variable(str, value="site", loggable=True)
    memory_hog = variable(str, value="", loggable=True)
    twin_factor = variable(int, value=0, loggable=True)  # K instead of the recipe's; 0: the recipe's
    metrics = variable(dict, value={}, loggable=True)

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    system: str

    @run_after("init")
    def choose(self) -> None:
        """Bad input is refused before anything runs."""
        known = recipes_of(self.system)
        refuse_unknown(self.recipe, known, self.tiers, self.scale)
        try:
            self.hogged = hog_bytes(self.memory_hog)
        except ScaleError as e:
            refuse(str(e))
        self.published_run: Recipe = known[self.recipe]
        self.tags = {"acceptance", self.system}
        self.descr = self.published_run.title
        self.mode = "bypass" if self.tiers == "pfs" else "persistent-async"

    @run_after("setup")
    def size(self) -> None:
        """Nodes, ranks and bytes of this site and scale."""
        extras = self.current_partition.extras
        self.at_home = bool(extras.get("published"))
        self.modelled = not self.at_home and extras.get("tiers", "modelled") == "modelled"
        self.judged = self.modelled and bool(extras.get("measures", True))
        elsewhere = self.at_home and self.system != self.current_system.name
        self.skip_if(elsewhere, f"{self.recipe} is another system's: {self.system}")
        recipe = self.published_run
        try:
            name = self.scale if self.scale != "site" else extras.get("scale", "local")
            self.wanted: Scale = acceptance_scale(name)
            self.factor = (self.twin_factor or recipe.twin.factor) if self.modelled else 1
            self.memory = int(extras.get("memory_bytes", 0)) or memory_bytes()
            could_cache = max(0, self.memory - self.hogged)
            self.sizes: Sizes = sizes(recipe, self.wanted, self.factor, could_cache)
        except ScaleError as e:
            refuse(str(e))
        self.places = {k: v for k, v in extras.items() if k in ("pfs", "nvme", "bb")}
        needed = set() if self.modelled else {"pfs", *self.tiers.split("-")} - {"ram"}
        if self.at_home and self.tiers == "pfs":
            needed = set()  # the published lines name the place themselves
        missing = sorted(needed - self.places.keys())
        self.skip_if(bool(missing), f"the site names no directory of {', '.join(missing)}")
        self.refused = refusal(extras, self.sizes.nodes, traced=self.trace)
        real_tiers = not self.modelled and self.mode != "bypass"
        self.skip_if(real_tiers and self.refused is not None, str(self.refused))
        self.num_tasks = self.sizes.ranks
        self.num_tasks_per_node = min(self.sizes.ranks_per_node, self.sizes.ranks)
        self.time_limit = self.time_limit or f"{recipe.minutes}m"

    # --- the job ---------------------------------------------------------------------------------------

    @run_before("run")
    def prepare(self) -> None:
        """The job script: conditions, launches, checks."""
        recipe, stage = self.published_run, Path(self.stagedir)
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        self.tierctl = ROOT / "build" / "bin" / "tierctl"
        self.program = self._find_program(recipe.launches[0])
        self._choose_places(stage)
        self.kept_all = self.is_dry_run()
        atexit.register(self._keep_at_exit)
        self._check_room()
        if self.modelled and self.refused:
            raise PipelineError(self.refused)
        self._check_medium()
        self._set_environment(stage)
        self._write_config(stage)
        self._set_launcher(recipe)
        self.job.options += [*recipe.directives] if self.at_home else []
        if self.current_partition.scheduler.registered_name.startswith(("slurm", "squeue")):
            self.job.options += [f"--nodes={self.sizes.nodes}"]
        self._write_script(recipe)

    def _find_program(self, launch: Launch) -> str:
        found = find_program(launch.program_name, build=not (self.at_home and self.is_dry_run()))
        if found:
            return found
        if self.is_dry_run():
            return launch.program
        name = launch.program_name
        raise PipelineError(
            f"no {name}: needs {name.upper()} set to a program, {name} on PATH, or `make build`;"
            f" there is {os.environ.get(name.upper(), 'nothing in ' + name.upper())}"
        )

    def _choose_places(self, stage: Path) -> None:
        """Where the PFS and the tiers of this run are: the published place, the site's, or the twin's."""
        launch = self.published_run.launches[0]
        given = value_of(launch.arguments, "-o")
        self.root: Path | None = None
        if self.at_home:
            self.file = given
            return
        name = Path(given).name if given else self.recipe
        if self.modelled:
            needed = (1 if self.tiers == "pfs" else 4) * self.sizes.total_bytes + self.hogged
            wanted = memory_place(self.current_partition.extras.get("root"), needed)
            self.volatile = wanted is not None
            self.root = Path(wanted, f"tierbench-{os.getpid()}-{self.hashcode}") if wanted else stage / "work"
            self.pfs = self.root / "pfs"
        else:
            self.volatile = False
            self.pfs = Path(os.path.expandvars(self.places["pfs"]), f"tierbench-{self.hashcode}")
        self.file = str(self.pfs / name)

    def _check_room(self) -> None:
        """Nothing is launched where the run has no room."""
        if self.at_home or self.is_dry_run():
            return
        total = self.sizes.total_bytes
        needs = {
            "memory_hog": self.hogged,
            "memory tier": max(LEAST_CONFIG_BYTES, total // self.sizes.nodes) if "ram" in self.tiers else 0,
        }
        lacks = short_of_memory(needs, self.memory) or short_of_disk(self.pfs, total)
        if lacks:
            raise PipelineError(f"{self.tiers}: {self.recipe} at scale {self.wanted.name} {lacks}")

    def _check_medium(self) -> None:
        """A twin is right only where the medium does twice the share; what it does stands in the results."""
        self.media: dict[str, float] = {}
        if not self.judged or self.is_dry_run():
            return
        self.media = media_of(self.published_run, self.sizes, self.pfs, run_dir() / "medium.json")
        shares = {access: self._share(access) for access in self.media}
        lacks = too_slow(self.published_run, self.media, shares, self.factor)
        if lacks:
            raise PipelineError(f"{self.recipe}: {lacks}, or a faster place than {self.pfs.parent.parent}")

    def _set_environment(self, stage: Path) -> None:
        """MPI-IO hints, for ROMIO anywhere and for Cray's."""
        hints = self.published_run.hints
        if hints:
            text = "".join(f"{name} {value}\n" for name, value in hints.items())
            (stage / "romio-hints").write_text(text)
            self.env_vars["ROMIO_HINTS"] = str(stage / "romio-hints")
            self.env_vars["OMPI_MCA_io"] = "romio321"  # OpenMPI's own layer knows none of them
            self.env_vars["MPICH_MPIIO_HINTS"] = "*:" + ":".join(f"{k}={v}" for k, v in hints.items())

    def _write_config(self, stage: Path) -> None:
        """The tier configuration; none where the published line runs as it is, straight on the PFS."""
        self.managed = self.modelled or self.tiers != "pfs"
        if not self.managed:
            return
        models = write_devices(self.published_run, self.factor, stage / "devices") if self.modelled else None
        per_node = max(LEAST_CONFIG_BYTES, self.sizes.total_bytes // self.sizes.nodes)
        places = None if self.modelled else self.places
        try:
            write_config(self.tiers, per_node, self.policy, places, stage / "tiers.yaml", models=models,
                         volatile=self.volatile)  # fmt: skip
            if self.sizes.nodes > 1:
                set_nodes(stage / "tiers.yaml", close_to_open=any(map(shows_others, self.sizes.arguments)))
            if self.root:
                self.env_vars["TB_ROOT"] = str(self.root)
                for place in ("pfs", "nvme", "bb"):
                    (self.root / place).mkdir(parents=True, exist_ok=True)
            if not self.is_dry_run():
                check_config(self.tierctl, stage / "tiers.yaml", self.root)
        except ScaleError as e:
            raise PipelineError(str(e)) from None

    def _set_launcher(self, recipe: Recipe) -> None:
        """What the published line gives its launcher beyond counts; the directory of a program without -o."""
        launcher, launch = self.job.launcher, recipe.launches[0]
        if hasattr(launcher, "sets_per_node"):
            launcher.sets_per_node = recipe.sets_per_node
        if self.at_home:
            generated = launcher.command(self.job)
            launcher.options = list(launch.launcher[len(generated) :])
        elif not value_of(launch.arguments, "-o"):
            by_srun = self.current_partition.launcher_type.registered_name.startswith("srun")
            launcher.options = [f"--chdir={self.pfs}"] if by_srun else ["--wdir", str(self.pfs)]

    def _line(self, arguments: tuple[str, ...], *, stats: str | None) -> str:
        """One launch; through `tierctl run` where `stats` names its counters."""
        launcher = self.job.launcher
        if stats and self.managed:
            launcher.modifier = str(self.tierctl)
            # Of the programs only ours says how far each rank came before a deadline.
            nodes = self.sizes.nodes
            needed = "-D" in arguments and Path(self.program).name != "tb-ior" and nodes == 1
            name = stats.removesuffix(".json").replace("stats", "trace")
            trace = self.trace_options(name, needed=needed)
            options = ["run", "-c", "tiers.yaml", "--mode", self.mode, "--stats", stats, *trace]
            per_node = per_node_options(self.current_partition.extras, nodes)
            launcher.modifier_options = [*options, *per_node, "--"]
        else:
            launcher.modifier, launcher.modifier_options = "", []
        return " ".join([launcher.run_command(self.job), self.program, *arguments])

    def _arguments(self, number: int) -> tuple[str, ...]:
        """The arguments of a launch here: the sizes of the scale, the site's file, a hog where asked for."""
        arguments = self.sizes.arguments[number]
        if self.published_run.launches[number].program_name != "ior":
            return arguments
        if not self.at_home:
            arguments = with_value(arguments, "-o", str(self.file))
            arguments, self.unspelled = respelled(self.program, arguments)
        return (*arguments, "-M", self.memory_hog) if self.memory_hog else arguments

    def _write_script(self, recipe: Recipe) -> None:
        """Each launch between two marks, so that outputs can be told apart and no line is redirected."""
        lines: list[str] = []
        self.launch_lines: dict[int, tuple[str, ...]] = {}
        self.unspelled: tuple[str, ...] = ()
        main = next(i for i, launch in enumerate(recipe.launches) if launch.measures)
        before: list[str] = []
        for number, launch in enumerate(recipe.launches):
            arguments = self._arguments(number)
            self.launch_lines[number] = arguments
            if "-r" in arguments and "-w" not in arguments:
                lines.append(self._dataset_check(arguments))
            lines.append(f"echo 'tierbench: launch {number + 1} begins'")
            if number == main:
                before, lines = lines, []
                text = self._line(arguments, stats=f"stats-{number + 1}.json")
                self.executable, self.executable_opts = self.program, list(arguments)
            else:
                stats = f"stats-{number + 1}.json" if launch.measures else None
                text = self._line(arguments, stats=stats)
                lines.append(text)
            lines.append(f"echo 'tierbench: launch {number + 1} ends'")
        # Leaves the modifier to the executable.
        self._line(self.launch_lines[main], stats=f"stats-{main + 1}.json")
        saved = self.job.launcher.modifier, self.job.launcher.modifier_options
        lines += self._check_launch(recipe)
        self.job.launcher.modifier, self.job.launcher.modifier_options = saved
        home = [line.replace("{nodes}", str(self.sizes.nodes)) for line in (*recipe.before, *recipe.after)]
        conditions = home[: len(recipe.before)] if self.at_home else []
        published = recipe.launches[0].program
        if self.at_home and self.program != published:  # conditions may name the program as published
            conditions.insert(0, f"ln -sf {self.program} {Path(published).name}")
        plan = [f"{self.tierctl} plan --json --mode {self.mode} tiers.yaml > plan.json"]
        place = str(Path(self.file or ".").parent) if self.at_home else str(self.pfs)
        if not self.at_home:
            conditions = [f"mkdir -p {self.pfs}"]
        full = [f"df -P -k {place} > df.txt || true", f"df -P -i {place} >> df.txt || true"]
        self.prerun_cmds = [*conditions, *full, *(plan if self.managed else []), *before]
        self.postrun_cmds = [*lines, *(home[len(recipe.before) :] if self.at_home else [])]

    def _dataset_check(self, arguments: tuple[str, ...]) -> str:
        script = ROOT / "reframe_tests" / "common" / "dataset.py"
        layout = "separate" if "-F" in arguments else "shared"
        extent = "stonewalled" if value_of(arguments, "-D") and "-z" not in arguments else "complete"
        return " ".join(["python3", str(script), f'"{self.file}"', str(self.sizes.ranks),
                         str(self.sizes.bytes_per_rank), layout, extent])  # fmt: skip

    def _check_launch(self, recipe: Recipe) -> list[str]:
        """Where no file is kept: the writes once more, kept, under a name of their own."""
        last = recipe.launches[-1].arguments
        self.kept = "-k" in last
        arguments = self.launch_lines[_writers(recipe)[0]]
        self.checked_file, self.checked_arguments = self.file, arguments
        if self.kept or self.at_home or not value_of(arguments, "-o"):
            return []
        self.checked_file = f"{self.file}.check"
        flags = [a for a in arguments if a not in ("-r", "-w", "-k")]
        flags[flags.index("-o") + 1] = self.checked_file
        self.checked_arguments = (*flags, "-w", "-k", "-G", SIGNATURE)
        line = self._line(self.checked_arguments, stats="stats-check.json")
        return ["echo 'tierbench: launch check begins'", line, "echo 'tierbench: launch check ends'"]

    # --- results ---------------------------------------------------------------------------------------

    @run_before("sanity")
    def keep(self) -> None:
        """Artefacts and numbers, on failure too."""
        if self.kept_all:
            return
        self.kept_all = True
        stage, recipe = Path(self.stagedir), self.published_run
        accesses = [access for launch in recipe.launches for access in launch.measures]
        folders = {access: next_repetition(f"{self.recipe}-{access}_{self.tiers}") for access in accesses}
        try:
            outputs = outputs_of((stage / str(self.stdout)).read_text(errors="replace"))
            found = {access: self._result_of(access, outputs, folders[access][0]) for access in accesses}
            verified = self._verified(outputs)
            found = {access: replace(case, verified=verified) for access, case in found.items()}
            self.metrics = found[accesses[0]].as_json() | {"values": {a: c.value for a, c in found.items()}}
        except (OSError, ValueError, KeyError, OutputError) as e:
            found = {}
            self.metrics = {"error": f"{type(e).__name__}: {e}"}
        finally:
            self._remove()
        for access, (_, folder) in folders.items():
            self._keep_artefacts(stage, folder)
            if access in found:
                write_provenance(self.current_system.name, {"name": self.wanted.name}, found[access].driver)
                found[access].write(folder)

    def _keep_at_exit(self) -> None:
        """A job that ReFrame killed never comes to its sanity, and a refused one leaves empty folders."""
        if not self.kept_all and self.job.jobid:
            self.keep()
        elif not self.kept_all:
            self._remove()

    def _remove(self) -> None:
        if not self.at_home:
            shutil.rmtree(self.root or self.pfs, ignore_errors=True)

    def _keep_artefacts(self, stage: Path, folder: Path) -> None:
        for name in ("plan.json", "tiers.yaml", "df.txt", *(p.name for p in stage.glob("stats-*.json"))):
            if (stage / name).exists():
                shutil.copy(stage / name, folder / name)
        self.keep_traces(stage, folder)
        shutil.copy(stage / str(self.stdout), folder / "stdout.txt")
        shutil.copy(stage / str(self.stderr), folder / "stderr.txt")
        shutil.copy(stage / str(self.job.script_filename), folder / "job.sh")
        if (stage / "tiers.yaml").exists():
            keep_config(f"{self.recipe}-{self.tiers}", stage / "tiers.yaml")

    def _verified(self, outputs: dict[str, LaunchOutput]) -> bool | None:
        """The bytes on the PFS; None where they are not this machine's to look at."""
        if self.at_home or not value_of(self.checked_arguments, "-o"):
            return None if self.at_home else True  # the metadata program reads its value back itself
        found = content_of(Path(str(self.checked_file)), self.sizes.ranks, self.checked_arguments)
        if value_of(self.checked_arguments, "-D") is None:
            return found.wrong == 0 and found.right == self.sizes.total_bytes
        name = str(_writers(self.published_run)[-1] + 1) if self.kept else "check"
        moved = outputs[name].moved_bytes()
        return found.wrong == 0 and abs(found.right - moved) <= PRINTED_TENTH

    def _result_of(self, access: str, outputs: dict[str, LaunchOutput], repetition: int) -> Case:
        recipe, stage = self.published_run, Path(self.stagedir)
        number = next(i for i, x in enumerate(recipe.launches) if access in x.measures)
        arguments, published = self.launch_lines[number], recipe.number(access)
        log = stage / f"trace-{number + 1}.darshan"
        output, ranks = outputs[str(number + 1)], self.sizes.ranks
        found = measured(output, access, published.metric, arguments, ranks, log)
        share = self._share(access)
        statistics = stage / f"stats-{number + 1}.json"
        told = json.loads(statistics.read_text()) if statistics.exists() else {}
        plan = json.loads((stage / "plan.json").read_text()) if (stage / "plan.json").exists() else {}
        drains = self.mode not in ("bypass", "scratch")
        limit = self._read_limit(size_of(arguments, "-t"), published.metric) if access == "read" else None
        conditions = [] if self.at_home else [*recipe.directives, *recipe.before]
        whole = self.sizes.nodes == recipe.nodes and not self.sizes.dropped
        return Case(
            test=f"{self.recipe}-{access}",
            system=self.system,
            site=self.current_system.name,
            tiers=self.tiers,
            mode=self.mode,
            fsync=plan.get("fsync", "pfs"),
            policy="none" if self.tiers == "pfs" else self.policy,
            repetition=repetition,
            metric=published.metric,
            unit=published.unit,
            direction=published.direction,
            **found,
            drain_s=told.get("drain_s") if drains else None,
            verified=None,
            modelled=self.modelled,
            command=" ".join([Path(self.program).name, *arguments]),
            ranks=self.sizes.ranks,
            nodes=self.sizes.nodes,
            bytes=self.sizes.total_bytes,
            published=share,
            published_source=f"{published.text} {published.unit} of {published.nodes} nodes"
            f" ({published.source})" + ("" if whole else f", {self._share_words()}"),
            requirement=share if self.judged and self.tiers == "pfs" else None,
            expected=share if self.judged and self.tiers == "pfs" else None,
            factor=self.factor,
            scale=self.wanted.name,
            dropped=(*self.sizes.dropped, *self.unspelled, *(f"condition: {c}" for c in conditions)),
            read_limit=limit,
            medium=self.media.get(access),
            full_percent=full_percent(stage / "df.txt"),
        )

    def _read_limit(self, transfer: int, metric: str) -> float | None:
        """What the twin, or a node of the site as its extras say, reads at most, in the metric's unit."""
        stated = self.current_partition.extras.get("read_limit_mib_s")
        limit = stated and float(stated) * (1 << 20)
        if self.modelled:
            limit = read_limit(self.published_run, transfer)
        return limit and limit / (transfer if metric == "iops" else 1 << 20) / self.factor * self.sizes.nodes

    def _share(self, access: str) -> float:
        """The published number as this run would show it: its nodes' share, slowed by the factor."""
        n = self.published_run.number(access)
        if n.metric == "time":
            operations = self.sizes.operations or 1
            return n.value * operations / 1_000_000 * self.factor
        return n.per_node * self.sizes.nodes / self.factor

    def _share_words(self) -> str:
        nodes = "a node's share" if self.sizes.nodes == 1 else f"the share of {self.sizes.nodes} nodes"
        return nodes + (f", slowed by {self.factor}" if self.factor > 1 else "")

    @sanity_function
    def all_there(self) -> bool:
        """Every number was printed, the job ended well, the bytes are on the PFS."""
        values = self.metrics.get("values", {})
        wanted = {access for launch in self.published_run.launches for access in launch.measures}
        return sn.all(
            [
                sn.assert_not_in("error", self.metrics, f"numbers are missing: {self.metrics.get('error')}"),
                sn.assert_eq(values.keys(), wanted, "other numbers than {1} were printed: {0}"),
                sn.assert_true(all(v > 0 for v in values.values()), "a number is not above 0"),
                sn.assert_eq(self.job.exitcode or 0, 0, "the job ended with {0}"),
                sn.assert_in(self.metrics.get("verified"), (True, None), "the PFS holds other bytes"),
                sn.assert_true(self.metrics.get("sustained") is not False, "a rank reached its data's end"),
            ]
        )

    @run_before("performance")
    def report_numbers(self) -> None:
        """A variable for each measured access, without a reference: verdicts are `tierbench report`'s."""
        for access, value in self.metrics.get("values", {}).items():
            unit = self.published_run.number(access).unit
            self.perf_variables[access] = sn.make_performance_function(sn.defer(value), unit)


def _writers(recipe: Recipe) -> list[int]:
    """The launches that write: without -w and -r IOR does both."""
    return [i for i, x in enumerate(recipe.launches) if "-w" in x.arguments or "-r" not in x.arguments]
