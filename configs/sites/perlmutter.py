"""Perlmutter (NERSC): Slurm, all-flash Lustre under /pscratch. As published."""

site_configuration = {
    "systems": [
        {
            "name": "perlmutter",
            "descr": "HPE Cray EX, all-flash Lustre",
            "hostnames": ["login.*perlmutter.*"],
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
