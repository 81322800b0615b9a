"""The installed tree as a site uses it: relocated, linked by pkg-config, and exporting what the headers declare."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SOURCE, BUILD = Path(os.environ["TB_SOURCE_DIR"]), Path(os.environ["TB_BUILD_DIR"])
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


class Install(unittest.TestCase):
    root: Path
    tree: Path
    config: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = Path(tempfile.mkdtemp(prefix="tierbench-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        destination = cls.root / "dest"
        output(
            "cmake", "--install", BUILD, "--prefix", "/opt/tb", env=os.environ | {"DESTDIR": str(destination)}
        )
        cls.tree = destination / "opt" / "tb"
        (cls.root / "pfs").mkdir()
        cls.config = cls.root / "c.yaml"
        cls.config.write_text(CONFIG.format(root=cls.root))

    def test_the_tree_is_complete(self) -> None:
        for path in (
            "bin/tierd",
            "bin/tierctl",
            "lib/libtierbench.so",
            "lib/libtierbench_preload.so",
            "lib/libtierbench_trace.so",
            "lib/pkgconfig/tierbench.pc",
            "share/doc/tierbench/README.md",
            "share/tierbench/tiers/ram.yaml",
            "share/tierbench/devices/ddr4.yaml",
            *(f"include/tierbench/{h}.h" for h in ("engine", "io", "trace")),
        ):
            self.assertTrue((self.tree / path).exists(), path)
        self.assertEqual([p.name for p in (self.root / "dest").iterdir()], ["opt"])

    def test_exports_are_the_headers(self) -> None:
        lines = output("nm", "-D", "--defined-only", self.tree / "lib/libtierbench.so").splitlines()
        exported = {line.split()[-1] for line in lines}
        declared = set()
        for header in (self.tree / "include/tierbench").iterdir():
            text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
            declared |= set(re.findall(r"\b(tb_\w+)\([^;{]*\);", text))
            declared |= set(re.findall(r"^extern [^;(]*\b(tb_\w+);", text, flags=re.MULTILINE))
        self.assertEqual(exported, {"TIERBENCH_1"} | {f"{name}@@TIERBENCH_1" for name in declared})

    def test_headers_stand_alone(self) -> None:
        for header in ("engine", "io", "trace"):
            source = self.root / f"{header}.c"
            source.write_text(f"#include <tierbench/{header}.h>\nint main(void) {{ return 0; }}\n")
            output(
                "cc",
                "-std=c11",
                "-D_GNU_SOURCE",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                f"-I{self.tree}/include",
                "-fsyntax-only",
                source,
            )

    def test_the_example_runs(self) -> None:
        flags = output(
            "pkg-config",
            "--cflags",
            "--libs",
            "tierbench",
            env=os.environ | {"PKG_CONFIG_PATH": str(self.tree / "lib/pkgconfig")},
        ).split()
        example, name = self.root / "hello", f"install-{os.getpid()}"
        output(
            "cc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            example,
            self.tree / "share/doc/tierbench/examples/hello.c",
            *flags,
        )
        ctl = self.tree / "bin/tierctl"
        output(ctl, "start", "-c", self.config, "-i", name)
        try:
            env = os.environ | {"TIERBENCH_INSTANCE": name, "LD_LIBRARY_PATH": str(self.tree / "lib")}
            said = output(example, self.root / "pfs" / "f", env=env)
        finally:
            output(ctl, "stop", "-i", name)
        self.assertIn('read back "hello, tiers" from tier ram', said)
        self.assertEqual((self.root / "pfs" / "f").read_text(), "hello, tiers")

    def test_run_finds_the_adapter(self) -> None:
        stats, file = self.root / "s.json", self.root / "pfs" / "g"
        write = "import sys; open(sys.argv[1], 'wb', 0).write(bytes(12288))"
        output(
            self.tree / "bin/tierctl",
            "run",
            "-c",
            self.config,
            "--stats",
            stats,
            "--",
            sys.executable,
            "-c",
            write,
            file,
        )
        self.assertIn('"drained_bytes": 12288', stats.read_text())
        self.assertEqual(file.stat().st_size, 12288)


if __name__ == "__main__":
    unittest.main()
