"""The benchmarks of others that VPIC-IO and HACC-IO are, beside ours: the same files by the same numbers?

`hacc_io`, `vpicio_uni`, `h5bench_write` are the site's: HACC_IO, VPICIO_UNI, H5BENCH_WRITE, or on PATH. One
that is missing is skipped by its name. Each runs on the PFS alone and on Hermes' tiers, and ours after it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, run_after

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.base import refuse
from common.hpdc18_case import DEVICES, Hpdc18Case
from common.jobs.limits import of_bytes
from common.jobs.script import Script, mark
from common.outcome import held
from common.outcome.launch_numbers import outputs_of
from common.outcome.results import Results
from common.outcome.same_files import differences
from common.scales.hpdc18_originals import CONFIG, ORIGINALS, h5bench_config
from common.sites.plan import Plan
from common.sites.programs import own_program
from common.sites.site import Site
from common.sites.tiers import HPDC18_TIERS
from common.sites.twin import device, rate
from tierbench.base import sizes
from tierbench.runs.case import Case

TIERS = (HPDC18_TIERS[0], HPDC18_TIERS[3])  # no buffering, Hermes' hierarchy
PROGRAMS = ("original", "embedded")
PLACES_ROOM = 4  # times the bytes that capacities are for


@rfm.simple_test
class Hpdc18Originals(Hpdc18Case):
    """One program of others, and ours in its place."""

    tiers = parameter(TIERS, type=str, loggable=True)
    original = parameter(list(ORIGINALS), type=str, loggable=True)
    known_tiers = TIERS

    def check_input(self) -> None:
        """The scale."""
        super().check_input()
        self.of = ORIGINALS[self.original]
        self.descr = f"HPDC'18: {self.original} and {self.of.embedded}"

    @run_after("setup")
    def find_original(self) -> None:
        """Without it there is nothing to compare; a variable that names no program is a mistake."""
        path = self.of.path()
        self.skip_if(not path, f"needs {self.of.variable} set to the program, or {self.original} on PATH")
        self.theirs = str(path)
        if not os.access(self.theirs, os.X_OK):
            refuse(f"{self.of.variable}={self.theirs!r}; allowed: a program")

    def make_plan(self, site: Site) -> Plan:
        """Ranks and bytes of the scale."""
        self.at = self.scale_on(site)
        name, room = f"hpdc18-{self.original}", self.of.bytes(self.at)
        return self.plan_of(site, name, self.at.ranks, room, places=PLACES_ROOM, scale=self.at.name)

    def find_programs(self) -> None:
        """Ours and tierctl."""
        self.different: list[str] = []
        self.ours = own_program(self.of.embedded)
        self.find([self.ours])

    def write_script(self, script: Script) -> None:
        """The original, then ours; the job ends where one of them fails."""
        pfs, particles = self.places.pfs, self.of.particles(self.at)
        folders = {who: f"{pfs}/{who}" for who in PROGRAMS}
        if self.original == "h5bench_write":
            (Path(self.stagedir) / CONFIG).write_text(h5bench_config(particles))
        limit = of_bytes(self.original, 2 * self.of.bytes(self.at), rate(device(DEVICES["pfs"]), "write"))
        script.through_tierctl("stats-embedded.json", [], limit)
        own = script.line(str(self.ours), self.of.own_arguments(folders["embedded"], particles))
        calibration, trace = script.trace("trace", self.theirs, sizes.MIB, pfs, wanted=self.trace)
        script.through_tierctl("stats.json", trace, limit)
        self.executable = self.theirs
        self.executable_opts = self.of.arguments(folders["original"], particles)
        folder_words = " ".join(folders.values())
        self.prerun_cmds = [f"mkdir -p {folder_words}", *script.plan_lines(pfs), *calibration]
        self.prerun_cmds += script.begins("original")
        self.postrun_cmds = [mark("original", "ends"), *script.begins("embedded")]
        self.postrun_cmds += [self._as_built(own, folders["original"]), mark("embedded", "ends")]

    def _as_built(self, line: str, folder: str) -> str:
        """Whether hacc_io makes a file per process was chosen when it was built: its files say so."""
        if self.original != "hacc_io":
            return line
        return f"{line} $(test -e {folder}/hacc-Part00000000-of-{self.plan.ranks:08d}.data && echo -F)"

    # --- results --------------------------------------------------------------------------------------

    @property
    def config_name(self) -> str:
        """By program and way of buffering."""
        return f"{self.plan.name}-{str(self.tiers).removeprefix('hpdc18/')}"

    def case_names(self) -> dict[str, str]:
        """The time of each program."""
        return {who: f"{self.config_name}_{who}" for who in PROGRAMS}

    def problems(self) -> list[str]:
        """Where the files differ."""
        return self.different

    def make_cases(self, results: Results) -> dict[str, Case]:
        """By the suite's own clock, with start and drain: the programs' own numbers count other things."""
        assert self.places.pfs
        self.different = differences(*(self.places.pfs / who for who in PROGRAMS))
        told = outputs_of((results.stage / str(self.stdout)).read_text(errors="replace"))
        return {who: self._case_of(who, told[who].clock, results) for who in PROGRAMS}

    def _case_of(self, who: str, clock: Any, results: Results) -> Case:
        stats = "stats.json" if who == "original" else "stats-embedded.json"
        program = self.theirs if who == "original" else str(self.ours)
        words = self.of.arguments if who == "original" else self.of.own_arguments
        return Case(
            **results.common(who, stats),
            test=f"hpdc18-{self.original}-{who}",
            system="hpdc18",
            metric="time",
            unit="s",
            direction="lower",
            value=clock.elapsed_s,
            open_s=None,
            write_s=None,
            close_s=None,
            total_s=None,
            verified=not self.different,
            driver=Path(program).name,
            command=" ".join([Path(program).name, *words("PFS", self.of.particles(self.at))]),
            bytes=self.of.bytes(self.at),
            published=None,
            published_source=None,
            requirement=None,
            **held.places(results.stage, self.site).record(),
        )
