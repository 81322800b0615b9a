"""Output of IOR or tb-ior, in any of its formats."""

from __future__ import annotations

from pathlib import Path

from tierbench.outputs.ior_json import parse_json
from tierbench.outputs.ior_text import BANNER, parse_csv, parse_text
from tierbench.outputs.ior_types import IorOutput, IorResult, IorSummary
from tierbench.outputs.strict_numbers import OutputError, read_text, refuse

__all__ = ["IorOutput", "IorResult", "IorSummary", "parse_ior", "read_ior"]


def read_ior(path: Path | str) -> IorOutput:
    """Read a text, CSV or JSON output of IOR or tb-ior; the format is found from the content."""
    return parse_ior(read_text(path), str(path))


def parse_ior(text: str, path: str = "<text>") -> IorOutput:
    """Read IOR's output from a string; `path` is only for messages."""
    for line in text.splitlines():
        if line.startswith("{"):
            return parse_json(text, path)
        if line.startswith("access,bw(MiB/s),"):
            return parse_csv(text, path)
        if BANNER.match(line):
            return parse_text(text, path)
    if not text.strip():
        raise OutputError(path, 0, "is empty, expected output of IOR")
    refuse(text, path, "is not output of IOR (neither its text, CSV nor JSON begins here)")
