"""IOR's JSON, with exactly its known flaws repaired."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from tierbench.outputs.ior_types import OPERATIONS, IorOutput, IorResult, IorSummary, check_summary, result
from tierbench.outputs.strict_numbers import OutputError, notices, refuse

_JSON_LINE = re.compile(r'^\s*(?:[\]{}\[,"]|$)')
_JSON_STRING = re.compile(r'^(?P<head>\s*(?:,\s*)?"[^"]+"\s?:\s*")(?P<value>.*)(?P<tail>"\s*,?\s*)$')
_JSON_PATH = re.compile(r'(?P<head>.*, "Path": ")(?P<value>.*)(?P<tail>","Capacity": ".*)$')
_JSON_END = re.compile(r'"(?:[^"\\]|\\.)*"|\}', re.DOTALL)
_JSON_SECOND_BRACKET = re.compile(r"(\]\s*)\](\s*,\s*\"max\"\s*:)")


class _Object(dict[str, Any]):
    """An object of the document and the line on which it ends."""

    line = 0


def parse_json(text: str, path: str) -> IorOutput:
    """Read the JSON format."""
    document = _load_json(text, path)
    if not isinstance(document, _Object) or "tests" not in document or "Version" not in document:
        raise OutputError(path, 1, "is JSON but not IOR's: no 'Version' and 'tests'")
    if "Finished" not in document:
        raise OutputError(path, document.line, "is cut off: no 'Finished'")
    results: list[tuple[int, IorResult]] = []
    tests = _objects(document, "tests", path)
    for t in tests:
        results += _results(t, path)
    summaries = [(s.line, _json_summary(s, path)) for s in _objects(document, "summary", path, needed=False)]
    if not results:
        refuse(text, path, "holds no result")
    check_summary(results, summaries, path)
    version = str(document["Version"])
    return IorOutput(
        path,
        "json",
        f"IOR-{version}" if version[:1].isdigit() else version,
        document.get("Command line"),
        _whole(_member(tests[0], "Options", path), "tasks", path) if tests else None,
        tuple(r for _, r in results),
        tuple(s for _, s in summaries),
        dict(_member(tests[0], "Parameters", path)) if tests else {},
        {name: str(value) for name, value in _member(tests[0], "Options", path).items()} if tests else {},
        document.get("Began"),
        notices(text),
    )


def _results(test: _Object, path: str) -> list[tuple[int, IorResult]]:
    seen: Counter[str] = Counter()
    found = []
    for r in _objects(test, "Results", path):
        access = _get(r, "access", path)
        if access not in OPERATIONS:
            raise OutputError(path, r.line, f"access is {access!r}, expected one of {', '.join(OPERATIONS)}")
        found.append((r.line, _json_result(r, _whole(test, "TestID", path), seen[access], path)))
        seen[access] += 1
    return found


def _get(record: _Object, key: str, path: str) -> Any:
    if key not in record:
        raise OutputError(path, record.line, f"the object that ends here lacks {key!r}")
    return record[key]


def _member(record: _Object, key: str, path: str) -> _Object:
    value = _get(record, key, path)
    if not isinstance(value, _Object):
        raise OutputError(path, record.line, f"{key} is not an object")
    return value


def _objects(record: _Object, key: str, path: str, needed: bool = True) -> list[_Object]:
    """The objects of a list, of which IOR 3.3 has one for each repetition."""
    value = _get(record, key, path) if needed or key in record else []
    if not isinstance(value, list):
        raise OutputError(path, record.line, f"{key} is not a list")
    flat = [r for part in value for r in (part if isinstance(part, list) else [part])]
    for r in flat:
        if not isinstance(r, _Object):
            raise OutputError(path, record.line, f"{key} holds {r!r}, expected objects")
    return flat


def _load_json(text: str, path: str) -> Any:
    """JSON as it is, or with exactly the known flaws repaired. Line numbers stay those of the file."""
    try:
        return _decode(text, path)
    except json.JSONDecodeError:
        pass
    kept = [line if _JSON_LINE.match(line) else "" for line in text.splitlines()]
    repaired = _JSON_SECOND_BRACKET.sub(r"\1 \2", "\n".join(_escape(line) for line in kept))
    try:
        return _decode(repaired, path)
    except json.JSONDecodeError as e:
        if '"Finished"' not in repaired:
            refuse(text, path, "is cut off here: no 'Finished'")
        raise OutputError(path, e.lineno, f"is not valid JSON: {e.msg}") from e


def _decode(text: str, path: str) -> Any:
    """Objects end in the order of the closing brackets outside strings, which says their lines."""
    ends = (m.start() for m in _JSON_END.finditer(text) if m.group() == "}")
    lines = (text.count("\n", 0, end) + 1 for end in ends)

    def locate(members: dict[str, Any]) -> _Object:
        found = _Object(members)
        found.line = next(lines)
        return found

    def no_constant(constant: str) -> NoReturn:
        line = text.count("\n", 0, text.find(constant)) + 1
        raise OutputError(path, line, f"holds {constant}, expected finite numbers")

    return json.loads(text, parse_constant=no_constant, object_hook=locate)


def _escape(line: str) -> str:
    """Escape quotes and backslashes inside a string that IOR wrote as it was."""
    m = _JSON_PATH.match(line) or _JSON_STRING.match(line)
    if not m or '": "' in m.group("value") or not re.search(r'["\\]', m.group("value")):
        return line
    return m.group("head") + m.group("value").replace("\\", "\\\\").replace('"', '\\"') + m.group("tail")


def _json_number(record: _Object, key: str, path: str) -> float:
    value = _get(record, key, path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OutputError(path, record.line, f"{key} is {value!r}, expected a number")
    return float(value)


def _whole(record: _Object, key: str, path: str) -> int:
    value = _get(record, key, path)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OutputError(path, record.line, f"{key} is {value!r}, expected a whole number")
    return value


def _json_result(r: _Object, test: int, iteration: int, path: str) -> IorResult:
    keys = ("bwMiB", "iops", "latency", "blockKiB", "xferKiB", "openTime", "wrRdTime", "closeTime")
    partial = r["access"] == "remove"
    values = [None if partial and k not in r else _json_number(r, k, path) for k in keys]
    return result(r["access"], test, iteration, values, _json_number(r, "totalTime", path))


def _json_summary(s: _Object, path: str) -> IorSummary:
    most, least, mean = (_json_number(s, key, path) for key in ("bwMaxMIB", "bwMinMIB", "bwMeanMIB"))
    stonewalled = "StoneWallTime" in s or "StoneWallbwMeanMIB" in s
    if stonewalled:
        _json_number(s, "StoneWallbwMeanMIB", path)
    return IorSummary(
        str(_get(s, "operation", path)),
        _whole(s, "TestID", path),
        _whole(s, "numTasks", path),
        _whole(s, "repetitions", path),
        most,
        least,
        mean,
        stonewall_s=_json_number(s, "StoneWallTime", path) if stonewalled else None,
        moved_mib=_json_number(s, "xsizeMiB", path),
    )
