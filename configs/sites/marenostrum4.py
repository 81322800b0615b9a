"""MareNostrum 4 (BSC): Slurm, GPFS. The forwarding study ran here; `pfs` is your folder there."""

site_configuration = {
    "systems": [
        {
            "name": "marenostrum4",
            "descr": "48 cores a node, GPFS",
            "hostnames": ["login.*mn4.*"],
            "partitions": [
                {
                    "name": "batch",
                    "scheduler": "slurm",
                    "launcher": "mpirun",
                    "access": ["--exclusive"],
                    "max_jobs": 1,
                    "environs": ["builtin"],
                    "extras": {"published": True, "scale": "full", "tiers": "real", "pfs": "$SCRATCH"},
                }
            ],
        }
    ],
    "general": [{"remote_detect": False, "trap_job_errors": True}],
}
