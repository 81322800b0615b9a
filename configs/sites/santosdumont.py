"""Santos Dumont (LNCC): Slurm, Lustre. The forwarding study ran here; `pfs` is your folder there."""

site_configuration = {
    "systems": [
        {
            "name": "santosdumont",
            "descr": "24 cores a node, Lustre",
            "hostnames": ["sdumont.*"],
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
