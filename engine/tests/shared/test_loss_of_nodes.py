"""Files of three nodes with `nodes: shared`, of which one is cut off, stopped, or loses its daemon in any step.

What is committed is seen as it is, or gives EIO within 10 s; what comes back is right; and nothing that was committed is lost after
`tierctl recover`. TB_NODES_LONG: a kill in every step, that many times.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
import test_nodes
from instances import BIN, can_unshare
from net_nodes import Networks, can_make_networks
from test_histories import Record
from test_nodes import Nodes
from test_workloads import words_of
from workload_worker import Killed, pattern

LONG = int(os.environ.get("TB_NODES_LONG", 0))
NAMES = ("tb-a", "tb-b", "tb-c")


class OnSwitch(Nodes):
    """Each node has a network of its own."""

    spaces = ("--mount", "--uts", "--net")


@contextmanager
def answering(root: Path, acts: dict[str, Callable[[], None]]) -> Iterator[None]:
    """What a rank asks for is done here, on no node."""
    ends = Event()

    def work() -> None:
        while not ends.wait(0.01):
            for what, act in acts.items():
                if (ask := root / "meet" / f"{what}.ask").exists():
                    ask.unlink()
                    act()
                    (root / "meet" / f"{what}.done").touch()

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def is_stopped(pid: int) -> bool:
    """All of its threads: one that runs is stopped a moment after the signal, and may still answer."""
    told = [task.read_text().rpartition(")")[2] for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state.split()[0] == "T" for state in told)


@pytest.mark.skipif(not can_make_networks(), reason="no network namespaces here (needs root and ip)")
@pytest.mark.parametrize("how", ["a partition", "a stopped node"])
def test_a_node_is_out_of_reach_and_comes_back(how: str) -> None:
    with ExitStack() as cleanup:
        nodes = OnSwitch(cleanup, NAMES)
        networks = cleanup.enter_context(Networks(3, list(nodes.node.values())))

        def send(number: signal.Signals) -> None:
            daemon = int((nodes.root / "meet" / "daemon").read_text())
            os.kill(daemon, number)
            while number == signal.SIGSTOP and not is_stopped(daemon):
                time.sleep(0.001)

        acts: dict[str, Callable[[], None]] = {
            "away": lambda: networks.cut(1) if how == "a partition" else send(signal.SIGSTOP),
            "back": lambda: networks.heal(1) if how == "a partition" else send(signal.SIGCONT),
        }
        words = words_of(nodes, "cutoff", int(how == "a partition"))
        config = nodes.root / "tiers.yaml"
        config.write_text(config.read_text().replace("interface: lo", "interface: eth"))
        with answering(nodes.root, acts):
            test_nodes.run_ctl(words, 0, env={"TB_TIERCTL": str(BIN / "tierctl")}, timeout=240)
        for r in range(3):
            assert (nodes.root / "pfs" / f"own{r}").read_bytes() == pattern(200_000, 20 + r)
        assert nodes.left() == []


SHORT = [(3, 0), (5, 1)]
ALL = [(step, victim) for step in range(len(Killed.STEPS)) for victim in range(len(NAMES))]


@pytest.mark.parametrize("run", range(max(LONG, 1)))
@pytest.mark.parametrize(("step", "victim"), ALL if LONG else SHORT)
def test_a_daemon_is_killed(step: int, victim: int, run: int, record_property: Record) -> None:
    """After `Killed.STEPS[step]`, that of node `victim`."""
    if not can_unshare("--mount", "--uts"):
        pytest.skip("needs root, and the right to make namespaces")
    with ExitStack() as cleanup:
        nodes = Nodes(cleanup, NAMES)
        words = words_of(nodes, "killed", step, victim)
        record_property("kills", 1)
        said = test_nodes.run_ctl(words, 3, "tierctl recover -c", env={"TB_TIERCTL": str(BIN / "tierctl")})
        launch, _, *words_ = said.split("in this allocation: ")[1].splitlines()[0].split()
        done = subprocess.run([launch, BIN / "tierctl", *words_], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (run, done.stderr)
        for i in range(Killed.FILES):
            first = pattern(Killed.HALF, 100 + i) if step >= 3 else pattern(Killed.SIZE, i)[: Killed.HALF]
            last = (
                pattern(Killed.SIZE - Killed.HALF, 200 + i)
                if step >= 4
                else pattern(Killed.SIZE, i)[Killed.HALF :]
            )
            assert (nodes.root / "pfs" / f"file{i}").read_bytes() == first + last, f"file{i}"
        assert nodes.left() == []
