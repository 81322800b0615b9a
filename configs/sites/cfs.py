"""The Community File System (NERSC), reached by InfiniBand: mpirun, processes distributed by node."""

from typing import Any

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("mpirun-by-node")
class MpirunByNode(JobLauncher):
    """OpenMPI, one process to each node in turn."""

    def command(self, job: Any) -> list[str]:
        return ["mpirun", "-n", str(job.num_tasks), "--map-by", "node"]


site_configuration = {
    "systems": [
        {
            "name": "cfs",
            "descr": "IBM ESS GL8c, Spectrum Scale",
            "hostnames": ["cfs.*"],
            "partitions": [
                {
                    "name": "regular",
                    "scheduler": "slurm",
                    "launcher": "mpirun-by-node",
                    "max_jobs": 1,
                    "environs": ["builtin"],
                    "extras": {"published": True, "scale": "full", "tiers": "real"},
                }
            ],
        }
    ],
    "general": [{"remote_detect": False, "trap_job_errors": True}],
}
