"""A synthetic run folder: the shape the suite leaves, with numbers made up from the device models.

Nothing here was measured. Values are the predicted ones plus a few per cent of seeded noise, the machine is
called `synthetic` and every published number is in `PUBLISHED` below.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tierbench.judge.predict import parse_command, predict

MIB = 1024 * 1024
RANKS, TRANSFER, BLOCK = 4, MIB, 64 * MIB
TOTAL = RANKS * BLOCK
PUBLISHED = {"pfs-Y": 29.0104, "pfs": 471.6021, "bb": 335.2401, "bb-nvme": 514.6819, "bb-nvme-ram": 829.3921}
PUBLISHED_CSV = """tiers,test,access,bw_mib_s,open_s,wr_rd_s,source
pfs,webinar-write-Y,write,29.0104,28.1393,211.6576,Hermes webinar 3.1.4
pfs,webinar-write,write,471.6021,10.376,12.9178,Hermes webinar 3.1.4
bb,webinar-write-Y,write,335.2401,1.6561,18.1828,Hermes webinar 3.2.3
bb-nvme,webinar-write-Y,write,514.6819,0.1132,11.8788,Hermes webinar 3.3.3
bb-nvme-ram,webinar-write-Y,write,829.3921,0.1179,7.3482,Hermes webinar 3.4.3
"""


def device(name: str, write_mib_s: float, **times: float) -> dict[str, Any]:
    """A device model as `tierctl plan --json` prints it; times in seconds."""
    model = {
        "name": name,
        "read_bandwidth": 1.2 * write_mib_s * MIB,
        "write_bandwidth": write_mib_s * MIB,
        "read_latency": 0.0,
        "write_latency": 0.0,
        "sync_time": 0.0,
        "open_time": 0.0,
        "metadata_time": 0.0,
        "channels": 1,
    }
    return model | times


def twin_pfs() -> dict[str, Any]:
    """Solved so that the two PFS rows come out as published at this scale."""
    sync = TOTAL / MIB * (1 / PUBLISHED["pfs-Y"] - 1 / PUBLISHED["pfs"]) / (TOTAL / TRANSFER - RANKS)
    transfer = TOTAL / MIB / PUBLISHED["pfs"] - RANKS * sync - 0.005
    return device(
        "ares-orangefs-hdd", TOTAL / MIB / transfer, sync_time=sync, open_time=0.005, metadata_time=0.0005
    )


BB = device("s3610", 335.2401, write_latency=66e-6, sync_time=66e-6, open_time=0.001, channels=8)
NVME = device("dc-p3700", 514.6819, write_latency=20e-6, sync_time=20e-6, open_time=0.0001, channels=32)
RAM = device("ddr4", 2703e6 / MIB)


def tier(name: str, medium: str, share: float, model: dict[str, Any], metadata: int = 0) -> dict[str, Any]:
    """A tier of a plan; `share` of the bytes a node writes."""
    capacity = round(share * TOTAL)
    usable = (capacity - metadata) // MIB * MIB
    return {
        "name": name,
        "medium": medium,
        "path": f"/scratch/{name}",
        "shared": name == "bb",
        "capacity_bytes": capacity,
        "usable_bytes": usable,
        "slabs": [{"buffer_bytes": MIB, "count": usable // MIB}],
        "model": model,
    }


TIERS = {
    "pfs": [],
    "bb": [tier("bb", "directory", 4, BB)],
    "bb-nvme": [tier("nvme", "directory", 2048 / 1536, NVME), tier("bb", "directory", 4096 / 1536, BB)],
    "bb-nvme-ram": [
        tier("ram", "memory", 512 / 1536, RAM, 3 * MIB),
        tier("nvme", "directory", 1, NVME),
        tier("bb", "directory", 4096 / 1536, BB),
    ],
    "ram": [tier("ram", "memory", 1.25, RAM, 3 * MIB)],
}
# tiers, mode, fsync, policy, fsync after each write
ROWS = [
    ("pfs", "bypass", "pfs", "none", True),
    ("pfs", "bypass", "pfs", "none", False),
    *((t, "persistent-async", "tier", "max-bandwidth", True) for t in ("bb", "bb-nvme", "bb-nvme-ram")),
    *((t, "scratch", "none", "max-bandwidth", True) for t in ("bb", "bb-nvme", "bb-nvme-ram")),
    ("ram", "persistent-async", "pfs", "max-bandwidth", True),
    ("ram", "scratch", "none", "max-bandwidth", True),
    ("bb-nvme-ram", "scratch", "none", "round-robin", True),
    ("bb-nvme-ram", "persistent-async", "tier", "round-robin", True),
]


def plan(tiers: str, mode: str, fsync: str, policy: str) -> dict[str, Any]:
    """What `tierctl plan --json` prints for a configuration."""
    return {
        "config": f"configs/tiers/webinar-{tiers}.yaml",
        "digest": "0",
        "mode": mode,
        "fsync": fsync,
        "policy": policy,
        "max_files": 4096,
        "pfs": {"path": "/scratch/pfs", "model": twin_pfs()},
        "tiers": TIERS[tiers],
        "total_buffers": 0,
    }


def summary(value: float, open_s: float, command: str) -> dict[str, Any]:
    """IOR's JSON for one write."""
    total = TOTAL / MIB / value
    result = {
        "access": "write",
        "bwMiB": value,
        "blockKiB": BLOCK / 1024,
        "xferKiB": 1024.0,
        "iops": value,
        "latency": 0.001,
        "openTime": open_s,
        "wrRdTime": total - open_s,
        "closeTime": 0.0005,
        "totalTime": total,
    }
    told = {
        "operation": "write",
        "API": "POSIX",
        "TestID": 0,
        "numTasks": RANKS,
        "repetitions": 1,
        "bwMaxMIB": value,
        "bwMinMIB": value,
        "bwMeanMIB": value,
        "xsizeMiB": TOTAL / MIB,
    }
    return {
        "Version": "tb-ior 0.1",
        "Began": "",
        "Command line": command,
        "Machine": "Linux synthetic",
        "tests": [{"TestID": 0, "Parameters": {}, "Options": {"tasks": RANKS}, "Results": [result]}],
        "summary": [told],
        "Finished": "",
    }


def samples(tiers: str, total_s: float, drain_s: float | None) -> dict[str, Any]:
    """Occupancy that rises while the test writes and falls while it drains."""
    end = total_s + (drain_s or 0)
    seconds = [end * i / 40 for i in range(41)]
    used: dict[str, list[float]] = {}
    left = TOTAL
    for t in TIERS[tiers]:
        share = min(left, t["usable_bytes"])
        left -= share
        used[t["name"]] = [share * min(1.0, s / total_s) for s in seconds]
    down = [min(1.0, max(0.0, (s - total_s) / drain_s)) if drain_s else 0.0 for s in seconds]
    dirty = {n: [max(0.0, u * (1 - d)) for u, d in zip(v, down, strict=True)] for n, v in used.items()}
    nothing = [0.0] * len(seconds)
    return {
        "seconds": seconds,
        "used": used,
        "dirty": dirty,
        "bytes_in": used,
        "bytes_out": dict.fromkeys(used, nothing),
        "flushed": {n: [v[-1] * d for d in down] for n, v in used.items()},
        "moved": {},
        "pfs_bytes_written": [TOTAL * d for d in down],
        "pfs_bytes_read": nothing,
        "spilled": nothing,
        "staged": nothing,
    }


def build(root: Path, repetitions: int = 5, noise: float = 0.01, scale: float = 1.0) -> Path:
    """Write a run folder below `root` and return it; `scale` makes the buffered rows that much faster."""
    run = root / "runs" / "20261121-020000-webinar"
    rng, cases = random.Random(7), []
    for tiers, mode, fsync, policy, synced in ROWS:
        command = f"mpirun -n {RANKS} tb-ior -w -o /scratch/pfs/ior.out -t 1m -b 64m -F -e{' -Y' * synced}"
        command += " -O summaryFormat=JSON -O summaryFile=summary.json"
        planned = plan(tiers, mode, fsync, policy)
        workload = parse_command(command, RANKS, TOTAL)
        assert workload
        predicted = predict(planned, workload, mode, fsync, policy)
        assert predicted
        for repetition in range(1, repetitions + 1):
            value = (
                predicted.bandwidth_mib_s * (1 - abs(rng.gauss(0, noise))) * (scale if tiers != "pfs" else 1)
            )
            cases.append(
                _case(
                    run,
                    (tiers, mode, fsync, policy, synced),
                    repetition,
                    round(value, 4),
                    predicted.open_s,
                    command,
                    planned,
                )
            )
    _write(
        run / "reframe.json",
        {
            "session_info": {},
            "restored_cases": [],
            "runs": [
                {
                    "testcases": [
                        {
                            "name": "WebinarWrite",
                            "display_name": f"WebinarWrite %case={n}",
                            "result": "pass",
                            "fail_phase": None,
                            "fail_reason": None,
                        }
                        for n in cases
                    ]
                }
            ],
        },
    )
    _write(
        run / "provenance.json",
        {
            "commit": "0123456789abcdef",
            "dirty": False,
            "started": "2026-11-21T02:00:00+00:00",
            "site": "local",
            "machine": {"cpu": "synthetic", "cores": 2, "memory_bytes": 8 << 30, "kernel": "synthetic"},
            "versions": {"python": "3.11", "reframe": "4.10.4", "mpi": "synthetic", "compiler": "synthetic"},
            "scale": {"ranks": RANKS, "transfer": "1m", "block": "64m"},
            "published": "results/published",
        },
    )
    _text(run / "published" / "hermes-webinar.csv", PUBLISHED_CSV)
    for t in TIERS:
        _text(run / "configs" / "tiers" / f"webinar-{t}.yaml", f"version: 1   # synthetic <&> {t}\n")
    return run


def _case(
    run: Path,
    row: tuple[str, str, str, str, bool],
    repetition: int,
    value: float,
    open_s: float,
    command: str,
    planned: dict[str, Any],
) -> str:
    tiers, mode, fsync, policy, synced = row
    name = "-".join([tiers, mode, fsync, policy, "Y" if synced else "plain"])
    folder = run / "cases" / name / str(repetition)
    total_s = TOTAL / MIB / value
    drain_s = TOTAL / MIB / 480 if mode == "persistent-async" and fsync == "tier" else None
    if mode == "persistent-async" and fsync == "pfs":
        drain_s = 0.0
    published = PUBLISHED.get("pfs-Y" if tiers == "pfs" and synced else tiers)
    ran = mode in ("bypass", "scratch") and policy != "round-robin"
    _write(
        folder / "case.json",
        {
            "test": "webinar-write-Y" if synced else "webinar-write",
            "system": "local",
            "site": "local",
            "tiers": tiers,
            "mode": mode,
            "fsync": fsync,
            "policy": policy,
            "repetition": repetition,
            "metric": "bandwidth",
            "unit": "MiB/s",
            "direction": "higher",
            "value": value,
            "open_s": open_s,
            "write_s": total_s - open_s,
            "close_s": 0.0005,
            "total_s": total_s,
            "drain_s": drain_s,
            "verified": True if mode == "persistent-async" else None,
            "driver": "tb-ior 0.1",
            "modelled": True,
            "command": command,
            "nodes": 1,
            "ranks": RANKS,
            "bytes": TOTAL,
            "published": published,
            "published_source": "results/published/hermes-webinar.csv" if published else None,
            "requirement": published if ran else None,
        },
    )
    _write(folder / "summary.json", summary(value, open_s, command))
    _write(folder / "plan.json", planned)
    _write(folder / "stats.json", {"modelled": True, "samples": samples(tiers, total_s, drain_s)})
    return f"{name}-{repetition}"


def _write(path: Path, value: dict[str, Any]) -> None:
    _text(path, json.dumps(value, indent=1))


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
