"""The drivers as their tests run them, each in a folder of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

BIN = Path(os.environ.get("TB_BUILD_DIR", Path(__file__).parents[1] / "build")) / "bin"
MPIEXEC = os.environ.get("TB_MPIEXEC", "mpiexec")
LIMIT_S = 60  # a run that takes longer hangs

Done = subprocess.CompletedProcess[str]


class Driver:
    """A program, and on how many ranks it runs unless a test says it."""

    name = ""
    ranks = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = str(BIN / self.name)

    def always(self) -> list[str]:
        """The words that each command line begins with; a later word of the same option replaces one."""
        return []

    def run(
        self,
        line: str | list[str],
        ranks: int = 0,
        status: int = 0,
        *,
        before: tuple[str, ...] = (),
        where: Path | None = None,
    ) -> Done:
        """Run it to its end, which must have that exit status."""
        n = ranks or self.ranks
        launch = [MPIEXEC, "-n", str(n)] if n > 1 else []  # one rank starts without a launcher
        words = line.split() if isinstance(line, str) else line
        command = [*launch, *before, self.program, *self.always(), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, cwd=where or self.folder
        )
        assert done.returncode == status, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done

    def names(self) -> list[str]:
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*"))


class Ior(Driver):
    """With the file that it works on."""

    name = "tb-ior"
    ranks = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = folder / "data"

    def always(self) -> list[str]:
        return ["-o", str(self.file)]

    def of_rank(self, rank: int) -> Path:
        """A file of -F."""
        return Path(f"{self.file}.{rank:08d}")


class Mdtest(Driver):
    """Its tree is in the folder."""

    name = "tb-mdtest"

    def always(self) -> list[str]:
        return ["-d", str(self.folder)]
