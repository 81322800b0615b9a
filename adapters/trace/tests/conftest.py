"""Where a traced run happens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from trace_runs import BUILD, CONFIG


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder with the places of a configuration; not in /dev or /var, which Darshan leaves out."""
    folder = BUILD / "trace-tests" / tmp_path.name
    shutil.rmtree(folder, ignore_errors=True)
    for place in ("pfs", "nvme"):
        (folder / place).mkdir(parents=True)
    (folder / "c.yaml").write_text(CONFIG.format(root=folder))
    yield folder
    shutil.rmtree(folder)
