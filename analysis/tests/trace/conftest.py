from __future__ import annotations

from pathlib import Path

import darshan_logs
import pytest


@pytest.fixture
def strided(tmp_path: Path) -> Path:
    return darshan_logs.strided().write(tmp_path / "strided.darshan")
