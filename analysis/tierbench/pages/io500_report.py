"""IO500 runs as a report shows them: phases in order, score, valid or not and why.

The suite leaves `io500.json` (`tierbench.io500.as_json`) with the artefacts of the score, also where a
phase failed and there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tierbench.base.errors import RunError
from tierbench.base.strict_json import read_object
from tierbench.runs.run_folder import Run

_FIELDS = ("phases", "bandwidth", "metadata", "score", "invalid", "valid", "tiers", "factor", "scale")


@dataclass(frozen=True)
class Section:
    """One repetition on one tier configuration; `made` as the suite left it."""

    name: str
    made: dict[str, Any]

    @property
    def verdict(self) -> str:
        """Valid, or INVALID."""
        return "valid" if self.made["valid"] else "INVALID"


def sections(run: Run) -> list[Section]:
    """All of a run, by folder."""
    found = []
    for file in sorted(run.path.glob("cases/*/*/io500.json")):
        made = read_object(file)
        for field in _FIELDS:
            if field not in made:
                raise RunError(f"{file}: lacks {field!r}")
        found.append(Section(f"{made['tiers']}, repetition {file.parent.name}", made))
    return found


def text(section: Section) -> list[str]:
    """For a terminal."""
    made = section.made
    told = [f"IO500, {section.name}, scale {made['scale']}: {section.verdict}"]
    for p in made["phases"]:
        value = "none" if p["value"] is None else f"{p['value']:.4g} {p['unit']}"
        told.append(f"  {p['name']:<20} {value:>16}" + "".join(f"  {x};" for x in p["problems"]).rstrip(";"))
    told.append(
        f"  bandwidth {_number(made['bandwidth'])} GiB/s, metadata {_number(made['metadata'])} kIOPS,"
        f" score {_number(made['score'])}" + ("" if made["valid"] else " [INVALID]")
    )
    return told + [f"  invalid: {reason}" for reason in made["invalid"]]


def score_words(section: Section) -> str:
    """The score in a sentence."""
    made = section.made
    return (
        f"IO500 score {_number(made['score'])}{'' if made['valid'] else ' [INVALID]'} on {section.name}: "
        f"bandwidth {_number(made['bandwidth'])} GiB/s, metadata {_number(made['metadata'])} kIOPS."
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
