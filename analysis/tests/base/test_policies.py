"""The list of policies is the engine's."""

from __future__ import annotations

import re
from pathlib import Path

from tierbench.base.policies import POLICIES

HEADER = Path(__file__).parents[3] / "engine/src/config/policies.h"


def test_the_list_is_the_engines() -> None:
    rows = re.findall(r'ROW\([A-Z_]+, [a-z_]+, "([a-z-]+)"', HEADER.read_text())
    assert tuple(rows) == POLICIES
