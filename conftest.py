"""What each run of pytest here does: long files first; under ctest a run with skips says so."""

from __future__ import annotations

import os

import pytest

# The longest first. A long file that is begun last keeps one worker busy when the others have nothing left.
LONG_FILES = (
    "test_real_site.py",
    "test_program.py",
    "test_suite.py",
    "test_refusals.py",
    "test_headline.py",
    "test_damaged_logs.py",
    "test_browser.py",
    "test_bad_files.py",
    "test_component_section.py",
    "test_report.py",
    "test_fuzz_sources.py",
    "test_install.py",
    "test_first_hour.py",
    "test_nodes.py",
    "test_full_scale.py",
    "test_exports.py",
    "test_hpdc18_components.py",
    "test_wrapper_cheats.py",
    "test_metadata.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order inside a file stays."""
    rank = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """All passed or skipped: TB_SKIP_STATUS says with what status to end then (ci/pytest.cmake)."""
    told = session.config.pluginmanager.get_plugin("terminalreporter")  # none in a worker of pytest-xdist
    if exitstatus == pytest.ExitCode.OK and told and told.stats.get("skipped"):
        session.exitstatus = int(os.environ.get("TB_SKIP_STATUS", exitstatus))
