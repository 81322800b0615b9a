"""The machine at hand: one node, OpenMPI, tiers made slow by the device models of the webinar's machine."""

from reframe.core import settings

# ReFrame's own, but no messages of debugging: for each of them it reads all variables of
# the test, which takes a third of a second a test.
_LOGS = settings.site_configuration["logging"][0]
_FILES = [handler | {"level": "info"} for handler in _LOGS["handlers"]]

_MPI = [
    ["OMPI_ALLOW_RUN_AS_ROOT", "1"],
    ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"],
    ["OMPI_MCA_rmaps_base_oversubscribe", "1"],
    ["OMPI_MCA_pml", "ob1"],  # its transports alone: looking for others takes half of a launch
    ["OMPI_MCA_btl", "self,vader"],
]

site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "this machine, as a modelled twin of the webinar's",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "node",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "max_jobs": 1,  # measurements never share the machine
                    "environs": ["mpi"],
                    "env_vars": _MPI,
                    # A model can only slow down what is below it, and this machine's disk is not always
                    # twice as fast as the modelled NVMe: the twin's places are in memory where there is
                    # room. What `fsync: tier` promises then holds against killed processes only.
                    "extras": {"tiers": "modelled", "root": "/dev/shm"},
                }
            ],
        }
    ],
    "environments": [{"name": "mpi", "cc": "mpicc"}],
    "logging": [_LOGS | {"level": "info", "handlers": _FILES}],
    "general": [
        {
            "remote_detect": False,
            "timestamp_dirs": "%Y%m%dT%H%M%S",
            "check_search_recursive": False,
            "poll_rate_min": 10,  # a second: else the end of a job of 10 s is seen up to a second late
            "trap_job_errors": True,  # else the last command's status is the job's
        }
    ],
}
