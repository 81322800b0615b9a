"""Imports go one way: `tierbench.ROOMS` has the order, and no module imports itself by way of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tierbench

PACKAGE = Path(tierbench.__file__).parent
SUITE = Path(__file__).resolve().parents[2] / "reframe_tests"
SUITE_ROOMS = (
    "sites",
    "scales",
    "outcome",
    "jobs",
    "unwarned",
    "base",
    "recipe_case",
    "acceptance",
    "rules_case",
    "hpdc18_case",
)


def module_of(file: Path, root: Path = PACKAGE) -> str:
    """`tierbench.judge.stats` of its file; a room's own name of its `__init__.py`."""
    parts = [root.name, *file.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str, module: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and module of each import of ours, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            base = ".".join([*parts[: len(parts) - node.level], node.module or ""] if node.level else [])
            base = base.strip(".") or node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            found = name if name in known else name.rpartition(".")[0]
            if found in known and found != module:
                yield node.lineno, found


def arrows(root: Path = PACKAGE) -> dict[str, list[tuple[int, str]]]:
    files = {module_of(file, root): file for file in sorted(root.rglob("*.py"))}
    return {m: list(imported(f.read_text(), m, set(files))) for m, f in files.items()}


def room_of(module: str, rooms: Sequence[str]) -> int:
    """The room's number; of the package itself, which every room may import, -1."""
    parts = module.split(".")
    return rooms.index(parts[1]) if len(parts) > 1 else -1


def problems(found: dict[str, list[tuple[int, str]]], rooms: Sequence[str] = tierbench.ROOMS) -> list[str]:
    told = [
        f"{module}:{line} imports {target}: an arrow up"
        for module, targets in found.items()
        for line, target in targets
        if room_of(target, rooms) > room_of(module, rooms)
    ]
    try:
        TopologicalSorter({m: {t for _, t in targets} for m, targets in found.items()}).prepare()
    except CycleError as e:
        told.append("imports in a ring: " + ", ".join(e.args[1]))
    return told


def test_every_room_has_its_number() -> None:
    rooms = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert rooms - {"__init__"} == set(tierbench.ROOMS)


def test_no_arrow_goes_up_and_no_ring() -> None:
    found = arrows()
    assert sum(map(len, found.values())) > 100
    assert problems(found) == []


@pytest.mark.parametrize(
    ("module", "line", "told"),
    [
        ("base.text", "from tierbench.runs import samples", "base.text:1 imports tierbench.runs.samples"),
        ("base.text", "def f():\n    from tierbench import cli", "base.text:2 imports tierbench.cli"),
        (
            "judge.stats",
            "if TYPE_CHECKING:\n    import tierbench.pages.report",
            "imports tierbench.pages.report",
        ),
        ("judge.stats", "from ..pages.report import make", "imports tierbench.pages.report"),
        ("judge.stats", "from tierbench.judge.compare import compare", "imports in a ring"),
        ("judge.stats", "from . import compare", "imports in a ring"),
    ],
)
def test_what_is_refused(module: str, line: str, told: str) -> None:
    found = arrows()
    name = f"tierbench.{module}"
    found[name] = list(imported(line, name, set(found)))
    assert any(told in p for p in problems(found))


def test_the_suite_imports_what_it_may() -> None:
    allowed = tuple(f"tierbench.{name}" for name in tierbench.FOR_THE_SUITE)
    known = set(arrows())
    found = [
        f"{file.relative_to(SUITE)}:{line} imports {target}"
        for file in sorted(SUITE.rglob("*.py"))
        if "tests" not in file.relative_to(SUITE).parts
        for line, target in imported(file.read_text(), "", known)
        if target not in allowed and not target.startswith(tuple(f"{a}." for a in allowed))
    ]
    assert found == []


def test_what_tests_of_the_suite_share_is_in_rooms_too() -> None:
    found = arrows(SUITE / "common")
    assert sum(map(len, found.values())) > 70
    assert problems(found, SUITE_ROOMS) == []
    found["common.sites.plan"].append((1, "common.jobs.script"))
    assert any(
        "common.sites.plan:1 imports common.jobs.script: an arrow up" in p
        for p in problems(found, SUITE_ROOMS)
    )
