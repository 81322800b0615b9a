"""True launches of a cheat: some ranks under a trace, with nothing between them and the PFS."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from common.sites.tiers import ROOT
from tierbench.trace import Traces, read

BIN = ROOT / "build" / "bin"
AS_ROOT = {
    **{name: value for name, value in os.environ.items() if name != "DARSHAN_LIB"},  # our runtime's one log
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}  # else mpirun refuses
CONFIG = """version: 1
max_files: 64
pfs: {path: "PLACE/pfs"}
mode: bypass
fsync: pfs
placement: {policy: max-bandwidth}
tiers:
  - {name: ram, medium: memory, capacity: 16MiB, block: 1MiB, slabs: [{units: 1, share: 1.0}]}
"""


def launch(place: Path, *command: str, ranks: int = 2) -> tuple[str, Traces, Traces]:
    """Output and both logs; `ranks` 0: the command brings its own launchers. Counters are in stats.json."""
    (place / "pfs").mkdir(exist_ok=True)
    (place / "c.yaml").write_text(CONFIG.replace("PLACE", str(place)))
    run: list[str] = [str(BIN / "tierctl"), "run", "-c", str(place / "c.yaml"), "--mode", "bypass"]
    run += ["--trace", str(place / "t.darshan"), "--stats", str(place / "stats.json"), "--"]
    launcher = ["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks else []
    done = subprocess.run(
        [*run, *launcher, *command], capture_output=True, text=True, check=False, env=AS_ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, read([place / "t.darshan"]), read([place / "t.storage.darshan"])
