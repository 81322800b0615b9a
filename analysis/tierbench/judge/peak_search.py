"""What a search over nodes or processes of mdtest found: the fewest that reach the peak.

The suite names the rows of a search by what was searched (`mdtest-shared-peak-n4-create`: 4 nodes; `-x8`: 8
processes a node). Creation decides, and stat and removal are those of the same run, as the rules ask.
"""

from __future__ import annotations

import re
from collections import defaultdict

from tierbench.judge.verdict import Row

NEAR_PEAK = 0.05
_NAME = re.compile(r"(mdtest-\w+-\w+)((?:-n\d+)?(?:-x\d+)?)-(create|stat|remove)")


def sentences(rows: list[Row]) -> list[str]:
    """One for each recipe and tier configuration that was run with more than one number."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for r in rows:
        name = _NAME.fullmatch(r.key["test"])
        if name and name[2]:
            found[name[1], r.key["tiers"]][name[2]][name[3]] = r.median.value
    return [_sentence(*of, runs) for of, runs in found.items() if len(runs) > 1]


def _sentence(recipe: str, tiers: str, runs: dict[str, dict[str, float]]) -> str:
    creates = {size: rates["create"] for size, rates in runs.items() if "create" in rates}
    peak = max(creates.values())
    fewest = min((s for s, rate in creates.items() if rate >= (1 - NEAR_PEAK) * peak), key=_numbers)
    told = ", ".join(f"{what} {rate:,.0f}" for what, rate in runs[fewest].items())
    return (
        f"{recipe} on {tiers}: {_words(fewest)} are the fewest within {NEAR_PEAK:.0%} of the peak of"
        f" creation ({peak:,.0f} op/s): {told} op/s."
    )


def _numbers(size: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", size)]


def _words(size: str) -> str:
    what = {"n": "nodes", "x": "processes a node"}
    return ", ".join(f"{number} {what[letter]}" for letter, number in re.findall(r"-(\w)(\d+)", size))
