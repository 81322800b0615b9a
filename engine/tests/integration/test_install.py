"""The installed tree as a site uses it: relocated, linked by pkg-config, and exporting what the headers declare."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from instances import BUILD

README = Path(__file__).resolve().parents[3] / "README.md"
CC = ("cc", "-std=c11", "-Wall", "-Wextra", "-Werror")
CONFIG = """version: 1
max_files: 256
pfs: {{path: {root}/pfs}}
fsync: pfs
flush: {{policy: manual}}
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
"""


def output(*command: str | Path, **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    said: str = done.stdout
    return said


class Installed:
    """A tree below `root`, and a configuration."""

    def __init__(self, root: Path) -> None:
        self.root = root
        output(
            "cmake",
            "--install",
            BUILD,
            "--prefix",
            "/opt/tb",
            env=os.environ | {"DESTDIR": str(root / "dest")},
        )
        self.tree = root / "dest" / "opt" / "tb"
        (root / "pfs").mkdir()
        self.config = root / "c.yaml"
        self.config.write_text(CONFIG.format(root=root))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("install"))


def test_the_tree_is_complete(installed: Installed) -> None:
    for path in (
        "bin/tierd",
        "bin/tierctl",
        "lib/libtierbench.so",
        "lib/libtierbench_preload.so",
        "lib/libtierbench_trace.so",
        "lib/pkgconfig/tierbench.pc",
        "share/doc/tierbench/README.md",
        "share/man/man1/tierctl.1",
        "share/bash-completion/completions/tierctl",
        "share/tierbench/configs/tiers/ram.yaml",
        "share/tierbench/configs/devices/ddr4.yaml",
        "share/tierbench/configs/sites/local.py",
        "share/tierbench/reframe_tests/common/jobs/limited.sh",
        "share/tierbench/results/published/webinar.csv",
        *(f"include/tierbench/{h}.h" for h in ("engine", "io", "trace")),
    ):
        assert (installed.tree / path).exists(), path
    assert [p.name for p in (installed.root / "dest").iterdir()] == ["opt"]


def test_exports_are_the_headers(installed: Installed) -> None:
    lines = output("nm", "-D", "--defined-only", installed.tree / "lib/libtierbench.so").splitlines()
    exported = {line.split()[-1] for line in lines}
    declared = set()
    for header in (installed.tree / "include/tierbench").iterdir():
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
        declared |= set(re.findall(r"\b(tb_\w+)\([^;{]*\);", text))
        declared |= set(re.findall(r"^extern [^;(]*\b(tb_\w+);", text, flags=re.MULTILINE))
    assert exported == {"TIERBENCH_1"} | {f"{name}@@TIERBENCH_1" for name in declared}


@pytest.mark.parametrize("header", ["engine", "io", "trace"])
def test_headers_stand_alone(installed: Installed, header: str) -> None:
    source = installed.root / f"{header}.c"
    source.write_text(f"#include <tierbench/{header}.h>\nint main(void) {{ return 0; }}\n")
    output(*CC, "-D_GNU_SOURCE", "-pedantic", f"-I{installed.tree}/include", "-fsyntax-only", source)


def test_the_example_runs_as_the_readme_says(installed: Installed) -> None:
    part = README.read_text().split("hello.c` is one")[1].split("\n\n")[1]
    places = {
        "/opt/tierbench": installed.tree,
        "/pfs/FILE": installed.root / "pfs/f",
        "CONFIG.yaml": installed.config,
    }
    for written, meant in places.items():
        assert written in part
        part = part.replace(written, str(meant))
    commands = f"set -eu\ntrap 'tierctl stop -i NAME' EXIT\n{part}\ntrap - EXIT".replace(
        "NAME", f"install-{os.getpid()}"
    )
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    said = output("bash", "-c", commands, cwd=installed.root, env=env)
    assert 'read back "hello, tiers" from tier ram' in said
    assert (installed.root / "pfs" / "f").read_text() == "hello, tiers"


def test_run_finds_the_adapter(installed: Installed) -> None:
    stats, file = installed.root / "s.json", installed.root / "pfs" / "g"
    write = "import sys; open(sys.argv[1], 'wb', 0).write(bytes(12288))"
    run = ("run", "-c", installed.config, "--stats", stats, "--")
    output(installed.tree / "bin/tierctl", *run, sys.executable, "-c", write, file)
    assert '"drained_bytes": 12288' in stats.read_text()
    assert file.stat().st_size == 12288
