"""Kill clients, daemon, both, or the node, under load; everything promised is on the PFS after the recovery.

torture.py --bin BIN_DIR --lib LIB_DIR [--rounds N] [--jobs N] [--seed TEXT] [--keep FOLDER]

Each round is an instance of its own, of a random configuration, with several clients under the adapter (client.py).
Their manifest is written outside.  A crash of the node also loses what was written to tiers and PFS and not synced
(crash.py).  A failing round keeps its folder and prints the seed that repeats its choices.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from check import check
from crash import crash
from instance import Programs, kill_daemon, leftovers, region_of

HERE = Path(__file__).parent
CLIENTS = 4
KINDS = ("clients", "daemon", "both", "node")

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
    policy, background = chance.choice([("on-close", False), ("on-close", True), ("watermark", False), ("manual", False)])
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


class Load:
    """The clients of a round, and the manifest that their pipes lead to."""

    def __init__(self, programs: Programs, root: Path, instance: str, env: dict[str, str], seed: str) -> None:
        self.manifest = (root / "manifest").open("ab", buffering=0)
        self.lock = threading.Lock()
        self.killed: list[subprocess.Popen[bytes]] = []
        env = programs.under(instance, env)
        command = [sys.executable, "-S", "-E", str(HERE / "client.py"), str(root / "pfs")]
        self.clients = [
            subprocess.Popen([*command, f"c{i}", seed], env=env, stdout=subprocess.PIPE, stderr=(root / f"c{i}.err").open("w"))
            for i in range(CLIENTS)
        ]
        self.readers = [threading.Thread(target=self.record, args=(client,)) for client in self.clients]
        for reader in self.readers:
            reader.start()

    def record(self, client: subprocess.Popen[bytes]) -> None:
        assert client.stdout
        for line in client.stdout:
            with self.lock:
                self.manifest.write(line)

    def wait_for_fsyncs(self, root: Path) -> None:
        deadline = time.monotonic() + 30
        while (root / "manifest").stat().st_size < 20_000 and time.monotonic() < deadline:
            time.sleep(0.01)

    def kill(self, clients: list[subprocess.Popen[bytes]]) -> list[str]:
        """What is wrong with clients that did not live until here."""
        alive = [client for client in clients if client not in self.killed]
        ended = [f"{client.args}: ended by itself with {client.returncode}" for client in alive if client.poll() is not None]
        for client in alive:
            client.kill()
        self.killed += alive
        return ended

    def end(self) -> list[str]:
        ended = self.kill(self.clients)
        for client, reader in zip(self.clients, self.readers, strict=True):
            client.wait()
            reader.join()
        os.fsync(self.manifest.fileno())
        self.manifest.close()
        return ended


def strike(kind: str, programs: Programs, instance: str, load: Load, chance: random.Random) -> list[str]:
    """Kill what the kind of round says, at random times."""
    time.sleep(chance.random() * 0.3)
    wrong: list[str] = []
    if kind == "clients":
        for client in chance.sample(load.clients, chance.randint(1, CLIENTS - 1)):
            wrong += load.kill([client])
            time.sleep(chance.random() * 0.1)
    if kind in ("daemon", "both", "node"):
        kill_daemon(programs, instance)
    if kind == "daemon":
        time.sleep(chance.random() * 0.3)
    return wrong + load.end()


def recover(kind: str, programs: Programs, config: Path, instance: str) -> list[str]:
    done = programs.tierctl(*(["stop", "-i", instance] if kind == "clients" else ["recover", "-c", config]))
    root = config.parent
    wrong = [f"{done.args}: exit status {done.returncode}: {done.stderr}"] if done.returncode else []
    return wrong + (leftovers(instance, [root / "nvme", root / "bb"]) if not wrong else [])


def one_round(programs: Programs, root: Path, seed: str, kind: str) -> tuple[int, int, list[str]]:
    """How many changes were promised, how many were lost in the crash, and what is wrong."""
    chance, instance = random.Random(seed), f"torture-{root.name}"
    for place in ("pfs", "nvme", "bb"):
        (root / place).mkdir()
    config, undo = write_config(root, chance), root / "undo"
    env = dict(os.environ) | ({"TB_UNDO": str(undo)} if kind == "node" else {})
    started = programs.tierctl("start", "-c", config, "-i", instance, env=env)
    if started.returncode:
        return 0, 0, [started.stderr]
    (root / "manifest").touch()
    load = Load(programs, root, instance, env, seed)
    load.wait_for_fsyncs(root)
    wrong, lost = strike(kind, programs, instance, load, chance), 0
    if kind == "node":
        region_of(instance).unlink()
        lost = crash(undo, [root / place for place in ("pfs", "nvme", "bb")], chance)
    wrong += recover(kind, programs, config, instance)
    promised, found = check(root / "manifest", root / "pfs", crash=kind == "node")
    return promised, lost, wrong + found + ([] if promised else ["nothing was promised: the round proves nothing"])


def run_round(programs: Programs, number: int, options: argparse.Namespace) -> tuple[str, int, int, list[str]]:
    seed, kind = f"{options.seed}-{number}", KINDS[number % len(KINDS)]
    root = Path(tempfile.mkdtemp(prefix="tierbench-torture-", dir=options.keep))
    try:
        promised, lost, wrong = one_round(programs, root, seed, kind)
    except Exception as error:  # a round that breaks is evidence too
        promised, lost, wrong = 0, 0, [repr(error)]
    if wrong:
        print(f"round {number} ({kind}, seed {seed}) failed; its evidence is in {root}", *wrong[:10], sep="\n  ", flush=True)
    else:
        shutil.rmtree(root)
    return kind, promised, lost, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--lib", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--keep", type=Path, default=Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
    options = parser.parse_args()
    programs = Programs(options.bin, options.lib)
    print(f"seed {options.seed}", flush=True)
    totals = {kind: [0, 0, 0, 0] for kind in KINDS}  # rounds, promised, lost, failed
    with ThreadPoolExecutor(options.jobs) as pool:
        rounds = [pool.submit(run_round, programs, number, options) for number in range(options.rounds)]
        for done, future in enumerate(as_completed(rounds), 1):
            kind, promised, lost, wrong = future.result()
            totals[kind] = [a + b for a, b in zip(totals[kind], [1, promised, lost, bool(wrong)], strict=True)]
            if done % 50 == 0:
                print(f"{done} of {options.rounds} rounds", flush=True)
    for kind, (n, promised, lost, failed) in totals.items():
        extra = f", {lost} unsynced changes lost" if lost else ""
        print(f"{kind}: {n} rounds, {promised} promised changes checked{extra}, {failed} failed")
    return 1 if any(total[3] for total in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
