"""The rows of the performance budget, and how each is measured."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rows import CannotMeasureError, Pairs, Row
from server import serving
from setting import MIB, MODEL_TIERS, Bench

from tierbench.base.policies import POLICIES

WATCHED_REPETITIONS = 50  # some tenths of a second: several looks
MODEL_PFS = 400  # MiB/s, as the next
MODEL_SLOW_PFS = 50
DRAIN_MIB = 128
STREAMS = (1, 2, 4)
"""Of dd, which together write what a drain does."""
OWN_NS = {"read": 70, "write": 90}
"""What the engine may take of a call: that of one byte."""
BURST_MIB = 32
"""Of each of three writers: together more than the top tier holds; no tier fills while all three write."""


def in_turn(bench: Bench, ours: list[str], theirs: list[str]) -> Pairs:
    """Seconds of each, repeated in turn after one unmeasured repetition of both."""
    with serving(ours) as path, serving(theirs) as yardstick:
        path.repeat(), yardstick.repeat()
        return [(path.repeat(), yardstick.repeat()) for _ in range(bench.repetitions)]


def against_tmpfs(case: str, huge: bool = False) -> Callable[[Bench], Pairs]:
    """Time through the preload library over time on tmpfs; the region is on huge pages or on none."""

    def measure(bench: Bench) -> Pairs:
        config = bench.huge_config() if huge else bench.ram_config()
        ours = bench.tiered(config, case, bench.root / "pfs")
        return in_turn(bench, ours, bench.plain(case, bench.root / "tmpfs"))

    return measure


def in_order_against_random(bench: Bench) -> Pairs:
    """
    Time of small writes in order over that of as many at random, on files of one size.

    They have three times as many blocks as there are writes: of fewer, those at random would meet many
    a second time, in the cache.
    """
    config, pfs, size = bench.ram_config(), bench.root / "pfs", ("-s", "256")
    cases = ("pwrite-4k-in-order", "pwrite-4k")
    return in_turn(bench, *(bench.tiered(config, case, pfs, *size) for case in cases))


def layers(bench: Bench) -> list[dict[str, Any]]:
    """Time of each layer of the engine in ns: where a transfer's time goes (tb-layers)."""
    command = [str(bench.build / "bin/tb-layers"), str(bench.ram_config())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise CannotMeasureError(f"{' '.join(command)}: {done.stderr.strip()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def one_byte(bench: Bench, call: str, mib: int) -> tuple[float, float]:
    """Nanoseconds of one byte of a random block, through all layers and by memcpy that is waited for."""
    steps = {(x["layer"], x["operation"], x["bytes"], x["of"]): float(x["ns"]) for x in layers(bench)}
    return steps["layer", call, 1, mib * MIB], steps["memory", call, 1, mib * MIB]


def own_share(call: str) -> Callable[[Bench], Pairs]:
    """What the engine adds to the memory's own time, where caches and TLB have all, over what it may."""

    def once(bench: Bench) -> float:
        ours, bare = one_byte(bench, call, 1)
        return ours - bare

    return lambda bench: [(once(bench), OWN_NS[call]) for _ in range(bench.repetitions)]


def against_memory(call: str) -> Callable[[Bench], Pairs]:
    """The same where they have nothing, over the memory's own time."""
    return lambda bench: [one_byte(bench, call, 64) for _ in range(bench.repetitions)]


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


def huge_against_memcpy(case: str, copy: str) -> Callable[[Bench], Pairs]:
    """Rate of a fresh client on huge pages over memcpy's rate into touched shared memory."""

    def measure(bench: Bench) -> Pairs:
        ours = bench.tiered(bench.huge_config(), case, bench.root / "pfs", "-s", "64", "-f")
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


def open_close(managed: bool, on_disk: bool = False, case: str = "open-close") -> Callable[[Bench], Pairs]:
    """Time of open and close, or of another case, under the preload library over the same without it."""

    def measure(bench: Bench) -> Pairs:
        where = bench.disk if on_disk else bench.root
        folder = where / ("pfs" if managed else "unmanaged")
        ours = bench.tiered(bench.ram_config(pfs=where / "pfs"), case, folder)
        return in_turn(bench, ours, bench.plain(case, where / "plain"))

    return measure


def touch(folder: Path) -> None:
    """Take memory as the files of a drain do, and give it back.

    A virtual machine may give memory that nobody has used for some seconds back to its host. Then a page
    of a file costs four times as much as one that was used right before.
    """
    warm = folder / "warm"
    with warm.open("wb") as file:
        for _ in range(2 * DRAIN_MIB):
            file.write(b"x" * MIB)
    warm.unlink()


def fill_once(
    bench: Bench, config: Path, pfs: Path, *options: str, case: str = "fill"
) -> tuple[float, dict[str, Any]]:
    """Run a case on a fresh instance: its seconds, and the instance's statistics after the drain."""
    stats = bench.root / "stats.json"
    with serving(bench.tiered(config, case, pfs, *options, stats=stats)) as server:
        seconds = server.repeat()
        touch(bench.disk)
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
    runs = [
        fill_once(bench, config, bench.root / "pfs", "-s", str(DRAIN_MIB)) for _ in range(bench.repetitions)
    ]
    return [(drain_rate(stats), MODEL_PFS * MIB) for _, stats in runs]


def dd_seconds(source: Path, folder: Path, streams: int) -> float:
    """From when the last of so many dd has begun until each has written and synced its part of the bytes."""
    folder.mkdir(parents=True)
    mib = DRAIN_MIB // streams
    dd = ["dd", f"if={source}", "bs=1M", f"count={mib}", "conv=fsync", "status=none"]
    started = [subprocess.Popen([*dd, f"skip={n * mib}", f"of={folder / str(n)}"]) for n in range(streams)]  # noqa: S603
    start = time.monotonic()
    ended = [process.wait() for process in started]
    if any(ended):
        raise CannotMeasureError(f"{' '.join(dd)}: failed")
    seconds = time.monotonic() - start
    shutil.rmtree(folder)
    return seconds


def settled(measure: Callable[[], float]) -> float:
    """Measure once the disk has nothing left to do: what removed files leave would meet the next sync."""
    os.sync()
    return measure()


def touched(folder: Path, measure: Callable[[], float]) -> float:
    """Measure right after memory was touched, as the drain is."""
    touch(folder)
    return measure()


def drain_real(files: int) -> Callable[[Bench], Pairs]:
    """The drain's rate over that of as many dd as are best by the median, which write and sync as much."""

    def measure(bench: Bench) -> Pairs:
        pfs, source = bench.disk / "pfs", bench.root / "source"
        config, each = bench.ram_config(pfs=pfs), ("-n", str(files), "-s", str(DRAIN_MIB // files))
        source.write_bytes(b"b" * DRAIN_MIB * MIB)

        def once() -> list[float]:
            drained = settled(lambda: drain_rate(fill_once(bench, config, pfs, *each)[1]))
            dd = bench.disk / "dd"
            seconds = [
                settled(partial(touched, bench.disk, partial(dd_seconds, source, dd, n))) for n in STREAMS
            ]
            return [drained, *(DRAIN_MIB * MIB / s for s in seconds)]

        once()
        rounds = [once() for _ in range(bench.repetitions)]
        source.unlink()
        ours, *dd = zip(*rounds, strict=True)
        return list(zip(ours, max(dd, key=statistics.median), strict=True))

    return measure


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


def budget(huge: bool) -> list[Row]:
    """List what is measured: the budget, line by line."""
    tmpfs, memcpy = "the same calls on tmpfs", "memcpy into touched shared memory"
    calls = {
        "pwrite": "pwrite-4k",
        "pread": "pread-4k",
        "lseek+write": "lseek-write-4k",
        "lseek+read": "lseek-read-4k",
    }
    rows = [
        Row(f"{call} 4 KiB, random of 64 MiB, RAM tier, warm", tmpfs, "at most", 0.6, against_tmpfs(case))
        for call, case in calls.items()
    ]
    in_order = "pwrite 4 KiB, in order, RAM tier, warm"
    rows += [
        Row(in_order, tmpfs, "at most", 0.6, against_tmpfs("pwrite-4k-in-order")),
        Row(f"{in_order}, of 256 MiB", "the same at random", "at most", 1.0, in_order_against_random),
    ]
    for call, ns in OWN_NS.items():
        path, alone = f"{call} of one byte through all layers, random of", "memcpy of it, waited for"
        rows.append(Row(f"{path} 1 MiB, less {alone}", f"{ns} ns", "at most", 1.0, own_share(call)))
        rows.append(Row(f"{path} 64 MiB", alone, "at most", None, against_memory(call)))
    for state, options in [("warm", ("256",)), ("fresh client", ("64", "-f"))]:
        for call, copy in [("write", "memcpy-in"), ("read", "memcpy-out")]:
            measure = against_memcpy(f"{call}-1m", copy, *options)
            rows.append(Row(f"{call} 1 MiB, RAM tier, {state}", memcpy, "at least", 0.8, measure))
    for call, case in [("write", "memcpy-4k-in"), ("read", "memcpy-4k-out")]:
        theirs = "pwrite-4k" if call == "write" else "pread-4k"
        path = f"libc's memcpy of 4 KiB, random of 64 MiB of shared memory ({call})"
        rows.append(Row(path, tmpfs, "at most", None, bare(case, theirs)))
    if huge:
        rows += [
            Row(
                f"{call} 4 KiB, random of 64 MiB, RAM tier, warm, huge pages",
                tmpfs,
                "at most",
                0.5,
                against_tmpfs(case, huge=True),
            )
            for call, case in calls.items()
        ]
        for call, copy in [("write", "memcpy-in"), ("read", "memcpy-out")]:
            measure = huge_against_memcpy(f"{call}-1m", copy)
            state = "fresh client, huge pages"
            rows.append(Row(f"{call} 1 MiB, RAM tier, {state}", memcpy, "at least", 0.8, measure))
    alone = "the same, neither sampled nor watched"
    rows.append(Row("pwrite 4 KiB, sampled and watched", alone, "at most", 1.02, watched("pwrite-4k")))
    dd = "the best of 1, 2 and 4 streams of dd with fsync"
    scale, backing = "the scaling of bare memcpy", "the same on the backing file system"
    used = open_close(True, case="open-read-close")
    rows += [
        Row("two processes writing 1 MiB", scale, "at least", 0.9, scaling("write-1m", "memcpy-in")),
        Row("two processes reading 1 MiB", scale, "at least", 0.9, scaling("read-1m", "memcpy-out")),
        Row("open + close, buffered file", backing, "at most", 1.3, open_close(True)),
        Row("open + close, buffered file on disk", backing, "at most", 1.3, open_close(True, on_disk=True)),
        Row("open + read of a byte + close, buffered file", backing, "at most", None, used),
        Row("open + close, unmanaged file", backing, "at most", 1.4, open_close(False)),
        Row("drain to a modelled PFS", "the model's rate", "at least", 0.9, drain_modelled),
        Row("drain to a real file system", dd, "at least", 0.95, drain_real(1)),
        Row("drain of four files to a real file system", dd, "at least", 0.95, drain_real(4)),
    ]
    for policy in ("max-bandwidth", "hot-data", "user-defined", "round-robin", "minimize-io-time"):
        time_is = "the policy's own predicted time"
        rows.append(Row(f"modelled hierarchy, {policy}", time_is, "at least", 0.9, predicted(policy)))
    for policy in POLICIES:
        rates = "the sum of the tiers' modelled bandwidths"
        bound = 0.9 if policy == "minimize-io-time" else None
        rows.append(Row(f"burst on three tiers, {policy}", rates, "at least", bound, burst(policy)))
    return rows
