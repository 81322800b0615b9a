"""The launches of a recipe of rules held against what was asked of each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tierbench.judge.asked import IorAsked, MdtestAsked
from tierbench.outputs import OutputError

from ..scales.rules_scale import RuleSizes
from ..sites.site import Site
from . import held
from .held import Asked, Held
from .launch_numbers import LaunchOutput, duration_of


def held_rules(
    lines: Mapping[str, tuple[str, ...]],
    outputs: Mapping[str, LaunchOutput],
    sizes: RuleSizes,
    stage: Path,
    site: Site,
    files_of: Callable[[str], int | None],
) -> Held:
    """All launches of `lines`; one that failed has said so, and prints no numbers.

    `files_of`: how many files each rank works on in a launch of mdtest; None: not known.
    """
    found = held.places(stage, site)
    asked = {name: _asked(line, sizes) for name, line in lines.items()}
    for name, one in asked.items():
        if name not in outputs:
            found += Held((f"launch {name}: asked for, but it did not run",))
            continue
        try:
            found += _launch(name, one, outputs[name], stage, alone=len(lines) == 1)
        except (OutputError, ValueError) as e:
            found += Held(unseen=(f"launch {name} ({e})",))
    return found if len(lines) == 1 else found + _witnessed(asked, outputs, stage, files_of)


def _asked(line: tuple[str, ...], sizes: RuleSizes) -> Asked | None:
    """What a launch is asked for; None of find."""
    program, *arguments = line
    if program.endswith("mdtest"):
        return MdtestAsked(tuple(arguments), sizes.ranks, sizes.nodes, sizes.files)
    return None if program.endswith("find") else IorAsked(tuple(arguments), sizes.ranks, sizes.nodes)


def _launch(name: str, asked: Asked | None, output: LaunchOutput, stage: Path, *, alone: bool) -> Held:
    if asked is None:
        return held.timed(name, duration_of(output.text), output, stage / f"stats-{name}.json")
    if isinstance(asked, IorAsked):
        return held.ior_words(name, asked, output, output.ior(), stage)
    if alone:
        return held.mdtest(name, asked, output, stage / "trace.darshan")
    return held.mdtest_words(name, asked, output)


def _witnessed(
    asked: Mapping[str, Asked | None],
    outputs: Mapping[str, LaunchOutput],
    stage: Path,
    files_of: Callable[[str], int | None],
) -> Held:
    """All launches against the one log of them."""
    known = {
        name: replace(one, files=files_of(name)) if isinstance(one, MdtestAsked) else one
        for name, one in asked.items()
        if one is not None
    }
    return held.phases(known, outputs, stage / "trace.darshan")
