"""Where a run's data are, and the tier configuration that says so; what a run made there is removed.

The folder of a run has a name that no other run has, on any node, and is made by a `mkdir` that fails where
it is there: so what is removed at the end is the run's own. ReFrame makes it, so it must see the site's PFS.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .capacity_checks import memory_place
from .extras import PLACES
from .nodes import set_nodes
from .plan import Plan
from .site import Site
from .tiers import ScaleError, check_config, write_config
from .twin import write_devices


@dataclass(frozen=True)
class Places:
    """`pfs` is the folder of this run; None where the published lines name the place themselves.

    A twin has its PFS and its tiers below `root`, on a tmpfs where there is room (`volatile`). `made` has the
    folder once it is made.
    """

    root: Path | None
    pfs: Path | None
    volatile: bool = False
    made: list[Path] = field(default_factory=list)

    @classmethod
    def choose(cls, site: Site, plan: Plan, stage: Path, digest: str) -> Places:
        """The published place, the twin's, or a folder on the site's PFS."""
        if plan.to_the_letter:
            return cls(None, None)
        name = f"tierbench-{os.getpid()}-{secrets.token_hex(4)}-{digest}"
        if site.modelled:
            wanted = memory_place(site.root, plan.place_bytes)
            root = Path(wanted, name) if wanted else stage / "work"
            return cls(root, root / "pfs", wanted is not None)
        return cls(None, Path(os.path.expandvars(site.places["pfs"]), name))

    def make(self) -> None:
        """The folder of the run, and in a twin its places; `ScaleError` where it is there already."""
        folder = self.root or self.pfs
        if not folder:
            return
        try:
            folder.mkdir()
        except OSError as e:
            raise ScaleError(f"{folder}: cannot be made: {e.strerror}; ReFrame makes it") from e
        self.made.append(folder)
        for place in PLACES if self.root else ():
            (folder / place).mkdir()

    def write_config(self, site: Site, plan: Plan, stage: Path) -> None:
        """Write tiers.yaml and the devices it names."""
        file = stage / "tiers.yaml"
        models = _models(plan, stage / "devices")
        places = None if site.modelled else site.places
        write_config(
            plan.tiers, plan.config_bytes, plan.policy, places, file, models=models, volatile=self.volatile
        )
        if plan.max_files:
            _change(file, {"max_files": plan.max_files})
        if plan.temporary:
            _change(file, {"flush": {"policy": "manual"}})
        if plan.nodes > 1:
            set_nodes(file, plan.nodes_see, site.interface, close_to_open=plan.close_to_open)

    def check_config(self, tierctl: Path, stage: Path) -> None:
        """Refuse what the engine would refuse."""
        check_config(tierctl, stage / "tiers.yaml", self.root)

    def remove(self) -> None:
        """What the run made, with all in it; a folder that is another's and one of a published place stay."""
        for folder in self.made:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                print(f"reframe_tests: {folder}: is left, not all of it could be removed", file=sys.stderr)
        self.made.clear()


def _models(plan: Plan, folder: Path) -> dict[str, str] | None:
    return write_devices(plan.device, plan.factor, folder, plan.tier_devices) if plan.device else None


def _change(config: Path, change: dict[str, Any]) -> None:
    text = config.read_text()
    made = yaml.safe_load(text) | change
    config.write_text(text.splitlines()[0] + "\n" + yaml.safe_dump(made, sort_keys=False))
