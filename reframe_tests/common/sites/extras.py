"""What a site's `extras` may say (`configs/sites/README.md`): a wrong value is refused before anything runs.

ReFrame takes any key and any value. A key of a site's own is left alone, but one that is nearly one of these
is a slip: a `requires` in place of `require` would require nothing.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .tiers import ScaleError, scale_file

PLACES = ("pfs", "nvme", "bb")
NEARLY = 0.8  # of difflib's ratio


class _Kind(NamedTuple):
    fits: Callable[[Any], bool]
    allowed: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _one_of(*words: str) -> _Kind:
    return _Kind(lambda value: value in words, ", ".join(words))


def _is_command(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(value.format(nodes=1))
    except (KeyError, IndexError, ValueError, AttributeError):
        return False


_PLACE = _Kind(
    lambda value: isinstance(value, str) and value.startswith(("/", "$")), "a path from / on, or from a $NAME"
)
_FLAG = _Kind(lambda value: isinstance(value, bool), "True, False")
_COUNT = _Kind(lambda value: _is_number(value) and isinstance(value, int), "a whole number above 0")
_TEXT = _Kind(lambda value: isinstance(value, str) and bool(value), "text")
_KINDS = {
    "tiers": _one_of("modelled", "real"),
    **dict.fromkeys((*PLACES, "root"), _PLACE),
    **dict.fromkeys(("apart", "measures", "published"), _FLAG),
    **dict.fromkeys(("nodes", "ranks_per_node", "memory_bytes"), _COUNT),
    "read_limit_mib_s": _Kind(_is_number, "a number above 0"),
    "per_node": _Kind(_is_command, "a command, with {nodes} for their number"),
    "nodes_see": _one_of("several", "shared"),
    "interface": _TEXT,
    "scale": _TEXT,
    "require": _Kind(lambda _: True, "what `requirements.check` takes"),
}


def check_extras(extras: Mapping[str, Any]) -> None:
    """`ScaleError` names the first key or value that is wrong, and what is allowed."""
    for key, value in extras.items():
        if key not in _KINDS:
            _check_unknown(key)
        elif value is not None and not _KINDS[key].fits(value):
            raise ScaleError(f"site: extras: {key}: {value!r}; allowed: {_KINDS[key].allowed}")
    if extras.get("scale"):
        scale_file(extras["scale"])
    _check_signs(extras)


def _check_unknown(key: Any) -> None:
    nearest = difflib.get_close_matches(str(key), _KINDS, 1, NEARLY)
    if nearest:
        raise ScaleError(f"site: extras: unknown key {key!r}; allowed: {nearest[0]}, or a name unlike it")


def _check_signs(extras: Mapping[str, Any]) -> None:
    """Job scripts hold these names as they are: a blank would make two of one."""
    for place in (*PLACES, "root"):
        name = str(extras.get(place) or "")
        plain = re.sub(r"\$\{?\w+\}?", "", name)  # as in $SCRATCH
        if plain and shlex.quote(plain) != plain:
            raise ScaleError(
                f"site: {place}: {name!r} has a blank or a sign that shells read; allowed: letters, digits, "
                "any of . _ - + @ % , = : and $NAME"
            )
