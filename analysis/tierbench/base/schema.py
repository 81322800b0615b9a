"""What a document must look like, by the published schemas beside this file (`schemas/NAME.schema.json`).

`misfit` says the first thing that is not as a schema asks, in the form of all our messages: place, value and
what is allowed. A place is a JSON path; an entry that has a name is called by it (`recipes[cfs-iops].nodes`).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from importlib import resources
from typing import Any

_COUNTER = {"type": "number", "minimum": 0}
LONGEST_VALUE = 60  # characters of a value that a message shows


def read(name: str) -> dict[str, Any]:
    """A published schema."""
    file = resources.files("tierbench.base").joinpath("schemas", f"{name}.schema.json")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def misfit(value: object, name: str) -> str | None:
    """The first thing in a document that the schema refuses, in words; None where it fits."""
    error = next(_validator(name).iter_errors(value), None)
    return None if error is None else _told(error, value, read(name))


def value_told(value: object, place: str, allowed: str) -> str:
    """A refused value in one line."""
    shown = repr(value) if len(repr(value)) <= LONGEST_VALUE else repr(value)[: LONGEST_VALUE - 3] + "..."
    return f"{place + ': ' if place else ''}{shown}; allowed: {allowed}"


@functools.cache
def _validator(name: str) -> Any:
    """Numbers are finite and 1.0 is no whole number, which JSON Schema leaves open."""
    import jsonschema  # takes a tenth of a second to load: by the first document, not by the command's start

    base = jsonschema.Draft202012Validator
    types = base.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_number})
    return jsonschema.validators.extend(base, {"items": _items}, type_checker=types)(read(name))


def _items(validator: Any, items: Any, instance: Any, around: Any) -> Any:
    """A series of counters is looked at as a whole first: samples hold thousands, which took 0.1 s a file."""
    series = items == _COUNTER and isinstance(instance, list)
    if not (series and all(_is_number(None, value) and value >= 0 for value in instance)):
        import jsonschema

        yield from jsonschema.Draft202012Validator.VALIDATORS["items"](validator, items, instance, around)


def _is_whole(_: object, value: object) -> bool:
    return type(value) is int


def _is_number(_: object, value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _told(error: Any, document: object, root: dict[str, Any]) -> str:
    place, schema = _place(error.absolute_path, document), error.schema
    dot = f"{place}: " if place else ""
    if error.validator == "required":
        lacking = next(key for key in error.validator_value if key not in error.instance)
        return f"{dot}lacks {lacking!r}; allowed: {_allowed(schema['properties'][lacking], root)}"
    if error.validator == "additionalProperties":
        stranger = next(key for key in error.instance if key not in schema["properties"])
        return f"{dot}unknown key {stranger!r}; allowed: {', '.join(schema['properties'])}"
    if "propertyNames" in error.absolute_schema_path:
        return value_told(error.instance, place, "text as a key")
    return value_told(error.instance, place, _allowed(schema, root))


def _place(path: Iterable[str | int], document: Any) -> str:
    told = ""
    for step in path:
        document = document[step]
        if isinstance(step, int):
            name = document.get("name") if isinstance(document, dict) else None
            told += f"[{name if isinstance(name, str) else step}]"
        else:
            told += f".{step}" if told else str(step)
    return told


_WORDS = {"string": "text", "boolean": "true or false", "object": "a mapping", "null": "null"}


def _allowed(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """What a schema allows, in words."""
    if "$ref" in schema:
        return _allowed(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return ", ".join(_allowed(one, root) for one in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ", ".join("null" if v is None else str(v) for v in values)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(_kind(kind, schema, root) for kind in kinds)


def _kind(kind: str, schema: dict[str, Any], root: dict[str, Any]) -> str:
    if kind == "array":
        return f"a list of: {_allowed(schema['items'], root)}"
    if kind == "object" and schema.get("minProperties"):
        return "a mapping that is not empty"
    if kind not in ("integer", "number"):
        return _WORDS[kind]
    if kind == "integer":
        return "a whole number" + (f" above {schema['minimum'] - 1}" if "minimum" in schema else "")
    if "exclusiveMinimum" in schema:
        return f"a number above {schema['exclusiveMinimum']}"
    return "a number" + (f" of at least {schema['minimum']}" if "minimum" in schema else "")
