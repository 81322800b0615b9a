"""How much of a test is run and on which tiers: what its places, its job and its record need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .twin import TIER_DEVICES

LEAST_CONFIG_BYTES = 64 << 20  # tiers smaller than for that much data have no room for their own metadata


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Made by a test of its recipe, the site and the scale."""

    name: str  # of the recipe, in messages
    tiers: str
    policy: str
    mode: str
    ranks: int
    nodes: int = 1
    ranks_per_node: int | None = None
    scale: str | None = None  # None: of the comparison, which is no recipe
    factor: int = 1  # K, by which the twin is slower than what it models
    dropped: tuple[str, ...] = ()  # what the scale leaves out of the rules, in words
    to_the_letter: bool = False  # the published lines name their own place
    managed: bool = True  # launches go through `tierctl run`
    judged: bool = False  # on a twin, that values can be held against
    config_bytes: int  # of a node, that capacities of tiers are scaled by
    place_bytes: int  # that the twin's places must have room for
    device: str | None = None  # that models the PFS; None: the models of configs/tiers
    tier_devices: Mapping[str, str] = field(default_factory=lambda: TIER_DEVICES)  # beside `device`, by tier
    touched_bytes: int = 0  # of memory that a launch uses, touched right before it (`jobs/touched.py`)
    max_files: int | None = None  # that a configuration keeps records of
    temporary: bool = False  # data that need not reach the PFS: nothing is flushed before the end
    nodes_see: str = "several"  # of each other, by the PFS, or `shared`, from each other's tiers
    close_to_open: bool = False  # on several nodes: ranks look at what other nodes wrote
    time_limit: str | None = None
