"""The folder below the PFS that one run works in: made anew, with the same inputs, and removed after it.

Nothing outside the folder is changed. A folder that was there before the run is somebody's: the run ends.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from tierbench.base.errors import RunError


class WorkingFolder:
    """`with WorkingFolder(...)`: made on entry, removed on exit, whatever happened between."""

    def __init__(self, pfs: Path, folder: Path, inputs: Sequence[str], read_only: Sequence[str]) -> None:
        self.pfs, self.folder, self.inputs, self.read_only = pfs, folder, inputs, read_only

    def __enter__(self) -> WorkingFolder:
        """Inputs are copied, those that are only read linked; all are out of the page cache then."""
        try:
            self.folder.mkdir()
        except FileExistsError:
            raise RunError(
                f"{self.folder}: is there already; allowed: a folder that no one else uses"
            ) from None
        try:
            for name in self.inputs:
                _copy(self.pfs / name, self.folder / name)
            for name in self.read_only:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).symlink_to(self.pfs / name)
            make_cold([self.folder, *(self.pfs / name for name in self.read_only)])
        except OSError as e:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise RunError(f"{e.filename}: cannot be copied: {e.strerror}") from e
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Removed with all that the program left in it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def sync(self) -> float:
        """Make everything in the folder durable on the PFS; returns the seconds that took."""
        started = time.perf_counter()
        for file in files_below(self.folder):
            _with_descriptor(file, os.fsync)
        return time.perf_counter() - started

    def digests(self) -> dict[str, str]:
        """SHA-256 of each file in the folder, by name; links are left out, they are inputs."""
        found = {}
        for file in files_below(self.folder):
            with file.open("rb") as stream:
                found[str(file.relative_to(self.folder))] = hashlib.file_digest(stream, "sha256").hexdigest()
        return found


def files_below(folder: Path) -> Iterator[Path]:
    """Regular files, in the order of their names; links are not followed."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(parent, name)
            if file.is_file() and not file.is_symlink():
                yield file


def make_cold(places: Sequence[Path]) -> None:
    """Write back what is dirty and ask the kernel to forget its copies of these files."""
    for place in places:
        for file in [place] if place.is_file() else files_below(place):
            _with_descriptor(file, os.fsync)
            _with_descriptor(file, lambda fd: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED))


def _with_descriptor(file: Path, act: Callable[[int], None]) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        act(descriptor)
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)
