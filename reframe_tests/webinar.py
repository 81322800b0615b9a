"""The tier comparison of the Hermes 0.1 beta webinar (section 3): what each tier in front of the PFS buys.

The command line is the webinar's, `ior -w -o F -t 1m -b B -F -e -Y`, with a fixed time-stamp signature (-G)
and -k so that the bytes can be verified on the PFS after the drain. A scale changes ranks and bytes, and tier
capacities with the bytes, so that what overflowed a tier still overflows it.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    parameter,
    performance_function,
    run_after,
    run_before,
    sanity_function,
    variable,
)

sys.path.insert(0, str(Path(__file__).resolve().parent))

from common.capacity_checks import memory_place
from common.ior import find_driver, write_numbers
from common.nodes import per_node_options, refusal, set_nodes
from common.rundir import keep_config, next_repetition, write_provenance
from common.tiers import ROOT, TIERS, ScaleError, read_scale, write_config
from common.traced import Traced
from tierbench.base.errors import RunError
from tierbench.outputs import OutputError, read_ior
from tierbench.runs.case import Case

SIGNATURE = 1_638_301_383  # -G: the time stamp in the data, the same for writing and verifying
TRANSFER = "1m"
ARTEFACTS = ("summary.json", "verify.json", "stats.json", "plan.json", "tiers.yaml")


def _published(tiers: str, test: str, mode: str) -> tuple[float | None, str | None]:
    """The webinar's bandwidth (MiB/s) for what it ran: no tiers, or scratch."""
    with (ROOT / "results" / "published" / "webinar.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if (row["tiers"], row["test"]) == (tiers, test) and mode in ("bypass", "scratch"):
                return float(row["value"]), row["source"]
    return None, None


def _refuse(message: str) -> NoReturn:
    """End ReFrame with status 2: an exception would only skip the test, and a run of no tests passes."""
    print(f"reframe_tests: {message}", file=sys.stderr)
    sys.exit(2)


class TierWrite(rfm.RunOnlyRegressionTest, Traced):
    """One write of all ranks on one tier configuration."""

    tiers = parameter(TIERS, type=str, loggable=True)
    mode = parameter(["persistent-async", "scratch"], type=str, loggable=True)
    policy = variable(str, value="max-bandwidth", loggable=True)
    sync = parameter(["each-write"], type=str, loggable=True)  # -Y, or with the webinar's second row only -e
    scale = variable(str, value="local", loggable=True)
    metrics = variable(dict, value={}, loggable=True)

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    time_limit = "10m"

    @run_after("init")
    def choose(self) -> None:
        """Read the scale; a case that means nothing is skipped, bad input is refused before anything runs."""
        try:
            self.sizes = read_scale(self.scale)
        except ScaleError as e:
            _refuse(str(e))
        if self.tiers not in TIERS:
            _refuse(f"tiers={self.tiers!r}; allowed: {', '.join(TIERS)}")
        self.skip_if(
            (self.tiers == "pfs") != (self.mode == "bypass"), "the PFS alone is bypass, tiers are not"
        )
        self.sync_each_write = self.sync == "each-write"
        self.test_name = "webinar-write-Y" if self.sync_each_write else "webinar-write"
        self.num_tasks = self.sizes["ranks"]
        self.tags = {"webinar"}

    @run_before("run")
    def prepare(self) -> None:
        """The configuration at this scale, and the command line."""
        extras = self.current_partition.extras
        self.modelled = extras.get("tiers", "modelled") == "modelled"
        places = None if self.modelled else {k: v for k, v in extras.items() if k not in ("tiers", "root")}
        self.total_bytes = self.sizes["ranks"] * self.sizes["block_bytes"]
        stage = Path(self.stagedir)
        nodes = 1 if self.modelled else max(1, self.num_tasks // (self.num_tasks_per_node or self.num_tasks))
        wanted = memory_place(extras.get("root"), 8 * self.total_bytes) if self.modelled else None
        root = Path(wanted, f"tierbench-{os.getpid()}-{self.hashcode}") if wanted else stage / "work"
        write_config(
            self.tiers,
            self.total_bytes // nodes,
            self.policy,
            places,
            stage / "tiers.yaml",
            volatile=wanted is not None,
        )
        refused = refusal(extras, nodes, traced=self.trace)
        if refused:
            raise rfm.core.exceptions.PipelineError(refused)
        if nodes > 1:
            set_nodes(stage / "tiers.yaml", close_to_open=False)
        if self.current_partition.scheduler.registered_name.startswith(("slurm", "squeue")):
            self.job.options += [f"--nodes={nodes}"]
        self.env_vars["TB_ROOT"] = str(root)
        pfs = root / "pfs" if places is None else Path(places["pfs"])
        tierctl = ROOT / "build" / "bin" / "tierctl"
        self.driver_path = find_driver()
        for tool in (tierctl, Path(self.driver_path)):
            if not tool.exists():
                remedy = "make build" if tool.is_relative_to(ROOT) else "IOR set to a program, or unset"
                raise rfm.core.exceptions.PipelineError(f"{tool}: is missing; needs {remedy}")
        for place in ("pfs", "nvme", "bb"):
            (root / place).mkdir(parents=True, exist_ok=True)
        file, block = pfs / "ior.out", self.sizes["block"]
        self.executable = self.driver_path
        self.executable_opts = ["-w", "-o", str(file), "-t", TRANSFER, "-b", str(block), "-F", "-e"]
        self.executable_opts += ["-Y"] if self.sync_each_write else []
        self.executable_opts += [
            "-k",
            "-G",
            str(SIGNATURE),
            "-O",
            "summaryFormat=JSON",
            "-O",
            "summaryFile=summary.json",
        ]
        self.job.launcher.modifier = str(tierctl)
        self.job.launcher.modifier_options = [
            "run",
            "-c",
            "tiers.yaml",
            "--mode",
            self.mode,
            "--stats",
            "stats.json",
            *self.trace_options(),
            *per_node_options(extras, nodes),
            "--",
        ]
        self.prerun_cmds = [f"{tierctl} plan --json --mode {self.mode} tiers.yaml > plan.json"]
        self.postrun_cmds = []
        if self.mode != "scratch":
            self.job.num_tasks = self.num_tasks  # ReFrame sets it after this hook
            launch = " ".join(self.job.launcher.command(self.job))
            verify = f"-r -R -F -k -t {TRANSFER} -b {block} -G {SIGNATURE} -o {file}"
            summary = "-O summaryFormat=JSON -O summaryFile=verify.json"
            self.postrun_cmds += [f"{launch} {self.driver_path} {verify} {summary}"]
        # Removed after the job and not by it: trapped errors end its script early, data must go even so.
        self.leftovers = [root] if places is None else [file.with_name(f"{file.name}.*")]

    def _case_name(self) -> str:
        parts = [self.test_name, self.tiers, self.mode]
        return "_".join(parts if self.tiers == "pfs" else [*parts, self.policy])

    @run_before("sanity")
    def keep(self) -> None:
        """Artefacts and numbers, on failure too."""
        stage = Path(self.stagedir)
        for left in self.leftovers:
            for path in left.parent.glob(left.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        repetition, folder = next_repetition(self._case_name())
        for name in ARTEFACTS:
            if (stage / name).exists():
                shutil.copy(stage / name, folder / name)
        self.keep_traces(stage, folder)
        shutil.copy(stage / str(self.stdout), folder / "stdout.txt")
        shutil.copy(stage / str(self.stderr), folder / "stderr.txt")
        keep_config(f"{self.tiers}-{self.policy}", stage / "tiers.yaml")
        try:
            case = self._record(stage, repetition)
            case.write(folder)
        except (OSError, ValueError, KeyError, OutputError, RunError) as e:
            self.metrics = {"error": f"{type(e).__name__}: {e}"}
            return
        self.metrics = case.as_json()
        write_provenance(self.current_system.name, self.sizes, case.driver)

    def _record(self, stage: Path, repetition: int) -> Case:
        plan = json.loads((stage / "plan.json").read_text())
        stats = json.loads((stage / "stats.json").read_text())
        published, source = _published(self.tiers, self.test_name, self.mode)
        buffered = self.mode not in ("bypass", "scratch")
        return Case(
            test=self.test_name,
            system="ares",
            site=self.current_system.name,
            tiers=self.tiers,
            mode=self.mode,
            fsync=plan["fsync"],
            policy="none" if self.tiers == "pfs" else self.policy,
            repetition=repetition,
            metric="bandwidth",
            unit="MiB/s",
            direction="higher",
            **write_numbers(stage / "summary.json"),
            drain_s=stats["drain_s"] if buffered else None,
            verified=self._verified(stage),
            modelled=self.modelled,
            command=" ".join([Path(self.driver_path).name, *self.executable_opts]),
            ranks=self.num_tasks,
            bytes=self.total_bytes,
            published=published,
            published_source=source,
            requirement=published,
        )

    def _verified(self, stage: Path) -> bool | None:
        if self.mode == "scratch":
            return None
        report = read_ior(stage / "verify.json")
        reads = report.select("read")
        return len(reads) == 1 and report.data_errors == 0 and not report.file_is_short

    @sanity_function
    def all_there(self) -> bool:
        """Every metric was printed, the job ended well, the bytes are on the PFS."""
        return sn.all(
            [
                sn.assert_not_in("error", self.metrics, f"numbers are missing: {self.metrics.get('error')}"),
                sn.assert_gt(self.metrics.get("value") or 0, 0, "no bandwidth was printed"),
                sn.assert_eq(self.job.exitcode, 0, "the job ended with {0}"),
                sn.assert_in(self.metrics.get("verified"), (True, None), "the PFS holds other bytes"),
            ]
        )

    @performance_function("MiB/s")
    def bandwidth(self) -> float:
        """Bytes of all ranks from first open to last close."""
        return self.metrics["value"]

    @performance_function("s")
    def open(self) -> float:
        """Seconds from the first open to the last."""
        return self.metrics["open_s"]

    @performance_function("s")
    def drain(self) -> float:
        """Seconds from the program's end until all is on the PFS; 0 where nothing drains."""
        return self.metrics["drain_s"] or 0.0


@rfm.simple_test
class WebinarPfs(TierWrite):
    """The baseline: PFS alone, with and without -Y."""

    tiers = parameter(["pfs"], type=str, loggable=True)
    mode = parameter(["bypass"], type=str, loggable=True)
    sync = parameter(["each-write", "at-close"], type=str, loggable=True)

    @run_after("init")
    def tag(self) -> None:
        """Part of the smoke run."""
        self.tags |= {"smoke"}


@rfm.simple_test
class WebinarTiers(TierWrite):
    """Each buffered configuration, filled in turn from the top."""

    tiers = parameter(["bb", "bb-nvme", "bb-nvme-ram", "ram"], type=str, loggable=True)

    @run_after("init")
    def tag(self) -> None:
        """All tiers at once, and RAM alone, are the smoke run."""
        self.tags |= {"smoke"} if self.tiers in ("bb-nvme-ram", "ram") else set()


@rfm.simple_test
class WebinarSideBySide(TierWrite):
    """All tiers written side by side, in scratch: with fsync: tier every record queues on one journal."""

    tiers = parameter(["bb-nvme-ram"], type=str, loggable=True)
    mode = parameter(["scratch"], type=str, loggable=True)
    policy = "round-robin"
