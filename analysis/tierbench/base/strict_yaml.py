"""YAML files that can be read; else an error of the caller's own kind names the file, and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from tierbench.base.errors import RunError
from tierbench.base.files import read_text

_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML has libyaml


class _Loader(_FAST):  # type: ignore[misc]
    """PyYAML takes the last of several values of a key, and says nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read(file: Path, error: type[Exception]) -> Any:
    """What a file holds."""
    try:
        return yaml.load(read_text(file), _Loader)  # noqa: S506 it is a safe one
    except RunError as e:
        raise error(str(e)) from e
    except (yaml.YAMLError, RecursionError) as e:
        raise error(f"{file}: cannot be read: {' '.join(str(e).split())}") from e


def read_mapping(file: Path, error: type[Exception]) -> dict[str, Any]:
    """The same of a file that holds a mapping."""
    found = read(file, error)
    if not isinstance(found, dict):
        raise error(f"{file}: {found!r}; allowed: a mapping")
    return found
