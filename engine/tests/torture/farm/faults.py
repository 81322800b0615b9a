"""The fault plans of the farm: what goes wrong while programs work, and how they end.

Each plan ends with deaths (`dies`): some clients; tierd; all processes; or all and the node, which loses the region and what
was not synced.  Before that it may do something to a running instance (`disturb`), or make calls fail (`fault`, the
value of TB_FAULT for tierd and clients, after a first few calls, as the instance must start; what is recovered later meets no fault).
A plan with `disks` has a real file system for each place, which may fail or lose what it did not write.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import loop_disks

if TYPE_CHECKING:
    from rounds import Round

CLIENTS_STOPPED_S = 1.5
DRAIN_LIMIT_S = 30


def nothing(_: "Round") -> list[str]:
    return []


def stop_one(r: "Round") -> list[str]:
    """A stopped client: a drain ends soon after it goes on at the latest."""
    client = r.chance.choice(r.clients)
    os.kill(client.pid, signal.SIGSTOP)
    drain = r.programs.start_tierctl("drain", "-i", r.instance)
    time.sleep(CLIENTS_STOPPED_S)
    os.kill(client.pid, signal.SIGCONT)
    began = time.monotonic()
    while drain.poll() is None and time.monotonic() - began < DRAIN_LIMIT_S:
        time.sleep(0.05)
    if drain.poll() is None:
        drain.kill()
        drain.wait()
        return [f"drain: has not ended {DRAIN_LIMIT_S} s after a stopped client went on"]
    return []


def drain_busy(r: "Round") -> list[str]:
    """A drain ends while programs go on.  The log of the played crash has its syncs, too."""
    done = r.programs.tierctl("drain", "-i", r.instance, env=r.environment(), limit=DRAIN_LIMIT_S)
    return [f"drain: exit status {done.returncode}: {done.stderr}"] if done.returncode else []


def lose_tier(r: "Round") -> list[str]:
    """The directory of a tier goes for a while; it is back before the recovery."""
    away = r.root / "nvme.away"
    (r.root / "nvme").rename(away)
    time.sleep(0.3)
    r.at_end.append(lambda: away.rename(r.root / "nvme"))
    return []


def fill_shm(r: "Round") -> list[str]:
    """Until nothing fits; in a /dev/shm of the round's own."""
    ballast = Path("/dev/shm/ballast")
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            pass
    r.at_end.append(ballast.unlink)
    time.sleep(0.3)
    return []


def fail_pfs(r: "Round") -> list[str]:
    """The PFS becomes read-only under the instance; it is checked and mounted again before the recovery.

    ext4 acknowledges some fsyncs that are under way then and loses their bytes, without the engine too (10 of 40
    tries on Linux 6.18), so what ends later is no promise.
    """
    r.believed_until = time.monotonic_ns()
    loop_disks.fail(r.root / "pfs")
    r.at_end.append(lambda: loop_disks.mount_again(r.root / "pfs"))
    time.sleep(0.3)
    return []


@dataclass(frozen=True)
class Plan:
    dies: str = "both"  # clients, daemon, both, node
    disturb: Callable[["Round"], list[str]] = nothing
    fault: Callable[[Path, random.Random], str] | None = None
    own_shm: bool = False
    disks: bool = False
    loses_unsynced: bool = False  # what was written and not synced


def failing(errno: str, place: str, *operations: str) -> Callable[[Path, random.Random], str]:
    def fault(root: Path, chance: random.Random) -> str:
        op, after, count = chance.choice(operations), chance.choice([10, 30, 100]), chance.choice([1, 20, 0])
        return f"op={op},errno={errno},after={after},count={count},path={root}/{place}"

    return fault


PLANS = {
    "clients": Plan("clients"),
    "daemon": Plan("daemon"),
    "both": Plan("both"),
    "node": Plan("node", loses_unsynced=True),
    "power": Plan("node", disks=True, loses_unsynced=True),
    "stop": Plan("both", stop_one),
    "drain": Plan("node", drain_busy, loses_unsynced=True),
    "enospc": Plan("both", fault=failing("ENOSPC", "pfs", "pwrite")),
    "enospc-tier": Plan("node", fault=failing("ENOSPC", "nvme", "pwrite"), loses_unsynced=True),
    "eio": Plan("both", fault=failing("EIO", "pfs", "pwrite", "fsync")),
    "eio-tier": Plan("both", fault=failing("EIO", "nvme", "pwrite", "fsync")),
    "read-only": Plan("both", fault=failing("EROFS", "pfs", "pwrite", "ftruncate")),
    "read-only-disk": Plan("both", fail_pfs, disks=True, loses_unsynced=True),
    "tier-gone": Plan("both", lose_tier),
    "full-shm": Plan("both", fill_shm, own_shm=True),
}
KILLS = ("clients", "daemon", "both", "node")


def missing(plan: Plan) -> str:
    """Why it can't run here; empty: it can."""
    if plan.disks:
        return loop_disks.missing()
    return "a /dev/shm of its own needs root" if plan.own_shm and os.geteuid() else ""
