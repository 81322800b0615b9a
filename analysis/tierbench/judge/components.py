"""The components of the engine held against systems that do the same work.

A measurement is what `tb-components-*` printed for one operation on one system. The engine's is divided by
each other system's with as many processes and as many requests under way. Networked systems should be five
times slower at least; where one is not, the processor time that both spent says why: a pipelined server
works on a second core and makes no system call for each request any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tierbench.base.strict_json import read_fitting
from tierbench.judge import stats
from tierbench.judge.stats import Interval
from tierbench.runs.run_folder import Run

NETWORKED = ("redis", "memcached", "nats")
LEAST_RATIO = 5.0
PAPER_BYTES = 1.1e9  # of metadata for a million files, as its authors answered (HPDC'18, questions)
PAPER_FILES = 1_000_000
# What requests under way share, as strace counted it once (docs/testing/hpdc18-components.md).
SHARED = {
    "redis": "64 requests shared 5 system calls, of which a write of 3 to 10 kB",
    "memcached": "64 requests shared some 25 system calls",
    "nats": "some 200 messages shared a send of 7 kB",
}


@dataclass(frozen=True)
class Measured:
    """One operation on one system; rates are of the equal parts in which it was made."""

    component: str
    operation: str
    system: str
    processes: int
    depth: int
    operations: int
    rates: tuple[float, ...]
    client_us: float
    server_us: float
    bytes: int | None
    latency_us: dict[str, float]

    @property
    def point(self) -> tuple[str, str, int, int]:
        """What systems must agree in to be compared."""
        return (self.component, self.operation, self.processes, self.depth)

    @property
    def median(self) -> Interval:
        """Operations a second."""
        return stats.median(self.rates)


@dataclass(frozen=True)
class Beside:
    """The engine beside another system: how many times its rate, and why not more."""

    engine: Measured
    other: Measured
    ratio: Interval

    @property
    def is_asked(self) -> bool:
        """Five times is asked of it."""
        return self.other.system in NETWORKED

    @property
    def reached(self) -> bool | None:
        """None: nothing is asked."""
        return self.ratio.value >= LEAST_RATIO if self.is_asked else None

    @property
    def reason(self) -> str:
        """From the processor time that was measured with it; nothing where enough was reached."""
        if self.reached is not False:
            return ""
        name, server, own = self.other.system, self.other.server_us, self.engine.client_us
        spent = self.other.client_us + server
        told = (
            f"{name} took {spent:.2f} us of processor time an operation, {server:.2f} of it in the server on "
            f"another core, the engine {own:.2f} us: {spent / own:.1f} times less"
        )
        if self.other.depth > 1:
            told += f"; {SHARED[name]}"
        enough = spent / own >= LEAST_RATIO
        return told + ("; what is missing is waiting for a processor" if enough else "")


@dataclass(frozen=True)
class Memory:
    """What a system took for the records of so many files."""

    system: str
    files: int
    bytes: int

    @property
    def of_paper(self) -> float:
        """The share of what the evaluation's own metadata took for as many files."""
        return self.bytes / self.files / (PAPER_BYTES / PAPER_FILES)


def of_run(run: Run) -> list[Measured]:
    """All measurements of a run, by name of their folders."""
    files = sorted(run.path.glob("cases/*/1/components.json"))
    rows = [_measured(row) for file in files for row in read_fitting(file, "components")["rows"]]
    return list({(*m.point, m.system): m for m in rows}.values())


def _measured(row: dict[str, Any]) -> Measured:
    return Measured(
        component=row["component"],
        operation=row["operation"],
        system=row["system"],
        processes=row["processes"],
        depth=row["depth"],
        operations=row["operations"],
        rates=tuple(map(float, row["ops_per_s"])),
        client_us=float(row["cpu_us"]["client"]),
        server_us=float(row["cpu_us"]["server"]),
        bytes=row.get("bytes"),
        latency_us={share: float(us) for share, us in row.get("latency_us", {}).items()},
    )


def beside(measured: Sequence[Measured]) -> list[Beside]:
    """The engine beside each system that was measured at the same point."""
    engine = {m.point: m for m in measured if m.system == "engine"}
    return [
        Beside(engine[m.point], m, stats.ratio(engine[m.point].rates, m.rates))
        for m in measured
        if m.system != "engine" and m.point in engine
    ]


def memory(measured: Sequence[Measured]) -> list[Memory]:
    """Of each system once, by its most files: the number of processes and of requests does not change it."""
    by_files = sorted(measured, key=lambda m: m.operations)
    found = {m.system: Memory(m.system, m.operations, m.bytes) for m in by_files if m.bytes}
    return [found[system] for system in dict.fromkeys(m.system for m in measured) if system in found]
