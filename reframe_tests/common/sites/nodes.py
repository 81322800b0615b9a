"""Tiers on several nodes: one tierd on each, by `tierctl run --per-node` (`docs/nodes.md`).

`Site.per_node` says how a command runs once on each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml


def shows_others(arguments: Sequence[str]) -> bool:
    """Does a launch look at what other nodes wrote in it: a shared file's size, or bytes by a rank shift?"""
    writes = "-w" in arguments or "-r" not in arguments
    reads = "-r" in arguments or "-w" not in arguments
    return writes and ("-F" not in arguments or (reads and "-C" in arguments))


def set_nodes(config: Path, *, close_to_open: bool) -> None:
    """Make a configuration one of several nodes; `close_to_open`: what is closed is flushed."""
    text = config.read_text()
    made = yaml.safe_load(text)
    made["nodes"] = "several"
    if close_to_open:
        made["flush"]["policy"] = "on-close"
    config.write_text(text.splitlines()[0] + "\n" + yaml.safe_dump(made, sort_keys=False))
