"""The closed forms against a discrete-event simulation of ranks and devices."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import pytest
import synthetic
from synthetic import MIB, RANKS, ROWS, TOTAL, TRANSFER

from tierbench.judge.predict import JOURNAL_SLOT_BYTES, Workload, parse_command, predict


class Device:
    """Serves one operation after the other, in the order in which they are asked for."""

    def __init__(self, model: dict[str, Any]) -> None:
        self.model, self.free_at, self.metadata_free_at = model, 0.0, 0.0

    def write(self, size: int = TRANSFER) -> Operation:
        latency = float(self.model["write_latency"])
        return self, latency / self.model["channels"] + size / self.model["write_bandwidth"], latency

    def sync(self) -> Operation:
        return self, float(self.model["sync_time"]), 0.0

    def open(self, now: float) -> float:
        self.metadata_free_at = max(now, self.metadata_free_at) + self.model["open_time"]
        return self.metadata_free_at


# Device, seconds it is busy, latency (of which the caller sees what the channels hide from the device).
Operation = tuple[Device, float, float]


def run_section(now: float, operations: list[Operation]) -> float:
    """The operations between two sleeps of a rank: all are queued at once and paid for together."""
    done = now
    for device, busy, latency in operations:
        device.free_at = max(now, device.free_at) + busy
        hidden = latency * (1 - 1 / device.model["channels"])
        done = max(device.free_at + hidden, done + busy + hidden)
    return done


def simulate(plan: dict[str, Any], mode: str, fsync: str, policy: str, synced: bool) -> float:
    """MiB/s of ranks that each write, and sync, one transfer after the other."""
    pfs = Device(plan["pfs"]["model"])
    tiers = [(Device(t["model"]), t["medium"] == "memory") for t in plan["tiers"]]
    room: list[int] = [t["usable_bytes"] for t in plan["tiers"]]
    directories = [i for i, (_, memory) in enumerate(tiers) if not memory]
    opened = pfs if mode != "scratch" else tiers[directories[0]][0] if directories else None
    count = 0

    def take() -> int:
        nonlocal count
        start = count % len(tiers) if policy == "round-robin" else 0
        count += 1
        i: int = next(i for i in [*range(start, len(tiers)), *range(start)] if room[i] >= TRANSFER)
        room[i] -= TRANSFER
        return i

    def sections() -> Iterator[list[Operation]]:
        """What one rank does: a write is slept for where it takes more than a millisecond, a sync always."""
        for _ in range(TOTAL // TRANSFER // RANKS):
            if mode == "bypass":
                yield [pfs.write()]
                if synced:
                    yield [pfs.sync()]
                continue
            i = take()
            device, memory = tiers[i]
            debt = [device.write()]
            if fsync == "none" or not memory:
                yield debt
                debt = []
            if fsync == "pfs":
                yield [*debt, pfs.write(), pfs.sync()]
            elif fsync == "tier":
                if memory:
                    room[i] += TRANSFER
                    i = next(d for d in directories if room[d] >= TRANSFER)
                    room[i] -= TRANSFER
                    debt.append(tiers[i][0].write())
                journal = tiers[directories[0]][0]
                yield [*debt, journal.write(JOURNAL_SLOT_BYTES), tiers[i][0].sync()]
                yield [journal.sync()]
            if fsync == "pfs":
                room[i] += TRANSFER
        if mode == "bypass" and not synced:
            yield [pfs.sync()]

    ranks = [sections() for _ in range(RANKS)]
    queue = [(opened.open(0.0) if opened else 0.0, rank) for rank in range(RANKS)]
    end = 0.0
    while queue:
        now, rank = heapq.heappop(queue)
        section = next(ranks[rank], None)
        if section is None:
            end = max(end, now)
        else:
            heapq.heappush(queue, (run_section(now, section), rank))
    return TOTAL / MIB / end


@pytest.mark.parametrize(("tiers", "mode", "fsync", "policy", "synced"), ROWS)
def test_closed_form_agrees_with_simulation(
    tiers: str, mode: str, fsync: str, policy: str, synced: bool
) -> None:
    plan = synthetic.plan(tiers, mode, fsync, policy)
    predicted = predict(plan, Workload(RANKS, TOTAL, TRANSFER, synced, True), mode, fsync, policy)
    assert predicted
    # Four ranks that wait for one sync each cannot quite keep two directory tiers busy at once.
    tolerance = 0.04 if (fsync, policy) == ("tier", "round-robin") else 0.005
    assert predicted.bandwidth_mib_s == pytest.approx(
        simulate(plan, mode, fsync, policy, synced), rel=tolerance
    )


def predicted_mib_s(tiers: str, mode: str, fsync: str, policy: str, synced: bool = True) -> float:
    plan = synthetic.plan(tiers, mode, fsync, policy)
    found = predict(plan, Workload(RANKS, TOTAL, TRANSFER, synced, True), mode, fsync, policy)
    assert found
    return found.bandwidth_mib_s


def test_the_published_pfs_rows_come_out() -> None:
    assert predicted_mib_s("pfs", "bypass", "pfs", "none") == pytest.approx(29.0104, rel=1e-4)
    assert predicted_mib_s("pfs", "bypass", "pfs", "none", synced=False) == pytest.approx(471.6021, rel=1e-4)


def test_in_turn_is_slower_than_side_by_side() -> None:
    """About 702 and 1005 MiB/s: NVMe and a third in RAM in turn; the BB's third side by side."""
    assert predicted_mib_s("bb-nvme-ram", "scratch", "none", "max-bandwidth") == pytest.approx(702, rel=0.03)
    assert predicted_mib_s("bb-nvme-ram", "scratch", "none", "round-robin") == pytest.approx(1005, rel=0.03)


def test_an_fsync_in_a_tier_costs_ram_its_speed() -> None:
    synced = predicted_mib_s("bb-nvme-ram", "persistent-async", "tier", "max-bandwidth")
    assert synced == pytest.approx(
        predicted_mib_s("bb-nvme", "persistent-async", "tier", "max-bandwidth"), rel=0.01
    )


def test_an_fsync_on_the_pfs_costs_as_without_tiers() -> None:
    assert predicted_mib_s("ram", "persistent-async", "pfs", "max-bandwidth") == predicted_mib_s(
        "pfs", "bypass", "pfs", "none"
    )


def test_nothing_is_predicted_without_models_or_formula() -> None:
    workload = Workload(RANKS, TOTAL, TRANSFER, True, True)
    plan = synthetic.plan("bb", "scratch", "none", "max-bandwidth")
    assert predict(plan, workload, "scratch", "none", "hot-data") is None
    plan["tiers"] = [plan["tiers"][0] | {"model": None}]
    assert predict(plan, workload, "scratch", "none", "max-bandwidth") is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mpirun -n 4 tb-ior -w -o f -t 1m -b 64m -F -e -Y", (True, True, MIB)),
        ("mpirun -n 4 /opt/bin/ior -w -o f -t 256k -b 64m -e", (False, True, 256 * 1024)),
        ("mpirun -n 4 tb-ior -w -o f -t 1m", (False, False, MIB)),
    ],
)
def test_command_line(command: str, expected: tuple[bool, bool, int]) -> None:
    w = parse_command(command, RANKS, TOTAL)
    assert w and (w.sync_each_write, w.sync_at_close, w.transfer_bytes) == expected


@pytest.mark.parametrize(
    "command",
    [
        "mpirun -n 4 tb-ior -w -r -t 1m",
        "mpirun -n 4 tb-ior -r -t 1m",
        "mpirun -n 4 tb-ior -w",
        "dd",
        "tb-ior -w -t",
        "tb-ior -w -t 1x",
        "tb-ior -w -t 'unclosed",
        "tb-ior -w -t 3m",
    ],
)
def test_other_command_lines_are_not_predicted(command: str) -> None:
    assert parse_command(command, RANKS, TOTAL) is None


def test_several_nodes_have_several_times_the_devices() -> None:
    plan = synthetic.plan("bb", "scratch", "none", "max-bandwidth")
    one = Workload(4, synthetic.TOTAL, synthetic.MIB, True, False)
    two = Workload(8, 2 * synthetic.TOTAL, synthetic.MIB, True, False)
    alone = predict(plan, one, "scratch", "none", "max-bandwidth")
    both = predict(plan, two, "scratch", "none", "max-bandwidth", 2)
    assert alone and both
    assert both.bandwidth_mib_s == pytest.approx(2 * alone.bandwidth_mib_s)
    assert both.peak_mib_s == 2 * alone.peak_mib_s
