"""A site of real directories: what can be is detected, the file is written, a short run checks it.

`configs/sites/README.md` says what each key means, for a site that is written by hand.
"""

from __future__ import annotations

import json
import os
import pprint
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench.base import devices, endings
from tierbench.base.errors import RunError
from tierbench.base.text import counted, last_words
from tierbench.site.home import check_name, home

NAME = "mysite"
_SUBMITS = {"pbs": "qsub", "torque": "qsub", "lsf": "bsub", "sge": "qsub", "flux": "flux"}  # ReFrame's names
SCHEDULERS = ("local", "slurm", *_SUBMITS)
PER_NODE = (
    "srun --overlap --kill-on-bad-exit=1 --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1"  # of README.md
)
_SINFO = ("sinfo", "--noheader", "--format=%P|%D|%c|%m")
_OPEN_MPI_ROOT = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]
_LONGEST_S = 600  # of the trial: jobs may wait in a queue
_GRACE_S = 180  # for ReFrame to end its jobs after that


@dataclass(frozen=True)
class Nodes:
    """A partition of Slurm."""

    partition: str
    count: int
    cores: int
    memory_bytes: int


def parse_sinfo(text: str) -> Nodes:
    """The default partition, marked by an asterisk, else the first; of nodes that differ the smallest."""
    lines = [line.strip().split("|") for line in text.splitlines() if line.strip()]
    try:
        rows = [(p, int(n), int(c.rstrip("+")), int(m.rstrip("+"))) for p, n, c, m in lines]
    except ValueError:
        raise RunError(f"{' '.join(_SINFO)}: {text!r}; allowed: PARTITION|NODES|CORES|MEMORY") from None
    if not rows:
        raise RunError(f"{' '.join(_SINFO)}: shows no partition; allowed: a partition with nodes")
    name = next((row[0] for row in rows if row[0].endswith("*")), rows[0][0])
    mine = [row for row in rows if row[0] == name]
    count = sum(row[1] for row in mine)
    cores, mebibytes = min(row[2] for row in mine), min(row[3] for row in mine)
    return Nodes(name.rstrip("*"), count, cores, mebibytes << 20)


def site(places: Mapping[str, Path], scheduler: str) -> dict[str, Any]:
    """The configuration of ReFrame."""
    for name, path in places.items():
        check_name(f"--{name}", path)
    partition = _batch(scheduler) if scheduler in _SUBMITS else _slurm() if scheduler == "slurm" else _local()
    extras: dict[str, Any] = {"tiers": "real", **{name: str(path) for name, path in places.items()}}
    extras |= {"apart": False} if one_thing(places) else {}
    partition |= {"max_jobs": 1, "environs": ["builtin"]}
    partition["extras"] = extras | partition["extras"]
    system = {
        "name": NAME,
        "descr": ", ".join(f"{name}: {file_system(path)}" for name, path in places.items()),
        "hostnames": [".*"],
        "partitions": [partition],
    }
    general = {"remote_detect": False, "trap_job_errors": True}
    return {"systems": [system], "general": [general]}


def one_thing(places: Mapping[str, Path]) -> list[str]:
    """Places that are not apart, or are in memory, in words; then nothing can be claimed of the tiers."""
    found = {name: devices.described(str(path)) for name, path in places.items()}
    told = [f"{a} and {b} share storage: {words}" for a, b, words in devices.shared(found)]
    return told + [f"{n} is in memory: {x}" for n, place in found.items() if (x := devices.in_memory(place))]


def mpi_variables() -> list[list[str]]:
    """What the mpirun at hand needs in its environment, with more processes than cores too."""
    variables = [["OMPI_MCA_rmaps_base_oversubscribe", "1"]] if _is_open_mpi() else []
    return variables + root_variables()


def root_variables() -> list[list[str]]:
    """What Open MPI asks of root, where this is root."""
    return _OPEN_MPI_ROOT if os.geteuid() == 0 and _is_open_mpi() else []


def _is_open_mpi() -> bool:
    return "Open MPI" in _output("mpirun", "--version")


def _local() -> dict[str, Any]:
    variables = mpi_variables()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "name": "node",
        "scheduler": "local",
        "launcher": "mpirun",
        "env_vars": variables,
        "extras": {"ranks_per_node": len(os.sched_getaffinity(0)), "memory_bytes": memory},
    }


def undetected(scheduler: str) -> str | None:
    """What the user must look at in the file: only Slurm is asked about its nodes."""
    if scheduler not in _SUBMITS:
        return None
    return (
        f"{scheduler} is not asked about its nodes: cores and memory are this machine's, one node is used, "
        "access (queue, account) is empty, and what runs once on each node (per_node) is not known"
    )


def _batch(scheduler: str) -> dict[str, Any]:
    if not shutil.which(_SUBMITS[scheduler]):
        raise RunError(
            f"{_SUBMITS[scheduler]}: is not in PATH; allowed: a machine with it, or another --scheduler"
        )
    return _local() | {"name": "compute", "scheduler": scheduler, "access": []}


def _slurm() -> dict[str, Any]:
    nodes = parse_sinfo(_output(*_SINFO))
    _output("srun", "--version")
    return {
        "name": "compute",
        "scheduler": "slurm",
        "launcher": "srun",
        "access": [f"-p {nodes.partition}"],
        "extras": {
            "nodes": nodes.count,
            "ranks_per_node": nodes.cores,
            "memory_bytes": nodes.memory_bytes,
            "per_node": PER_NODE,
        },
    }


def file_system(path: Path) -> str:
    """Its type, as `stat -f` calls it."""
    return _output("stat", "-f", "-c", "%T", str(path)).strip()


def _output(*command: str) -> str:
    if not shutil.which(command[0]):
        raise RunError(f"{command[0]}: is not in PATH; allowed: a machine with it, or another --scheduler")
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RunError(f"{' '.join(command)}: ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def write(configuration: Mapping[str, Any], file: Path) -> None:
    """Write the site; a file that is there stays as it is. The trial that checks it works beside it."""
    check_name("-o", file.resolve().parent)
    body = pprint.pformat(dict(configuration), sort_dicts=False, width=100)
    told = '"""Written by `tierbench site init`; `configs/sites/README.md` says what each key means."""'
    try:
        with file.open("x") as stream:
            stream.write(f"{told}\n\nsite_configuration = {body}\n")
    except FileExistsError:
        raise RunError(f"{file}: is there already; allowed: a file that is new (-o)") from None
    except OSError as e:
        raise RunError(f"{file}: cannot be written: {e.strerror}") from e


def check(file: Path) -> tuple[bool, str]:
    """Run the smoke tests of the comparison on the site; whether it holds, and that in a line."""
    with tempfile.TemporaryDirectory(prefix="tierbench-site-", dir=file.resolve().parent) as name:
        folder = Path(name)
        line = [sys.executable, "-P", "-m", "tierbench.site.session", str(folder)]
        line += ["-C", str(file.resolve()), f"--system={NAME}"]
        line += ["-c", str(home() / "reframe_tests" / "webinar.py"), "-r", "-t", "smoke", "-S", "scale=smoke"]
        line += [f"--prefix={folder}", f"--report-file={folder / 'reframe.json'}", "--exec-policy=serial"]
        environment = {**os.environ, "TIERBENCH_RUN_DIR": str(folder)}
        errors = folder / "stderr.txt"
        with errors.open("wb") as out:
            try:
                status = endings.run(
                    line,
                    limit_s=_LONGEST_S,
                    longest_s=_GRACE_S,
                    insist=_kill,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=out,
                    start_new_session=True,
                )
            except TimeoutError as e:
                return False, f"the trial {e}"
        endings.heed()
        report = folder / "reframe.json"
        if not report.exists():
            last = errors.read_text(errors="replace").strip().splitlines() or ["no message"]
            return False, f"the trial ended with {status}: {last[-1]}"
        return told_of(json.loads(report.read_text()))


def _kill(process: int) -> None:
    """ReFrame does not end: its jobs, which have sessions of their own, may be left."""
    print(f"tierbench: ReFrame does not end within {_GRACE_S} s and is killed", file=sys.stderr)
    os.kill(process, signal.SIGKILL)


def _last_words(case: Mapping[str, Any]) -> str:
    """Of the job on its standard error, which says more than its status; it goes with the trial."""
    file = Path(str(case.get("stagedir")), str(case.get("job_stderr")))
    return f"; {last_words(file.read_text(errors='replace'))}" if file.is_file() else ""


def told_of(report: Mapping[str, Any]) -> tuple[bool, str]:
    """What ReFrame's report says of the trial."""
    cases = [case for run in report["runs"] for case in run["testcases"]]
    failed = [c for c in cases if c["result"] in ("fail", "abort")]
    passed = sum(c["result"] == "pass" for c in cases)
    told = f"the trial: {counted(passed, 'test')} passed, {len(failed)} failed"
    if failed:
        reason = " ".join(str(failed[0].get("fail_reason")).split()) + _last_words(failed[0])
        return False, f"{told}; {failed[0].get('display_name') or failed[0]['name']}: {reason}"
    return passed > 0, told if passed else f"{told}; none ran"
