"""Where a run's data lie, and the tier configuration that says so; what a run made there is removed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from .capacity_checks import memory_place
from .nodes import set_nodes
from .plan import Plan
from .site import PLACES, Site
from .tiers import check_config, write_config
from .twin import write_devices


@dataclass(frozen=True)
class Places:
    """`pfs` is the folder of this run; None where the published lines name the place themselves.

    A twin has its PFS and its tiers below `root`, on a tmpfs where there is room (`volatile`).
    """

    root: Path | None
    pfs: Path | None
    volatile: bool = False

    @classmethod
    def choose(cls, site: Site, plan: Plan, stage: Path, digest: str) -> Places:
        """The published place, the twin's, or a folder on the site's PFS."""
        if plan.to_the_letter:
            return cls(None, None)
        if site.modelled:
            wanted = memory_place(site.root, plan.place_bytes)
            root = Path(wanted, f"tierbench-{os.getpid()}-{digest}") if wanted else stage / "work"
            return cls(root, root / "pfs", wanted is not None)
        return cls(None, Path(os.path.expandvars(site.places["pfs"]), f"tierbench-{digest}"))

    def make(self) -> None:
        """The folders of the twin; the job makes that of a real site."""
        for place in PLACES if self.root else ():
            Path(str(self.root), place).mkdir(parents=True, exist_ok=True)

    def write_config(self, site: Site, plan: Plan, stage: Path) -> None:
        """Write tiers.yaml and the devices it names."""
        file = stage / "tiers.yaml"
        models = write_devices(plan.device, plan.factor, stage / "devices") if plan.device else None
        places = None if site.modelled else site.places
        write_config(plan.tiers, plan.config_bytes, plan.policy, places, file, models=models,
                     volatile=self.volatile)  # fmt: skip
        if plan.max_files:
            _set_files(file, plan.max_files)
        if plan.nodes > 1:
            set_nodes(file, close_to_open=plan.close_to_open)

    def check_config(self, tierctl: Path, stage: Path) -> None:
        """Refuse what the engine would refuse."""
        check_config(tierctl, stage / "tiers.yaml", self.root)

    def remove(self) -> None:
        """All that the run made; nothing of a published place."""
        made = self.root or self.pfs
        if made:
            shutil.rmtree(made, ignore_errors=True)


def _set_files(config: Path, files: int) -> None:
    text = config.read_text()
    made = yaml.safe_load(text) | {"max_files": files}
    config.write_text(text.splitlines()[0] + "\n" + yaml.safe_dump(made, sort_keys=False))
