"""What forwarding itself costs: tb-forge with one I/O node and one client over the client's own writes.

    forwarding.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Writes to memory, in turn, where a message costs most beside a write. Client and I/O node share memory, so the
bytes stay where they are; by message they travel, as between compute nodes. The floor of that is one message
each way and the write, and nothing else (tb-forge-floor). Prints as bench.py does, writes
OUT_DIR/forwarding-<time>.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from rows import CannotMeasureError, Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
from setting import MIB, Bench

BUDGET = 0.8
MPIEXEC = os.environ.get("TB_MPIEXEC", "mpiexec")
TOTAL = {32 << 10: 128 * MIB, MIB: 256 * MIB}


@dataclass(frozen=True)
class Way:
    """How a client's bytes reach the file."""

    name: str
    io_nodes: int = 0
    in_flight: int = 1
    by_message: bool = False
    floor: bool = False


def words(bench: Bench, way: Way, request: int) -> list[str]:
    """Return the command; the scenario is there before."""
    launch = [MPIEXEC, "--bind-to", "none", "-n", str(way.io_nodes + 1)]
    if way.floor:
        floor = str(bench.build / "bin/tb-forge-floor")
        return [*launch, floor, str(bench.root / "f"), str(request), str(TOTAL[request])]
    forge = [str(bench.build / "bin/tb-forge"), str(bench.root / "scenario.json"), str(bench.root)]
    return [*launch, *forge, "--in-flight", str(way.in_flight), *["--by-message"][: way.by_message]]


def rate(bench: Bench, way: Way, request: int) -> float:
    """MiB/s of one run into a new file."""
    (bench.root / "f").unlink(missing_ok=True)
    what = {
        "forwarders": way.io_nodes,
        "handlers": 0,
        "dispatchers": 1,
        "path": str(bench.root / "f"),
        "number_of_files": "shared",
        "spatiality": "contiguous",
        "total_size": TOTAL[request],
        "request_size": request,
        "validation": 0,
        "operations": "write",
        "direct_io": 0,
        "stone_wall": 0,
    }
    (bench.root / "scenario.json").write_text(json.dumps(what))
    as_root = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(  # noqa: S603
        words(bench, way, request), capture_output=True, text=True, timeout=300, env=as_root, check=False
    )
    if done.returncode:
        raise CannotMeasureError(f"{done.args!r}: {done.stderr[-600:]}")
    if way.floor:
        return float(done.stdout)
    found = json.loads((bench.root / "forge-result.json").read_text())
    return float(found["patterns"][0]["bandwidth_mib_s"])


def row(request: int, path: Way, yardstick: Way, budget: float | None) -> Row:
    """One ratio of rates, each pair in turn."""

    def measure(bench: Bench) -> Pairs:
        return [
            (rate(bench, path, request), rate(bench, yardstick, request)) for _ in range(bench.repetitions)
        ]

    size = "1 MiB" if request == MIB else f"{request >> 10} KiB"
    return Row(f"{size} requests, {path.name}", yardstick.name, "at least", budget, measure)


def main() -> int:
    """Measure all of it."""
    args = parse()
    direct, floor = Way("no I/O node"), Way("message, write, answer", 1, floor=True)
    one, four = Way("one I/O node", 1), Way("one I/O node, --in-flight 4", 1, 4)
    sent = Way("one I/O node, --by-message", 1, by_message=True)
    rows = []
    for request in TOTAL:
        rows += [row(request, one, direct, BUDGET), row(request, four, direct, BUDGET)]
        rows += [
            row(request, sent, direct, None),
            row(request, floor, direct, None),
            row(request, sent, floor, None),
        ]
    wanted = chosen(rows, args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, wanted)
    return finish(args, "forwarding-", about, wanted)


if __name__ == "__main__":
    sys.exit(main())
