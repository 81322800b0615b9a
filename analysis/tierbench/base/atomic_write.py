"""Writing several files so that no reader meets half of them."""

from __future__ import annotations

import os
from pathlib import Path

from tierbench.base.errors import RunError


def check_folder(folder: Path) -> None:
    """Refuse what files can't be put into, before they are made."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: is no folder; allowed: a folder, there or new")


def check_file(file: Path) -> None:
    """Refuse what a renamed file would remove, or can't be renamed to."""
    check_folder(file.parent)
    if file.exists() and not file.is_file():
        raise RunError(f"{file}: is no regular file; allowed: a file, new or to be replaced")


def check(folder: Path | None, file: Path | None = None) -> None:
    """Where the answer can't be written, nothing is computed."""
    if folder:
        check_folder(folder)
    if file:
        check_file(file)


def replace_all(folder: Path, files: dict[str, bytes]) -> None:
    """Put files into a folder: all are written under other names before the first is renamed."""
    check_folder(folder)
    for name in files:
        check_file(folder / name)
    staged = {folder / f".{name}.{os.getpid()}": folder / name for name in files}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for temporary, path in staged.items():
            temporary.write_bytes(files[path.name])
        for temporary, path in staged.items():
            temporary.replace(path)
    except OSError as e:
        raise RunError(
            f"{folder}: cannot write the report: {e.strerror}; allowed: a folder that may be written"
        ) from e
    finally:
        for temporary in staged:
            temporary.unlink(missing_ok=True)
