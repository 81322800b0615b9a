"""Cori (NERSC): Slurm, Lustre under $SCRATCH, DataWarp by `#DW` directives. As published: retired in 2023."""

site_configuration = {
    "systems": [
        {
            "name": "cori",
            "descr": "Cray XC40, Lustre and DataWarp",
            "hostnames": ["cori.*"],
            "partitions": [
                {
                    "name": "regular",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "max_jobs": 1,
                    "environs": ["builtin"],
                    "extras": {"published": True, "scale": "full", "tiers": "real"},
                }
            ],
        }
    ],
    "general": [{"remote_detect": False, "trap_job_errors": True}],
}
