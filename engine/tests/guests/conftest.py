"""The guests, for all tests; what they are made of is of the power tests, and what runs on them of the tests of nodes."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.extend([str(Path(__file__).parents[1] / name) for name in ("power", "integration", "net", "shared")])

from initramfs import MissingError
from instances import SOURCE
from machines import Guests

KERNELS = Path(os.environ.get("TB_GUEST_KERNEL", SOURCE / ".tools" / "guest-kernel"))


@pytest.fixture(scope="session")
def machines() -> Iterator[Guests]:
    if os.geteuid() != 0:
        pytest.skip("guests need root here: a file of theirs has the same owner on the host")
    with ExitStack() as cleanup:
        try:
            made = Guests(cleanup, KERNELS)
        except MissingError as missing:
            pytest.skip(str(missing))
        yield made


@pytest.fixture
def guests(machines: Guests) -> Guests:
    """Both are up, and there is nothing left of earlier tests."""
    machines.power_on()
    machines.empty()
    return machines
