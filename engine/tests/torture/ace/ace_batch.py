"""One batch of sequences: an instance, a crash that all of them meet, a recovery, and a comparison for each.

A start and a recovery cost more than a sequence, so that many share them, each in a folder and a process of its own.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ace_model import START_BYTES, Found, Model, compare, fill
from crash import crash
from instance import Programs, daemon_of, kill, leftovers, region_of, wait_for_death

HERE = Path(__file__).parent

CONFIG = """
version: 1
max_files: 1024
max_clients: 256
pfs: {{path: {root}/pfs}}
mode: {mode}
fsync: {fsync}
namespace: {namespace}
allow_volatile: true
flush: {{policy: {policy}, background: {background}, high: 0.5, low: 0.2}}
tiers:
  - {{name: ram, medium: memory, capacity: 4096KiB, block: 4KiB, slabs: [{{units: 1, share: 0.4}}, {{units: 16, share: 0.6}}]}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 4096KiB, block: 4KiB,
     slabs: [{{units: 1, share: 0.4}}, {{units: 16, share: 0.6}}]}}
"""

# name: mode, flush policy, in the background, fsync, namespace
SETUPS = {
    "close-tier": ("persistent-async", "on-close", False, "tier", "eager"),
    "close-pfs-deferred": ("persistent-async", "on-close", False, "pfs", "deferred"),
    "background-tier": ("persistent-async", "on-close", True, "tier", "eager"),
    "watermark-tier-deferred": ("persistent-async", "watermark", False, "tier", "deferred"),
    "manual-tier": ("persistent-async", "manual", False, "tier", "eager"),
    "manual-tier-deferred": ("persistent-async", "manual", False, "tier", "deferred"),
    "manual-pfs": ("persistent-async", "manual", False, "pfs", "eager"),
    "sync-tier": ("persistent-sync", "on-close", False, "tier", "eager"),
    "sync-pfs": ("persistent-sync", "on-close", False, "pfs", "eager"),
}

# What dies: a client by itself; tierd, after which clients end well; all processes; the node, with what its tiers had not
# synced; the node and the PFS's machines, with what the PFS had not synced either.
FAULTS = ("client", "daemon", "both", "node", "power")
KILLS = ("client", "daemon", "both")


@dataclass
class Case:
    """A sequence, and what was wrong with it."""

    operations: list[str]
    look: bool = False
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Batch:
    setup: str
    fault: str
    seed: str
    cases: list[Case]

    def model(self, tag: str) -> Model:
        mode, policy, background, _, _ = SETUPS[self.setup]
        pfs_lives = self.fault == "node"
        at_close = pfs_lives and policy == "on-close" and not background
        return Model(
            tag, all_at_once=pfs_lives and mode == "persistent-sync", at_close=at_close, at_drain=pfs_lives
        )


def has_locks(case: Case) -> bool:
    return any("lock" in operation or "ofd" in operation for operation in case.operations)


def tag_of(number: int) -> str:
    return f"{number:03}"


class Room:
    """The folders of a batch, and its instance."""

    def __init__(self, programs: Programs, batch: Batch, keep: Path | None) -> None:
        self.programs, self.batch = programs, batch
        self.root = Path(tempfile.mkdtemp(prefix="tierbench-ace-", dir=keep))
        self.instance = self.root.name
        self.undo = self.root / "undo"
        self.tiers = [self.root / "nvme"]
        self.config = self.root / "c.yaml"
        self.wrong: list[str] = []

    def make(self) -> None:
        mode, policy, background, fsync, namespace = SETUPS[self.batch.setup]
        words = {
            "mode": mode,
            "policy": policy,
            "background": str(background).lower(),
            "fsync": fsync,
            "namespace": namespace,
        }
        self.config.write_text(CONFIG.format(root=self.root, **words))
        (self.root / "nvme").mkdir()
        for number in range(len(self.batch.cases)):
            folder = self.root / "pfs" / tag_of(number)
            (folder / "d").mkdir(parents=True)
            (folder / "a").write_bytes(fill(tag_of(number), START_BYTES))

    def environment(self) -> dict[str, str]:
        return dict(os.environ) | ({"TB_UNDO": str(self.undo)} if self.batch.fault not in KILLS else {})

    def start(self) -> bool:
        done = self.programs.tierctl("start", "-c", self.config, "-i", self.instance, env=self.environment())
        self.wrong += [f"start: {done.stderr}"] if done.returncode else []
        return not done.returncode

    def plan(self) -> Path:
        sequences = [
            {
                "tag": tag_of(number),
                "operations": case.operations,
                "look": case.look,
                "locks": has_locks(case),
            }
            for number, case in enumerate(self.batch.cases)
        ]
        plan = {
            "folder": str(self.root / "pfs"),
            "suicide": self.batch.fault == "client",
            "sequences": sequences,
        }
        (self.root / "plan.json").write_text(json.dumps(plan))
        return self.root / "plan.json"

    def strike(self, server: subprocess.Popen[str], pids: list[int]) -> None:
        if self.batch.fault != "client":
            kill(daemon_of(self.programs, self.instance))
        os.killpg(server.pid, signal.SIGTERM if self.batch.fault == "daemon" else signal.SIGKILL)
        for pid in pids:
            wait_for_death(pid)
        if self.batch.fault in KILLS:
            return
        region_of(self.instance).unlink()
        places = [self.root / "pfs", *self.tiers] if self.batch.fault == "power" else self.tiers
        crash(self.undo, places, random.Random(self.batch.seed))

    def recover(self) -> None:
        words = (
            ["stop", "-i", self.instance] if self.batch.fault == "client" else ["recover", "-c", self.config]
        )
        done = self.programs.tierctl(*words)
        left = leftovers(self.instance, self.tiers)
        if done.returncode or left:
            self.wrong.append(f"{words[0]}: exit status {done.returncode}: {done.stderr.strip()} {left}")

    def found(self, number: int) -> dict[str, Found]:
        folder = self.root / "pfs" / tag_of(number)
        return {
            str(path.relative_to(folder)): Found(None)
            if path.is_dir()
            else Found(path.read_bytes(), path.stat().st_nlink)
            for path in folder.rglob("*")
        }

    def remove(self) -> None:
        """An instance that could not be recovered goes by force."""
        if region_of(self.instance).exists():
            self.programs.tierctl("stop", "-i", self.instance, "--force")
        shutil.rmtree(self.root)


def hear(room: Room, server: subprocess.Popen[str]) -> tuple[dict[int, list[dict[str, Any]]], list[int]]:
    """What the sequences tell until all have come to their ends, and their processes."""
    assert server.stdout and server.stdin
    told: dict[int, list[dict[str, Any]]] = {number: [] for number in range(len(room.batch.cases))}
    pids: list[int] = []
    for line in server.stdout:
        word = json.loads(line)
        if "all" in word:
            break
        if "ask" in word:
            done = room.programs.tierctl("drain", "-i", room.instance, env=room.environment())
            room.wrong += [f"drain: exit status {done.returncode}: {done.stderr}"] if done.returncode else []
            server.stdin.write("\n")
            server.stdin.flush()
            continue
        told[word["sequence"]].append(word)
        pids += [word["pid"]] if "pid" in word else []
    return told, pids


def judge_told(case: Case, model: Model, told: list[dict[str, Any]]) -> bool:
    """Results, locks and what the program saw, while it lived.  True: all returned, and the model has all of them."""
    steps = {word["step"]: word for word in told if "step" in word}
    for step, operation in enumerate(case.operations):
        model.apply(step, operation)
        if step not in steps or "error" in steps[step]:
            case.wrong.append(steps[step]["error"] if step in steps else f"{operation}: its process ended")
            return False
        locks = steps[step]["locks"]
        if has_locks(case) and locks != model.held():
            case.wrong.append(f"after {operation}: others find the locks {locks}, not {model.held()}")
    for word in told:
        if "seen" in word:
            seen = {
                name: Found(None if c is None else bytes.fromhex(c), n)
                for name, (c, n) in word["seen"].items()
            }
            case.wrong += [f"seen under the adapter: {bad}" for bad in compare(model, seen, kill=True)]
    return True


def run(programs: Programs, batch: Batch, keep: Path | None = None) -> list[str]:
    """What is wrong with the batch as a whole; what is wrong with a case, the case says."""
    room = Room(programs, batch, keep)
    room.make()
    try:
        if room.start():
            command = [sys.executable, "-S", "-E", str(HERE / "ace_client.py"), str(room.plan())]
            error = (room.root / "client.err").open("w")
            server = subprocess.Popen(
                command,
                env=programs.under(room.instance, room.environment()),
                text=True,
                stderr=error,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            told, pids = hear(room, server)
            room.strike(server, [*pids, server.pid])
            server.communicate()
            room.recover()
            for number, case in enumerate(batch.cases):
                model = batch.model(tag_of(number))
                if judge_told(case, model, told[number]):
                    case.wrong += compare(model, room.found(number), kill=batch.fault in KILLS)
        return room.wrong
    finally:
        room.remove()


def run_bare(folder: Path, sequences: list[list[str]]) -> list[Case]:
    """The same on the bare file system, without adapter and crash: where the model says what is not so."""
    cases = [Case(operations, look=True) for operations in sequences]
    room = Room(Programs(Path(), Path()), Batch("close-tier", "client", "", cases), folder)
    room.make()
    command = [sys.executable, "-S", "-E", str(HERE / "ace_client.py"), str(room.plan())]
    drains = sum(operations.count("drain") for operations in sequences)
    done = subprocess.run(command, input="\n" * drains, text=True, capture_output=True, check=False)
    told = [word for word in map(json.loads, done.stdout.splitlines()) if "sequence" in word]
    for number, case in enumerate(cases):
        judge_told(
            case, room.batch.model(tag_of(number)), [word for word in told if word["sequence"] == number]
        )
    shutil.rmtree(room.root)
    return cases
