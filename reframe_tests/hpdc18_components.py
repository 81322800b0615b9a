"""The components of HPDC'18's evaluation: memory, metadata and messages beside systems that do the same work.

A measurement is one program of `engine/bench/components` on one system. It makes its operations in ten equal
parts: each part is a repetition of the case. A few operations come first: they say how many fit into a few
seconds, and of a system that this machine lacks why it is skipped.
docs/testing/hpdc18-components.md says what is compared and what is not.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.base import refuse, refuse_unknown
from common.jobs import ending
from common.outcome.rundir import next_repetition, write_provenance
from common.scales.components_scale import FIRST, fitting
from common.sites.programs import own_program
from common.sites.tiers import ScaleError, read_scale
from tierbench.base.errors import RunError
from tierbench.base.strict_json import parse, read_fitting
from tierbench.runs.case import Case

PUBLISHED = 1_000_000  # operations of each kind
FLOW = 256  # messages under way at once
PIPELINE = 64  # requests
SKIPPED = 77
CONFIG = """version: 1
max_files: 64
pfs: {{path: {pfs}}}
mode: persistent-async
fsync: pfs
flush: {{policy: manual}}
tiers:
  - name: ram
    medium: memory
    capacity: 512MiB
    block: 4KiB
    slabs: [{{units: 1, share: 0.5}}, {{units: 16, share: 0.5}}]
"""


@dataclass(frozen=True)
class Measurement:
    """One program on one system."""

    component: str
    system: str
    processes: int
    depth: int = 1

    @property
    def name(self) -> str:
        """In the names of cases."""
        return f"{self.component}-{self.system}-p{self.processes}-b{self.depth}"


def _all() -> list[Measurement]:
    found = []
    for p in (1, 2):
        found += [Measurement("memory", s, p) for s in ("engine", "glibc", "jemalloc", "mimalloc")]
        found += [Measurement("streams", s, p) for s in ("engine", "files", "glibc", "jemalloc", "mimalloc")]
        for depth in (1, PIPELINE):
            found += [Measurement("metadata", s, p, depth) for s in ("engine", "redis", "memcached")]
        for depth in (1, FLOW):
            found += [Measurement("messages", s, p, depth) for s in ("engine", "nats")]
    return found


MEASUREMENTS = {m.name: m for m in _all()}


@rfm.simple_test
class Hpdc18Components(rfm.RunOnlyRegressionTest):
    """One measurement of a component."""

    #: COMPONENT-SYSTEM-pPROCESSES-bREQUESTS_UNDER_WAY.
    measurement = parameter(list(MEASUREMENTS), type=str, loggable=True)
    #: A file of configs/scales: `components` is the number of operations of each kind.
    scale = variable(str, value="local", loggable=True)
    #: Of all tests of the suite; this one is skipped by it, as its calls are no I/O.
    trace = variable(bool, value=False, loggable=True)
    #: What came out, for ReFrame's report.
    metrics = variable(dict, value={}, loggable=True)

    descr = "a component of the engine beside systems that do the same work"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    tags = {"components", "hpdc18"}
    time_limit = "30m"

    @run_after("init")
    def choose(self) -> None:
        """Bad input is refused before anything runs."""
        refuse_unknown("measurement", self.measurement, MEASUREMENTS)
        try:
            self.operations = int(read_scale(self.scale)["components"])
        except ScaleError as e:
            refuse(str(e))
        self.asked = MEASUREMENTS[self.measurement]

    @run_before("setup")
    def heed_signals(self) -> None:
        """A session that is asked to end starts no further job."""
        ending.heed_signals()

    @run_after("setup")
    def find_system(self) -> None:
        """The program itself knows what it lacks; one that fails here fails in its job, too."""
        self.skip_if(self.trace, "its calls are no I/O")
        if self.is_dry_run():
            return
        program, *words = self._command(min(FIRST, self.operations))
        self.skip_if(not Path(program).exists(), f"{program} is missing; needs `make build`")
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        self.skip_if(done.returncode == SKIPPED, done.stderr.strip())
        if done.returncode == 0:
            rates = [parse(line, program)["ops_per_s"] for line in done.stdout.splitlines()]
            self.operations = fitting(self.operations, rates)

    def _command(self, operations: int) -> list[str]:
        """The engine's streams are files under the adapter."""
        asked = self.asked
        system = "files" if (asked.component, asked.system) == ("streams", "engine") else asked.system
        numbers = ["-n", str(operations), "-p", str(asked.processes), "-b", str(asked.depth)]
        return [str(own_program(f"tb-components-{asked.component}")), system, *numbers]

    @run_before("run")
    def prepare(self) -> None:
        """One process starts the others: no launcher is needed. Streams are written in the stage folder."""
        self.job.launcher = getlauncher("local")()
        words = self._command(self.operations)
        if self.asked.component == "streams":
            words = ["env", f"TMPDIR={Path(self.stagedir) / 'pfs'}", *words]
            self.prerun_cmds = ["mkdir -p pfs"]
        if (self.asked.component, self.asked.system) == ("streams", "engine"):
            (Path(self.stagedir) / "tiers.yaml").write_text(CONFIG.format(pfs=Path(self.stagedir) / "pfs"))
            words = [str(own_program("tierctl")), "run", "-c", "tiers.yaml", "--", *words]
        self.executable, *options = [shlex.quote(w) for w in words]
        self.executable_opts = options
        self.prerun_cmds = [ending.WAIT_FOR_THE_PROGRAM, *self.prerun_cmds]
        ending.heed_signals_for(self.job)

    @run_before("sanity")
    def keep(self) -> None:
        """What was printed, and a case of each part; a program that failed measured nothing."""
        if self.job.exitcode:
            return  # what it printed was not read again to its end; ReFrame keeps it with the stage
        try:
            rows = self._rows()
            self.metrics = {"values": {row["operation"]: self._keep_row(row) for row in rows}}
        except (RunError, OSError, KeyError, TypeError, ValueError) as e:
            self.metrics = {"error": f"{type(e).__name__}: {e}"}

    @run_before("sanity")
    def end_if_asked(self) -> None:
        """The session ends here after a signal: what the job left is kept by now."""
        ending.ended(self.job)

    @run_before("sanity")
    def say_why_it_failed(self) -> None:
        """In the program's own words, which name the system: a server that died, an answer that was wrong."""
        if self.job.exitcode:
            said = (Path(self.stagedir) / str(self.stderr)).read_text(errors="replace").strip()
            last = said.splitlines()[-1] if said else "it said nothing"
            raise SanityError(f"the program ended with {self.job.exitcode}: {last}")

    def _rows(self) -> list[dict[str, Any]]:
        """The lines of JSON that the program printed; the stage keeps them as they are read again."""
        stage = Path(self.stagedir)
        lines = (stage / str(self.stdout)).read_text().splitlines()
        found = [parse(line, f"{self.stdout}") for line in lines if line.startswith("{")]
        told = {"component": self.asked.component, "system": self.asked.system}
        rows = [row | told for row in found]
        (stage / "components.json").write_text(json.dumps({"rows": rows}, indent=1))
        return list(read_fitting(stage / "components.json", "components")["rows"])

    def _keep_row(self, row: dict[str, Any]) -> float:
        """Its parts as repetitions; the first has what the program printed. Returns the median rate."""
        values = [float(v) for v in row["ops_per_s"]]
        told = self._told(row)
        for value in values:
            self._keep_case(f"{told}-{row['operation'].replace(' ', '-')}", "rate", "op/s", value)
        if self.asked.depth == 1:
            for share, value in row.get("latency_us", {}).items():
                self._keep_case(f"{told}-latency-{share.replace('.', '_')}", "time", "us", value)
        return sorted(values)[len(values) // 2]

    def _told(self, row: dict[str, Any]) -> str:
        return f"hpdc18-components-{row['component']}-{row['system']}-p{row['processes']}-b{row['depth']}"

    def _keep_case(self, test: str, metric: str, unit: str, value: float) -> None:
        """Bytes are compared by the program, which fails where they are wrong."""
        repetition, folder = next_repetition(test)
        engine = self.asked.system == "engine"
        Case(
            test=test,
            system=self.current_system.name,
            site=self.current_system.name,
            tiers="ram" if engine else "none",
            mode="persistent-async" if engine else "bypass",
            fsync="none",
            policy="none",
            repetition=repetition,
            metric=metric,
            unit=unit,
            direction="lower" if metric == "time" else "higher",
            value=value,
            open_s=None,
            write_s=None,
            close_s=None,
            total_s=None,
            drain_s=None,
            verified=True,
            driver=f"tb-components-{self.asked.component}",
            modelled=False,
            command=" ".join(self._command(self.operations)[1:]),
            ranks=self.asked.processes,
            bytes=0,
            published=None,
            published_source=None,
            requirement=None,
            scale=self.scale,
            dropped=()
            if self.operations >= PUBLISHED
            else (f"operations: {self.operations} of {PUBLISHED}",),
        ).write(folder)
        stage, driver = Path(self.stagedir), f"tb-components-{self.asked.component}"
        kept = {"stdout.txt": self.stdout, "stderr.txt": self.stderr}
        kept |= {"components.json": "components.json"} if repetition == 1 else {}
        for name, file in kept.items():
            shutil.copy(stage / str(file), folder / name)
        write_provenance(self.current_system.name, {"name": self.scale}, driver)

    @sanity_function
    def all_there(self) -> Any:
        """The program ended well, so all that it read was what was written."""
        return sn.assert_not_in("error", self.metrics, f"numbers are missing: {self.metrics.get('error')}")

    @run_before("performance")
    def report_numbers(self) -> None:
        """A variable for each operation, without a reference."""
        for operation, value in self.metrics.get("values", {}).items():
            name = operation.replace(" ", "_")
            self.perf_variables[name] = sn.make_performance_function(sn.defer(value), "op/s")
