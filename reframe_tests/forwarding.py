"""When does I/O forwarding pay? The study's 189 scenarios (PDSW 2020), each with 0 to 8 I/O nodes.

    reframe -C configs/sites/local.py -c reframe_tests/forwarding.py -r -t forge          # nine of them
    reframe -C configs/sites/marenostrum4.py -c reframe_tests/forwarding.py -r -t pdsw20  # all

A job has all numbers of I/O nodes, in turn in each repetition, so that what changes on the machine meets all
of them. The report has a row for each, and `tierbench forwarding` reads the results. Where the variable FORGE
names the real program, it makes the launches that it can. What is local is in `docs/forwarding.md`.
"""

from __future__ import annotations

import json
import shlex
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PipelineError

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.outcome.forwarding_results import NODES, RESULT, Wrote, launches, wrote
from common.outcome.rundir import next_repetition, run_dir, write_provenance
from common.scales.forwarding_scenarios import IO_NODES, LOCAL_TOTAL, SCENARIOS, TOTALS, Scenario
from common.sites.programs import named_program, own_program
from common.sites.site import Site
from tierbench.runs.case import Case

MOST = max(IO_NODES)
# An I/O node has a compute node for itself, as in the study: one slot on each of the first hosts.
HOSTS = """scontrol show hostnames "$SLURM_JOB_NODELIST" > nodes
for n in {io_nodes}; do
    awk -v n=$n -v all=$((n + {nodes})) -v slots={processes} \\
        'NR <= all {{ print $1 " slots=" (NR <= n ? 1 : slots) }}' nodes > hosts.$n
done
"""
STEPS = """here=$PWD
{hosts}place=$(mktemp -d {root}/tb-forwarding-XXXXXX) || exit 1
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
declare -A program=({programs})
for repetition in $(seq {repetitions}); do
    for n in {io_nodes}; do
        out=$here/out/$n/$repetition
        mkdir -p "$out"
        mpirun {hostfile}-n $((n + {clients})) "${{program[$n]}}" "$here/scenario.$n.json" "$out" || exit 1
        rm -f "$place"/f*
    done
done
"""


def bandwidth(folder: Path) -> float:
    """The median of the results in a folder."""
    return statistics.median(wrote(f).bandwidth_mib_s for f in launches(folder.parent) if f.parent == folder)


@rfm.simple_test
class Forwarding(rfm.RunOnlyRegressionTest):
    """One scenario with each number of I/O nodes."""

    scenario = parameter([s.name for s in SCENARIOS], type=str, loggable=True)
    #: The study has five, on different days: start the suite again.
    repetitions = variable(int, value=5, loggable=True)
    #: Seconds; the slides say 1, the recorded runs have 60.
    stonewall = variable(int, value=1, loggable=True)
    #: Bytes of all clients together; 0: those of the site.
    total = variable(int, value=0, loggable=True)
    #: Whether each byte is read back and compared, which costs time within the write, too.
    validate = variable(bool, value=False, loggable=True)
    #: Of all tests of the suite; this one is skipped by it, as a trace costs a client more than an I/O node.
    trace = variable(bool, value=False, loggable=True)

    descr = "bandwidth of an access pattern, by the number of I/O nodes"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1
    time_limit = "30m"

    @run_after("init")
    def mark(self) -> None:
        """All have the study's tag, nine that of the short run."""
        self.of = Scenario.named(self.scenario)
        self.tags = {"pdsw20"} | ({"forge"} if self.of.is_local else set())

    @run_after("setup")
    def choose(self) -> None:
        """The study's deployment on its machines, ranks elsewhere."""
        self.site = Site.of(self.current_system, self.current_partition)
        self.published = self.site.name in TOTALS
        self.skip_if(self.trace, "a trace costs a client more than an I/O node")
        self.skip_if(self.site.published and not self.published, "the study did not run on this machine")
        if self.published:
            self.num_tasks_per_node = self.of.processes
            self.num_tasks = (self.of.nodes + MOST) * self.of.processes

    @run_before("run")
    def prepare(self) -> None:
        """A scenario file for each number of I/O nodes, and the job's steps."""
        ours, theirs = own_program("tb-forge"), named_program("FORGE")
        if not (ours.exists() or self.is_dry_run()):
            raise PipelineError(f"{ours}: is missing; needs `make build`")
        self.programs = {
            n: theirs if theirs and not self.validate and self.of.forge_runs(n, self.published) else ours
            for n in IO_NODES
        }
        stage = Path(self.stagedir).resolve()
        total = self.total or TOTALS.get(self.site.name, LOCAL_TOTAL)
        for n in IO_NODES:
            text = self.of.file(n, total, self.stonewall, self.published, self.validate)
            if self.programs[n] != ours:
                text = self.of.file_with_phases(text)
            (stage / f"scenario.{n}.json").write_text(json.dumps(text, indent=1))
        (stage / "steps.sh").write_text(self.steps(stage))
        self.job.launcher.run_command = lambda _job: ""
        self.executable, self.executable_opts = "bash", ["steps.sh"]

    def steps(self, stage: Path) -> str:
        """One launch after the other."""
        io_nodes = " ".join(map(str, IO_NODES))
        hosts = HOSTS.format(io_nodes=io_nodes, nodes=self.of.nodes, processes=self.of.processes)
        return STEPS.format(
            hosts=hosts if self.published else "",
            hostfile='--hostfile "$here/hosts.$n" ' if self.published else "",
            root=self.site.places.get("pfs") or self.site.root or stage,
            repetitions=self.repetitions,
            io_nodes=io_nodes,
            clients=self.of.clients(self.published),
            programs=" ".join(f"[{n}]={shlex.quote(str(p))}" for n, p in self.programs.items()),
        )

    @sanity_function
    def all_there(self) -> Any:
        """Each launch left a result."""
        found = len(launches(Path(self.stagedir) / "out"))
        return sn.all(
            [
                sn.assert_eq(self.job.exitcode or 0, 0, "the job ended with {0}"),
                sn.assert_eq(found, len(IO_NODES) * self.repetitions, "{0} results; expected {1}"),
            ]
        )

    @run_before("performance")
    def keep(self) -> None:
        """Results and records go to the run folder; the number is the median for each number of I/O nodes."""
        if self.is_dry_run():
            return
        out = Path(self.stagedir) / "out"
        for launch in launches(out):
            if not (launch / RESULT).exists():
                (launch / NODES).write_text(f"{self.of.nodes if self.published else 1}\n")
        shutil.copytree(out, run_dir() / "forwarding" / self.scenario, dirs_exist_ok=True)
        self.perf_variables = {
            f"io_nodes_{n}": sn.make_performance_function(bandwidth, "MiB/s", out / str(n)) for n in IO_NODES
        }
        found = [wrote(launch) for launch in launches(out)]
        for one in found:
            self.record(one)
        write_provenance(self.site.name, {}, ", ".join(sorted({one.driver for one in found})))

    def record(self, one: Wrote) -> None:
        """The case of one launch: without I/O nodes it is the baseline, on the PFS alone."""
        n = one.io_nodes
        repetition, folder = next_repetition(f"forge-{self.scenario}-{n}")
        Case(
            test=f"forge-{self.scenario}",
            system=self.site.name,
            site=self.site.name,
            tiers=f"io-nodes-{n}" if n else "pfs",
            mode="bypass",
            fsync="pfs",
            policy="none",
            repetition=repetition,
            metric="bandwidth",
            unit="MiB/s",
            direction="higher",
            value=one.bandwidth_mib_s,
            open_s=None,
            write_s=one.seconds,
            close_s=None,
            total_s=one.seconds,
            drain_s=None,
            verified=one.verified,
            driver=one.driver,
            modelled=False,
            command=f"{self.programs[n].name} scenario.{n}.json",
            ranks=one.ranks,
            bytes=one.bytes,
            published=None,
            published_source=None,
            requirement=None,
            nodes=one.nodes,
        ).write(folder)
