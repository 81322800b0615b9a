"""Writing several files so that no reader meets half of them."""

from __future__ import annotations

import os
from pathlib import Path

from tierbench.base.errors import RunError


def replace_all(folder: Path, files: dict[str, bytes]) -> None:
    """Put files into a folder: all are written under other names before the first is renamed."""
    staged = {folder / f".{name}.{os.getpid()}": folder / name for name in files}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for temporary, path in staged.items():
            temporary.write_bytes(files[path.name])
        for temporary, path in staged.items():
            temporary.replace(path)
    except OSError as e:
        raise RunError(f"{folder}: cannot write the report: {e.strerror}") from e
    finally:
        for temporary in staged:
            temporary.unlink(missing_ok=True)
