"""YAML files that can be read; else an error of the caller's own kind names the file, and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tierbench.base.errors import RunError
from tierbench.base.files import read_text

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast, where PyYAML has it


def read(file: Path, error: type[Exception]) -> Any:
    """What a file holds."""
    try:
        return yaml.load(read_text(file), _LOADER)  # noqa: S506 both loaders are safe
    except RunError as e:
        raise error(str(e)) from e
    except (yaml.YAMLError, RecursionError) as e:
        raise error(f"{file}: cannot be read: {' '.join(str(e).split())}") from e
