"""Each value of a line of samples is of its column's kind; a stranger's report may hold anything.

Numbers are within what can be measured: beyond, sums and ratios overflow, and no date has a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tierbench.base.errors import RunError
from tierbench.base.text import shown

LEAST, LARGEST = 1e-30, 1e30  # of a value, in any unit
LAST_DAY = 253402214400  # of the year 9999, seconds since 1970
LARGEST_COUNT = 2**63 - 1


class _Kind(NamedTuple):
    fits: Callable[[Any], bool]
    allowed: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_unsaid(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_count(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= LARGEST_COUNT and value == int(value)


_TEXT = _Kind(lambda value: isinstance(value, str), "text")
_COUNT = _Kind(lambda value: _is_unsaid(value) or _is_count(value), "a whole number of at least 0")
_KINDS = {
    "value": _Kind(
        lambda value: _is_number(value) and LEAST <= value <= LARGEST,
        f"a number above 0, from {LEAST:g} to {LARGEST:g}",
    ),
    "when": _Kind(
        lambda value: _is_unsaid(value) or (_is_number(value) and 0 <= value <= LAST_DAY),
        "seconds since 1970, before the year 10000",
    ),
    "direction": _Kind(lambda value: value in ("higher", "lower"), "higher, lower"),
    "modelled": _Kind(lambda value: value is None or isinstance(value, bool), "true or false or null"),
    **dict.fromkeys(("nodes", "ranks", "bytes", "repetition"), _COUNT),
}


def refuse_strange(source: str, lines: Iterable[Mapping[str, Any]]) -> None:
    """`RunError` names source, test, column, the first value that does not fit, and what does."""
    for line in lines:
        for name, value in line.items():
            kind = _KINDS.get(name, _TEXT)
            if not kind.fits(value):
                where = f"{source}: {shown(line.get('test'))[:100]} {shown(line.get('metric'))[:100]}"
                told = shown(repr(value))[:100]
                raise RunError(f"{where}: {name}: {told}; allowed: {kind.allowed}")
