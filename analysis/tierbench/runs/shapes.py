"""What `plan.json` and `stats.json` of tierctl, and a run's provenance, look like as far as they are read.

A shape is a kind of leaf, a list of one shape, a dict of shapes by name, of which those that end in `?` may
be missing, or a dict with `*` for any names. `(None, shape)` may be null too.
"""

from __future__ import annotations

import math
from typing import Any

NUMBER, TEXT = "a number of at least 0", "text"
_MODEL = dict.fromkeys(("write_latency", "write_bandwidth", "channels", "sync_time", "open_time"), NUMBER)
_TIER = {"name": TEXT, "medium": TEXT, "path?": TEXT, "usable_bytes": NUMBER, "model": (None, _MODEL)}
PLAN = {"mode?": TEXT, "pfs": {"path": TEXT, "model": (None, _MODEL)}, "tiers": [_TIER]}
_COUNTED = {"name": TEXT} | dict.fromkeys(("bytes_in?", "bytes_out?", "moved_in?", "dirty?"), NUMBER)
_SERIES = [NUMBER]
_SAMPLES = (
    {"seconds": _SERIES, "moved?": {"*": {"*": _SERIES}}}
    | {name: {"*": _SERIES} for name in ("used?", "dirty?", "bytes_in?", "bytes_out?", "flushed?")}
    | dict.fromkeys(("pfs_bytes_written?", "pfs_bytes_read?", "spilled?", "staged?"), _SERIES)
)
STATS = {
    "mode?": TEXT,
    "tiers?": [_COUNTED],
    "pfs?": {"bytes_written?": NUMBER},
    "errors?": [{"path": TEXT, "error": TEXT}],
    "drain_s?": NUMBER,
    "spilled?": NUMBER,
    "passed?": NUMBER,
    "samples?": (None, _SAMPLES),
}
PROVENANCE = {"commit?": (None, TEXT), "started?": (None, TEXT), "site?": (None, TEXT)}


def misfit(value: Any, shape: Any, name: str = "") -> str | None:
    """The first thing that is not as the shape says, in words; None where all is."""
    if isinstance(shape, tuple):
        return None if value is None else misfit(value, shape[1], name)
    if isinstance(shape, list):
        return _of_list(value, shape[0], name)
    if isinstance(shape, dict):
        return _of_dict(value, shape, name)
    fits = isinstance(value, str) if shape == TEXT else _is_number(value)
    return None if fits else _told(name, value, shape)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _of_list(value: Any, shape: Any, name: str) -> str | None:
    if not isinstance(value, list):
        return _told(name, value, "a list")
    return next((m for i, v in enumerate(value) if (m := misfit(v, shape, f"{name}[{i}]"))), None)


def _of_dict(value: Any, shape: dict[str, Any], name: str) -> str | None:
    if not isinstance(value, dict):
        return _told(name, value, "an object")
    dot = "." if name else ""
    if "*" in shape:
        return next((m for k, v in value.items() if (m := misfit(v, shape["*"], f"{name}{dot}{k}"))), None)
    for key, inner in shape.items():
        wanted = key.removesuffix("?")
        if wanted not in value:
            if key == wanted:
                return f"lacks {name}{dot}{wanted}"
        elif told := misfit(value[wanted], inner, f"{name}{dot}{wanted}"):
            return told
    return None


def unwritable(value: Any, name: str = "") -> str | None:
    """The first thing that Python's parser takes and JSON has not: NaN, infinity, half a surrogate pair."""
    if isinstance(value, dict):
        inner = {f"{name}.{k}" if name else k: v for k, v in value.items()}
        return next((m for k, v in inner.items() if (m := unwritable(k) or unwritable(v, k))), None)
    if isinstance(value, list):
        return next((m for i, v in enumerate(value) if (m := unwritable(v, f"{name}[{i}]"))), None)
    if isinstance(value, float) and not math.isfinite(value):
        return _told(name, value, "a finite number")
    return _told(name, value, "text of whole characters") if _is_halved(value) else None


def _is_halved(value: Any) -> bool:
    return isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value)


def _told(name: str, value: Any, expected: str) -> str:
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    return f"{name or 'it'} is {shown}, expected {expected}"
