"""The programs of an instance, its death, and what it may leave."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Programs:
    bin: Path
    lib: Path
    python: str = sys.executable

    def tierctl(
        self, *words: object, env: dict[str, str] | None = None, limit: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """A subprocess.TimeoutExpired is a finding: every command has an end."""
        command = [str(self.bin / "tierctl"), *map(str, words)]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit, check=False)

    def start_tierctl(self, *words: object) -> subprocess.Popen[bytes]:
        command = [str(self.bin / "tierctl"), *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def under(self, instance: str, env: dict[str, str] | None = None) -> dict[str, str]:
        """The environment of a program under the adapter."""
        preload = str(self.lib / "libtierbench_preload.so")
        return (env or dict(os.environ)) | {"LD_PRELOAD": preload, "TIERBENCH_INSTANCE": instance}


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_for_death(pid: int) -> None:
    """Of all its threads: a recovery leaves a living instance alone."""
    while (state := state_of(pid)) and not ("\nState:\tZ" in state and "\nThreads:\t1\n" in state):
        time.sleep(0.002)


def daemon_of(programs: Programs, instance: str) -> int:
    return int(programs.tierctl("status", "-i", instance).stdout.split("(pid ")[1].split(")")[0])


def kill(pid: int) -> None:
    """And wait until it is dead: a recovery leaves what lives alone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_for_death(pid)


def region_of(instance: str) -> Path:
    return Path(f"/dev/shm/tierbench.{os.getuid()}.{instance}")


def leftovers(instance: str, tiers: list[Path], pfs: Path | None = None) -> list[str]:
    """What of an instance is still there: its region, its folders in tiers, its hidden folder on the PFS."""
    left = [
        *region_of(instance).parent.glob(f"{region_of(instance).name}*"),
        *(path for tier in tiers for path in tier.iterdir()),
    ]
    left += [*pfs.glob(".tierbench.*")] if pfs else []
    return [f"{path} is left" for path in left]


def processes_of(root: Path) -> dict[int, str]:
    """Processes that live and work in the folder, or name it in their command lines: by pid, what they are."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = str((folder / "cwd").readlink())
        except OSError:
            continue  # it has ended, is another user's, or works in a folder whose name is too long to be told
        if (str(root) in words or place.startswith(str(root))) and int(folder.name) not in (
            os.getpid(),
            os.getppid(),
        ):
            found[int(folder.name)] = words[:100]
    return found
