"""ReFrame's search for who is to be warned is left out only where the warning is suppressed."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest
from reframe.core import fields, variables
from reframe.core.warnings import ReframeDeprecationWarning, suppress_deprecations

import common.base

both = pytest.mark.parametrize("module", [fields, variables])


@both
def test_nothing_is_searched_for_a_warning_that_is_suppressed(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "TierTest" in dir(common.base)
    monkeypatch.setattr(inspect, "stack", lambda: pytest.fail("looked through the stack"))
    with suppress_deprecations():
        module.user_deprecation_warning("old")


@both
def test_another_warning_is_told(module: ModuleType) -> None:
    with pytest.warns(ReframeDeprecationWarning, match="old"):
        module.user_deprecation_warning("old")
