"""A program of the user's own under each tier configuration of a trial.

`tierbench try` writes the trial and starts ReFrame; to run it again:

    TIERBENCH_TRIAL=FOLDER/trial.json reframe -C FOLDER/site.py -c reframe_tests/program.py -r

Without a trial there is no test. What each run leaves is kept in FOLDER/runs/CONFIGURATION/NUMBER.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, performance_function, run_before, sanity_function, variable

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.base import refuse
from common.jobs import ending
from tierbench.base.errors import RunError
from tierbench.trial import plan, results

KEPT = ("run.json", "stats.json", "trace.darshan", "trace.storage.darshan")


def _trial() -> plan.Trial | None:
    """The trial that the environment names."""
    file = os.environ.get("TIERBENCH_TRIAL")
    try:
        return plan.read(Path(file)) if file else None
    except RunError as e:
        refuse(str(e))


TRIAL = _trial()


@(rfm.simple_test if TRIAL else lambda test: test)
class Program(rfm.RunOnlyRegressionTest):
    """One run of the program on one tier configuration."""

    #: The tier configuration: its name in the trial; pfs is the PFS alone.
    configuration = parameter(list(TRIAL.configurations) if TRIAL else [], type=str, loggable=True)
    #: What the run measured.
    metrics = variable(dict, value={}, loggable=True)

    descr = "a program of one's own: wall time, time in I/O, time until all is durable"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = sys.executable
    tags = {"program"}

    @run_before("setup")
    def heed_signals(self) -> None:
        """A session that is asked to end starts no further run."""
        ending.heed_signals()

    @run_before("run")
    def prepare(self) -> None:
        """The program brings its own launcher, if any. After a signal the job's shell waits for its end."""
        assert TRIAL
        self.prerun_cmds = [ending.WAIT_FOR_THE_PROGRAM]
        self.job.launcher = getlauncher("local")()
        file = str(Path(os.environ["TIERBENCH_TRIAL"]).resolve())
        self.executable_opts = [
            "-m",
            "tierbench.trial.one_run",
            shlex.quote(file),
            shlex.quote(self.configuration),
        ]
        if TRIAL.time_limit_s:
            self.time_limit = f"{TRIAL.time_limit_s}s"
        ending.heed_signals_for(self.job)

    @run_before("sanity")
    def keep(self) -> None:
        """What the run left, of one that failed too."""
        stage, folder = Path(self.stagedir), Path(os.environ["TIERBENCH_TRIAL"]).resolve().parent
        kept = results.next_folder(folder, self.configuration)
        for name in KEPT:
            if (stage / name).exists():
                shutil.copy(stage / name, kept / name)
        for name, file in {"stdout.txt": self.stdout, "stderr.txt": self.stderr}.items():
            shutil.copy(stage / str(file), kept / name)
        if (kept / "run.json").exists():
            self.metrics = json.loads((kept / "run.json").read_text())

    @run_before("sanity")
    def end_if_asked(self) -> None:
        """The session ends here after a signal: what the run left is kept by now."""
        ending.ended(self.job)

    @sanity_function
    def all_there(self) -> Any:
        """The program ended well, and the engine reported no error."""
        return sn.all(
            [
                sn.assert_eq(self.job.exitcode or 0, 0, "the program ended with {0}: see stderr.txt"),
                sn.assert_true(self.metrics, "the run left no run.json: see stderr.txt"),
                sn.assert_eq(self.metrics.get("errors"), [], "not all bytes reached the PFS: {0}"),
            ]
        )

    @performance_function("s")
    def wall(self) -> float:
        """Seconds from the program's start to its end."""
        return float(self.metrics["wall_s"])

    @performance_function("s")
    def durable(self) -> float:
        """Seconds from the program's start until all it wrote was durable on the PFS."""
        return float(sum(self.metrics[part] for part in ("wall_s", "drain_s", "sync_s")))

    @performance_function("s")
    def io(self) -> float:
        """Seconds in I/O calls, all processes together."""
        return float(self.metrics["io_s"] or 0)
