"""The engine's performance budget, measured: each path as a ratio to a yardstick of the same run.

    bench.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Both sides of a ratio are repeated in turn, so that what else the machine does meets both.  Writes
OUT_DIR/<time>.json and prints a table.  Being over budget is reported, not an error; exit status 1 means
that something could not be measured, 2 that it could not start.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
SHM = "/dev/shm"  # noqa: S108 - the yardstick is this very file system
SHM_NEEDED_MIB = 2048

WATCHED_REPETITIONS = 50  # some tenths of a second: several looks

# Rates of the modelled devices, MiB/s.
MODEL_PFS = 400
MODEL_TIERS = {"ram": 400, "nvme": 200, "bb": 100}
MODEL_SLOW_PFS = 50
POLICIES = [
    "max-bandwidth",
    "data-locality",
    "hot-data",
    "user-defined",
    "random",
    "round-robin",
    "minimize-io-time",
]
RULES = ", ".join(f'{{pattern: "*.{rank}", tiers: [{tier}]}}' for rank, tier in enumerate(MODEL_TIERS))
"""Each of three writers has a tier of its own."""
BURST_MIB = 32
"""Of each of three writers: together more than the top tier holds, which none outlasts if all are at work."""


class CannotMeasureError(Exception):
    """One row has no value; the message says why."""


@dataclass
class Row:
    """One line of the budget.  `values` are ratios, one a repetition."""

    path: str
    yardstick: str
    direction: str  # "at most" (ratio of times) or "at least" (ratio of rates)
    budget: float | None
    measure: Callable[[Bench], list[tuple[float, float]]] = field(repr=False)
    """Returns pairs of seconds, or of rates: (of the path, of the yardstick)."""
    pairs: list[tuple[float, float]] = field(default_factory=list)
    error: str | None = None

    @property
    def values(self) -> list[float]:
        """Ratios, one a repetition."""
        return [ours / theirs for ours, theirs in self.pairs]

    @property
    def within(self) -> bool | None:
        """Whether the median keeps the budget; None where there is none."""
        if not self.pairs or self.budget is None:
            return None
        ratio = statistics.median(self.values)
        return ratio <= self.budget if self.direction == "at most" else ratio >= self.budget

    def as_json(self) -> dict[str, object]:
        """One row of the result file."""
        values = self.values
        return {
            "path": self.path,
            "yardstick": self.yardstick,
            "direction": self.direction,
            "budget": self.budget,
            "n": len(values),
            "ratio": statistics.median(values) if values else None,
            "low": min(values, default=None),
            "high": max(values, default=None),
            "within_budget": self.within,
            "values": values,
            "path_values": [ours for ours, _ in self.pairs],
            "yardstick_values": [theirs for _, theirs in self.pairs],
            "error": self.error,
        }


class Server:
    """A tb-bench that waits for the word to do one repetition."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log, text=True)  # noqa: S603

    def failed(self, how: str) -> CannotMeasureError:
        """What to raise: how it failed, the command and what it said last."""
        self.log.seek(0)
        return CannotMeasureError(f"{how}: {' '.join(self.command)}: {self.log.read()[-600:].strip()}")

    def line(self) -> str:
        """The next line it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise self.failed("ended early")
        return line

    def expect(self, word: str) -> None:
        """Check the next line it says."""
        if (line := self.line()) != word:
            raise self.failed(f"said {line!r} instead of {word!r}")

    def repeat(self) -> float:
        """Seconds of one repetition."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self) -> None:
        """Let it clean up; checks its exit status."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if self.process.wait(timeout=120) != 0:
            raise self.failed(f"exit status {self.process.returncode}")

    def remove_instance(self) -> None:
        """Remove what `tierctl run` keeps when its drain fails: an instance named after the process."""
        if self.command[0].endswith("tierctl"):
            for name in self.instances():
                stop = [self.command[0], "stop", "--force", "-i", name]
                subprocess.run(stop, capture_output=True, check=False)  # noqa: S603

    def instances(self) -> list[str]:
        """Of this `tierctl run`: named after its process and random digits, which cannot be told before."""
        regions = Path(SHM).glob(f"tierbench.{os.getuid()}.run-{self.process.pid}-*")
        return [region.name.split(".", 2)[2] for region in regions if region.is_file()]


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[Server]:
    """Run a server; whatever happens, it and its instance are gone afterwards."""
    server = Server(command)
    try:
        server.expect("ready")
        yield server
        server.end()
    except BaseException:
        server.process.terminate()  # a no-op where it has ended
        server.process.wait()
        server.remove_instance()
        raise


@dataclass
class Bench:
    """Where things are, and how often to repeat."""

    build: Path
    root: Path  # on /dev/shm; removed at the end
    disk: Path  # on the build folder's file system
    repetitions: int

    def plain(self, case: str, folder: Path, *options: str) -> list[str]:
        """Return the command of a case without the engine."""
        folder.mkdir(parents=True, exist_ok=True)
        return [str(self.build / "bin/tb-bench"), *options, case, str(folder)]

    def tiered(
        self, config: Path, case: str, folder: Path, *options: str, stats: Path | None = None
    ) -> list[str]:
        """Return the command of a case under a private instance, which it drains and removes at its end."""
        wanted = ["--stats", str(stats)] if stats else []
        tierctl = [str(self.build / "bin/tierctl"), "run", "-c", str(config), *wanted, "--"]
        return tierctl + self.plain(case, folder, *options)

    def config(
        self, name: str, pfs: Path, tiers: list[str], policy: str = "max-bandwidth", model: str = ""
    ) -> Path:
        """Write a tier configuration that flushes only when told; returns its path."""
        pfs.mkdir(parents=True, exist_ok=True)
        path = self.root / f"{name}.yaml"
        modelled = f", model: {model}" if model else ""
        path.write_text(
            "version: 1\n"
            "max_files: 1024\n"
            f"pfs: {{path: {pfs}{modelled}}}\n"
            "mode: persistent-async\n"
            "fsync: pfs\n"
            "flush: {policy: manual, threads: 2}\n"
            f"placement: {{policy: {policy}{f', rules: [{RULES}]' if policy == 'user-defined' else ''}}}\n"
            "tiers:\n" + "".join(f"  - {tier}\n" for tier in tiers)
        )
        return path

    def device(self, name: str, mib_per_s: int) -> Path:
        """Write a model of nothing but a bandwidth; returns its path."""
        path = self.root / f"{name}-device.yaml"
        rate = f"{mib_per_s}MiB/s"
        path.write_text(f"name: {name}\nread_bandwidth: {rate}\nwrite_bandwidth: {rate}\n")
        return path

    def huge_config(self, place: Path) -> Path:
        """Write the configuration of 512 MiB of RAM with its region on the huge pages of a mounted place."""
        path = self.root / "huge.yaml"
        path.write_text(f"region: {{directory: {place}}}\n" + self.ram_config().read_text())
        return path

    def ram_config(self, model: str = "", pfs: Path | None = None) -> Path:
        """Write a configuration of 512 MiB of RAM."""
        ram = "{name: ram, medium: memory, capacity: 512MiB, block: 4KiB, slabs: [{units: 256, share: 1.0}]}"
        return self.config("ram", pfs or self.root / "pfs", [ram], model=model)


Pairs = list[tuple[float, float]]


def in_turn(bench: Bench, ours: list[str], theirs: list[str]) -> Pairs:
    """Seconds of each, repeated in turn after one unmeasured repetition of both."""
    with serving(ours) as path, serving(theirs) as yardstick:
        path.repeat(), yardstick.repeat()
        return [(path.repeat(), yardstick.repeat()) for _ in range(bench.repetitions)]


def against_tmpfs(case: str) -> Callable[[Bench], Pairs]:
    """Time through the preload library over time on tmpfs."""

    def measure(bench: Bench) -> Pairs:
        ours = bench.tiered(bench.ram_config(), case, bench.root / "pfs")
        return in_turn(bench, ours, bench.plain(case, bench.root / "tmpfs"))

    return measure


def bare(copy: str, case: str) -> Callable[[Bench], Pairs]:
    """Time of nothing but the copies over time on tmpfs: the floor of the rows above it."""

    def measure(bench: Bench) -> Pairs:
        folder = bench.root / "tmpfs"
        return in_turn(bench, bench.plain(copy, folder), bench.plain(case, folder))

    return measure


def against_memcpy(case: str, copy: str, mib: str, *options: str) -> Callable[[Bench], Pairs]:
    """Rate through the preload library over memcpy's rate into touched shared memory."""

    def measure(bench: Bench) -> Pairs:
        ours = bench.tiered(bench.ram_config(), case, bench.root / "pfs", "-s", mib, *options)
        seconds = in_turn(bench, ours, bench.plain(copy, bench.root / "tmpfs", "-s", mib))
        return [(1 / a, 1 / b) for a, b in seconds]

    return measure


def huge_place() -> Path | None:
    """Return a mounted place with huge pages that this user may write to; None: there is none."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        huge = kind == "hugetlbfs" or re.search(r"\bhuge=(always|within_size|advise)\b", options)
        if huge and os.access(place, os.W_OK):
            return Path(place)
    return None


def huge_against_memcpy(place: Path, case: str, copy: str) -> Callable[[Bench], Pairs]:
    """Rate of a fresh client on huge pages over memcpy's rate into touched shared memory."""

    def measure(bench: Bench) -> Pairs:
        ours = bench.tiered(bench.huge_config(place), case, bench.root / "pfs", "-s", "64", "-f")
        seconds = in_turn(bench, ours, bench.plain(copy, bench.root / "tmpfs", "-s", "64"))
        return [(1 / a, 1 / b) for a, b in seconds]

    return measure


def scaling(case: str, copy: str) -> Callable[[Bench], Pairs]:
    """What a second process adds to the rate, over what it adds to bare memcpy's."""

    def measure(bench: Bench) -> Pairs:
        config = bench.ram_config()
        commands = [bench.tiered(config, case, bench.root / "pfs" / n, "-s", "128", "-n", n) for n in "12"]
        commands += [bench.plain(copy, bench.root / "tmpfs", "-s", "128", "-n", n) for n in "12"]
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(serving(command)) for command in commands]
            [server.repeat() for server in servers]
            rows = [[server.repeat() for server in servers] for _ in range(bench.repetitions)]
        return [(2 * one / two, 2 * copy_one / copy_two) for one, two, copy_one, copy_two in rows]

    return measure


def watched(case: str) -> Callable[[Bench], Pairs]:
    """Time with the daemon's samples and `status --watch=0.1` over that with neither (a stopped daemon)."""

    def measure(bench: Bench) -> Pairs:
        tierctl, pairs = str(bench.build / "bin/tierctl"), []
        with serving(bench.tiered(bench.ram_config(), case, bench.root / "pfs")) as server:
            (name,) = server.instances()
            status = [tierctl, "status", "-i", name, "--json"]
            said = subprocess.run(status, capture_output=True, check=True).stdout  # noqa: S603
            daemon = json.loads(said)["daemon_pid"]
            for _ in range(bench.repetitions):
                watch = [tierctl, "status", "-i", name, "--watch=0.1"]
                watcher = subprocess.Popen(watch, stdout=subprocess.DEVNULL)  # noqa: S603
                ours = sum(server.repeat() for _ in range(WATCHED_REPETITIONS))
                watcher.send_signal(signal.SIGINT)
                watcher.wait()
                os.kill(daemon, signal.SIGSTOP)
                try:
                    pairs.append((ours, sum(server.repeat() for _ in range(WATCHED_REPETITIONS))))
                finally:
                    os.kill(daemon, signal.SIGCONT)
        return pairs

    return measure


def open_close(managed: bool, on_disk: bool = False) -> Callable[[Bench], Pairs]:
    """Time of open and close under the preload library over the same without it."""

    def measure(bench: Bench) -> Pairs:
        where = bench.disk if on_disk else bench.root
        folder = where / ("pfs" if managed else "unmanaged")
        ours = bench.tiered(bench.ram_config(pfs=where / "pfs"), "open-close", folder)
        return in_turn(bench, ours, bench.plain("open-close", where / "plain"))

    return measure


def fill_once(
    bench: Bench, config: Path, pfs: Path, *options: str, case: str = "fill"
) -> tuple[float, dict[str, Any]]:
    """Run a case on a fresh instance: its seconds, and the instance's statistics after the drain."""
    stats = bench.root / "stats.json"
    with serving(bench.tiered(config, case, pfs, *options, stats=stats)) as server:
        seconds = server.repeat()
    for path in pfs.glob("tb-bench.*"):
        path.unlink()
    return seconds, json.loads(stats.read_text())


def drain_rate(stats: dict[str, Any]) -> float:
    """Bytes per second."""
    if not stats["drained_bytes"] or not stats["drain_s"]:
        raise CannotMeasureError("nothing was drained")
    return float(stats["drained_bytes"] / stats["drain_s"])


def drain_modelled(bench: Bench) -> Pairs:
    """Measure the rate of a drain over the rate of the model below it."""
    config = bench.ram_config(model=str(bench.device("pfs", MODEL_PFS)))
    runs = [fill_once(bench, config, bench.root / "pfs", "-s", "128") for _ in range(bench.repetitions)]
    return [(drain_rate(stats), MODEL_PFS * MIB) for _, stats in runs]


def drain_real(bench: Bench) -> Pairs:
    """The drain's rate over that of one writer that writes the same bytes and syncs."""
    pfs, pairs = bench.disk / "pfs", []
    config = bench.ram_config(pfs=pfs)
    for _ in range(bench.repetitions):
        _, stats = fill_once(bench, config, pfs, "-s", "128")
        with serving(bench.plain("fill-sync", bench.disk / "plain", "-s", "128")) as server:
            seconds = server.repeat()
        shutil.rmtree(bench.disk / "plain")
        pairs.append((drain_rate(stats), 128 * MIB / seconds))
    return pairs


def hierarchy(bench: Bench, policy: str, mib: int) -> list[tuple[float, dict[str, Any]]]:
    """Write `mib` each with three writers on three modelled tiers, of which the top one holds 64 MiB.

    Returns seconds and statistics of each repetition.
    """
    slabs = "block: 64KiB, slabs: [{units: 1, share: 1.0}]"
    model = {name: bench.device(name, rate) for name, rate in MODEL_TIERS.items()}
    tiers = [f"{{name: ram, medium: memory, capacity: 64MiB, {slabs}, model: {model['ram']}}}"]
    for name, capacity in (("nvme", 128), ("bb", 512)):
        folder = bench.root / name
        folder.mkdir(exist_ok=True)
        where = f"medium: directory, path: {folder}, capacity: {capacity}MiB"
        tiers.append(f"{{name: {name}, {where}, {slabs}, model: {model[name]}}}")
    below = str(bench.device("pfs", MODEL_SLOW_PFS))
    config = bench.config("hierarchy", bench.root / "pfs", tiers, policy, model=below)
    options = ("-n", "3", "-s", str(mib))
    pfs = bench.root / "pfs"
    return [fill_once(bench, config, pfs, *options, case="burst") for _ in range(bench.repetitions)]


def burst(policy: str) -> Callable[[Bench], Pairs]:
    """Rate of a burst over the sum of the rates of all tiers."""

    def measure(bench: Bench) -> Pairs:
        total = sum(MODEL_TIERS.values()) * MIB
        return [(3 * BURST_MIB * MIB / seconds, total) for seconds, _ in hierarchy(bench, policy, BURST_MIB)]

    return measure


def predicted(policy: str) -> Callable[[Bench], Pairs]:
    """Predicted over measured time, or the other way round where that is less: both ways off count.

    Tiers are filled in turn (max-bandwidth, hot-data), or written side by side.
    """
    together = sum if policy in ("max-bandwidth", "hot-data") else max

    def measure(bench: Bench) -> Pairs:
        pairs = []
        for seconds, stats in hierarchy(bench, policy, 64):
            times = [tier["bytes_in"] / (MODEL_TIERS[tier["name"]] * MIB) for tier in stats["tiers"]]
            less, more = sorted((together(times), seconds))
            pairs.append((less, more))
        return pairs

    return measure


def budget() -> list[Row]:
    """List what is measured: the budget, line by line."""
    tmpfs, memcpy = "the same calls on tmpfs", "memcpy into touched shared memory"
    rows = [
        Row(f"{call} 4 KiB, random, RAM tier, warm", tmpfs, "at most", 0.6, against_tmpfs(case))
        for call, case in [
            ("pwrite", "pwrite-4k"),
            ("pread", "pread-4k"),
            ("lseek+write", "lseek-write-4k"),
            ("lseek+read", "lseek-read-4k"),
        ]
    ]
    for state, options in [("warm", ("256",)), ("fresh client", ("64", "-f"))]:
        for call, copy in [("write", "memcpy-in"), ("read", "memcpy-out")]:
            measure = against_memcpy(f"{call}-1m", copy, *options)
            rows.append(Row(f"{call} 1 MiB, RAM tier, {state}", memcpy, "at least", 0.8, measure))
    for call, case in [("write", "memcpy-4k-in"), ("read", "memcpy-4k-out")]:
        theirs = "pwrite-4k" if call == "write" else "pread-4k"
        rows.append(
            Row(f"bare memcpy of the same 4 KiB blocks ({call})", tmpfs, "at most", None, bare(case, theirs))
        )
    if place := huge_place():
        for call, copy in [("write", "memcpy-in"), ("read", "memcpy-out")]:
            measure = huge_against_memcpy(place, f"{call}-1m", copy)
            state = "fresh client, huge pages"
            rows.append(Row(f"{call} 1 MiB, RAM tier, {state}", memcpy, "at least", 0.8, measure))
    alone = "the same, neither sampled nor watched"
    rows.append(Row("pwrite 4 KiB, sampled and watched", alone, "at most", 1.02, watched("pwrite-4k")))
    scale, backing = "the scaling of bare memcpy", "the same on the backing file system"
    rows += [
        Row("two processes writing 1 MiB", scale, "at least", 0.9, scaling("write-1m", "memcpy-in")),
        Row("two processes reading 1 MiB", scale, "at least", 0.9, scaling("read-1m", "memcpy-out")),
        Row("open + close, buffered file", backing, "at most", 1.5, open_close(True)),
        Row("open + close, buffered file on disk", backing, "at most", 1.5, open_close(True, on_disk=True)),
        Row("open + close, unmanaged file", backing, "at most", 1.4, open_close(False)),
        Row("drain to a modelled PFS", "the model's rate", "at least", 0.9, drain_modelled),
        Row("drain to a real file system", "one writer that writes and syncs", "at least", None, drain_real),
    ]
    for policy in ("max-bandwidth", "hot-data", "user-defined", "round-robin", "minimize-io-time"):
        time_is = "the policy's own predicted time"
        rows.append(Row(f"modelled hierarchy, {policy}", time_is, "at least", 0.9, predicted(policy)))
    for policy in POLICIES:
        rates = "the sum of the tiers' modelled bandwidths"
        bound = 0.9 if policy == "minimize-io-time" else None
        rows.append(Row(f"burst on three tiers, {policy}", rates, "at least", bound, burst(policy)))
    return rows


def layers(bench: Bench) -> list[dict[str, object]]:
    """Time of each layer of the engine in ns: where a transfer's time goes (tb-layers)."""
    command = [str(bench.build / "bin/tb-layers"), str(bench.ram_config())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise CannotMeasureError(f"{' '.join(command)}: {done.stderr.strip()}")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def print_layers(steps: list[dict[str, object]]) -> None:
    """Print the layers as a table."""
    print("where the time goes, random 4 KiB blocks of a 64 MiB file, ns an operation:")
    for step in steps:
        print(f"{step['ns']:9.1f}  {step['bytes']:>5} bytes  {step['operation']:<28} {step['layer']}")


def provenance(bench: Bench) -> dict[str, object]:
    """Say what was measured, where."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return {
        "commit": commit or None,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "huge_pages_at": str(place) if (place := huge_place()) else None,
        "repetitions": bench.repetitions,
    }


def run(bench: Bench, rows: list[Row]) -> None:
    """Measure each row and print it."""
    print(f"{'ratio':>7} {'range':>15}  {'budget':<14} {'':<6} path / yardstick")
    for row in rows:
        try:
            row.pairs = row.measure(bench)
        except (CannotMeasureError, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as error:
            row.error = f"{type(error).__name__}: {error}"
            print(f"{'-':>7} {'':>15}  {'':<14} {'FAILED':<6} {row.path}: {row.error}", flush=True)
            continue
        values = row.values
        span = f"{min(values):.3f}-{max(values):.3f}"
        bound = f"{row.direction} {row.budget}" if row.budget is not None else "none"
        mark = {True: "ok", False: "OVER", None: ""}[row.within]
        ratio = statistics.median(values)
        print(f"{ratio:7.3f} {span:>15}  {bound:<14} {mark:<6} {row.path} / {row.yardstick}", flush=True)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure the engine's performance budget.")
    house = Path(__file__).resolve().parents[2]
    parser.add_argument("build", type=Path, nargs="?", default=house / "build", help="build folder (build)")
    parser.add_argument(
        "out", type=Path, nargs="?", default=house / "results/bench", help="for the result (results/bench)"
    )
    parser.add_argument("--repetitions", type=int, default=7, help="of each side of each ratio (7)")
    parser.add_argument("--only", default="", help="measure only paths whose description contains this word")
    return parser.parse_args()


def refuse(message: str) -> None:
    """End before anything was measured."""
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(2)


def chosen(rows: list[Row], args: argparse.Namespace) -> list[Row]:
    """The rows that --only asks for."""
    found = [row for row in rows if args.only in row.path]
    if not found:
        refuse(f"--only {args.only}: no path contains that")
    return found


@contextlib.contextmanager
def measuring(args: argparse.Namespace) -> Iterator[Bench]:
    """Folders to measure in, in memory and on the build folder's disk, for as long as it takes."""
    args.out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="tb-bench.", dir=SHM) as root,
        tempfile.TemporaryDirectory(prefix="tb-bench.", dir=args.build) as disk,
    ):
        yield Bench(args.build.resolve(), Path(root), Path(disk).resolve(), args.repetitions)


def finish(
    args: argparse.Namespace, name: str, about: dict[str, object], rows: list[Row], **more: object
) -> int:
    """Write what was measured and say what is over budget; the exit status."""
    result = args.out / f"{name}{time.strftime('%Y%m%d-%H%M%S')}.json"
    document = {"run": about, "rows": [row.as_json() for row in rows], **more}
    result.write_text(json.dumps(document, indent=1) + "\n")
    over = sum(row.within is False for row in rows)
    print(f"{over} of {len(rows)} over budget; {result}")
    return 1 if any(row.error for row in rows) else 0


def main() -> int:
    """Measure all of it."""
    args = parse()
    for program in ("tb-bench", "tb-layers", "tierctl", "tierd"):
        if not (args.build / "bin" / program).exists():
            refuse(f"{args.build}/bin/{program} is not there; build first")
    if args.repetitions < 1:
        refuse(f"--repetitions {args.repetitions}: at least 1")
    free_mib = shutil.disk_usage(SHM).free // MIB
    if free_mib < SHM_NEEDED_MIB:
        refuse(f"{SHM} has {free_mib} MiB free; {SHM_NEEDED_MIB} are needed")
    rows = chosen(budget(), args)
    with measuring(args) as bench:
        about = provenance(bench)
        run(bench, rows)
        inside = [] if args.only else layers(bench)
    if inside:
        print_layers(inside)
    return finish(args, "", about, rows, layers=inside)


if __name__ == "__main__":
    sys.exit(main())
