"""Device models, measured against what they are configured to be, on this machine's own clock and scheduler.

    model.py [BUILD_DIR [OUT_DIR]] [--device NAME ...] [--seconds S]

Processes make operations in a folder on /dev/shm with the model of a device of configs/devices, in mode
bypass, so that nothing but the model slows them down.  For each size and number of processes (1 to 8) the
rate is compared with the one the model's figures give.  The same without a model, measured just before,
says what the medium can do at that moment: a repetition at which the model asks for more than half of that
says nothing and is left out.  Prints a table, writes OUT_DIR/model-<time>.json; exit status 1 where the
median of what is left is more than 5 % off.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
SHM = "/dev/shm"  # noqa: S108 - the medium must be faster than every model
SIZES = [4096 * 16**i for i in range(4)]
PROCESSES = [1, 2, 4, 8]
TOLERANCE = 0.05
REPETITIONS = 3
FILE_BYTES = 16 << 20
CONFIG = """version: 1
max_files: 64
pfs: {{path: {pfs}{model}}}
mode: bypass
fsync: pfs
tiers: [{{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 1, share: 1.0}}]}}]
"""


@dataclass
class Cell:
    """One measurement: operations a second, a repetition each."""

    device: str
    kind: str
    bytes: int
    processes: int
    configured: list[float]
    measured: list[float]
    medium: list[float]

    @property
    def ratio(self) -> float:
        """Measured over configured."""
        return statistics.median(m / c for m, c in zip(self.measured, self.configured, strict=True))


class Runner:
    """A tb-rate under a private instance, with a model or without."""

    def __init__(self, build: Path, root: Path, model: Path | None) -> None:
        config = root / "config.yaml"
        config.write_text(CONFIG.format(pfs=root / "pfs", model=f", model: {model}" if model else ""))
        self.pfs = root / "pfs"
        words = [build / "bin/tierctl", "run", "-c", config, "--", build / "bin/tb-rate", self.pfs]
        command = [str(word) for word in words]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, text=True)  # noqa: S603
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.out, self.into = self.process.stdout, self.process.stdin
        if self.out.readline() != "ready\n":
            raise SystemExit("model.py: tb-rate did not start")

    def rate(self, kind: str, processes: int, size: int, operations: int) -> float:
        """Operations a second."""
        self.into.write(f"{kind} {processes} {size} {operations}\n")
        self.into.flush()
        line = self.out.readline()
        if not line:
            raise SystemExit(f"model.py: tb-rate ended at {kind} {processes} {size}")
        for path in self.pfs.glob("*.new.*"):
            path.unlink()
        return operations / float(line)

    def end(self) -> None:
        """Let it go."""
        self.into.close()
        self.out.read()
        self.process.wait()


def read_device(build: Path, root: Path, device: Path) -> dict[str, float]:
    """Return the figures of a device file, in bytes and seconds, as the engine reads them."""
    config = root / "plan.yaml"
    config.write_text(CONFIG.format(pfs=root / "pfs", model=f", model: {device}"))
    plan = subprocess.run([build / "bin/tierctl", "plan", config, "--json"], capture_output=True, check=True)  # noqa: S603
    found: dict[str, float] = json.loads(plan.stdout)["pfs"]["model"]
    return found


def configured(device: dict[str, float], kind: str, size: int, processes: int) -> float:
    """Operations a second that the device gives this many processes; 0: not modelled."""
    if kind in ("write", "read"):
        latency, bandwidth = device[f"{kind}_latency"], device[f"{kind}_bandwidth"]
        transfer = size / bandwidth if bandwidth else 0.0
        seconds = max(latency / device["channels"] + transfer, (latency + transfer) / processes)
    else:
        seconds = device[{"sync": "sync_time", "create": "open_time", "stat": "metadata_time"}[kind]]
    return 1 / seconds if seconds else 0.0


def sync_only(root: Path, device: dict[str, float]) -> Path:
    """Write a device that has only the other's sync: a sync needs a write, which must cost nothing here."""
    path = root / "sync.yaml"
    path.write_text(f"name: sync\nsync_time: {device['sync_time'] * 1e9:.0f}ns\n")
    return path


def cells_of(kinds: list[str]) -> list[tuple[str, int, int]]:
    """Kind, size and processes of each measurement."""
    return [
        (kind, size, processes)
        for kind in kinds
        for size in (SIZES if kind in ("write", "read") else SIZES[:1])
        for processes in PROCESSES
    ]


def operations_for(rate: float, seconds: float, processes: int) -> int:
    """Enough for the time, the same number for each process."""
    return max(round(rate * seconds / processes), 1) * processes


def measure(
    runner: Runner, plain: Runner, name: str, device: dict[str, float], kinds: list[str], seconds: float
) -> list[Cell]:
    """All cells of one device that the medium can show."""
    cells = []
    for kind, size, processes in cells_of(kinds):
        right = configured(device, kind, size, processes)
        if not right:
            continue
        cell = Cell(name, kind, size, processes, [], [], [])
        operations = operations_for(right, seconds, processes)
        for _ in range(REPETITIONS):
            medium = plain.rate(kind, processes, size, operations)
            found = runner.rate(kind, processes, size, operations)
            alone = kind == "sync" and processes == 1  # no other sync hides the write, which is real here
            write = plain.rate("write", 1, size, operations) if alone else math.inf
            if right <= medium / 2:
                cell.configured.append(1 / (1 / right + 1 / write))
                cell.measured.append(found)
                cell.medium.append(medium)
        cells += [cell] if cell.measured else []
    return cells


def print_rows(cells: list[Cell]) -> None:
    """One row a device and kind of operation: the range over sizes and processes, and the worst."""
    for device in dict.fromkeys(cell.device for cell in cells):
        for kind in dict.fromkeys(cell.kind for cell in cells):
            rows = [cell for cell in cells if (cell.device, cell.kind) == (device, kind)]
            if not rows:
                continue
            ratios = [cell.ratio for cell in rows]
            worst = max(rows, key=lambda cell: abs(cell.ratio - 1))
            print(
                f"{device:<22} {kind:<7} {len(rows):>3} cells  {min(ratios):.3f} to {max(ratios):.3f}   "
                f"worst: {worst.bytes >> 10} KiB, {worst.processes} processes",
                flush=True,
            )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure device models against their figures.")
    parser.add_argument("build", type=Path, nargs="?", default=HOUSE / "build", help="build folder (build)")
    parser.add_argument("out", type=Path, nargs="?", default=HOUSE / "results/bench", help="for the result")
    parser.add_argument("--device", action="append", help="a name in configs/devices (all)")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement (0.2)")
    return parser.parse_args()


def main() -> int:
    """Measure all of it."""
    args = parse()
    devices = sorted((HOUSE / "configs/devices").glob("*.yaml"))
    known = {path.stem: path for path in devices}
    for name in args.device or []:
        if name not in known:
            print(f"model.py: --device {name}: allowed: {', '.join(known)}", file=sys.stderr)
            return 2
    cells: list[Cell] = []
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tb-model.", dir=SHM)))
        (root / "pfs").mkdir()
        for rank in range(max(PROCESSES)):
            (root / "pfs" / f"file.{rank}").write_bytes(bytes(FILE_BYTES))
        plain = Runner(args.build, root, None)
        for name in args.device or known:
            figures = read_device(args.build, root, known[name])
            loads = [(known[name], ["write", "read", "create", "stat"]), (sync_only(root, figures), ["sync"])]
            for path, kinds in loads:
                if kinds != ["sync"] or figures["sync_time"]:
                    runner = Runner(args.build, root, path)
                    cells += measure(runner, plain, name, figures, kinds, args.seconds)
                    runner.end()
            print_rows([cell for cell in cells if cell.device == name])
        plain.end()
    off = [cell for cell in cells if abs(cell.ratio - 1) > TOLERANCE]
    args.out.mkdir(parents=True, exist_ok=True)
    result = args.out / f"model-{time.strftime('%Y%m%d-%H%M%S')}.json"
    result.write_text(json.dumps([asdict(cell) | {"ratio": cell.ratio} for cell in cells], indent=1) + "\n")
    print(f"{len(off)} of {len(cells)} more than {TOLERANCE:.0%} off; {result}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
