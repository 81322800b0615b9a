"""The launches of a recipe of rules held against what was asked of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.outputs import OutputError

from ..scales.rules_scale import RuleSizes
from ..sites.site import Site
from . import held
from .held import Held
from .launch_numbers import LaunchOutput, duration_of


def held_rules(
    lines: Mapping[str, tuple[str, ...]],
    outputs: Mapping[str, LaunchOutput],
    sizes: RuleSizes,
    stage: Path,
    site: Site,
) -> Held:
    """All launches of `lines`; one that failed has said so, and prints no numbers."""
    found = held.places(stage, site)
    found += Held(unseen=("what a trace of one launch would show",))
    for name, line in lines.items():
        if name not in outputs:
            found += Held((f"launch {name}: asked for, but it did not run",))
            continue
        try:
            found += _launch(name, line, outputs[name], sizes, stage)
        except (OutputError, ValueError) as e:
            found += Held(unseen=(f"launch {name} ({e})",))
    return found


def _launch(name: str, line: tuple[str, ...], output: LaunchOutput, sizes: RuleSizes, stage: Path) -> Held:
    program, *arguments = line
    if program.endswith("mdtest"):
        asked = MdtestAsked(tuple(arguments), sizes.ranks, sizes.nodes, sizes.files)
        return held.mdtest(name, asked, output)
    if program.endswith("find"):
        return held.timed(name, duration_of(output.text), output)
    of_ior = IorAsked(tuple(arguments), sizes.ranks, sizes.nodes)
    return held.ior(name, of_ior, output, output.ior(), stage, bypass=False)
