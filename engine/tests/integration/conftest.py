"""An instance for each test, and a /dev/shm of their own for tests that look at all of it."""

import ctypes
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from instances import Instance, can_unshare

CLONE_NEWNS = 0x20000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "config(tiers, fsync, more): how the configuration of `instance` differs"
    )


@pytest.fixture
def configured(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("config")
    return dict(marker.kwargs) if marker else {}


@pytest.fixture
def instance(configured: dict[str, Any]) -> Iterator[Instance]:
    with Instance(**configured) as made:
        yield made


@pytest.fixture(scope="session")
def own_shm() -> bool:
    """From here on the tests have a /dev/shm of their own: what others left in the machine's is not in sight."""
    if not can_unshare("-m") or ctypes.CDLL(None).unshare(CLONE_NEWNS):
        return False
    for words in (("--make-rprivate", "/"), ("-t", "tmpfs", "tmpfs", "/dev/shm")):
        subprocess.run(["mount", *words], check=True)
    return True


@pytest.fixture
def alone(own_shm: bool) -> None:
    """For what would clear what others left."""
    if not own_shm:
        pytest.skip("no mount namespaces here, and gc would clear what others left")
