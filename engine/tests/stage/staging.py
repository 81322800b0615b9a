"""What tests of stage-out share: two folders, tierctl run and wait on them, and what the log says."""

import os
import select
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TB_BUILD_DIR", SOURCE / "build"))
TIERCTL = BUILD / "bin" / "tierctl"
FAULTS = BUILD / "lib" / "libstage_faults.so"

CONFIG = """version: 1
max_files: 64
pfs: {{path: {root}/buffered}}
fsync: pfs
allow_volatile: true
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
stage_out: {{from: {root}/bb, to: {root}/pfs, {more}}}
"""


class Started(subprocess.Popen[str]):
    """A test that fails beside it ends it; else the end of the block would wait for what does not come."""

    def __exit__(self, kind: type[BaseException] | None, *more: Any) -> None:
        if kind:
            self.kill()
        super().__exit__(kind, *more)

    def line(self) -> str:
        """The next one on stderr; "": none comes."""
        assert self.stderr
        return self.stderr.readline() if select.select([self.stderr], [], [], 50)[0] else ""


def until_there(path: Path) -> None:
    """Wait for what another process makes."""
    end = time.monotonic() + 50
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.02)


class Site:
    """A node-local folder `bb` and a folder `pfs` below one root."""

    def __init__(self, root: Path) -> None:
        self.root, self.bb, self.pfs = root, root / "bb", root / "pfs"
        for folder in (self.bb, self.pfs, root / "buffered"):
            folder.mkdir()

    def environment(self, node: str = "", fault: str = "") -> dict[str, str]:
        env = os.environ | {"PERSIST_DIR": str(self.bb), "PFS_DIR": str(self.pfs)}
        if node:
            env["SLURMD_NODENAME"] = node
        if fault:
            env |= {"LD_PRELOAD": str(FAULTS), "TB_STAGE_FAULT": fault}
        return env

    def config(self, more: str) -> Path:
        path = self.root / "stage.yaml"
        path.write_text(CONFIG.format(root=self.root, more=more))
        return path

    def start(self, *words: str, node: str = "", fault: str = "") -> Started:
        return Started(
            [TIERCTL, *words],
            env=self.environment(node, fault),
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tierctl(
        self, *words: str, node: str = "", fault: str = "", status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        with self.start(*words, node=node, fault=fault) as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == status, (process.returncode, out, err)
        return subprocess.CompletedProcess(words, status, out, err)

    def run(
        self, script: str, more: str = "", fault: str = "", status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """The script under `tierctl run`, by the environment alone or with keys of stage_out."""
        config = ["-c", str(self.config(more))] if more else []
        return self.tierctl("run", *config, "--", "sh", "-c", script, fault=fault, status=status)

    def log(self) -> list[str]:
        return (self.pfs / "spectral.log").read_text(errors="surrogateescape").splitlines()

    def log_so_far(self) -> list[str]:
        """Of a mover that perhaps has not begun."""
        return self.log() if (self.pfs / "spectral.log").exists() else []

    def moved(self) -> Counter[str]:
        """How often each file was moved, by name."""
        facts = (line.split("\t") for line in self.log() if line.startswith("Tierbench\tmoved\t"))
        return Counter(Path(fact[4]).name for fact in facts)

    def names(self) -> set[str]:
        """All below pfs but the log."""
        return {str(p.relative_to(self.pfs)) for p in self.pfs.rglob("*")} - {"spectral.log"}

    def assert_same(self) -> None:
        """Each file of bb is in pfs with its bytes, and nothing else is there."""
        for path in self.bb.rglob("*"):
            twin = self.pfs / path.relative_to(self.bb)
            if path.is_symlink():
                assert path.readlink() == twin.readlink()
            elif path.is_file():
                assert path.read_bytes() == twin.read_bytes(), path
        assert not list(self.pfs.rglob(".tierbench-*"))
