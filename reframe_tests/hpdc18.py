"""The Hermes evaluation of HPDC'18 on the share of one client node: synthetic workloads, VPIC-IO and HACC-IO.

Each is run without buffering, on tiers that behave like DataWarp and like Data Elevator, and on Hermes'
hierarchy under each placement policy. The number is the evaluation's: the time of the I/O until all bytes are
persistent, of the repetitive reads until all are read. `docs/testing/hpdc18.md` says how it is judged.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.hpdc18_case import DEVICES, Hpdc18Case
from common.jobs.limits import of_bytes
from common.jobs.script import Script, mark
from common.outcome import held
from common.outcome.held import Held
from common.outcome.launch_numbers import outputs_of
from common.outcome.results import Results
from common.outcome.verify_steps import right
from common.scales.hpdc18_scale import WORKLOADS, dropped, steps_of
from common.sites.plan import Plan
from common.sites.programs import has_romio, own_program
from common.sites.site import Site
from common.sites.tiers import HPDC18_TIERS
from common.sites.twin import device, rate, seconds_of
from tierbench.base import schema, sizes
from tierbench.base.errors import RunError
from tierbench.base.policies import POLICIES
from tierbench.runs.case import Case

SOURCE = "Kougkas, Devarajan, Sun: Hermes, HPDC'18 (talk)"
# Open MPI makes and removes a file beside each file that it opens, for shared file pointers, which none of
# these programs has.
MPI = {"OMPI_MCA_sharedfp": "^lockedfile"}
# The evaluation ran MPICH with ROMIO as MPI-IO. HACC-IO, which opens its files by MPI-IO, has it on a twin
# where Open MPI brings it: its own MPI-IO asks the PFS several times for each open.
ROMIO = {"OMPI_MCA_io": "^ompio"}
TEMPORARY_ROOM = 4  # the evaluation's temporary data are a small part of a node's RAM: here they fit it twice
PLACES_ROOM = 8  # times the bytes that capacities are for
# Nothing moves there while a program computes, and its time does not count: a twin leaves it out.
STILL = ("pfs", "hpdc18/datawarp")
NO_COMPUTE = "compute: left out, as nothing moves while a program computes"


class Hpdc18(Hpdc18Case):
    """One workload on one way of buffering."""

    tiers = parameter(HPDC18_TIERS, type=str, loggable=True)
    workload = parameter(WORKLOADS, type=str, loggable=True)
    #: Half or twice the ranks, with the same bytes in all (strong) or of a rank (weak).
    scaling = variable(str, value="none", loggable=True)

    def check_input(self) -> None:
        """The scale."""
        super().check_input()
        self.descr = f"HPDC'18: {self.workload}, {self.buffering}"

    @property
    def buffering(self) -> str:
        """None, a comparator, or the policy of the engine."""
        name = str(self.tiers).removeprefix("hpdc18/")
        return {"pfs": "none", "hermes": str(self.policy)}.get(name, name)

    @property
    def test(self) -> str:
        """What is measured: the rows of a report begin so."""
        return f"hpdc18-{self.workload}" + ("" if self.scaling == "none" else f"-{self.scaling}")

    def make_plan(self, site: Site) -> Plan:
        """Ranks, bytes and compute of the scale."""
        scale = self.scale_on(site)
        workload = WORKLOADS[self.workload]
        factor = scale.factors[workload.kind] if site.modelled else 1
        self.pfs_device = device(DEVICES["pfs"])
        self.steps = steps_of(workload, scale, self.scaling, rate(self.pfs_device, "write") / factor)
        left_out = dropped(self.steps)
        if site.modelled and self.tiers in STILL and self.steps.compute_us:
            self.steps, left_out = replace(self.steps, compute_us=0), (*left_out, NO_COMPUTE)
        return self.plan_of(
            site,
            self.test,
            self.steps.ranks,
            self.steps.written * (TEMPORARY_ROOM if workload.temporary else 1),
            places=PLACES_ROOM,
            scale=scale.name,
            factor=factor,
            dropped=left_out,
            temporary=workload.temporary,
        )

    def find_programs(self) -> None:
        """The workload and tierctl."""
        self.program = own_program(f"tb-{WORKLOADS[self.workload].program}")
        self.find([self.program])

    def write_script(self, script: Script) -> None:
        """One launch through the tiers, or on the PFS alone through its model."""
        pfs = self.places.pfs
        self.env_vars |= MPI
        if self.site.modelled and WORKLOADS[self.workload].kind == "hacc" and has_romio():
            self.env_vars |= ROMIO
        self.executable = str(self.program)
        self.executable_opts = [*self.steps.arguments(str(pfs)), "--json", "result.json"]
        _, trace = script.trace("trace", "tb-steps", sizes.MIB, pfs, wanted=self.trace)
        before = [f"mkdir -p {pfs}", *script.plan_lines(pfs), *script.start_lines()]
        self.prerun_cmds = [*before, *script.begins("workload")]
        self.postrun_cmds = [mark("workload", "ends")]
        slowest = rate(self.pfs_device, "write") / self.plan.factor
        bytes_moved = self.steps.written + self.steps.read + round(slowest * self._compute_s())
        script.through_tierctl("stats.json", trace, of_bytes("workload", bytes_moved, slowest))

    def _compute_s(self) -> float:
        return self.steps.compute_us * self.steps.phases / 1e6

    # --- results --------------------------------------------------------------------------------------

    @property
    def config_name(self) -> str:
        """By test and way of buffering."""
        return f"{self.test}-{self.buffering}"

    def case_names(self) -> dict[str, str]:
        """One of the time."""
        return {"time": f"{self.test}_{self.buffering}"}

    def make_cases(self, results: Results) -> dict[str, Case]:
        """From the program's result, and its bytes from the PFS."""
        told = json.loads((results.stage / "result.json").read_text())
        common = results.common("time")
        self.record = self._record(told, results, float(common["drain_s"] or 0))
        seconds = self.record["seconds"]
        drain = 0.0 if self.steps.workload.temporary else seconds["drain"]
        value = float(told["io_s"]) + drain
        (results.folder("time") / "hpdc18.json").write_text(json.dumps(self.record, indent=1))
        summary = f"I/O time {told['io_s']} s and drain {drain} s: {value}\n"
        (results.folder("time") / "summary.txt").write_text(summary)
        case = Case(
            **common,
            test=self.test,
            system="hpdc18",
            metric="time",
            unit="s",
            direction="lower",
            value=value,
            open_s=seconds["open"],
            write_s=seconds["write"],
            close_s=seconds["close"] + seconds["flush"],
            total_s=float(told["io_s"]),
            verified=self._verified(told),
            driver=f"{told['program']}-{told['version']}",
            command=" ".join([self.program.name, *self.executable_opts]),
            bytes=self.steps.written + self.steps.read,
            published=None,
            published_source=SOURCE,
            requirement=None,
            dropped=self.plan.dropped,
            **self._held(told, results.stage).record(),
        )
        return {"time": case}

    def _verified(self, told: dict[str, Any]) -> bool:
        """What the program read, and what is on the PFS."""
        assert self.places.pfs
        return right(self.steps, self.places.pfs) and told["as_written"] is not False

    def _record(self, told: dict[str, Any], results: Results, drain_s: float) -> dict[str, Any]:
        """What the analysis needs to say what is possible and where the time went."""
        stats = results.stats()
        moved = {tier["name"]: tier["bytes_in"] for tier in stats.get("tiers", [])}
        moved["pfs"] = stats.get("pfs", {}).get("bytes_written", 0)
        parts = ("open", "write", "read", "close", "flush", "compute")
        made = {
            "version": 1,
            "workload": self.workload,
            "kind": self.steps.workload.kind,
            "buffering": self.buffering,
            "scaling": self.scaling,
            "ranks": self.steps.ranks,
            "phases": self.steps.phases,
            "phase_bytes": self.steps.phase_bytes,
            "read_times": self.steps.workload.times,
            "creates": self.steps.creates,
            "create_s": self._create_s(),
            "compute_s": self.steps.compute_us / 1e6,
            "rates": self._rates(),
            "seconds": {part: told[f"{part}_s"] for part in parts} | {"drain": drain_s},
            "moved": moved,
        }
        if misfit := schema.misfit(made, "hpdc18"):
            raise RunError(f"hpdc18.json: {misfit}")
        return made

    def _create_s(self) -> float:
        """What a new file takes of the twin's PFS."""
        modelled = self.site.modelled
        return seconds_of(self.pfs_device, "open_time") * self.plan.factor if modelled else 0.0

    def _rates(self) -> dict[str, dict[str, float]]:
        if not self.site.modelled:
            return {}
        models = {place: device(name) for place, name in DEVICES.items()}
        return {
            place: {way: rate(model, way) / self.plan.factor for way in ("read", "write")}
            for place, model in models.items()
        }

    def _held(self, told: dict[str, Any], stage: Path) -> Held:
        """The launch by its words and the suite's clock."""
        output = outputs_of((stage / str(self.stdout)).read_text(errors="replace"))["workload"]
        asked = {
            "ranks": self.steps.ranks,
            "bytes_written": self.steps.written,
            "bytes_read": self.steps.read,
        }
        wrong = tuple(
            f"{name}: asked for {count}, the program says {told[name]}"
            for name, count in asked.items()
            if told[name] != count
        )
        found = held.timed("workload", told["io_s"] + told["compute_s"], output, stage / "stats.json")
        return found + Held(wrong) + held.places(stage, self.site)

    def summary(self) -> dict[str, Any]:
        """Where the time went."""
        return {"seconds": self.record["seconds"]}


@rfm.simple_test
class Hpdc18Comparators(Hpdc18):
    """No buffering, DataWarp-like, Data-Elevator-like."""

    tiers = parameter(HPDC18_TIERS[:3], type=str, loggable=True)


@rfm.simple_test
class Hpdc18Policies(Hpdc18):
    """Hermes' hierarchy under each placement policy."""

    tiers = parameter(HPDC18_TIERS[3:], type=str, loggable=True)
    placement = parameter(POLICIES, type=str, loggable=True)

    @run_after("init")
    def choose_policy(self) -> None:
        """The parameter is the policy."""
        self.policy = self.placement


class Hpdc18Scaling(Hpdc18):
    """Half and twice the ranks of the scale."""

    by = parameter(["half", "double"], type=str, loggable=True)
    kind: str

    @run_after("init")
    def choose_scaling(self) -> None:
        """Of this kind and by so much."""
        self.scaling = f"{self.kind}-{self.by}"


@rfm.simple_test
class Hpdc18StrongScaling(Hpdc18Scaling):
    """Of the codes, as in the evaluation: the same bytes in all."""

    workload = parameter(["vpic", "hacc"], type=str, loggable=True)
    kind = "strong"


@rfm.simple_test
class Hpdc18WeakScaling(Hpdc18Scaling):
    """Of a synthetic workload on one node: the same bytes of each rank."""

    workload = parameter(["alternating-balanced"], type=str, loggable=True)
    kind = "weak"
