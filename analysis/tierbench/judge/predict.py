"""What the device models promise for a write test, in closed form.

A device serves one operation after the other (engine/src/chain/model/device_clock.c). A write keeps it busy
for `latency / channels + bytes / bandwidth`, a sync of a file with unsynced bytes for `sync_time`. Opens
queue on a clock of their own: the first open delays the test by `open_time`, the others are hidden by its
writes.

Written for `S` bytes in transfers of `t` by `R` ranks, `busy(d)` being the sum over the operations of
device d:

- no tiers (bypass):  T = open + busy(PFS), with S/t syncs under -Y, R with -e alone. This is what the device
  model of the PFS is solved from (configs/devices).
- scratch, max-bandwidth: tiers fill in turn from the top, so their times add: T = open + sum busy(tier).
- scratch, round-robin: each write goes to the next tier with room, tiers work side by side:
  T = open + max busy(tier).
- fsync: tier under -Y: every write is followed by its slab's sync, a journal record and the journal's sync;
  the journal is on the first directory tier. A memory tier promises nothing: each fsync moves its bytes to
  the first directory tier with room, so what was placed in RAM costs that tier. RAM works while the directory
  tiers do, so only they count: T as above over the directory tiers.
- fsync: pfs under -Y: every fsync flushes its bytes: T = open + busy(PFS) as without tiers.

Several nodes have as many times these devices, and each its part of ranks and bytes.

Placement is replayed write by write over the usable bytes of `tierctl plan --json`. Where a formula is not
given above (reads, other policies, unmodelled places), nothing is predicted. These are the saturation bounds
of a closed queueing network (Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978);
a discrete-event simulation in the tests shows that four ranks come within 4 % of them.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Any

from tierbench.base.sizes import MIB

JOURNAL_SLOT_BYTES = 512


@dataclass(frozen=True)
class Workload:
    """What an IOR command line writes; sizes in bytes."""

    ranks: int
    total_bytes: int
    transfer_bytes: int
    sync_each_write: bool
    sync_at_close: bool

    @property
    def writes(self) -> int:
        """Write operations of all ranks together."""
        return self.total_bytes // self.transfer_bytes

    @property
    def syncs(self) -> int:
        """Syncs that find unsynced bytes: after -Y the one at close finds none."""
        return self.writes if self.sync_each_write else self.ranks if self.sync_at_close else 0


@dataclass(frozen=True)
class Prediction:
    """`bandwidth_mib_s` from first open to last close; `open_s` as drivers report it, all ranks queued."""

    bandwidth_mib_s: float
    open_s: float
    peak_mib_s: float


@dataclass
class Place:
    """A tier or the PFS: where writes go and how long that keeps its device busy."""

    name: str
    memory: bool
    room: float
    model: dict[str, Any]
    busy_s: float = 0.0

    def write(self, size: int) -> None:
        """Account for one write."""
        self.busy_s += self.model["write_latency"] / max(self.model["channels"], 1)
        if self.model["write_bandwidth"]:
            self.busy_s += size / self.model["write_bandwidth"]

    def sync(self, count: int = 1) -> None:
        """Account for syncs of unsynced bytes."""
        self.busy_s += count * self.model["sync_time"]


def parse_command(command: str, ranks: int, total_bytes: int) -> Workload | None:
    """The workload of an IOR or tb-ior command line; None where it does anything but write."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    start = next((i for i, w in enumerate(words) if w.rsplit("/", 1)[-1] in ("ior", "tb-ior")), None)
    if start is None:
        return None
    options = words[start + 1 :]
    if "-w" not in options or any(o in options for o in ("-r", "-R", "-W", "-D", "-z")):
        return None
    transfer = _size(options[options.index("-t") + 1]) if "-t" in options[:-1] else None
    if not transfer or total_bytes % transfer or total_bytes < transfer:
        return None
    return Workload(ranks, total_bytes, transfer, "-Y" in options, "-e" in options)


def _size(text: str) -> int | None:
    units = {"k": 1024, "m": MIB, "g": 1024 * MIB, "t": 1024 * 1024 * MIB}
    digits, unit = text.rstrip("kmgtKMGT"), text[len(text.rstrip("kmgtKMGT")) :].lower()
    if not digits.isdigit() or (unit and unit not in units):
        return None
    return int(digits) * units.get(unit, 1)


def predict(
    plan: dict[str, Any], workload: Workload, mode: str, fsync: str, policy: str, nodes: int = 1
) -> Prediction | None:
    """Bandwidth of a write test on the planned tiers; None where the models or formulas don't cover it.

    A plan is of one node: of several, each has these devices, and its part of ranks and bytes.
    """
    if workload.ranks % nodes or workload.total_bytes % nodes:
        return None
    part = replace(workload, ranks=workload.ranks // nodes, total_bytes=workload.total_bytes // nodes)
    found = _of_a_node(plan, part, mode, fsync, policy)
    if found is None or nodes == 1:
        return found
    return Prediction(found.bandwidth_mib_s * nodes, found.open_s * nodes, found.peak_mib_s * nodes)


_PLACEMENT = ("max-bandwidth", "round-robin")


@dataclass(frozen=True)
class _Asked:
    """What a prediction is of: the places of a node, its part of the workload, and how it is run."""

    tiers: list[Place]
    pfs: Place
    workload: Workload
    mode: str
    fsync: str
    policy: str


@dataclass(frozen=True)
class _Time:
    """Seconds that the places are busy, seconds of one open, and the places that the bytes went to."""

    busy_s: float
    open_s: float
    used: list[Place]


def _past_the_tiers(asked: _Asked) -> _Time | None:
    """Every write goes to the PFS: in bypass mode, and where each has an fsync that promises the PFS."""
    synced = asked.mode == "persistent-async" and asked.fsync == "pfs" and asked.workload.sync_each_write
    if asked.mode != "bypass" and not synced:
        return None
    for _ in range(asked.workload.writes):
        asked.pfs.write(asked.workload.transfer_bytes)
    asked.pfs.sync(asked.workload.syncs)
    return _Time(asked.pfs.busy_s, _open_time(asked.pfs), [asked.pfs])


def _in_scratch(asked: _Asked) -> _Time | None:
    """Writes stay where placement puts them, and syncs cost nothing."""
    if asked.mode != "scratch" or not asked.tiers or asked.policy not in _PLACEMENT:
        return None
    _place_writes(asked.tiers, asked.workload, asked.policy)
    top = next((t for t in asked.tiers if not t.memory), None)
    return _Time(_elapsed(asked.tiers, asked.policy), _open_time(top), asked.tiers)


def _synced_in_a_tier(asked: _Asked) -> _Time | None:
    """Each write is followed by an fsync that a directory tier keeps."""
    is_placed = bool(asked.tiers) and asked.policy in _PLACEMENT
    if not is_placed or asked.fsync != "tier" or not asked.workload.sync_each_write:
        return None
    _place_synced_writes(asked.tiers, asked.pfs, asked.workload, asked.policy)
    directories = [t for t in asked.tiers if not t.memory]
    return _Time(_elapsed([*directories, asked.pfs], asked.policy), _open_time(asked.pfs), asked.tiers)


_PREDICTORS = (_past_the_tiers, _in_scratch, _synced_in_a_tier)


def _of_a_node(
    plan: dict[str, Any], workload: Workload, mode: str, fsync: str, policy: str
) -> Prediction | None:
    """By the first predictor that covers it."""
    tiers, pfs = _places(plan)
    if pfs is None:
        return None
    asked = _Asked(tiers, pfs, workload, mode, fsync, policy)
    found = next((time for predictor in _PREDICTORS if (time := predictor(asked))), None)
    if found is None or not found.open_s + found.busy_s:
        return None
    peak = sum(p.model["write_bandwidth"] for p in found.used) / MIB
    bandwidth = workload.total_bytes / MIB / (found.open_s + found.busy_s)
    return Prediction(bandwidth, workload.ranks * found.open_s, peak)


def _places(plan: dict[str, Any]) -> tuple[list[Place], Place | None]:
    """Tiers and PFS of a plan; without a model for each there is nothing to predict from."""
    models = [plan["pfs"]["model"], *(t["model"] for t in plan["tiers"])]
    if any(m is None for m in models):
        return [], None
    tiers = [Place(t["name"], t["medium"] == "memory", t["usable_bytes"], t["model"]) for t in plan["tiers"]]
    return tiers, Place("pfs", False, float("inf"), plan["pfs"]["model"])


def _open_time(place: Place | None) -> float:
    return float(place.model["open_time"]) if place else 0.0


def _next_place(places: list[Place], count: int, size: int, policy: str) -> Place | None:
    """Where write number `count` goes: the first place with room; round-robin starts at the next one."""
    start = count % len(places) if policy == "round-robin" else 0
    return next((p for p in places[start:] + places[:start] if p.room >= size), None)


def _place_writes(tiers: list[Place], workload: Workload, policy: str) -> None:
    size = workload.transfer_bytes
    for count in range(workload.writes):
        if place := _next_place(tiers, count, size, policy):
            place.room -= size
            place.write(size)


def _place_synced_writes(tiers: list[Place], pfs: Place, workload: Workload, policy: str) -> None:
    """As above, with every write made safe in a directory tier before the next of its rank."""
    size = workload.transfer_bytes
    directories = [t for t in tiers if not t.memory]
    for count in range(workload.writes):
        place = _next_place(tiers, count, size, policy)
        if place is None or place.memory:
            place = next((d for d in directories if d.room >= size), pfs)
        place.room -= size
        place.write(size)
        place.sync()
        if place is not pfs:
            directories[0].write(JOURNAL_SLOT_BYTES)
            directories[0].sync()


def _elapsed(places: list[Place], policy: str) -> float:
    """In turn the times add; side by side the slowest counts."""
    times = [p.busy_s for p in places]
    return max(times) if policy == "round-robin" else sum(times)
