"""The Ramble definitions of ci/ramble: what they ask for fails where bytes are wrong or not on the PFS.

Ramble itself is not needed: its words are noted, and its rule applied, that a criterion matches from a line's
start.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2] / "ci" / "ramble"
IOR = Path(__file__).parent / "data" / "ior-4.0.0"
MODIFIER = ROOT / "modifiers" / "tierbench"
GOOD: dict[str, Any] = {
    "exit_status": 0,
    "mode": "persistent-async",
    "errors": [],
    "spilled": 0,
    "drain_s": 0.5,
    "tiers": [{"name": "ram", "dirty": 0, "bytes_in": 4096, "bytes_out": 0}],
    "pfs": {"bytes_written": 4096},
}


def load(monkeypatch: pytest.MonkeyPatch, path: Path, kit: str) -> tuple[type, dict[str, list[Any]]]:
    """The class that a definition makes, and what it told Ramble by each word."""
    said: dict[str, list[Any]] = {}
    calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    words = {f.id for f in calls if isinstance(f, ast.Name)} - {"Path", "CommandExecutable"}

    def note(word: str) -> Any:
        return lambda *args, **more: said.setdefault(word, []).append((args, more))

    base: dict[str, Any] = {"ExecutableApplication": object, "BasicModifier": object}
    module = ModuleType(f"ramble.{kit}")
    module.__dict__.update({word: note(word) for word in words} | base)
    executable = ModuleType("ramble.util.executable")
    executable.__dict__["CommandExecutable"] = lambda name, **more: SimpleNamespace(name=name, **more)
    for name, made in (
        ("ramble", ModuleType("ramble")),
        ("ramble.util", ModuleType("ramble.util")),
        (f"ramble.{kit}", module),
        ("ramble.util.executable", executable),
    ):
        monkeypatch.setitem(sys.modules, name, made)
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    (found,) = [v for v in scope.values() if isinstance(v, type) and v is not object]
    return found, said


def succeeds(said: dict[str, list[Any]], text: str) -> bool:
    (criterion,) = said["success_criteria"]
    assert criterion[1]["mode"] == "string"
    return any(re.match(criterion[1]["match"], line) for line in text.splitlines())


def judged(tmp_path: Path, stats: dict[str, Any] | str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "stats.json"
    file.write_text(stats if isinstance(stats, str) else json.dumps(stats))
    command = [sys.executable, str(MODIFIER / "durable.py"), str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_application_reads_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = load(monkeypatch, ROOT / "applications/tb-ior/application.py", "appkit")
    whole = (IOR / "default.out").read_text()
    assert succeeds(said, whole)
    assert not succeeds(said, whole.partition("Finished")[0]), "it ended before its end"
    ((_, template), _) = said["executable"][0]
    assert {"-W", "-R", "-q"} <= set(template.split()), "bytes are checked, and the first wrong one ends it"
    names = {args[0] for args, _ in said["workload_variable"]}
    assert set(re.findall(r"{(\w+)}", template)) <= names
    for args, more in said["figure_of_merit"]:
        rows = [m for line in whole.splitlines() if (m := re.match(more["fom_regex"], line))]
        assert {m["access"] for m in rows} == {"write", "read"}, args
        assert all(float(m[more["group_name"]]) > 0 for m in rows if args[0] == "bandwidth")


def test_the_modifier_puts_the_program_under_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    made, said = load(monkeypatch, MODIFIER / "modifier.py", "modkit")
    ((args, more),) = said["variable_modification"]
    assert args[0] == "mpi_command" and more["method"] == "prepend"
    assert args[1].startswith("{tierctl} run -c {tierbench_config} --stats ") and args[1].endswith(" -- ")
    modifier: Any = made()
    modifier._file_path = str(MODIFIER / "modifier.py")
    assert modifier.check_durable("copy", SimpleNamespace(mpi=False)) == ([], [])
    (before,), (after,) = modifier.check_durable("run", SimpleNamespace(mpi=True))
    stats = args[1].split("--stats ")[1].split()[0]
    assert stats in before.template[0].split(), "counters of an earlier run count for nothing"
    assert after.template == [f"python3 {MODIFIER / 'durable.py'} {stats}"]
    ((_, criterion),) = said["success_criteria"]
    assert after.redirect == criterion["file"] and after.redirect in before.template[0]


def test_benchpark_adds_the_modifier_and_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchpark links `configs` of a modifier into a workspace; its experiments name both variables."""
    made, _ = load(monkeypatch, MODIFIER / "modifier.py", "modkit")
    adds = yaml.safe_load((MODIFIER / "configs" / "modifier.yaml").read_text())
    assert adds["modifiers"] == [{"name": made.__dict__["name"]}]
    assert adds["variables"] == {"modifier_package_name": "", "modifier_spack_variant": ""}


def test_only_durable_bytes_are_a_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, said = load(monkeypatch, MODIFIER / "modifier.py", "modkit")
    done = judged(tmp_path, GOOD)
    assert done.returncode == 0 and succeeds(said, done.stdout)
    for _, more in said["figure_of_merit"]:
        values = [m for line in done.stdout.splitlines() if (m := re.match(more["fom_regex"], line))]
        assert len(values) == 1, more
    tier = GOOD["tiers"][0]
    bad: dict[str, Any] = {
        "exit status is 1": {**GOOD, "exit_status": 1},
        "flush of /pfs/f failed: No space": {**GOOD, "errors": [{"path": "/pfs/f", "error": "No space"}]},
        "7 bytes are still in ram": {**GOOD, "tiers": [{**tier, "dirty": 7}]},
        "no tier took or gave": {**GOOD, "tiers": [{**tier, "bytes_in": 0}]},
        "scratch": {**GOOD, "mode": "scratch"},
        "KeyError": {},
        "JSONDecodeError": "{",
    }
    for says, stats in bad.items():
        done = judged(tmp_path, stats)
        assert done.returncode == 1 and says in done.stdout and not succeeds(said, done.stdout), says
