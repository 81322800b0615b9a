"""One round of the farm: an instance, a workload under the adapter, a fault plan, a recovery, and the oracles.

Each round is an instance of its own, of a random configuration.  The manifest is written outside, through pipes.  A crash
of the node also loses what was written to tiers and PFS and not synced (crash.py).  The oracles: what the workload's
checker says, what programs saw themselves, clients that end by themselves, the time that tierctl takes, what is left.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import loop_disks
import manifest
from crash import crash
from faults import PLANS
from instance import Programs, daemon_of, kill, leftovers, processes_of, region_of
from workloads import WORKLOADS

HERE = Path(__file__).parent
ENOUGH_LINES = 300
LONGEST_LOAD_S = 10
PLACES = ("pfs", "nvme", "bb")

CONFIG = """
version: 1
max_files: 4096
pfs: {{path: {root}/pfs}}
fsync: {fsync}
allow_volatile: true
flush: {{policy: {policy}, background: {background}, threads: 2, high: 0.5, low: 0.2}}
placement: {{policy: {placement}}}
tiers:
  - {{name: ram, medium: memory, capacity: {ram}KiB, block: 4KiB, slabs: [{{units: 1, share: 0.3}}, {{units: 16, share: 0.7}}]}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: {nvme}KiB, block: 4KiB,
     slabs: [{{units: 1, share: 0.3}}, {{units: 16, share: 0.7}}]}}
  - {{name: bb, medium: directory, path: {root}/bb, capacity: 1024KiB, block: 64KiB, slabs: [{{units: 1, share: 1.0}}]}}
"""


def write_config(root: Path, chance: random.Random) -> Path:
    policy, background = chance.choice(
        [("on-close", False), ("on-close", True), ("watermark", False), ("manual", False)]
    )
    text = CONFIG.format(
        root=root,
        fsync=chance.choice(["tier", "tier", "pfs"]),
        policy=policy,
        background=str(background).lower(),
        placement=chance.choice(["max-bandwidth", "round-robin", "random"]),
        ram=chance.choice([3072, 8192]),
        nvme=chance.choice([1024, 4096]),
    )
    (root / "c.yaml").write_text(text)
    return root / "c.yaml"


@dataclass
class Outcome:
    """What a round did; `wrong` is what should not be."""

    operations: int = 0
    promised: int = 0
    kills: int = 0
    unsynced: int = 0  # changes that the crash of the node took back
    wrong: list[str] = field(default_factory=list)
    lost: int = 0  # of `wrong`, what was promised and is not there


class Round:
    """The state that a fault plan may touch."""

    def __init__(self, programs: Programs, root: Path, seed: str, workload: str, fault: str) -> None:
        self.programs, self.root, self.seed = programs, root, seed
        self.instance = f"torture-{root.name}"
        self.chance = random.Random(f"{seed} {workload} {fault}")
        self.workload, self.plan = WORKLOADS[workload], PLANS[fault]
        self.clients: list[subprocess.Popen[bytes]] = []
        self.killed: list[subprocess.Popen[bytes]] = []
        self.readers: list[threading.Thread] = []
        self.lock, self.lines = threading.Lock(), 0
        self.at_end: list[Callable[[], object]] = []  # before the recovery
        self.believed_until = manifest.NEVER  # the time after which no acknowledgement counts, in ns
        self.outcome = Outcome()

    def environment(self) -> dict[str, str]:
        env = dict(os.environ)
        if self.plan.dies == "node" and not self.plan.disks:
            env["TB_UNDO"] = str(self.root / "undo")
        if self.plan.fault:
            env["TB_FAULT"] = self.plan.fault(self.root, random.Random(self.seed))
        return env

    def make(self) -> bool:
        for place in PLACES:
            (self.root / place).mkdir()
            if self.plan.disks:
                loop_disks.make(self.root / place)
        self.workload.prepare(self.root / "pfs")
        config = write_config(self.root, self.chance)
        started = self.programs.tierctl("start", "-c", config, "-i", self.instance, env=self.environment())
        if started.returncode:
            self.outcome.wrong.append(f"start: {started.stderr}")
            return False
        self.daemon = daemon_of(self.programs, self.instance)
        return True

    def start_load(self) -> None:
        self.manifest = (self.root / "manifest").open("ab", buffering=0)
        env = self.programs.under(self.instance, self.environment())
        command = [self.programs.python, "-S", "-E", str(HERE / self.workload.script), str(self.root / "pfs")]
        for who in self.workload.programs:
            error = (self.root / f"{who}.err").open("w")
            client = subprocess.Popen(
                [*command, who, self.seed],
                env=env,
                stdout=subprocess.PIPE,
                stderr=error,
                start_new_session=True,
            )
            reader = threading.Thread(target=self.record, args=(client,))
            reader.start()
            self.clients.append(client)
            self.readers.append(reader)

    def record(self, client: subprocess.Popen[bytes]) -> None:
        assert client.stdout
        for line in client.stdout:
            with self.lock:
                self.manifest.write(line)
                self.lines += 1

    def wait_for_load(self) -> None:
        deadline = time.monotonic() + LONGEST_LOAD_S
        while self.lines < ENOUGH_LINES and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(self.chance.random() * 0.3)

    def kill(self, clients: list[subprocess.Popen[bytes]]) -> None:
        """With the processes they made.  One that had ended before is wrong."""
        alive = [client for client in clients if client not in self.killed]
        for client in alive:
            if client.poll() is not None:
                who = [*map(str, client.args)][-2]  # type: ignore[arg-type]
                why = (self.root / f"{who}.err").read_text()[-300:]
                self.outcome.wrong.append(f"{who}: ended by itself with {client.returncode}: {why}")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(client.pid, signal.SIGKILL)
        self.killed += alive
        self.outcome.kills += len(alive)

    def strike(self) -> None:
        """The deaths of the plan, at random times."""
        dies = self.plan.dies
        if dies == "clients":
            most = len(self.clients) - 1
            for client in self.chance.sample(self.clients, self.chance.randint(1, most)) if most else []:
                self.kill([client])
                time.sleep(self.chance.random() * 0.1)
        else:
            kill(self.daemon)
            self.outcome.kills += 1
        if dies == "daemon":
            time.sleep(self.chance.random() * 0.3)
        self.kill(self.clients)

    def end_load(self) -> None:
        """Servers' processes leave their group: they die too, the daemon aside."""
        for pid in processes_of(self.root):
            if pid != self.daemon:
                kill(pid)
        for client, reader in zip(self.clients, self.readers, strict=True):
            client.wait()
            reader.join()
        os.fsync(self.manifest.fileno())
        self.manifest.close()

    def crash(self) -> None:
        region_of(self.instance).unlink()
        if self.plan.disks:
            for place in PLACES:
                loop_disks.cut_power(self.root / place)
                loop_disks.mount_again(self.root / place)
            return
        self.outcome.unsynced = crash(
            self.root / "undo", [self.root / place for place in PLACES], self.chance
        )

    def recover(self) -> None:
        words = (
            ["stop", "-i", self.instance]
            if self.plan.dies == "clients" and not self.plan.fault
            else ["recover", "-c", self.root / "c.yaml"]
        )
        done = self.programs.tierctl(*words)
        left = leftovers(self.instance, [self.root / "nvme", self.root / "bb"], self.root / "pfs")
        left += [f"process {pid} is left: {words}" for pid, words in processes_of(self.root).items()]
        if done.returncode and not self.is_names_lost(done.stderr):
            self.outcome.wrong.append(f"{words[0]}: exit status {done.returncode}: {done.stderr.strip()}")
        elif not done.returncode:
            self.outcome.wrong += left

    def is_names_lost(self, said: str) -> bool:
        """A disk that fails loses names that no fsync promised: their bytes are kept apart, and the recovery says so."""
        lines = said.splitlines()
        kept = [line for line in lines if "removed or replaced by another program; the " in line]
        return (
            self.plan.disks and len(kept) == len(lines) - 1 and "what is not on the PFS is kept" in lines[-1]
        )

    def judge(self) -> None:
        acts, seen = manifest.read((self.root / "manifest").read_text().splitlines(keepends=True))
        self.outcome.operations = len(acts)
        for act in acts:
            if act.ended > self.believed_until:
                act.ended = manifest.NEVER
        self.outcome.promised, lost = self.workload.check(acts, self.root / "pfs", self.plan.loses_unsynced)
        self.outcome.lost = len(lost)
        self.outcome.wrong += seen + lost
        if not self.outcome.promised and not self.plan.fault:
            self.outcome.wrong.append("nothing was promised: the round proves nothing")

    def run(self) -> Outcome:
        """Whatever breaks, no process of the round and no region is left."""
        try:
            if self.make():
                self.play()
        finally:
            for pid in processes_of(self.root):
                kill(pid)
            region_of(self.instance).unlink(missing_ok=True)
        return self.outcome

    def play(self) -> None:
        self.start_load()
        self.wait_for_load()
        self.outcome.wrong += self.plan.disturb(self)
        self.strike()
        self.end_load()
        for act in self.at_end:
            act()
        if self.plan.dies == "node":
            self.crash()
        self.recover()
        self.judge()
