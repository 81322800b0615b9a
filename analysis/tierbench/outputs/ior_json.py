"""IOR's JSON, with exactly its known flaws repaired."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from tierbench.outputs.ior_types import IorOutput, IorResult, IorSummary, check_summary, result
from tierbench.outputs.words import OutputError, notices, refuse

_JSON_LINE = re.compile(r'^\s*(?:[\]{}\[,"]|$)')
_JSON_STRING = re.compile(r'^(?P<head>\s*(?:,\s*)?"[^"]+"\s?:\s*")(?P<value>.*)(?P<tail>"\s*,?\s*)$')
_JSON_PATH = re.compile(r'(?P<head>.*, "Path": ")(?P<value>.*)(?P<tail>","Capacity": ".*)$')
_JSON_SECOND_BRACKET = re.compile(r"(\]\s*)\](\s*,\s*\"max\"\s*:)")


def parse_json(text: str, path: str) -> IorOutput:
    """Read the JSON format."""
    document = _load_json(text, path)
    if not isinstance(document, dict) or "tests" not in document or "Version" not in document:
        raise OutputError(path, 0, "is JSON but not IOR's: no 'Version' and 'tests'")
    if "Finished" not in document:
        raise OutputError(path, 0, "is cut off: no 'Finished'")
    results: list[IorResult] = []
    try:
        tests = document["tests"]
        for t in tests:
            seen: Counter[str] = Counter()
            for r in _flat(t["Results"]):
                results.append(_json_result(r, int(t["TestID"]), seen[r["access"]], path))
                seen[r["access"]] += 1
        summaries = tuple(_json_summary(s, path) for s in document.get("summary", []))
        parameters = dict(tests[0]["Parameters"]) if tests else {}
        tasks = int(tests[0]["Options"]["tasks"]) if tests else None
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise OutputError(path, 0, f"lacks what IOR writes: {type(e).__name__} {e}") from e
    if not results:
        refuse(text, path, "holds no result")
    check_summary(results, list(summaries), path)
    version = str(document["Version"])
    driver = f"IOR-{version}" if version[:1].isdigit() else version
    return IorOutput(
        path,
        "json",
        driver,
        document.get("Command line"),
        tasks,
        tuple(results),
        summaries,
        parameters,
        notices(text),
    )


def _flat(results: list[Any]) -> list[Any]:
    """IOR 3.3 has a list for each repetition."""
    return [r for part in results for r in (part if isinstance(part, list) else [part])]


def _load_json(text: str, path: str) -> Any:
    """JSON as it stands, or with exactly the known flaws repaired. Line numbers stay those of the file."""
    try:
        return json.loads(text, parse_constant=lambda c: _refuse_constant(c, path))
    except json.JSONDecodeError:
        pass
    kept = [line if _JSON_LINE.match(line) else "" for line in text.splitlines()]
    repaired = _JSON_SECOND_BRACKET.sub(r"\1 \2", "\n".join(_escape(line) for line in kept))
    try:
        return json.loads(repaired, parse_constant=lambda c: _refuse_constant(c, path))
    except json.JSONDecodeError as e:
        if '"Finished"' not in repaired:
            refuse(text, path, f"is cut off after line {len(text.splitlines())}: no 'Finished'")
        raise OutputError(path, e.lineno, f"is not valid JSON: {e.msg}") from e


def _refuse_constant(constant: str, path: str) -> NoReturn:
    raise OutputError(path, 0, f"holds {constant}, expected finite numbers")


def _escape(line: str) -> str:
    """Escape quotes and backslashes inside a string that IOR wrote as it was."""
    m = _JSON_PATH.match(line) or _JSON_STRING.match(line)
    if not m or '": "' in m.group("value") or not re.search(r'["\\]', m.group("value")):
        return line
    return m.group("head") + m.group("value").replace("\\", "\\\\").replace('"', '\\"') + m.group("tail")


def _json_number(record: dict[str, Any], key: str, path: str) -> float:
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OutputError(path, 0, f"{key} is {value!r}, expected a number")
    return float(value)


def _json_result(r: dict[str, Any], test: int, iteration: int, path: str) -> IorResult:
    keys = ("bwMiB", "iops", "latency", "blockKiB", "xferKiB", "openTime", "wrRdTime", "closeTime")
    partial = r["access"] == "remove"
    values = [None if partial and k not in r else _json_number(r, k, path) for k in keys]
    return result(r["access"], test, iteration, values, _json_number(r, "totalTime", path))


def _json_summary(s: dict[str, Any], path: str) -> IorSummary:
    most, least, mean = (_json_number(s, key, path) for key in ("bwMaxMIB", "bwMinMIB", "bwMeanMIB"))
    return IorSummary(
        s["operation"],
        int(s["TestID"]),
        int(s["numTasks"]),
        int(s["repetitions"]),
        most,
        least,
        mean,
        stonewall_s=_json_number(s, "StoneWallTime", path) if "StoneWallTime" in s else None,
        moved_mib=_json_number(s, "xsizeMiB", path),
    )
