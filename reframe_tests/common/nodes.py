"""Tiers on several nodes: one tierd on each, by `tierctl run --per-node` (`docs/nodes.md`).

A site says in its extras how a command runs once on each node: `per_node`, with {nodes} for how many.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml


def refusal(extras: dict[str, Any], nodes: int, *, traced: bool) -> str | None:
    """Why launches through `tierctl run` can't be on so many nodes of a site; None where they can."""
    if nodes > 1 and "per_node" not in extras:
        return "several nodes: the site's extras must say how a command runs once on each (per_node)"
    if nodes > 1 and traced:
        return "a trace is of one node"
    return None


def per_node_options(extras: dict[str, Any], nodes: int) -> list[str]:
    """Options of `tierctl run`; none on one node."""
    if nodes == 1:
        return []
    return ["--per-node", shlex.quote(extras["per_node"].format(nodes=nodes))]


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
