from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

import synthetic

settings.register_profile("suite", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("suite")


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that tests only read."""
    return synthetic.build(tmp_path_factory.mktemp("results"))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run folder that a test may damage."""
    return synthetic.build(tmp_path / "results")
