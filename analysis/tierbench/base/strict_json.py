"""JSON that can be written again, and documents that fit their schema; else `RunError` names the source."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tierbench.base import schema
from tierbench.base.errors import RunError
from tierbench.base.files import read_text
from tierbench.base.text import shown

_ALLOWED = "allowed: a JSON document"
_KINDS = {
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def read_fitting(path: Path, name: str) -> dict[str, Any]:
    """The object in a file, which is as the schema NAME asks."""
    found = read_object(path)
    if told := schema.misfit(found, name):
        raise RunError(f"{path}: {shown(told)}")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; `RunError` where it is none."""
    value = _load(path)
    if not isinstance(value, dict):
        raise RunError(f"{path}: holds {_KINDS[type(value)]}; allowed: a JSON object")
    return value


def _load(path: Path) -> Any:
    return parse(read_text(path), str(path))


def parse(text: str, name: str) -> Any:
    """JSON that can be written again; `RunError` names the source, and the line or the key."""
    try:
        value = json.loads(text, parse_int=_integer)
        told = _unwritable(value)
    except json.JSONDecodeError as e:
        raise RunError(f"{name}:{e.lineno}: is not valid JSON: {e.msg}; {_ALLOWED}") from e
    except RecursionError as e:
        raise RunError(f"{name}: is not valid JSON: it is nested too deeply; {_ALLOWED}") from e
    except ValueError as e:
        raise RunError(f"{name}: is not valid JSON: {shown(e)}; {_ALLOWED}") from e
    if told:
        raise RunError(f"{name}: {shown(told)}")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"{digits[:20]}... is too large")
    return int(digits)


def _unwritable(value: Any, place: str = "") -> str | None:
    """The first thing that Python's parser takes and JSON has not: NaN, infinity, half a surrogate pair."""
    if isinstance(value, dict):
        inner = {f"{place}.{k}" if place else k: v for k, v in value.items()}
        return next((m for k, v in inner.items() if (m := _unwritable(k) or _unwritable(v, k))), None)
    if isinstance(value, list):
        return next((m for i, v in enumerate(value) if (m := _unwritable(v, f"{place}[{i}]"))), None)
    if isinstance(value, float) and not math.isfinite(value):
        return schema.value_told(value, place, "a finite number")
    return schema.value_told(value, place, "text of whole characters") if _is_halved(value) else None


def _is_halved(value: Any) -> bool:
    return isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value)
