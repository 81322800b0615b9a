"""Draw where each write of one sequence lands under each placement policy, from real runs.

    .venv/bin/python docs/placement/draw.py [OUT.png]

Three files are written in turn, one of them often read; after each write the script asks the instance how
many bytes each tier holds.  Needs a build in build/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tierbench.base.policies import POLICIES

HOUSE = Path(__file__).resolve().parents[2]
TIERCTL = HOUSE / "build/bin/tierctl"
KIB, MIB = 1 << 10, 1 << 20
WRITE = 256 * KIB
WRITES = 96
FILES = ["hot.dat", "out.chk", "hot.dat", "run.log"]
TIERS = {"ram": (400, 10), "nvme": (200, 8), "bb": (100, 16)}
"""Modelled MiB/s, and MiB of capacity."""
COLOURS = {"ram": "#1b6ca8", "nvme": "#4fb0a5", "bb": "#f2b84b", "pfs": "#b5b5b5"}
RULES = {"user-defined": ', rules: [{pattern: "*.chk", tiers: [bb]}, {pattern: "*.log", tiers: [nvme]}]'}


def used(instance: str) -> dict[str, int]:
    """Bytes that each tier holds, and that went to the PFS."""
    env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    command = [str(TIERCTL), "status", "--json", "-i", instance]
    status = json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)  # noqa: S603
    return {tier["name"]: tier["used"] for tier in status["tiers"]} | {"pfs": status["spilled"]}


def write_sequence(folder: Path) -> None:
    """As the program under tiers: write, and print for each write the bytes that each place got."""
    instance, block = os.environ["TIERBENCH_INSTANCE"], b"x" * WRITE
    files = {name: os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600) for name in set(FILES)}
    ends = dict.fromkeys(files, 0)
    before = used(instance)
    for i in range(WRITES):
        name = FILES[i % len(FILES)]
        os.pwrite(files[name], block, ends[name])
        ends[name] += WRITE
        os.pread(files["hot.dat"], 4096, 0)
        after = used(instance)
        print(json.dumps({place: after[place] - before[place] for place in after}), flush=True)
        before = after


def configure(root: Path, policy: str, more: str) -> Path:
    """Write a configuration of modelled tiers that only places: no flush, no moves."""
    tiers = []
    for name, (rate, capacity) in TIERS.items():
        where = "medium: memory" if name == "ram" else f"medium: directory, path: {root / name}"
        (root / name).mkdir(exist_ok=True)
        model = f"{{name: {name}, read_bandwidth: {rate}MiB/s, write_bandwidth: {rate}MiB/s}}"
        slabs = "block: 64KiB, slabs: [{units: 1, share: 1.0}]"
        tiers.append(f"  - {{name: {name}, {where}, capacity: {capacity}MiB, {slabs}, model: {model}}}\n")
    (root / "pfs").mkdir(exist_ok=True)
    slow = "{name: pfs, read_bandwidth: 25MiB/s, write_bandwidth: 25MiB/s}"
    path = root / f"{policy}.yaml"
    path.write_text(
        f"version: 1\nmax_files: 64\npfs: {{path: {root / 'pfs'}, model: {slow}}}\nfsync: pfs\n"
        f"flush: {{policy: manual}}\norganizer: {{enabled: false}}\n"
        f"placement: {{policy: {policy}{more}}}\ntiers:\n{''.join(tiers)}"
    )
    return path


def run(policy: str, more: str) -> list[dict[str, int]]:
    """Bytes that each place got of each write, in order."""
    with tempfile.TemporaryDirectory(prefix="tb-draw.") as name:
        root = Path(name)
        config = configure(root, policy, more)
        command = [
            str(TIERCTL),
            "run",
            "-c",
            str(config),
            "--",
            sys.executable,
            __file__,
            "--write",
            str(root / "pfs"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def draw(landed: dict[str, list[dict[str, int]]], out: Path) -> None:
    """One row a policy, one column a write, coloured by the tiers that took it."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(11, 4.6))
    for row, (policy, writes) in enumerate(landed.items()):
        for column, places in enumerate(writes):
            bottom, total = float(-row), sum(places.values())
            for place, taken in places.items():
                height = 0.8 * taken / total
                axes.bar(column, height, bottom=bottom, width=1, color=COLOURS[place], linewidth=0)
                bottom += height
        axes.text(-1.5, 0.4 - row, policy, ha="right", va="center")
    for column in range(WRITES):
        letter = FILES[column % len(FILES)][0]
        axes.text(column, 1.0, letter, ha="center", va="center", fontsize=6)
    axes.text(-1.5, 1.0, "file", ha="right", va="center", fontsize=8)
    for place in list(COLOURS)[: len(TIERS)]:
        rate, capacity = TIERS[place]
        axes.bar(0, 0, color=COLOURS[place], label=f"{place}: {rate} MiB/s, {capacity} MiB")
    axes.set(xlim=(-1, WRITES), ylim=(-len(landed) + 0.95, 1.3), yticks=[])
    axes.set_xlabel(
        f"write of {WRITE // KIB} KiB: h, hot.dat (read after each write); o, out.chk; r, run.log"
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=3, frameon=False)
    figure.savefig(out, dpi=110, bbox_inches="tight")


def main() -> None:
    """Run every policy and draw."""
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        write_sequence(Path(sys.argv[2]))
        return
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("policies.png")
    draw({policy: run(policy, RULES.get(policy, "")) for policy in POLICIES}, out)


if __name__ == "__main__":
    main()
