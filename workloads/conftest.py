"""Where a driver's test happens."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Ior, Mdtest

FAST = Path("/dev/shm")  # thousands of files take a disk seconds


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tb-driver-", dir=FAST if FAST.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def ior(folder: Path) -> Ior:
    return Ior(folder)


@pytest.fixture
def mdtest(folder: Path) -> Mdtest:
    return Mdtest(folder)
