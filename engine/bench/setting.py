"""Where a benchmark of this folder works, and the configurations of tiers that it writes there."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SHM = "/dev/shm"  # noqa: S108 - the yardstick is this very file system
MIB = 1 << 20
NO_HUGE_PAGES = "none"
HUGE_ROWS = "rows with huge pages: left out; the kernel gives none here (docs/huge-pages.md)"
MODEL_TIERS = {"ram": 400, "nvme": 200, "bb": 100}  # rates of the modelled devices, MiB/s
RULES = ", ".join(f'{{pattern: "*.{rank}", tiers: [{tier}]}}' for rank, tier in enumerate(MODEL_TIERS))
"""Each of three writers has a tier of its own."""


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
            f"version: 1\n{small_pages()}"
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

    def huge_config(self) -> Path:
        """Write the configuration of 512 MiB of RAM with its region on huge pages, as it is by default."""
        path = self.root / "huge.yaml"
        path.write_text(self.ram_config().read_text().replace(small_pages(), ""))
        return path

    def ram_config(self, model: str = "", pfs: Path | None = None) -> Path:
        """Write a configuration of 512 MiB of RAM."""
        ram = "{name: ram, medium: memory, capacity: 512MiB, block: 4KiB, slabs: [{units: 256, share: 1.0}]}"
        return self.config("ram", pfs or self.root / "pfs", [ram], model=model)


def small_pages() -> str:
    """Return the line of a configuration that keeps the region on pages of 4 KiB."""
    return "region: {huge_pages: never}\n"


@functools.cache
def huge_pages(build: Path) -> str:
    """Return which huge pages a region of 512 MiB has here by default, as `tierctl status` names them."""
    with tempfile.TemporaryDirectory(prefix="tb-bench.", dir=SHM) as folder:
        bench = Bench(build.resolve(), Path(folder), Path(folder), 1)
        tierctl, stats = str(bench.build / "bin/tierctl"), bench.root / "stats.json"
        command = [tierctl, "run", "-c", str(bench.huge_config()), "--stats", str(stats), "--", "true"]
        subprocess.run(command, capture_output=True, check=True)  # noqa: S603
        return str(json.loads(stats.read_text())["region"]["huge_pages"])
