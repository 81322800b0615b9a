"""What a job left: its artefacts in the run folder, and what all records of a run have in common."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench.runs.case import Case

from ..sites.capacity_checks import full_percent
from ..sites.plan import Plan
from ..sites.site import Site
from .rundir import keep_config, next_repetition, write_provenance

ARTEFACTS = (
    "plan.json",
    "places.json",
    "tiers.yaml",
    "df.txt",
    "launches.sh",
    "summary.json",
    "verify.json",
    "result.json",
)

KINDS = ("stats*.json", "trace*-cost.json", "touched-*.json", "*.darshan")


@dataclass(frozen=True)
class Results:
    """The repetition of a test: number and folder of each metric's case, and the stage they come from."""

    stage: Path
    site: Site
    plan: Plan
    repetitions: dict[str, tuple[int, Path]]

    @classmethod
    def begin(cls, stage: Path, site: Site, plan: Plan, cases: Mapping[str, str]) -> Results:
        """Make the folders of the next repetition of `cases`: names by metric."""
        return cls(stage, site, plan, {metric: next_repetition(name) for metric, name in cases.items()})

    def folder(self, metric: str) -> Path:
        """Where the artefacts of a metric's case are kept."""
        return self.repetitions[metric][1]

    def stats(self, name: str = "stats.json") -> dict[str, Any]:
        """What tierctl counted in a launch; nothing where it did not come so far."""
        return self._object(name)

    def touched(self) -> int | None:
        """Bytes of memory that were touched before each launch, at least; None: none were."""
        found = [json.loads(file.read_text())["bytes"] for file in self.stage.glob("touched-*.json")]
        return min(found, default=None)

    def _object(self, name: str) -> dict[str, Any]:
        file = self.stage / name
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def common(self, metric: str, stats: str = "stats.json") -> dict[str, Any]:
        """The fields of a record that do not hang on what was measured."""
        plan = self.plan
        drains = plan.mode not in ("bypass", "scratch")
        return {
            "site": self.site.name,
            "tiers": plan.tiers,
            "mode": plan.mode,
            "fsync": self._object("plan.json").get("fsync", "pfs"),
            "policy": "none" if plan.tiers == "pfs" else plan.policy,
            "repetition": self.repetitions[metric][0],
            "drain_s": self.stats(stats).get("drain_s") if drains else None,
            "modelled": self.site.modelled,
            "ranks": plan.ranks,
            "nodes": plan.nodes,
            "factor": plan.factor,
            "scale": plan.scale,
            "full_percent": full_percent(self.stage / "df.txt"),
            "touched": self.touched(),
        }

    def keep(
        self, output: Mapping[str, Path], config: str, scale: dict[str, Any], cases: Mapping[str, Case]
    ) -> None:
        """Keep artefacts, `output` (by the name it gets) and configuration; write the records there are."""
        there = [self.stage / name for name in ARTEFACTS]
        there += [p for kind in KINDS for p in self.stage.glob(kind)]
        for metric, (_, folder) in self.repetitions.items():
            for file in there:
                if file.exists():
                    shutil.copy(file, folder / file.name)
            for name, file in output.items():
                shutil.copy(file, folder / name)
            if metric in cases:
                cases[metric].write(folder)
                write_provenance(self.site.name, scale, cases[metric].driver)
        if (self.stage / "tiers.yaml").exists():
            keep_config(config, self.stage / "tiers.yaml")
