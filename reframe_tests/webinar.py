"""The tier comparison of the Hermes 0.1 beta webinar (section 3): what each tier in front of the PFS buys.

The command line is the webinar's, `ior -w -o F -t 1m -b B -F -e -Y`, with a fixed time-stamp signature (-G)
and -k so that the bytes can be verified on the PFS after the drain. A scale changes ranks and bytes, and tier
capacities with the bytes, so that what overflowed a tier still overflows it.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, performance_function, run_after, variable
from reframe.core.exceptions import PipelineError

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.base import TierTest, refuse
from common.jobs.ior import needed_program, write_numbers
from common.jobs.limits import LEAST_BYTES_S, of_bytes
from common.jobs.script import TIERCTL, Script, mark
from common.outcome import held
from common.outcome.launch_numbers import outputs_of
from common.outcome.results import Results
from common.sites.plan import Plan
from common.sites.site import Site
from common.sites.tiers import ROOT, TIERS, ScaleError, read_scale
from tierbench.base.sizes import MIB
from tierbench.judge.asked import IorAsked
from tierbench.outputs import read_ior
from tierbench.runs.case import Case

SIGNATURE = 1_638_301_383  # -G: the time stamp in the data, the same for writing and verifying
TRANSFER = "1m"
TIERS_OF_A_SITE = ["nvme", "nvme-ram"]  # that the webinar did not run
TOUCHED_ROOM = 3  # times the bytes of a node: in tiers, on the PFS and in its ranks
ROOM = 8  # times the bytes written that a twin's places must have room for


def _published(tiers: str, test: str, mode: str) -> tuple[float | None, str | None]:
    """The webinar's bandwidth (MiB/s) for what it ran: no tiers, or scratch."""
    with (ROOT / "results" / "published" / "webinar.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if (row["tiers"], row["test"]) == (tiers, test) and mode in ("bypass", "scratch"):
                return float(row["value"]), row["source"]
    return None, None


class TierWrite(TierTest):
    """One write of all ranks on one tier configuration."""

    tiers = parameter(TIERS, type=str, loggable=True)
    #: How buffered bytes are treated; the PFS alone is bypass.
    mode = parameter(["persistent-async", "scratch"], type=str, loggable=True)
    #: -Y, or with the webinar's second row only -e.
    sync = parameter(["each-write"], type=str, loggable=True)
    #: A file of configs/scales.
    scale = variable(str, value="local", loggable=True)

    time_limit = "10m"

    def check_input(self) -> None:
        """The scale; a case that means nothing is skipped."""
        try:
            self.sizes = read_scale(self.scale)
        except ScaleError as e:
            refuse(str(e))
        means_something = (self.tiers == "pfs") == (self.mode == "bypass") or self.tiers not in TIERS
        self.skip_if(not means_something, "the PFS alone is bypass, tiers are not")
        self.test_name = "webinar-write-Y" if self.sync == "each-write" else "webinar-write"
        synced = "an fsync after each" if self.sync == "each-write" else "one fsync at the end"
        self.descr = f"all ranks write 1 MiB transfers with {synced}: {self.tiers}, {self.mode}"
        self.num_tasks = self.sizes["ranks"]
        self.tags = {"webinar"}

    def make_plan(self, site: Site) -> Plan:
        """Ranks and bytes of the scale."""
        self.total_bytes = self.sizes["ranks"] * self.sizes["block_bytes"]
        ranks = self.num_tasks
        nodes = 1 if site.modelled else max(1, ranks // (self.num_tasks_per_node or ranks))
        return Plan(
            name=self.test_name,
            tiers=self.tiers,
            policy=self.policy,
            mode=self.mode,
            ranks=ranks,
            nodes=nodes,
            ranks_per_node=self.num_tasks_per_node,
            config_bytes=self.total_bytes // nodes,
            place_bytes=ROOM * self.total_bytes,
            touched_bytes=TOUCHED_ROOM * self.total_bytes // nodes,
        )

    def find_programs(self) -> None:
        """The driver and tierctl."""
        dry_run = self.is_dry_run()
        self.driver = needed_program("ior", otherwise="ior" if dry_run else None)
        if not (TIERCTL.exists() or dry_run):
            raise PipelineError(f"{TIERCTL}: is missing; needs `make build`")

    def write_script(self, script: Script) -> None:
        """The write through the tiers, and the check of its bytes on the PFS, without them."""
        pfs, block = self.places.pfs, self.sizes["block"]
        file, size = f"{pfs}/ior.out", f"-t {TRANSFER} -b {block}"
        self.executable = self.driver
        self.executable_opts = ["-w", "-o", file, *size.split(), "-F", "-e"]
        self.executable_opts += ["-Y"] if self.sync == "each-write" else []
        self.executable_opts += ["-k", "-G", str(SIGNATURE), *_summary("summary.json")]
        calibration, trace = script.trace("trace", self.driver, MIB, pfs, wanted=self.trace)
        before = [f"mkdir -p {pfs}", *script.plan_lines(pfs), *script.start_lines(), *calibration]
        self.prerun_cmds = [*before, *script.begins("write")]
        verify = f"-r -R -F -k {size} -G {SIGNATURE} -o {file}".split()
        script.directly(of_bytes("check", self.total_bytes, LEAST_BYTES_S))
        check = script.line(self.driver, [*verify, *_summary("verify.json")])
        self.postrun_cmds = [mark("write", "ends"), *([] if self.mode == "scratch" else [check])]
        script.through_tierctl("stats.json", trace, of_bytes("write", 2 * self.total_bytes, LEAST_BYTES_S))

    def case_names(self) -> dict[str, str]:
        """One of the bandwidth."""
        parts = [self.test_name, self.tiers, self.mode]
        return {"bandwidth": "_".join(parts if self.tiers == "pfs" else [*parts, self.policy])}

    @property
    def config_name(self) -> str:
        """By the configuration: all rows are of one test."""
        return f"{self.tiers}-{self.policy}"

    @property
    def scale_record(self) -> dict[str, Any]:
        """All that the scale says."""
        return self.sizes

    def make_cases(self, results: Results) -> dict[str, Case]:
        """From IOR's own summary."""
        published, source = _published(self.tiers, self.test_name, self.mode)
        case = Case(
            **results.common("bandwidth"),
            **write_numbers(results.stage / "summary.json"),
            test=self.test_name,
            system="ares" if self.site.modelled else self.site.name,
            metric="bandwidth",
            unit="MiB/s",
            direction="higher",
            verified=self._verified(results.stage),
            command=" ".join([Path(self.driver).name, *self.executable_opts]),
            bytes=self.total_bytes,
            published=published,
            published_source=source,
            requirement=published if self.site.modelled else None,  # a real site is no webinar's machine
            **self._held(results.stage).record(),
        )
        return {"bandwidth": case}

    def _held(self, stage: Path) -> held.Held:
        """The write against what was asked of it."""
        output = outputs_of((stage / str(self.stdout)).read_text(errors="replace"))["write"]
        asked = IorAsked(tuple(self.executable_opts), self.num_tasks, self.plan.nodes)
        bypass = self.mode == "bypass"
        told = read_ior(stage / "summary.json")
        found = held.ior("", asked, output, told, stage, bypass=bypass)
        return found + held.places(stage, self.site)

    def _verified(self, stage: Path) -> bool | None:
        if self.mode == "scratch":
            return None
        report = read_ior(stage / "verify.json")
        reads = report.select("read")
        return len(reads) == 1 and report.data_errors == 0 and not report.file_is_short

    @performance_function("s")
    def open(self) -> float:
        """Seconds from the first open to the last."""
        return float(self.cases["bandwidth"].open_s or 0)

    @performance_function("s")
    def drain(self) -> float:
        """Seconds from the program's end until all is on the PFS; 0 where nothing drains."""
        return float(self.cases["bandwidth"].drain_s or 0)


def _summary(name: str) -> list[str]:
    return ["-O", "summaryFormat=JSON", "-O", f"summaryFile={name}"]


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

    @run_after("setup")
    def but_those_of_a_site(self) -> None:
        """Asked for by `-P tiers=...`: one test measures a configuration, not two."""
        twice = not self.site.modelled and self.tiers in TIERS_OF_A_SITE
        self.skip_if(twice, "SiteTiers runs it")


@rfm.simple_test
class SiteTiers(TierWrite):
    """What the webinar did not run and a real site without a burst buffer has."""

    tiers = parameter(TIERS_OF_A_SITE, type=str, loggable=True)

    @run_after("init")
    def only_those(self) -> None:
        """`-P tiers=...` puts others here, too."""
        self.skip_if(self.tiers in TIERS and self.tiers not in TIERS_OF_A_SITE, "WebinarTiers runs it")

    @run_after("setup")
    def of_a_site(self) -> None:
        """On the twin these are no rows of the comparison."""
        self.skip_if(self.site.modelled, "the webinar did not run it")


@rfm.simple_test
class WebinarSideBySide(TierWrite):
    """All tiers written side by side, in scratch: with fsync: tier every record queues on one journal."""

    tiers = parameter(["bb-nvme-ram"], type=str, loggable=True)
    mode = parameter(["scratch"], type=str, loggable=True)
    policy = "round-robin"

    @run_after("init")
    def of_several(self) -> None:
        """`-P tiers=...` puts single tiers here, too."""
        self.skip_if(self.tiers in TIERS and "-" not in self.tiers, "one tier has none beside it")
