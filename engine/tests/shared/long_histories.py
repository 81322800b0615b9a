"""As test_histories.py, for `ci/torture nodes`: commits meet other operations, and a block has bytes of several nodes."""

from pathlib import Path

import pytest
from test_histories import COPIES, THREE, Record, random_operations


@pytest.mark.parametrize("flush", ["manual", "on-close", "watermark"])
@pytest.mark.parametrize("grain", [4096, 4])
def test_commits_at_the_same_time(grain: int, flush: str, tmp_path: Path, record_property: Record) -> None:
    random_operations(THREE, 2, flush, (grain, "free"), tmp_path, record_property)


@pytest.mark.parametrize("flush", ["manual", "on-close"])
def test_commits_at_the_same_time_with_second_copies(
    flush: str, tmp_path: Path, record_property: Record
) -> None:
    """A commit takes no part of a write alone, also where other nodes have yet to flush bytes of it."""
    random_operations(THREE, 2, flush, (4096, "free"), tmp_path, record_property, COPIES)
