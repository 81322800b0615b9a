"""Reads of another node's file over a link of a modelled rate, over a raw socket on the same link.

The loopback has no rate: there a raw socket keeps both processors of a small machine busy, and each further
copy of the bytes shows in full. A site's network is slower than its memory. Here each of two nodes has a
network of its own, and between them is a pair of veth devices, whose rate the kernel limits both ways (tc,
token bucket). Only the rate is modelled: the latency is this machine's, and both sides share its
processors.

The raw socket asks and waits, one call after the other, as the program does; in the same repetition, on the
same link.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from rows import CannotMeasureError, Pairs, Row
from setting import MIB, Bench

from several import shared

RATES = (10, 25)
"""Gbit/s. A small machine with both ends on it moves about as much as the second one."""
BURST_KIB = 128
"""What may go at once: two of the largest packets that TCP makes here."""
DEVICE = "tb-link"
ADDRESSES = ("10.213.7.1", "10.213.7.2")
CALLS = {MIB: 100, 4096: 2000}
OPERATIONS = {
    "read 1 MiB": MIB,
    "read 4 KiB, open": 4096,
    "read 4 KiB": 4096,
}
"""What a program does, and the bytes of a raw call beside it."""


def tool(*words: str) -> None:
    """Of the kernel's networks."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise CannotMeasureError(f"{' '.join(words)}: {done.stderr.strip()}")


def in_network(pid: str) -> list[str]:
    """Words before a command."""
    return ["nsenter", "--target", pid, "--net", "--"]


def connect(pids: list[str], gbit: int) -> None:
    """The link between two nodes; it goes with their networks."""
    one, other = pids
    tool(*f"ip link add {DEVICE} netns {one} type veth peer name {DEVICE} netns {other}".split())
    for pid, address in zip(pids, ADDRESSES, strict=True):
        for command in (
            "ip link set lo up",
            f"ip address add {address}/24 dev {DEVICE}",
            f"ip link set {DEVICE} up",
            limit(gbit),
        ):
            tool(*in_network(pid), *command.split())


def limit(gbit: int) -> str:
    """The command for the own side of the link."""
    return f"tc qdisc add dev {DEVICE} root tbf rate {gbit}gbit burst {BURST_KIB}kb latency 50ms"


def can_limit() -> bool:
    """Whether this machine has the tools, and its kernel such a link."""
    if not (shutil.which("ip") and shutil.which("tc") and shared.can_have_nodes()):
        return False
    made = f"ip link add {DEVICE} type veth peer name {DEVICE}-b && {limit(RATES[0])}"
    words = ["unshare", "--net", "sh", "-c", made]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0  # noqa: S603


def raw_seconds(bench: Bench, pids: list[str], size: int) -> float:
    """Of one call."""
    words = [*in_network(pids[0]), str(bench.build / "bin/tb-net-cost"), str(bench.root), "raw", str(size)]
    words += [str(CALLS[size]), "1", f"/proc/{pids[1]}/ns/net", ADDRESSES[1]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=shared.LIMIT_S, check=False)  # noqa: S603
    if done.returncode:
        raise CannotMeasureError(done.stderr.strip()[-300:])
    return int(done.stdout) / 1e9 / CALLS[size]


class Links:
    """A job a repetition and rate, with raw calls before and after it; several rows read them."""

    def __init__(self) -> None:
        self.found: dict[int, list[dict[str, tuple[float, float]]]] = {}

    def of(self, bench: Bench, gbit: int) -> list[dict[str, tuple[float, float]]]:
        """By operation: seconds of ours, and of a raw call."""
        if gbit not in self.found:
            self.found[gbit] = [one_run(bench, gbit) for _ in range(bench.repetitions)]
        return self.found[gbit]


@contextlib.contextmanager
def linked(root: Path, names: list[str], gbit: int) -> Iterator[tuple[Path, list[str]]]:
    """Two nodes."""
    with shared.nodes_of(names, root, "--net") as (launch, pids):
        connect(pids, gbit)
        yield launch, pids


def one_run(bench: Bench, gbit: int) -> dict[str, tuple[float, float]]:
    """Half of the raw calls before the job, half after it."""
    names = ["tb-0", "tb-1"]
    with shared.memory(bench.disk) as root:
        config = shared.write_config(root, 1, DEVICE)
        with linked(root, names, gbit) as (launch, pids):
            before = {size: raw_seconds(bench, pids, size) for size in CALLS}
            told = shared.run_on(bench, root, launch, names, 2, config)
            raw = {size: (raw_seconds(bench, pids, size) + before[size]) / 2 for size in CALLS}
    return {name: (told[name]["seconds"], raw[size]) for name, size in OPERATIONS.items()}


def against_raw(links: Links, operation: str, gbit: int, budget: float | None) -> Row:
    """Rates."""

    def measure(bench: Bench) -> Pairs:
        return [(1 / run[operation][0], 1 / run[operation][1]) for run in links.of(bench, gbit)]

    path = f"{operation} of another node's file, modelled link of {gbit} Gbit/s"
    return Row(path, "raw sockets on it", "at least", budget, measure)


def rows(budget: Callable[[int], float | None]) -> list[Row]:
    """`budget`: by the bytes of a raw call."""
    links = Links()
    return [against_raw(links, name, gbit, budget(OPERATIONS[name])) for gbit in RATES for name in OPERATIONS]
