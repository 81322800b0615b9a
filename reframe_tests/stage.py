"""Summit's tutorial: files written to the PFS, to NVMe and copied, or staged out while the program runs.

Each way writes the same time steps, with a pause for computing after each; once few of them and once many.
Told are the seconds until the program has closed its last file and until all files are on the PFS, whole. On
Summit the job script of the tutorial's third way is written to the letter; the first two are recipes
(`summit.py`). Elsewhere NVMe and GPFS are modelled: a node's published share over one factor, so that their
ratio is Summit's; the mover's bandwidth is GPFS's.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

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

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.outcome.rundir import next_repetition, write_provenance
from common.recipe_case import share_of_a_node
from common.sites.programs import own_program
from common.sites.site import Site
from tierbench.runs.case import Case

WAYS = ("gpfs", "nvme-cp", "nvme-stage")
STEPS_OF_A_RUN = (2, 8)
FACTOR = 64
MIB = 1 << 20
SOURCE = "OLCF burst buffer tutorial for Summit"
CONFIG = """version: 1
max_files: 1024
mode: bypass
fsync: pfs
pfs:
  path: {place}
  model: {{name: {name}, write_bandwidth: {write:.4f}MiB/s, read_bandwidth: {read:.4f}MiB/s}}
tiers:
  - {{name: ram, medium: memory, capacity: 8MiB, block: 4KiB, slabs: [{{units: 1, share: 1.0}}]}}
"""
STEPS = """
at() {{ date +%s.%N; }}
start=$(at)
for step in $(seq {steps}); do
    {write} -o {place}/ior_file_easy.$step || exit 1
    {copy}
    sleep {compute}
done
close=$(at)
{wait}
pfs=$(at)
for file in {place}/*; do cmp "$file" {pfs}/"${{file##*/}}" || exit 1; done
tell() {{ awk -v what="$1" -v a="$start" -v b="$2" \\
    'BEGIN {{ printf "time to %s: %.3f s\\n", what, b - a }}'; }}
tell close "$close"
tell PFS "$pfs"
"""
SUMMIT = {
    "options": ["-alloc_flags spectral"],
    "before": [
        "module load spectral",
        "export PERSIST_DIR=/mnt/bb/$USER",
        "timest=$(date +%s)",
        "mkdir nvme_output_$timest",
        "export PFS_DIR=$PWD/nvme_output_$timest",
    ],
    "ior": "-t 16m -b 19200m -F -g -G 27 -k -e -o /mnt/bb/$USER/ior_file_easy",
    "after": ["jsrun -n 2 -r 1 ls -l /mnt/bb/$USER/", "spectral_wait.py"],
}


@rfm.simple_test
class SummitStage(rfm.RunOnlyRegressionTest):
    """One way."""

    way = parameter(WAYS, type=str, loggable=True)
    #: Time steps, and the seconds of computing after each.
    steps = parameter(STEPS_OF_A_RUN, type=int, loggable=True)
    compute = variable(float, value=0.5, loggable=True)
    #: MiB of a rank in each step.
    block = variable(int, value=16, loggable=True)
    #: Of all tests of the suite; this one is skipped by it, as movers are outside a trace.
    trace = variable(bool, value=False, loggable=True)

    descr = "time to close and time to PFS, for each way of a file"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    tags = {"stage"}
    num_tasks = 2
    time_limit = "10m"

    @run_after("setup")
    def choose(self) -> None:
        """Summit's own script, or the twin."""
        self.site = Site.of(self.current_system, self.current_partition)
        self.skip_if(self.trace, "movers are outside a trace")
        if self.site.published:
            other = self.site.name != "summit" or self.way != "nvme-stage"
            self.skip_if(other, "summit.py has the recipe")
            self.skip_if(self.steps != STEPS_OF_A_RUN[0], "the tutorial's script has no time steps")
            self.num_tasks, self.num_tasks_per_node, self.time_limit = 32, 16, "20m"

    @run_before("run")
    def prepare(self) -> None:
        """The job's lines."""
        if self.site.published:
            self.job.options += SUMMIT["options"]
            self.prerun_cmds = [*SUMMIT["before"]]
            self.executable, self.executable_opts = "./bin/ior", str(SUMMIT["ior"]).split()
            self.postrun_cmds = [*SUMMIT["after"]]
            return
        stage = Path(self.stagedir).resolve()
        gpfs, nvme = (share_of_a_node("summit", f"summit-{place}-2") for place in ("gpfs", "nvme"))
        folders = {name: stage / name for name in ("pfs", "bb")}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        for name, rates, folder in (("gpfs", gpfs, folders["pfs"]), ("nvme", nvme, folders["bb"])):
            text = CONFIG.format(
                place=folder, name=name, **{k: v / FACTOR for k, v in rates.items() if k in ("write", "read")}
            )
            (stage / f"{name}.yaml").write_text(text)
        limit = f"bandwidth: {gpfs['write'] / FACTOR:.4f}MiB/s"
        out = f"stage_out: {{from: {folders['bb']}, to: {folders['pfs']}, {limit}}}\n"
        (stage / "stage.yaml").write_text((stage / "nvme.yaml").read_text() + out)
        self.write_steps(stage, folders)

    def write_steps(self, stage: Path, folders: dict[str, Path]) -> None:
        """One tierctl for each program; with a stage-out one for all, since its mover lasts as long."""
        tierctl, ior = own_program("tierctl"), own_program("tb-ior")
        run = self.job.launcher.run_command(self.job)
        under = {way: f"{tierctl} run -c {stage}/{way}.yaml --" for way in ("gpfs", "nvme")}
        prefix = {"gpfs": f"{under['gpfs']} ", "nvme-cp": f"{under['nvme']} ", "nvme-stage": ""}[self.way]
        place = folders["pfs" if self.way == "gpfs" else "bb"]
        copy = f"{under['gpfs']} cp {place}/ior_file_easy.$step.* {folders['pfs']}/ || exit 1"
        wait = f"PERSIST_DIR={place} PFS_DIR={folders['pfs']} {tierctl.with_name('spectral_wait.py')}"
        (stage / "steps.sh").write_text(
            STEPS.format(
                steps=self.steps,
                compute=self.compute,
                write=f"{prefix}{run} {ior} {self.writes}",
                place=place,
                pfs=folders["pfs"],
                copy=copy if self.way == "nvme-cp" else ":",
                wait=wait if self.way == "nvme-stage" else f"sync -f {folders['pfs']}",
            )
        )
        self.job.launcher.run_command = lambda _job: ""
        staged = f"{tierctl} run -c {stage}/stage.yaml -- "
        self.executable = f"{staged if self.way == 'nvme-stage' else ''}bash {stage}/steps.sh"

    @sanity_function
    def arrived(self) -> Any:
        """All steps were written and compared on the PFS."""
        return sn.all(
            [
                sn.assert_eq(self.job.exitcode or 0, 0, "the job ended with {0}"),
                sn.assert_found(r"time to PFS: ", self.stdout),
            ]
        )

    def seconds(self, what: str) -> float:
        """As the steps printed it."""
        text = (Path(self.stagedir) / str(self.stdout)).read_text(errors="replace")
        found = re.search(rf"^time to {what}: ([0-9.]+) s$", text, re.MULTILINE)
        return float(found[1]) if found else float("nan")

    @performance_function("s")
    def time_to_close(self) -> float:
        """Until the program goes on."""
        return self.seconds("close")

    @performance_function("s")
    def time_to_pfs(self) -> float:
        """Until all files are whole on the PFS."""
        return self.seconds("PFS")

    @run_after("performance")
    def record(self) -> None:
        """A case for each of the two times."""
        if self.site.published or self.job.exitcode:
            return
        for metric in ("close", "PFS"):
            number, folder = next_repetition(f"{self.name_of(metric)}-{self.way}")
            self.case(metric, number).write(folder)
            write_provenance(self.site.name, {}, "tb-ior")

    @property
    def writes(self) -> str:
        """The driver's flags, except for its files."""
        return f"-w -t 16m -b {self.block}m -F -g -G 27 -k -e"

    def name_of(self, metric: str) -> str:
        """The test, as the report's section reads it (`tierbench.pages.stage_section`)."""
        return f"stage-{self.steps}-steps-time-to-{metric.lower()}"

    def case(self, metric: str, number: int) -> Case:
        """What was measured; the published bandwidths are said beside it."""
        value = self.seconds(metric)
        rates = share_of_a_node("summit", "summit-gpfs-2" if self.way == "gpfs" else "summit-nvme-2")
        told = ", ".join(f"{k} {2 * v:.2f} MiB/s on two nodes" for k, v in rates.items())
        return Case(
            test=self.name_of(metric),
            system="summit",
            site=self.site.name,
            tiers="pfs" if self.way == "gpfs" else self.way,
            mode="bypass",
            fsync="pfs" if self.way == "gpfs" else "tier",  # on NVMe alone it is safe on the node
            policy="none",
            repetition=number,
            metric="time",
            unit="s",
            direction="lower",
            value=value,
            open_s=None,
            write_s=None,
            close_s=None,
            total_s=value,
            drain_s=None,
            verified=True,
            driver="tb-ior",
            modelled=True,
            command=f"{self.steps} steps, {self.compute:g} s of computing after each: {self.writes}",
            ranks=2,
            bytes=self.steps * 2 * self.block * MIB,
            published=None,
            published_source=f"{SOURCE}: {told}",
            requirement=None,
            factor=FACTOR,
            nodes=1,
        )
