"""Reading files of other users: whole, but no fifo or device, which would block, and none too large."""

from __future__ import annotations

import stat
from pathlib import Path

from tierbench.base.errors import RunError

LARGEST = 256 << 20  # bytes; a report of a thousand test cases has 10 MiB
ALLOWED = f"allowed: a file of at most {LARGEST >> 20} MiB"


def read_bytes(path: Path) -> bytes:
    """All of a file; `RunError` names what it is, or why it cannot be read."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise RunError(f"{path}: is {_kind(about.st_mode)}; {ALLOWED}")
        if about.st_size > LARGEST:
            raise RunError(f"{path}: has {about.st_size >> 20} MiB; {ALLOWED}")
        return path.read_bytes()
    except (OSError, ValueError) as e:  # a name that no file can have is a ValueError
        reason = e.strerror if isinstance(e, OSError) else str(e)
        raise RunError(f"{path}: cannot be read: {reason}; {ALLOWED}") from e


def read_text(path: Path, *, strict: bool = True) -> str:
    """The same as UTF-8; bytes that are none are refused, or replaced."""
    try:
        return read_bytes(path).decode("utf-8", "strict" if strict else "replace")
    except UnicodeDecodeError as e:
        raise RunError(f"{path}: is not text: {e.reason} at byte {e.start}; allowed: UTF-8") from e


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a directory", stat.S_ISFIFO: "a fifo", stat.S_ISSOCK: "a socket"}
    return next((told for test, told in kinds.items() if test(mode)), "a device")
