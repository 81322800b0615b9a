"""What CONTRIBUTING.md allows: at most 600 lines in a file of source, and 20 of them in a folder."""

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("adapters", "analysis", "ci", "configs", "engine", "reframe_tests", "workloads")
KINDS = (".c", ".h", ".py", ".sh", ".cmake")


def sources(root: Path) -> list[Path]:
    return [f for top in TOPS for f in (root / top).rglob("*") if f.suffix in KINDS and f.is_file()]


def too_large(root: Path) -> list[str]:
    found = sources(root)
    per_folder = Counter(f.parent for f in found)
    full = [f"{folder.relative_to(root)}: {n} files" for folder, n in per_folder.items() if n > 20]
    lines = {f: f.read_text().count("\n") for f in found}
    return sorted(full + [f"{f.relative_to(root)}: {n} lines" for f, n in lines.items() if n > 600])


def test_no_folder_and_no_file_is_too_large() -> None:
    assert len(sources(ROOT)) > 1000
    assert too_large(ROOT) == []


@pytest.mark.parametrize(
    ("files", "lines", "told"), [(21, 1, "ci: 21 files"), (1, 601, "ci/0.py: 601 lines")]
)
def test_one_more_is_named(tmp_path: Path, files: int, lines: int, told: str) -> None:
    (tmp_path / "ci").mkdir()
    for i in range(files):
        (tmp_path / f"ci/{i}.py").write_text("\n" * lines)
    assert too_large(tmp_path) == [told]
