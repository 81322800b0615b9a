"""What a site's `extras` say of one partition, in one object (`configs/sites/README.md`)."""

from __future__ import annotations

import os
import shlex
import socket
from dataclasses import dataclass
from typing import Any

from .capacity_checks import memory_bytes
from .extras import PLACES
from .tiers import ScaleError, directories_of


def check_system(config: Any) -> None:
    """Where none of the file is like this machine ReFrame takes its own: models, without a word."""
    _, *files = config.sources  # its own first
    systems = {s["name"]: s["hostnames"] for s in config._site_config["systems"] if s["name"] != "generic"}
    if config["systems"][0]["name"] == "generic" and systems:
        told = "; ".join(f"{name}: {', '.join(patterns)}" for name, patterns in systems.items())
        raise ScaleError(
            f"{', '.join(files)}: for {socket.gethostname()} ReFrame takes none of its systems ({told}); "
            f"allowed: --system={' or --system='.join(systems)}"
        )


@dataclass(frozen=True)
class Site:
    """A partition: its places, its nodes, and whether its tiers are modelled."""

    name: str
    published: bool  # the machine of a published run: command lines to the letter
    modelled: bool  # no places of its own: tests run on their twins
    measures: bool  # values mean something here, so that they can be judged
    scale: str
    root: str | None  # where a twin's places are made, if there is room
    require: Any  # what the user requires of tests, as the site says it
    places: dict[str, str]  # directories of the PFS and the tiers
    apart: bool  # nothing is claimed of tiers that are not: then the user knows
    per_node: str | None  # how a command runs once on each of {nodes} nodes
    nodes: int | None
    nodes_see: str  # what nodes see of each other: `several` or `shared`
    interface: str | None  # of the network between nodes; None: that of a node's name
    cores: int
    memory: int  # bytes of a node that could cache files
    read_limit_mib_s: float | None  # what a node reads at most
    slurm: bool
    srun: bool

    @classmethod
    def of(cls, system: Any, partition: Any) -> Site:
        """The site of a test that ReFrame has set up."""
        extras = partition.extras
        published = bool(extras.get("published"))
        limit = extras.get("read_limit_mib_s")
        cores = int(extras.get("ranks_per_node", 0)) or partition.processor.num_cores or os.cpu_count() or 1
        return cls(
            name=system.name,
            published=published,
            modelled=not published and extras.get("tiers", "modelled") == "modelled",
            measures=bool(extras.get("measures", True)),
            scale=extras.get("scale", "local"),
            root=extras.get("root"),
            require=extras.get("require", []),
            places={place: extras[place] for place in PLACES if place in extras},
            apart=bool(extras.get("apart", True)),
            per_node=extras.get("per_node"),
            nodes=extras.get("nodes"),
            nodes_see=extras.get("nodes_see", "several"),
            interface=extras.get("interface"),
            cores=cores,
            memory=int(extras.get("memory_bytes", 0)) or memory_bytes(),
            read_limit_mib_s=float(limit) if limit else None,
            slurm=partition.scheduler.registered_name.startswith(("slurm", "squeue")),
            srun=partition.launcher_type.registered_name.startswith("srun"),
        )

    def lacks(self, tiers: str) -> list[str]:
        """Places that a configuration of tiers needs and the site does not name."""
        needed = [] if self.modelled else directories_of(tiers)
        return sorted(set(needed) - self.places.keys())

    def refusal(self, nodes: int) -> str | None:
        """Why launches through `tierctl run` can't be on so many nodes here; None where they can."""
        if nodes > 1 and not self.per_node:
            return "several nodes: the site's extras must say how a command runs once on each (per_node)"
        return None

    def per_node_options(self, nodes: int) -> list[str]:
        """Options of `tierctl run` for one tierd on each node; none on one node."""
        if nodes == 1 or not self.per_node:
            return []
        return ["--per-node", shlex.quote(self.per_node.format(nodes=nodes))]
