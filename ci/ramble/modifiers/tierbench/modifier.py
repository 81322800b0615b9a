"""A Ramble modifier, as Benchpark uses them: an experiment's MPI program runs under tiers.

It succeeds where durable.py finds in what `tierctl run --stats` wrote that the program ended well and that all its
bytes are on the PFS. A program that is fast because its bytes are lost or still in a tier is no success. An experiment runs one MPI program.
"""

from ramble.modkit import *


class Tierbench(BasicModifier):
    """Buffers what the program does below the PFS in the tiers of a configuration."""

    name = "tierbench"

    tags("io", "storage")

    mode("buffered", description="Under the tiers of {tierbench_config}")
    default_mode("buffered")

    _stats = "{experiment_run_dir}/tierbench-stats.json"
    _durable = "{experiment_run_dir}/tierbench-durable.txt"

    modifier_variable("tierctl", default="tierctl", description="The command tierctl", modes=["buffered"])
    modifier_variable(
        "tierbench_config",
        default="{workspace_configs}/tiers.yaml",
        description="Tiers and PFS (docs/configuration.md)",
        modes=["buffered"],
    )

    variable_modification(
        "mpi_command",
        "{tierctl} run -c {tierbench_config} --stats " + _stats + " -- ",
        method="prepend",
        separator="",
        modes=["buffered"],
    )

    executable_modifier("check_durable")

    def check_durable(self, executable_name, executable, app_inst=None):
        """Before an MPI program what the last one left is removed; after it its counters are judged."""
        from pathlib import Path

        from ramble.util.executable import CommandExecutable

        if not executable.mpi:
            return [], []
        script = Path(self._file_path).resolve().parent / "durable.py"
        forget = CommandExecutable("tierbench-forget", template=[f"rm -f {self._stats} {self._durable}"])
        judge = CommandExecutable(
            "tierbench-durable", template=[f"python3 {script} {self._stats}"], redirect=self._durable
        )
        return [forget], [judge]

    for _fom, _unit in (("acknowledged", "B"), ("spilled", "B"), ("received", "B"), ("drain", "s")):
        figure_of_merit(
            f"tierbench {_fom}",
            fom_regex=rf"{_fom}: (?P<value>[0-9.e+-]+) {_unit}$",
            group_name="value",
            log_file=_durable,
            units=_unit,
        )

    success_criteria("every byte is on the PFS", mode="string", match=r"durable: yes$", file=_durable)

    archive_pattern(_stats)
    archive_pattern(_durable)
