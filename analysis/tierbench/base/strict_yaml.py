"""YAML files that can be read; else an error of the caller's own kind names the file, and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read(file: Path, error: type[Exception]) -> Any:
    """What a file holds."""
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        raise error(f"{file}: cannot be read: {' '.join(str(e).split())}") from e
