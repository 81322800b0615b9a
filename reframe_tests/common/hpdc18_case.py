"""What the tests of the HPDC'18 evaluation share: scale, devices, the plan of a node's share, programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reframe.core.builtins import variable
from reframe.core.exceptions import PipelineError

from tierbench.base import sizes

from .base import TierTest, refuse
from .jobs.script import TIERCTL
from .scales.hpdc18_scale import Hpdc18Scale, hpdc18_scale
from .sites.plan import Plan
from .sites.site import Site
from .sites.tiers import HPDC18_TIERS, ScaleError

DEVICES = {place: f"twins/hpdc18-{place}" for place in ("ram", "nvme", "bb", "pfs")}
# Its bytes in tiers, on the PFS, and once more in its ranks; and what the ranks and the daemon have besides.
TOUCHED_ROOM, PROGRAMS_BYTES = 3, 128 * sizes.MIB
LEAST_CONFIG_BYTES = 16 * sizes.MIB  # below, the RAM tier has no room for its own metadata


class Hpdc18Case(TierTest):
    """One launch, or several, on one way of buffering."""

    #: A file of configs/scales; `site`: the site's.
    scale = variable(str, value="site", loggable=True)

    known_tiers: tuple[str, ...] = HPDC18_TIERS
    time_limit = "10m"
    tags = {"hpdc18"}

    def check_input(self) -> None:
        """The scale."""
        try:
            if self.scale != "site":
                hpdc18_scale(self.scale)
        except ScaleError as e:
            refuse(str(e))

    def scale_on(self, site: Site) -> Hpdc18Scale:
        """The scale that was asked for, or the site's."""
        return hpdc18_scale(self.scale if self.scale != "site" else site.scale)

    def plan_of(
        self,
        site: Site,
        name: str,
        ranks: int,
        room: int,
        *,
        places: int,
        scale: str,
        factor: int = 1,
        dropped: tuple[str, ...] = (),
        temporary: bool = False,
    ) -> Plan:
        """On one node: tiers for `room` bytes, places for so many times as much."""
        room = max(LEAST_CONFIG_BYTES, room)
        return Plan(
            name=name,
            tiers=self.tiers,
            policy=self.policy,
            mode="bypass" if self.tiers == "pfs" else "persistent-async",
            ranks=ranks,
            ranks_per_node=ranks,
            scale=scale,
            factor=factor,
            dropped=dropped,
            temporary=temporary,
            config_bytes=room,
            place_bytes=places * room,
            touched_bytes=TOUCHED_ROOM * room + PROGRAMS_BYTES,
            device=DEVICES["pfs"] if site.modelled else None,
            tier_devices={tier: DEVICES[tier] for tier in ("ram", "nvme", "bb")},
        )

    def find(self, programs: Iterable[Path]) -> None:
        """Ours and tierctl must have been built."""
        for program in (*programs, TIERCTL):
            if not (program.exists() or self.is_dry_run()):
                raise PipelineError(f"{program}: is missing; needs `make build`")
