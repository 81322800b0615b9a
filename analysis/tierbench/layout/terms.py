"""The words of our pages, each in a sentence: what a reader needs that did not see the run.

A page lists those that it uses. docs/glossary.md is the glossary of the whole project.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template

TERMS = {
    "acceptance": "showing that a storage system does what was published or promised of it",
    "BB": "burst buffer: fast storage that nodes share, between them and the PFS",
    "application side": "of a trace: what the program asked for",
    "bypass": "the program uses the PFS directly, without tiers",
    "drain": "writing everything that tiers still hold to the PFS, and waiting for it",
    "driver": "the benchmark program and its version",
    "durable": "on the PFS, where a crash of the node leaves it",
    "fail": "the number is shown to miss what is required or predicted, or bytes were wrong",
    "flush": "writing bytes that a tier holds to the PFS",
    "fsync promise": "where bytes are when an fsync returns: on the PFS, in a tier, or neither (scratch)",
    "I/O node": "a node that makes the file accesses of others, which forward them to it",
    "improvement": "a change for the better that is shown and larger than the threshold",
    "inconclusive": "the measurement shows neither pass nor fail; the reason is beside it",
    "independent": "of repetitions: none depends on another, or on when it ran",
    "interval": "where the true median, or the true ratio, is as often as the per cent beside it say",
    "margin": "how far the median is on the right side of the requirement",
    "max-bandwidth": "placement that fills the fastest tier first, then the next",
    "measured": "as a verdict: a number that nothing was asked of, so it neither passes nor fails",
    "median": "the middle one of the repetitions",
    "modelled": "on a device model, which is as slow as a named device; not the speed of this machine",
    "n": "the number of repetitions",
    "not shown to differ": "the interval of the ratio holds 1, or there are too few repetitions",
    "NVMe": "a solid-state disk in the node",
    "p": "how often chance alone would look as much like a difference",
    "p50": "half of the accesses took no longer; p99: 99 of 100, p99.9: 999 of 1,000",
    "pass": "the number is shown to reach what is required, and what models predict where there are some",
    "peak": "what all tiers of the row could write side by side, by their models",
    "PFS": "parallel file system: the storage that keeps the files; all ratios are to it alone",
    "predicted": "what the device models say in closed form",
    "published": "what the source of the test says was measured there",
    "RAM": "memory of the node that holds buffers",
    "rank": "one process of a parallel program, by its number",
    "regression": "a change for the worse that is shown and larger than the threshold",
    "required": "the least, or for times the most, that was asked for",
    "round-robin": "placement that gives each write to the next tier, so that tiers work side by side",
    "scratch": "files that are never written to the PFS and end with the job",
    "side by side": "all tiers take writes in turn (round-robin)",
    "storage side": "of a trace: what reached the PFS and the directories of tiers",
    "threshold": "from where on something is told: a change of the median, or what a finding counts",
    "tier": "memory or storage that takes a program's bytes before the PFS has them",
    "twin": "a device model of one node's share of a published system, slowed by the factor K",
    "-Y": "the test waits with an fsync after each write",
}
UNITS = (
    "MiB/s: 1,048,576 bytes a second; GiB/s: 1,024 MiB/s; op/s: operations a second; s: seconds. "
    "Times (x) are ratios, and 1x is equal."
)


def page(template: Template, **content: Any) -> str:
    """The page of a template, with those terms that its words use."""
    bare = re.sub("<style>.*?</style>", " ", template.render(**content, terms=[], units=""), flags=re.DOTALL)
    words = html.unescape(re.sub("<[^>]*>", " ", bare))
    return template.render(**content, terms=used(words), units=UNITS)


def used(text: str) -> list[tuple[str, str]]:
    """The terms that a text uses, by name."""
    found = [(term, told) for term, told in TERMS.items() if re.search(_as_word(term), text)]
    return sorted(found, key=lambda pair: pair[0].strip("-").lower())


def _as_word(term: str) -> str:
    """A name in capitals is looked for as it is written, a word in any case, also in the plural.

    A letter may be part of a path.
    """
    sense = "" if term != term.lower() or len(term) == 1 else "(?i)"
    several = "s?" if len(term) > len("PFS") else ""
    near = r"[\w/-]" if len(term) == 1 else r"[\w-]"
    return rf"{sense}(?<!{near}){re.escape(term)}{several}(?!{near})"
