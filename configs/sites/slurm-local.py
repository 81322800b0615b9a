"""This machine as two nodes of a real Slurm, which ci/run-slurm brings up; the tiers are modelled."""

import os
import re
import subprocess
from typing import Any

from reframe.core.backends import register_scheduler
from reframe.core.schedulers.slurm import SqueueJobScheduler


@register_scheduler("squeue-scontrol")
class SqueueScontrol(SqueueJobScheduler):
    """Without a data base of jobs: squeue tells when one has ended, slurmctld for some minutes how."""

    SQUEUE_DELAY = 0.2

    def poll(self, *jobs: Any) -> None:
        super().poll(*jobs)
        for job in jobs:
            if job is None or job.state != "COMPLETED":
                continue
            show = ["scontrol", "show", "job", "--oneliner", job.jobid]
            told = subprocess.run(show, capture_output=True, text=True, check=False).stdout
            ended = re.search(r"JobState=(\S+) .*ExitCode=(\d+):(\d+)", told)
            if ended:  # else it stays unknown, which no test passes with
                job._state, job._exitcode = ended[1], int(ended[2]) or int(ended[3])


site_configuration = {
    "systems": [
        {
            "name": "slurm-local",
            "descr": "two nodes on one machine, as modelled twins",
            "hostnames": ["none"],  # only by its name
            "partitions": [
                {
                    "name": "debug",
                    "scheduler": "squeue-scontrol",
                    "launcher": "srun",
                    "access": ["-p debug"],
                    "max_jobs": 1,
                    "environs": ["mpi"],
                    # Open MPI's own TCP crashes in one launch of about a hundred here: a rank is written to
                    # before its MPI_Init expects it. libfabric's has no such moment.
                    "env_vars": [
                        ["OMPI_MCA_pml", "cm"],
                        ["OMPI_MCA_mtl", "ofi"],
                        ["OMPI_MCA_mtl_ofi_provider_include", '"tcp;ofi_rxm"'],
                        ["OMPI_MCA_btl", "self"],
                        ["FI_TCP_IFACE", "eth0"],
                    ],
                    "extras": {
                        "tiers": "modelled",
                        "root": os.environ.get("TIERBENCH_SHARED"),  # what both nodes see
                        "measures": False,  # two nodes share a machine: no value is right or wrong
                        "scale": "two-nodes",
                        "interface": "eth0",  # between the nodes
                        "per_node": "srun --overlap --kill-on-bad-exit=1"
                        " --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1",
                    },
                }
            ],
        }
    ],
    "environments": [{"name": "mpi", "cc": "mpicc"}],
    "general": [
        {
            "remote_detect": False,
            "timestamp_dirs": "%Y%m%dT%H%M%S",
            "check_search_recursive": False,
            "trap_job_errors": True,  # else the last command's status is the job's
        }
    ],
}
