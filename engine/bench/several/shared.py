"""Operations with `nodes: shared` on one machine, from 1 to 8 nodes and 1 to 64 ranks: what they cost.

A node is a host name and a /dev/shm of its own, which needs root. All nodes share the machine's processors,
so with many nodes this measures what an operation costs, and no bandwidth of many nodes. `worker.py` has
the operations.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rows import CannotMeasureError, Pairs, Row
from setting import Bench

NODES = (1, 2, 4, 8)
RANKS = ((1, 1), (2, 2), (2, 16), (2, 64), (8, 8), (8, 64))
"""(nodes, ranks) of all ranks at once."""
RUNS = 3
"""Of each, so that a bench of all ends within minutes."""
FILES, LARGE_MIB = 200, 32
LIMIT_S = 180
CONFIG = """version: 1
max_files: 2048
nodes: shared
copies: {copies}
network: {{interface: {interface}}}
pfs: {{path: {root}/pfs}}
fsync: tier
allow_volatile: true
organizer: {{enabled: false}}
flush: {{policy: manual}}
tiers:
  - {{name: ram, medium: memory, capacity: 96MiB, block: 4KiB, slabs: {slabs}}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 96MiB, block: 4KiB, slabs: {slabs}}}
"""
SLABS = "[{units: 1, share: 0.5}, {units: 256, share: 0.5}]"
LAUNCH = """#!/bin/sh
for node in {pids}; do nsenter --target $node --mount --uts {more} -- "$@" & all="$all $!"; done
rc=0
for one in $all; do wait $one || rc=$?; done
exit $rc
"""
Told = dict[str, dict[str, float]]
"""By operation: seconds, messages, memory of keepers."""


def can_have_nodes() -> bool:
    """Whether namespaces can be made here."""
    words = ["unshare", "--mount", "--uts", "true"]
    if not shutil.which(words[0]) or not shutil.which("nsenter"):
        return False
    return subprocess.run(words, capture_output=True, check=False).returncode == 0  # noqa: S603


@contextlib.contextmanager
def nodes_of(names: list[str], root: Path, *more: str) -> Iterator[tuple[Path, list[str]]]:
    """The launcher of all nodes and their processes, for as long as it takes; `more`: namespaces of each."""
    with contextlib.ExitStack() as stack:
        pids = []
        for name in names:
            made = (
                f"hostname {name} && mount -t tmpfs tmpfs /dev/shm && echo made && exec sleep {2 * LIMIT_S}"
            )
            words = ["unshare", "--mount", "--uts", *more, "sh", "-c", made]
            node = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))  # noqa: S603
            stack.callback(node.kill)
            if node.stdout is None or node.stdout.readline() != "made\n":
                raise CannotMeasureError(f"node {name} cannot be made")
            pids.append(str(node.pid))
        launch = root / "each"
        launch.write_text(LAUNCH.format(pids=" ".join(pids), more=" ".join(more)))
        launch.chmod(0o755)
        yield launch, pids


@contextlib.contextmanager
def memory(folder: Path) -> Iterator[Path]:
    """A file system in memory that all nodes see: a disk's syncs would hide what the nodes cost."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", made], check=True)  # noqa: S603,S607
        try:
            yield Path(made)
        finally:
            subprocess.run(["umount", "--lazy", made], check=True)  # noqa: S603,S607


def run_on(bench: Bench, root: Path, launch: Path, names: list[str], ranks: int, config: Path) -> Told:
    """One job on nodes that are there, and what its worker told."""
    worker = [sys.executable, str(Path(__file__).parent / "worker.py"), str(root), ",".join(names)]
    alone = ranks == len(names)  # with more ranks the same would be measured again
    worker += [str(ranks // len(names)), str(FILES * alone), str(LARGE_MIB * alone)]
    tierctl = str(bench.build / "bin/tierctl")
    words = [tierctl, "run", "-c", str(config), "--per-node", str(launch), "--", str(launch), *worker]
    env = os.environ | {"TB_TIERCTL": tierctl}
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)  # noqa: S603
    if done.returncode:
        raise CannotMeasureError(f"{len(names)} nodes, {ranks} ranks: {done.stderr.strip()[-400:]}")
    told: Told = json.loads((root / "meet" / "costs.json").read_text())
    return told


def write_config(root: Path, copies: int, interface: str) -> Path:
    """The folders of a job, too."""
    for place in ("pfs", "nvme", "meet"):
        (root / place).mkdir()
    config = root / "tiers.yaml"
    config.write_text(CONFIG.format(root=root, slabs=SLABS, copies=copies, interface=interface))
    return config


def run_job(bench: Bench, n_nodes: int, ranks: int, copies: int) -> Told:
    """One job of so many nodes, all on the loopback."""
    names = [f"tb-{i}" for i in range(n_nodes)]
    with memory(bench.disk) as root:
        config = write_config(root, copies, "lo")
        with nodes_of(names, root) as (launch, _):
            return run_on(bench, root, launch, names, ranks, config)


class Jobs:
    """The jobs of a bench: each is run once a repetition, and several rows read what it told."""

    def __init__(self, copies: int = 1) -> None:
        self.copies = copies
        self.told: dict[tuple[int, int], list[Told]] = {}

    def of(self, bench: Bench, n_nodes: int, ranks: int) -> list[Told]:
        """What all repetitions told."""
        if (n_nodes, ranks) not in self.told:
            runs = min(RUNS, bench.repetitions)
            self.told[n_nodes, ranks] = [run_job(bench, n_nodes, ranks, self.copies) for _ in range(runs)]
        return self.told[n_nodes, ranks]

    def seconds(self, bench: Bench, where: tuple[int, int], operation: str) -> list[float]:
        """A repetition each."""
        return [told[operation]["seconds"] for told in self.of(bench, *where)]

    def as_json(self) -> list[dict[str, object]]:
        """Medians of all that was measured: the input of `tierbench project --measured`."""
        return [
            {"nodes": n, "ranks": ranks, "operation": operation}
            | {key: statistics.median(one[operation][key] for one in told) for key in told[0][operation]}
            for (n, ranks), told in sorted(self.told.items())
            for operation in told[0]
        ]


def more_nodes(jobs: Jobs, operation: str, n_nodes: int) -> Row:
    """What the other nodes add to an operation of one rank."""

    def measure(bench: Bench) -> Pairs:
        many, one = (jobs.seconds(bench, (n, n), operation) for n in (n_nodes, 1))
        return list(zip(many, one, strict=True))

    return Row(f"{operation}, one rank, {n_nodes} nodes: cost", "one node", "at most", None, measure)


def more_ranks(jobs: Jobs, n_nodes: int, ranks: int) -> Row:
    """Time on a processor of a commit when all ranks commit."""

    def measure(bench: Bench) -> Pairs:
        many, one = (jobs.seconds(bench, where, "commit of all") for where in ((n_nodes, ranks), (1, 1)))
        return list(zip(many, one, strict=True))

    return Row(
        f"commit, {ranks} ranks on {n_nodes} nodes: cost", "one rank on one node", "at most", None, measure
    )


def second_copy(jobs: Jobs, twice: Jobs, operation: str, n_nodes: int) -> Row:
    """What it costs that each commit is on two nodes before it returns."""

    def measure(bench: Bench) -> Pairs:
        where = (n_nodes, n_nodes)
        return list(zip(*(j.seconds(bench, where, operation) for j in (twice, jobs)), strict=True))

    return Row(f"{operation}, copies: 2, {n_nodes} nodes: cost", "copies: 1", "at most", None, measure)


def against_raw(jobs: Jobs, operation: str, raw: Callable[[Bench], float], budget: float | None) -> Row:
    """A program's read of what the other node wrote, over the same bytes by a raw socket; rates."""

    def measure(bench: Bench) -> Pairs:
        return [(1 / seconds, raw(bench)) for seconds in jobs.seconds(bench, (2, 2), operation)]

    return Row(f"{operation} of another node's file", "raw sockets", "at least", budget, measure)


def rows(jobs: Jobs, twice: Jobs) -> list[Row]:
    """All but those against raw sockets; `twice` has second copies."""
    operations = ("file", "commit", "read 4 KiB", "read 1 MiB")
    committed = ("file", "commit", "commit 1 MiB")
    return [
        *(more_nodes(jobs, o, n) for o in operations for n in NODES[1:]),
        *(more_ranks(jobs, n, ranks) for n, ranks in RANKS[1:]),
        *(second_copy(jobs, twice, o, n) for o in committed for n in NODES[1:3]),
    ]


def sentences(jobs: Jobs) -> Iterator[str]:
    """Messages and memory, which are no ratios."""
    for line in jobs.as_json():
        if "messages" in line:
            where = f"{line['operation']}, {line['nodes']} nodes, copies: {jobs.copies}"
            us, messages, kept = (float(str(line[key])) for key in ("seconds", "messages", "kept_bytes"))
            yield f"{where}: {us * 1e6:.0f} us, {messages:.2f} messages, {kept:.0f} bytes more at keepers"
