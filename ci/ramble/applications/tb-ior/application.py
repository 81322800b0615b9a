"""tb-ior as a Ramble application: a shared file is written, checked, and read by other ranks.

An experiment succeeds where tb-ior ended by itself: `-q` ends it at the first wrong byte, before the line that the
criterion asks for.
"""

from ramble.appkit import *

_ROW = (
    r"(?P<access>write|read)\s+(?P<bandwidth>[0-9.]+)\s+(?P<iops>[0-9.]+)\s+(?P<latency>[0-9.]+)\s+[0-9.]+\s+[0-9.]+\s+"
    r"(?P<open>[0-9.]+)\s+(?P<transfer>[0-9.]+)\s+(?P<close>[0-9.]+)\s+(?P<total>[0-9.]+)\s+(?P<iteration>[0-9]+)\s*$"
)


class TbIor(ExecutableApplication):
    """Tierbench's driver that takes IOR's command line."""

    name = "tb-ior"

    tags("synthetic-benchmarks", "IO")

    executable(
        "tb-ior",
        "{tb_ior} -a {api} -w -W -r -R -C -q -e -t {transfer_size} -b {block_size} -s {segment_count} -i {iterations}"
        " {additional_args} -o {data_file}",
        use_mpi=True,
    )

    workload("shared-file", executable="tb-ior")

    workload_variable("tb_ior", default="tb-ior", description="The driver", workloads=["shared-file"])
    workload_variable("api", default="POSIX", description="POSIX or MPIIO", workloads=["shared-file"])
    workload_variable(
        "transfer_size", default="1m", description="Bytes of a transfer", workloads=["shared-file"]
    )
    workload_variable("block_size", default="64m", description="Bytes of a rank", workloads=["shared-file"])
    workload_variable("segment_count", default="1", description="Blocks of a rank", workloads=["shared-file"])
    workload_variable("iterations", default="5", description="Repetitions", workloads=["shared-file"])
    workload_variable("additional_args", default="", description="More options", workloads=["shared-file"])
    workload_variable(
        "data_file",
        default="{experiment_run_dir}/tb-ior.data",
        description="The file, below the PFS of the tiers",
        workloads=["shared-file"],
    )

    figure_of_merit_context("access", regex=_ROW, output_format="{access} {iteration}")
    for fom, unit in (
        ("bandwidth", "MiB/s"),
        ("iops", "1/s"),
        ("latency", "s"),
        ("open", "s"),
        ("transfer", "s"),
        ("close", "s"),
        ("total", "s"),
    ):
        figure_of_merit(
            fom, fom_regex=_ROW, group_name=fom, log_file="{log_file}", units=unit, contexts=["access"]
        )

    success_criteria("every byte was right", mode="string", match=r"Finished\s+: ", file="{log_file}")
