"""What a killed run with `nodes: shared` leaves in `network.folder`: named, and removed only after the last of its processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import test_nodes
from instances import BIN
from test_nodes import Nodes
from test_shared import SHARED

nodes = test_nodes.nodes  # the fixture

# On each node: writes, tells its daemon's number and its own, and goes on until it is killed.
WORKS = """
import json, os, subprocess, sys, time
root, node = sys.argv[1], os.uname().nodename
fd = os.open(f"{root}/pfs/{node}", os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(fd, node.encode() * 1000, 0)
words = [os.environ["TB_TIERCTL"], "status", "--json", "-i", os.environ["TIERBENCH_INSTANCE"]]
pid = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["daemon_pid"]
open(f"{root}/meet/{node}.part", "w").write(f"{pid} {os.getpid()}")
os.rename(f"{root}/meet/{node}.part", f"{root}/meet/{node}")
time.sleep(300)
"""


def becomes(what: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not what() and time.monotonic() < until:
        time.sleep(0.02)
    return what()


def start_of(pid: int) -> str:
    """When it was started; "" where there is no such process, or only its status."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if told[0] == "Z" else told[19]


class Job:
    """A run that goes on until it is killed, step by step."""

    def __init__(self, nodes: Nodes, tierctl: subprocess.Popen[bytes]) -> None:
        self.nodes, self.tierctl = nodes, tierctl
        assert becomes(lambda: all((nodes.root / "meet" / name).exists() for name in nodes.node))
        told = [(nodes.root / "meet" / name).read_text().split() for name in nodes.node]
        self.processes = [(int(pid), start_of(int(pid))) for pids in told for pid in pids]
        """Daemons and programs of all nodes, each with its start: a number may be given again."""

    @property
    def folders(self) -> list[Path]:
        return list((self.nodes.root / "pfs").glob(".tierbench.*"))

    def kill_the_rest(self) -> None:
        """Those that still live."""
        for pid, start in self.processes:
            if start and start_of(pid) == start:
                os.kill(pid, signal.SIGKILL)
        assert becomes(lambda: all(start_of(pid) != start for pid, start in self.processes))

    def kill_tierctl(self) -> None:
        self.tierctl.kill()
        self.tierctl.wait()

    def says(self, *words: str | Path) -> str:
        """What a command says on one node after the other."""
        told = ""
        for pid in self.nodes.node.values():
            here: list[str | Path] = [
                "nsenter",
                "--target",
                str(pid),
                "--mount",
                "--uts",
                "--",
                BIN / "tierctl",
            ]
            done = subprocess.run([*here, *words], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            told += done.stdout
        return told

    def recover(self) -> str:
        return self.says("recover", "-c", self.nodes.root / "tiers.yaml")


@contextmanager
def job(nodes: Nodes) -> Iterator[Job]:
    config, program = nodes.root / "tiers.yaml", nodes.root / "program.py"
    config.write_text(SHARED.format(root=nodes.root, flush="manual"))
    program.write_text(WORKS)
    command: list[str | Path] = [nodes.launch, sys.executable, program, nodes.root]
    words: list[str | Path] = [
        BIN / "tierctl",
        "run",
        "-c",
        config,
        "--per-node",
        nodes.launch,
        "--",
        *command,
    ]
    env = os.environ | {"TB_TIERCTL": str(BIN / "tierctl")}
    with ExitStack() as cleanup:
        tierctl = cleanup.enter_context(subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL))
        cleanup.callback(tierctl.kill)
        made = Job(nodes, tierctl)
        cleanup.callback(made.kill_the_rest)
        yield made


def test_it_is_kept_as_long_as_one_process_of_the_run_lives(nodes: Nodes) -> None:
    with job(nodes) as run:
        (folder,) = run.folders
        assert sorted(p.name for p in folder.iterdir()) == ["lease", "peers", "secret"]
        assert f"{folder}: kept: process " in run.recover()
        run.kill_tierctl()
        assert f"{folder}: kept: process " in run.recover()
        assert (folder / "secret").exists()
        run.kill_the_rest()
        assert f"{folder}: of a run that was killed: removed\n" in run.recover()
        assert run.folders == []
    assert {p.name: p.read_text() for p in (nodes.root / "pfs").iterdir()} == {
        n: n * 1000 for n in nodes.node
    }
    assert nodes.left() == []


def test_gc_removes_that_of_a_dead_instance(nodes: Nodes) -> None:
    with job(nodes) as run:
        (folder,) = run.folders
        run.kill_tierctl()
        assert run.says("gc") == "0 instances cleared\n" * 2
        run.kill_the_rest()
        assert run.says("gc").count(f"{folder}: of a run that was killed: removed\n") == 1
        assert run.folders == []
    assert nodes.left() == []


def test_what_no_run_made_is_kept(nodes: Nodes) -> None:
    with job(nodes) as run:
        (folder,) = run.folders
        run.kill_tierctl()
        run.kill_the_rest()
        (folder / "results").touch()
        assert f"{folder}: kept: no run made results in it\n" in run.recover()
        (folder / "results").unlink()
        lease = (folder / "lease").rename(nodes.root / "lease")
        assert f"{folder}: kept: it has no lease" in run.recover()
        lease.rename(folder / "lease")
        (folder / "secret").unlink()  # a removal that was killed: the lease goes last
        other = nodes.root / "pfs" / ".tierbench.other"
        other.mkdir()
        assert f"{folder}: of a run that was killed: removed\n" in run.recover()
        assert run.folders == [other]
