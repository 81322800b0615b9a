"""How a job ends after a signal: the program first, then its tiers, and nothing is left.

ReFrame sends SIGTERM to a job that it cancels, and SIGKILL as soon as the job's shell is gone, or 2 s later.
`tierctl run` then has no time to drain and to remove its instance, so the shell waits for it.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any

from reframe.core.schedulers.local import LocalJobScheduler

GRACE_S = 120  # until ReFrame kills: buffered bytes are written to the PFS first

LocalJobScheduler.CANCEL_GRACE_PERIOD = GRACE_S

WAIT_FOR_THE_PROGRAM = "trap 'exit 143' TERM"  # a shell acts on it when its program has ended


def wait_for(job: Any) -> None:
    """Wait until a job on this machine has ended: an aborted ReFrame does not."""
    process = getattr(job, "_proc", None)
    if process is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
