"""ReFrame without the search for who is to be warned, where it suppresses the warning itself.

ReFrame 4.10 has a deprecated variable in each test. When it makes a test it suppresses the warning, but looks
through the whole stack first: two of the five seconds of `reframe -l` here. Other warnings are as they were.
"""

from __future__ import annotations

import warnings
from typing import Any

from reframe.core import fields, variables
from reframe.core.warnings import ReframeDeprecationWarning, user_deprecation_warning


def _suppressed() -> bool:
    """Whether the filter that ReFrame puts before all others is in force."""
    return warnings.filters[:1] == [("ignore", None, ReframeDeprecationWarning, None, 0)]


def _warn(message: str, *version: Any) -> None:
    if not _suppressed():
        user_deprecation_warning(message, *version)


def leave_out_the_search() -> None:
    """For all tests that are made after this."""
    for module in (fields, variables):
        if hasattr(module, "user_deprecation_warning"):
            module.user_deprecation_warning = _warn
