"""The run folder: artefacts of every case, and provenance, for `tierbench report`."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from ..sites.programs import own_program
from ..sites.tiers import ROOT
from .plain_run import report_at_the_end

CHECKOUT = (ROOT / ".git").exists()


def _results() -> Path:
    """Of the checkout; of an installed suite where ReFrame was started, which loads its files elsewhere."""
    return (ROOT if CHECKOUT else Path(os.environ.get("PWD", ""))).absolute() / "results"


# One folder a session: named by the program that starts ReFrame, else by the time and the first process here.
# A variable that is set to nothing names none: ReFrame's working directory would be filled.
_PLAIN = f"-reframe-{os.getpid()}"
_NAME = time.strftime("%Y%m%d-%H%M%S") + _PLAIN
os.environ["TIERBENCH_RUN_DIR"] = os.environ.get("TIERBENCH_RUN_DIR") or str(_results() / "runs" / _NAME)


def run_dir() -> Path:
    """The run folder of this session."""
    return Path(os.environ["TIERBENCH_RUN_DIR"])


def next_repetition(case: str) -> tuple[int, Path]:
    """Number (from 1) and folder of the next repetition of a case; the folder is made."""
    number = 1
    while (folder := run_dir() / "cases" / case / str(number)).exists():
        number += 1
    folder.mkdir(parents=True)
    return number, folder


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    except OSError:
        return "unknown"
    text = (done.stdout or done.stderr).strip()
    return text.splitlines()[0] if done.returncode == 0 and text else "unknown"


def _has_changes() -> bool:
    line = ["git", "diff", "--quiet", "HEAD"]
    return subprocess.run(line, cwd=ROOT, check=False, capture_output=True).returncode != 0


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write_provenance(site: str, scale: dict[str, Any], driver: str) -> None:
    """Write provenance.json and the published numbers once a run."""
    file = run_dir() / "provenance.json"
    if file.exists():
        return
    # Of the forwarding study all runs are published: `tierbench forwarding` reads them where they are.
    needed = shutil.ignore_patterns("forwarding")
    shutil.copytree(ROOT / "results/published", run_dir() / "published", ignore=needed, dirs_exist_ok=True)
    commit = _output("git", "rev-parse", "HEAD") if CHECKOUT else "unknown"
    changed = CHECKOUT and _has_changes()
    provenance = {
        "commit": commit,
        "dirty": changed,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "kernel": platform.release(),
        },
        "versions": {
            "reframe": metadata.version("ReFrame-HPC"),
            "python": platform.python_version(),
            "mpi": _output("mpirun", "--version"),
            "compiler": _output("cc", "--version"),
            "tierctl": _output(str(own_program("tierctl")), "--version"),
            "driver": driver,
        },
        "site": site,
        "scale": scale,
        "published": "published/webinar.csv",
    }
    part = file.with_suffix(".part")
    part.write_text(json.dumps(provenance, indent=1))
    part.rename(file)
    if run_dir().name.endswith(_PLAIN):
        report_at_the_end(run_dir())


def keep_config(name: str, config: Path) -> None:
    """Keep the configuration a case ran with, and the device models it names."""
    folder = run_dir() / "configs"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(config, folder / f"{name}.yaml")
    shutil.copytree(ROOT / "configs" / "devices", folder / "devices", dirs_exist_ok=True)
