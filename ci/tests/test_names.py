"""No two Python files that one call of pytest in the Makefile collects have the same name.

Test folders are no packages, so pytest imports a file by its base name.  Of two files of one name in the same
call the second is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADED_BY_PATH = "conftest.py"


def calls(makefile: Path) -> list[list[str]]:
    """The files and folders of each call."""
    found = []
    for line in makefile.read_text().splitlines():
        _, is_call, words = line.partition("-m pytest ")
        if is_call:
            found.append([word for word in words.split("#")[0].split() if (makefile.parent / word).exists()])
    return found


def of_one_name(root: Path, places: list[str]) -> list[list[str]]:
    """Groups of files below `places` that pytest cannot tell apart."""
    named: defaultdict[str, set[str]] = defaultdict(set)
    for place in places:
        files = (root / place).rglob("*.py") if (root / place).is_dir() else [root / place]
        for file in files:
            named[file.name].add(f"{file.relative_to(root)}")
    return sorted(sorted(files) for name, files in named.items() if len(files) > 1 and name != LOADED_BY_PATH)


def test_no_call_has_two_files_of_one_name() -> None:
    found = calls(ROOT / "Makefile")
    assert found
    assert all(found)
    assert [group for places in found for group in of_one_name(ROOT, places)] == []


def test_long_files_are_there() -> None:
    """Those that begin first (conftest.py)."""
    text = (ROOT / "conftest.py").read_text()
    named = set(re.findall(r'"(test_\w+\.py)"', text))
    places = [ROOT / place for places in calls(ROOT / "Makefile") for place in places]
    assert named
    assert named - {file.name for place in places for file in place.rglob("test_*.py")} == set()


def test_two_files_of_one_name_are_found(tmp_path: Path) -> None:
    for file in ("ci/tests/test_a.py", "engine/tests/test_a.py", "engine/tests/test_b.py", "alone/test_b.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "Makefile").write_text(
        "test: build\n"
        "\t$(PY) -m pytest -n 2 alone # nothing in it measures\n"
        "\t$(PY) -m pytest ci/tests engine/tests\n"
    )
    found = calls(tmp_path / "Makefile")
    assert found == [["alone"], ["ci/tests", "engine/tests"]]
    assert [of_one_name(tmp_path, places) for places in found] == [
        [],
        [["ci/tests/test_a.py", "engine/tests/test_a.py"]],
    ]
