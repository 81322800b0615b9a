"""The folder below the PFS that one run works in: made anew, with the same inputs, and removed after it.

Nothing outside the folder is changed. A folder that was there before the run is not ours: the run ends.
Signals are heeded between two pieces of a copy and never while the folder is made or removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tierbench.base import endings
from tierbench.base.errors import RunError

_PIECE = 16 << 20


class WorkingFolder:
    """`with WorkingFolder(...)`: made on entry, removed on exit, whatever happened between.

    `kept` says why it is not removed, where bytes that belong into it are elsewhere.
    """

    def __init__(self, pfs: Path, folder: Path, inputs: Sequence[str], read_only: Sequence[str]) -> None:
        self.pfs, self.folder, self.inputs, self.read_only = pfs, folder, inputs, read_only
        self.kept: str | None = None
        self.given: frozenset[Path] = frozenset()  # files that are there before the program

    def __enter__(self) -> WorkingFolder:
        """Inputs are copied, those that are only read linked; all are out of the page cache then."""
        endings.heed()
        try:
            self.folder.mkdir()
        except FileExistsError:
            raise RunError(
                f"{self.folder}: is there already; allowed: a folder that nothing uses (what a run could "
                "not remove is told in its stderr.txt)"
            ) from None
        except OSError as e:
            raise RunError(f"{self.folder}: cannot be made: {e.strerror}") from e
        try:
            self._fill()
        except BaseException:
            self._remove()
            raise
        return self

    def _fill(self) -> None:
        try:
            for name in self.inputs:
                _copy(self.pfs / name, self.folder / name)
            for name in self.read_only:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).symlink_to(self.pfs / name)
            self.given = frozenset(files_below(self.folder))
            make_cold([self.folder, *(self.pfs / name for name in self.read_only)])
        except shutil.Error as e:  # of a directory: what failed, one after the other
            source, _, why = e.args[0][0]
            raise RunError(f"{source}: cannot be copied: {why}") from e
        except OSError as e:
            raise RunError(f"{e.filename or self.folder}: cannot be copied: {e.strerror}") from e

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Removed with all that the program left in it."""
        if self.kept:
            print(f"tierbench: {self.folder}: is kept: {self.kept}", file=sys.stderr)
        else:
            self._remove()

    def _remove(self) -> None:
        """Also what the program made read-only; what cannot be removed is named."""
        if not _removed(self.folder):
            return
        for parent, folders, _ in os.walk(self.folder):
            for name in folders:
                if not Path(parent, name).is_symlink():
                    Path(parent, name).chmod(0o700)
        if left := _removed(self.folder):
            print(f"tierbench: {self.folder}: is left, it cannot be removed: {left[0]}", file=sys.stderr)

    def new_bytes(self) -> int:
        """Of the files that the program made; holes have none."""
        made = (f.stat() for f in files_below(self.folder) if f not in self.given)
        return sum(min(st.st_size, 512 * st.st_blocks) for st in made)

    def sync(self) -> float:
        """Make everything in the folder durable on the PFS; returns the seconds that took."""
        started = time.perf_counter()
        with _refused("written back"):
            for file in files_below(self.folder):
                _with_descriptor(file, os.fsync)
        return time.perf_counter() - started

    def digests(self) -> dict[str, str]:
        """SHA-256 of each file in the folder, by name; links are left out, they are inputs."""
        with _refused("read"):
            return {str(f.relative_to(self.folder)): _digest(f) for f in files_below(self.folder)}


def _removed(folder: Path) -> list[str]:
    """Remove a folder with all in it; what could not be is returned, with the reason."""
    left: list[str] = []

    def note(_: Any, path: str, told: tuple[type, BaseException, Any]) -> None:
        left.append(f"{path}: {getattr(told[1], 'strerror', None) or told[1]}")

    shutil.rmtree(folder, onerror=note)
    return left


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """A file that the program left and this user may not open."""
    try:
        yield
    except OSError as e:
        raise RunError(
            f"{e.filename}: cannot be {what}: {e.strerror}; allowed: files that you may read"
        ) from e


def _digest(file: Path) -> str:
    made = hashlib.sha256()
    for piece in _pieces(file):
        made.update(piece)
    return made.hexdigest()


def _pieces(file: Path) -> Iterator[bytes]:
    """The bytes of a file; signals are heeded before each."""
    with file.open("rb") as stream:
        while True:
            endings.heed()
            if not (piece := stream.read(_PIECE)):
                return
            yield piece


def files_below(folder: Path) -> Iterator[Path]:
    """Regular files, in the order of their names; a link is not followed, a closed folder raises."""
    for parent, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted(names):
            file = Path(parent, name)
            if file.is_file() and not file.is_symlink():
                endings.heed()
                yield file


def _raise(error: OSError) -> None:
    raise error


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
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(file)) from e
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)
    else:
        _copy_file(source, target)


def _copy_file(source: str | Path, target: str | Path) -> None:
    """With its mode and times, as `shutil.copy2` does, but a signal is not kept waiting."""
    with Path(target).open("wb") as out:
        for piece in _pieces(Path(source)):
            out.write(piece)
    shutil.copystat(source, target)
