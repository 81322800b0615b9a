"""What a node reads that its neighbour wrote: from the PFS, or from the neighbour's tiers (`docs/nodes.md`).

    ci/run-slurm -t nodes     # on two nodes of a real Slurm on this machine

Each rank writes and closes a file, and a rank of the next node reads it in the same launch (IOR's -C). Three
ways: `pfs`, no buffers; `ram-several`, flushed at each close, so that the next node finds it on the PFS;
`ram-shared`, nothing is flushed before the end, and the bytes come from the other node's memory. The PFS is
modelled: a node's published share of Summit's GPFS over a factor. Where the bytes came from is held against
the engine's counters and against the trace of what the PFS was asked for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PipelineError

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.outcome.rundir import keep_config, next_repetition, write_provenance
from common.recipe_case import share_of_a_node
from common.sites.nodes import SHARED
from common.sites.places import Places
from common.sites.plan import Plan
from common.sites.programs import own_program
from common.sites.site import Site
from tierbench.outputs import OutputError, parse_ior
from tierbench.runs.case import Case
from tierbench.trace import frames

WAYS = {"pfs": "several", "ram-several": "several", "ram-shared": SHARED}
FACTOR = 512
MIB = 1 << 20
SHAPE = "-C -F -k -G 27 -t 1m"
CONFIG = """version: 1
max_files: 1024
mode: {mode}
fsync: pfs
nodes: {nodes}
{network}flush: {{policy: {flush}}}
pfs:
  path: {place}
  model: {{name: gpfs, write_bandwidth: {write:.4f}MiB/s, read_bandwidth: {read:.4f}MiB/s}}
tiers:
  - {{name: ram, medium: memory, capacity: {capacity}MiB, block: 4KiB,
     slabs: [{{units: 1, share: 0.1}}, {{units: 256, share: 0.9}}]}}
"""


@rfm.simple_test
class Neighbour(rfm.RunOnlyRegressionTest):
    """One way."""

    way = parameter(list(WAYS), type=str, loggable=True)
    #: MiB that each rank writes, and reads of another.
    block = variable(int, value=16, loggable=True)
    ranks_per_node = variable(int, value=2, loggable=True)
    #: Of all tests of the suite. This one always has a trace: the proof is in it.
    trace = variable(bool, value=False, loggable=True)

    descr = "reading what another node wrote, by each way"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    tags = {"nodes"}
    nodes = 2
    time_limit = "10m"

    @run_after("setup")
    def choose(self) -> None:
        """Two nodes of a site that says how a command runs once on each."""
        self.site = Site.of(self.current_system, self.current_partition)
        self.skip_if(self.site.published or not self.site.modelled, "only on a twin of two nodes")
        self.skip_if(self.site.refusal(self.nodes) is not None, str(self.site.refusal(self.nodes)))
        self.num_tasks_per_node = self.ranks_per_node
        self.num_tasks = self.nodes * self.ranks_per_node

    @property
    def plan(self) -> Plan:
        """What its places need to know."""
        return Plan(
            name="neighbour",
            tiers=self.way,
            policy="max-bandwidth",
            mode=self.mode,
            ranks=self.num_tasks,
            nodes=self.nodes,
            config_bytes=self.node_bytes,
            place_bytes=self.nodes * self.node_bytes,
        )

    @property
    def mode(self) -> str:
        """Without buffers, or with."""
        return "bypass" if self.way == "pfs" else "persistent-async"

    @property
    def node_bytes(self) -> int:
        """What a node writes, and reads."""
        return int(self.ranks_per_node * self.block * MIB)

    @run_before("run")
    def prepare(self) -> None:
        """The configuration and the job's one line."""
        program = own_program("tb-ior")
        if not (program.exists() or self.is_dry_run()):
            raise PipelineError(f"{program}: is missing; needs `make build`")
        stage = Path(self.stagedir).resolve()
        self.places = Places.choose(self.site, self.plan, stage, self.hashcode)
        assert self.places.pfs
        if not self.is_dry_run():
            self.places.make()
        (stage / "tiers.yaml").write_text(self.config(self.places.pfs))
        self.job.options += [f"--nodes={self.nodes}"] if self.site.slurm else []
        check = [self.job.launcher.run_command(self.job), str(program), *self.words(f"-r -R {SHAPE}")]
        self.postrun_cmds = [" ".join(check) + " > check.txt"]  # without tiers: what is on the PFS in the end
        words = ["run", "-c", "tiers.yaml", "--stats", "stats.json", "--trace", "trace.darshan"]
        self.job.launcher.modifier = str(own_program("tierctl"))
        self.job.launcher.modifier_options = [*words, *self.site.per_node_options(self.nodes), "--"]
        self.executable = str(program)
        self.executable_opts = self.words(f"-w -r {SHAPE}")

    def words(self, what: str) -> list[str]:
        """Of one launch of IOR."""
        assert self.places.pfs
        return [*what.split(), "-b", f"{self.block}m", "-o", str(self.places.pfs / "neighbour")]

    def config(self, place: Path) -> str:
        """Of this way; a tier that holds what a node writes and what it reads of the other."""
        share = share_of_a_node("summit", "summit-gpfs-2")
        interface = self.site.interface if WAYS[self.way] == SHARED else None
        return CONFIG.format(
            mode=self.mode,
            nodes=WAYS[self.way],
            network=f"network: {{interface: {interface}}}\n" if interface else "",
            flush="on-close" if self.way == "ram-several" else "manual",
            place=place,
            write=share["write"] / FACTOR,
            read=share["read"] / FACTOR,
            capacity=4 * self.node_bytes // MIB,
        )

    # --- results --------------------------------------------------------------------------------------

    @run_before("sanity")
    def keep(self) -> None:
        """What was measured, what proves it, and whether the PFS has all bytes in the end."""
        stage, self.rates, self.missing = Path(self.stagedir), {}, ["numbers"]
        try:
            told = parse_ior((stage / str(self.stdout)).read_text(errors="replace"))
            self.rates = {r.access: r.bandwidth_mib_s for r in told.results if r.bandwidth_mib_s}
            self.missing = self.lacks(stage)
        except (OSError, OutputError, KeyError, ValueError) as e:
            self.missing = [f"{type(e).__name__}: {e}"]
        finally:
            self.places.remove()

    def lacks(self, stage: Path) -> list[str]:
        """What the counters and the trace do not show of this way."""
        remote = json.loads((stage / "stats.json").read_text()).get("remote_read", 0)
        asked = self.asked_of_pfs(stage)
        all_bytes = self.nodes * self.node_bytes
        from_nodes = all_bytes if self.way == "ram-shared" else 0
        found = []
        if remote != from_nodes:
            found.append(f"{remote} bytes came from other nodes, not {from_nodes}")
        if self.way == "ram-shared" and asked:
            found.append(f"{asked} bytes were read from the PFS, not 0")
        if self.way != "ram-shared" and asked < all_bytes:
            found.append(f"{asked} bytes were read from the PFS, not {all_bytes}")
        sizes = sorted(f.stat().st_size for f in self.places.pfs.iterdir()) if self.places.pfs else []
        checked = parse_ior((stage / "check.txt").read_text(errors="replace"))
        if checked.data_errors or not checked.results:
            found.append(f"{checked.data_errors} transfers are wrong on the PFS")
        if sizes != [self.block * MIB] * self.num_tasks:
            found.append(f"the PFS has files of {sizes} bytes in the end")
        return found

    def asked_of_pfs(self, stage: Path) -> int:
        """Bytes that the storage's side of the trace read from the PFS."""
        traces = frames.read(sorted(stage.glob("trace*.darshan")), {str(self.places.pfs): "pfs"})
        if traces.errors:
            raise ValueError("; ".join(traces.errors))
        storage = traces.tiers[(traces.tiers["side"] == "storage") & (traces.tiers["place"] == "pfs")]
        return int(storage["bytes_read"].sum())

    @sanity_function
    def proved(self) -> Any:
        """Both numbers, and the bytes came from where the way says."""
        return sn.all(
            [
                sn.assert_eq(self.job.exitcode or 0, 0, "the job ended with {0}"),
                sn.assert_eq(self.missing, [], "is not shown: {0}"),
                sn.assert_eq(sorted(self.rates), ["read", "write"], "other numbers than {1}: {0}"),
            ]
        )

    @run_before("performance")
    def report_numbers(self) -> None:
        """Both bandwidths."""
        for access, rate in self.rates.items():
            self.perf_variables[access] = sn.make_performance_function(sn.defer(rate), "MiB/s")

    @run_after("performance")
    def record(self) -> None:
        """A case for each of them."""
        if self.job.exitcode or self.missing:
            return
        for access, rate in self.rates.items():
            name = f"nodes-{access}_{self.way}"
            number, folder = next_repetition(name)
            self.case(access, rate, number).write(folder)
            keep_config(f"neighbour-{self.way}", Path(self.stagedir) / "tiers.yaml")
            write_provenance(self.site.name, {}, "tb-ior")

    def case(self, access: str, rate: float, number: int) -> Case:
        """What was measured, and by what it was shown where the bytes came from."""
        return Case(
            test=f"nodes-{access}",
            system="summit",
            site=self.site.name,
            tiers=self.way,
            mode=self.mode,
            fsync="pfs",
            policy="max-bandwidth",
            repetition=number,
            metric="bandwidth",
            unit="MiB/s",
            direction="higher",
            value=rate,
            open_s=None,
            write_s=None,
            close_s=None,
            total_s=None,
            drain_s=None,
            verified=True,
            driver="tb-ior",
            modelled=True,
            command=" ".join(["tb-ior", *self.executable_opts]),
            ranks=self.num_tasks,
            bytes=self.nodes * self.node_bytes,
            published=None,
            published_source=None,
            requirement=None,
            factor=FACTOR,
            nodes=self.nodes,
            witness="the engine's counters and the trace of the PFS",
        )
