"""Summit (OLCF): LSF and jsrun, GPFS, a node-local NVMe by `-alloc_flags NVME`. Retired in 2024."""

from typing import Any

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("jsrun")
class Jsrun(JobLauncher):
    """Resource sets: how many, how many on a node, processes and cores in each."""

    sets_per_node = 1

    def command(self, job: Any) -> list[str]:
        nodes = job.num_tasks // job.num_tasks_per_node
        tasks = job.num_tasks_per_node // self.sets_per_node
        sets = nodes * self.sets_per_node
        return ["jsrun", "-n", str(sets), "-r", str(self.sets_per_node), "-a", str(tasks), "-c", str(tasks)]


site_configuration = {
    "systems": [
        {
            "name": "summit",
            "descr": "IBM AC922, GPFS and node-local NVMe",
            "hostnames": ["login.*summit.*"],
            "partitions": [
                {
                    "name": "batch",
                    "scheduler": "lsf",
                    "launcher": "jsrun",
                    "access": ["-P ACCOUNT"],  # the project that pays
                    "max_jobs": 1,
                    "environs": ["builtin"],
                    "extras": {"published": True, "scale": "full", "tiers": "real"},
                }
            ],
        }
    ],
    "general": [{"remote_detect": False, "trap_job_errors": True}],
}
