"""The programs of an instance, its death, and what it may leave."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Programs:
    bin: Path
    lib: Path

    def tierctl(self, *words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / "tierctl"), *map(str, words)]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

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
    while "\nState:\tZ" not in (state := state_of(pid)) and state:  # a recovery leaves a living instance alone
        time.sleep(0.002)


def kill_daemon(programs: Programs, instance: str) -> None:
    status = programs.tierctl("status", "-i", instance).stdout
    pid = int(status.split("(pid ")[1].split(")")[0])
    os.kill(pid, signal.SIGKILL)
    wait_for_death(pid)


def region_of(instance: str) -> Path:
    return Path(f"/dev/shm/tierbench.{os.getuid()}.{instance}")


def leftovers(instance: str, tiers: list[Path]) -> list[str]:
    """What of an instance is still there."""
    left = [*region_of(instance).parent.glob(f"{region_of(instance).name}*"), *(path for tier in tiers for path in tier.iterdir())]
    return [f"{path} is left" for path in left]
