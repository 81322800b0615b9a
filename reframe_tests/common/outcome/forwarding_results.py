"""What one launch of tb-forge or of FORGE wrote, in either format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tierbench.base.sizes import MIB
from tierbench.outputs import read_forge

RESULT = "forge-result.json"  # of tb-forge alone
TIMES = "emulation.time"
NODES = "compute-nodes"  # ours, as FORGE does not say it; `tierbench forwarding` reads it


@dataclass(frozen=True)
class Wrote:
    """The one write of a launch; `verified` is None where no byte was read back."""

    driver: str
    io_nodes: int
    ranks: int
    nodes: int
    bytes: int
    seconds: float
    bandwidth_mib_s: float
    verified: bool | None


def launches(out: Path) -> list[Path]:
    """The folders of the launches that came to an end."""
    return sorted(f for f in out.glob("*/*") if (f / RESULT).exists() or (f / TIMES).exists())


def wrote(launch: Path) -> Wrote:
    """Of one launch."""
    return _by_tb_forge(launch / RESULT) if (launch / RESULT).exists() else _by_forge(launch)


def _by_tb_forge(file: Path) -> Wrote:
    found = json.loads(file.read_text())
    (write,) = found["patterns"]
    return Wrote(
        driver="tb-forge",
        io_nodes=found["io_nodes"],
        ranks=found["ranks"],
        nodes=found["jobs"][0]["nodes"],
        bytes=write["bytes"],
        seconds=write["seconds"]["max"],
        bandwidth_mib_s=write["bandwidth_mib_s"],
        verified=write["validated_bytes"] == write["bytes"] if write["validation"] else None,
    )


def _by_forge(launch: Path) -> Wrote:
    found = read_forge(launch / TIMES)
    (write,) = found.transfers
    return Wrote(
        driver="FORGE",
        io_nodes=found.io_nodes,
        ranks=found.io_nodes + found.clients,
        nodes=int((launch / NODES).read_text()),
        bytes=round(write.data_mib * MIB),
        seconds=write.slowest_s,
        bandwidth_mib_s=write.bandwidth_mib_s,
        verified=None,
    )
