"""Two folders for each test."""

from pathlib import Path

import pytest
from staging import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
