"""Made-up runs of the HPDC'18 workloads, kept as the suite does. Nothing here was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tierbench.runs.case import Case

RATES = {
    "ram": {"read": 2000.0, "write": 1000.0},
    "nvme": {"read": 1000.0, "write": 500.0},
    "bb": {"read": 200.0, "write": 100.0},
    "pfs": {"read": 20.0, "write": 10.0},
}
CSV = """system,test,access,metric,value,unit,nodes,ranks,source,against
chameleon,hpdc18-alternating,write,ratio,8,x,32,1024,talk,none
chameleon,hpdc18-alternating,write,ratio,2,x,32,1024,talk,platforms
chameleon,hpdc18-vpic,write,ratio,5,x,32,1024,talk,none
"""


def record(workload: str, buffering: str, **more: Any) -> dict[str, Any]:
    """One `hpdc18.json`: four phases of 1000 bytes by one rank, 20 s of compute before each."""
    kind = {"read": "repetitive"}.get(workload.split("-")[0], workload.split("-")[0])
    parts = dict.fromkeys(("open", "write", "read", "close", "flush", "drain"), 0.0)
    return {
        "version": 1,
        "workload": workload,
        "kind": kind,
        "buffering": buffering,
        "scaling": "none",
        "ranks": 1,
        "phases": 4,
        "phase_bytes": 1000,
        "read_times": 0,
        "creates": 1,
        "create_s": 0.5,
        "compute_s": 20.0,
        "rates": RATES,
        "seconds": parts | {"compute": 80.0},
        "moved": {"pfs": 4000},
    } | more


def keep(run: Path, made: dict[str, Any], values: Sequence[float], first: int = 1, factor: int = 1) -> None:
    """A repetition for each value, from the `first` on; all of its time is the flush's."""
    name = f"hpdc18-{made['workload']}" + ("" if made["scaling"] == "none" else f"-{made['scaling']}")
    tiers = {"none": "pfs", "datawarp": "hpdc18/datawarp", "elevator": "hpdc18/elevator"}
    for repetition, value in enumerate(values, first):
        folder = run / "cases" / f"{name}_{made['buffering']}" / str(repetition)
        folder.mkdir(parents=True)
        made["seconds"]["flush"] = value
        (folder / "hpdc18.json").write_text(json.dumps(made))
        (folder / "stdout.txt").write_text(f"I/O time: {value} s\n")
        Case(
            test=name,
            system="hpdc18",
            tiers=tiers.get(made["buffering"], "hpdc18/hermes"),
            mode="bypass" if made["buffering"] == "none" else "persistent-async",
            fsync="pfs",
            policy=made["buffering"],
            repetition=repetition,
            metric="time",
            unit="s",
            direction="lower",
            value=value,
            open_s=0,
            write_s=0,
            close_s=value,
            total_s=value,
            drain_s=0,
            verified=True,
            driver="tb-synthetic",
            modelled=True,
            command="tb-synthetic",
            ranks=made["ranks"],
            bytes=4000,
            published=None,
            published_source="talk",
            requirement=None,
            scale="local",
            factor=factor,
        ).write(folder)


def publish(run: Path) -> None:
    (run / "published" / "hpdc18.csv").write_text(CSV)
