"""Tiers on several nodes: one tierd on each, by `tierctl run --per-node` (`docs/nodes.md`).

`Site.per_node` says how a command runs once on each node. What the nodes see of each other is the
configuration's `nodes`: `several`, by way of the PFS, or `shared`, from each other's tiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

SHARED = "shared"
NODES = ("several", SHARED)


def shows_others(arguments: Sequence[str]) -> bool:
    """Does a launch look at what other nodes wrote in it: a shared file's size, or bytes by a rank shift?"""
    writes = "-w" in arguments or "-r" not in arguments
    reads = "-r" in arguments or "-w" not in arguments
    return writes and ("-F" not in arguments or (reads and "-C" in arguments))


def set_nodes(config: Path, nodes: str, interface: str | None, *, close_to_open: bool) -> None:
    """Make a configuration one of several nodes, `several` or `shared`.

    `close_to_open`: ranks look at what other nodes wrote. By way of the PFS that needs a flush at each close.
    `interface`: of the network between the nodes, None: that of a node's name.
    """
    text = config.read_text()
    made = yaml.safe_load(text)
    made["nodes"] = nodes
    if nodes == SHARED and interface:
        made["network"] = {"interface": interface}
    if close_to_open and nodes != SHARED:
        made["flush"]["policy"] = "on-close"
    config.write_text(text.splitlines()[0] + "\n" + yaml.safe_dump(made, sort_keys=False))
