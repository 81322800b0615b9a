"""The 189 scenarios of the forwarding study (PDSW 2020), and what they are on a machine.

A local scale has no compute nodes: 8, 16 and 32 of them are 1, 2 and 4, and 12, 24 and 48 processes are
1, 2 and 4 ranks of each, so that the proportions stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from tierbench.base.sizes import GIB, KIB, MIB, TIB

NODES = (8, 16, 32)
PROCESSES = (12, 24, 48)  # of each compute node
PATTERNS = ("individual-contiguous", "shared-contiguous", "shared-strided")
REQUESTS_KIB = (32, 128, 512, 1024, 4096, 6144, 8192)
IO_NODES = (0, 1, 2, 4, 8)
TOTALS = {"marenostrum4": 128 * GIB, "santosdumont": 16 * TIB}  # of the recorded runs
LOCAL_TOTAL = 32 * MIB


@dataclass(frozen=True)
class Scenario:
    """A deployment and its access pattern."""

    nodes: int
    processes: int
    pattern: str
    request_kib: int

    @classmethod
    def named(cls, name: str) -> Scenario:
        """Of its name."""
        nodes, processes, layout, spatiality, request = name.split("-")
        return cls(int(nodes[:-1]), int(processes[:-1]), f"{layout}-{spatiality}", int(request[:-3]))

    @property
    def name(self) -> str:
        """`8n-12p-shared-strided-32KiB`."""
        return f"{self.nodes}n-{self.processes}p-{self.pattern}-{self.request_kib}KiB"

    @property
    def is_local(self) -> bool:
        """One of the nine of the short run: each pattern, small to large requests."""
        return (self.nodes, self.processes) == (8, 24) and self.request_kib in (32, 1024, 8192)

    def clients(self, published: bool) -> int:
        """Processes of the study's deployment, or the ranks of a local run."""
        if published:
            return self.nodes * self.processes
        return self.nodes // NODES[0] * (self.processes // PROCESSES[0])

    def forge_runs(self, io_nodes: int, published: bool) -> bool:
        """Whether FORGE can: it needs I/O nodes, and as many clients for each."""
        return io_nodes > 0 and self.clients(published) % io_nodes == 0

    def file(self, io_nodes: int, total: int, stonewall: int, direct: bool, validate: bool) -> dict[str, Any]:
        """FORGE's scenario file, of the format that the study used."""
        layout, spatiality = self.pattern.split("-")
        return {
            "forwarders": io_nodes,
            "handlers": 1,
            "dispatchers": 1,
            "path": "f",
            "number_of_files": layout,
            "spatiality": spatiality,
            "total_size": total,
            "request_size": self.request_kib * KIB,
            "validation": int(validate),
            "operations": "write",
            "direct_io": int(direct),
            "stone_wall": stonewall,
        }

    def file_with_phases(self, flat: dict[str, Any]) -> dict[str, Any]:
        """The same in the format that FORGE reads since then."""
        shared = ("forwarders", "handlers", "dispatchers", "operations")
        access = {key: value for key, value in flat.items() if key not in shared}
        patterns = [access | {"operation": operation} for operation in ("open", flat["operations"], "close")]
        return {key: flat[key] for key in shared[:3]} | {"phases": [{"repetitions": 1, "patterns": patterns}]}


SCENARIOS = [Scenario(*of) for of in product(NODES, PROCESSES, PATTERNS, REQUESTS_KIB)]
