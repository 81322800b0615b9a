"""Darshan logs of a test that is asked for them (`-S trace=1`): the report proves the tiers from them."""

from __future__ import annotations

import shutil
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import variable


class Traced(rfm.RegressionTestPlugin):
    """A test whose launches through `tierctl run` can be traced on both sides."""

    trace = variable(bool, value=False, loggable=True)

    def trace_options(self, name: str = "trace", *, needed: bool = False) -> list[str]:
        """Options of `tierctl run` for logs called `name`; none where no trace is asked for or needed."""
        return ["--trace", f"{name}.darshan"] if self.trace or needed else []

    @staticmethod
    def keep_traces(stage: Path, folder: Path) -> None:
        """Keep the logs with the other artefacts of a case."""
        for log in stage.glob("*.darshan"):
            shutil.copy(log, folder / log.name)
