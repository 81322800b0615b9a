"""Rounds of power cuts: a load on file systems of the guest, the end, a recovery, and what it left.

A series is one pair of disks through many lives of the guest: each recovers what the cut before left and loads again.
"""

import io
import random
import shutil
import sys
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import disks
import log_writes
from guest import Guest, Machine, save_machine
from initramfs import FARM

sys.path.insert(0, str(FARM))

from names import check_tree, is_end, until_error, until_mark
from rounds import CONFIG

CLIENTS = 3
KINDS = ("cut", "errors", "drop")
LIE = "lie"  # as "drop", but the checker is not told: it must notice
LOG_MIB = 768
SECOND_CUT_CHANCE = 0.2


@dataclass
class Outcome:
    """What one round showed."""

    kind: str
    file_system: str
    promised: int = 0
    acknowledged: int = 0  # operations that returned before the cut
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """What all series of a run share."""

    machine: Machine
    folder: Path
    file_system: str
    seed: str
    kinds: tuple[str, ...] = KINDS


def config_text(chance: random.Random) -> str:
    """A configuration as the torture's, on the guest's file systems."""
    policy, background = chance.choice(
        [("on-close", False), ("on-close", True), ("watermark", False), ("manual", False)]
    )
    return CONFIG.format(
        root="/mnt",
        fsync=chance.choice(["tier", "tier", "tier", "pfs"]),
        policy=policy,
        background=str(background).lower(),
        placement=chance.choice(["max-bandwidth", "round-robin", "random"]),
        ram=chance.choice([3072, 8192]),
        nvme=chance.choice([1024, 4096]),
    )


def read_trees(archive: bytes) -> dict[str, dict[str, bytes]]:
    """The files of the PFS after each recovery, by the mark before them."""
    trees: dict[str, dict[str, bytes]] = {}
    tree: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), ignore_zeros=True) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if name.startswith("tree."):
                tree = trees[name.removeprefix("tree.")] = {}
            elif member.isfile() and (content := tar.extractfile(member)):
                tree[name] = content.read()
    return trees


def states_of(text: str, name: str) -> list[str]:
    """What the guest said from the beginning to the end of one recovery."""
    lines = text.splitlines()
    start = lines.index(f"recovering {name}")
    return lines[start : lines.index(f"recovered {name}", start)]


def what_is_wrong(states: list[str]) -> list[str]:
    """Both recoveries end with 0, the second finds nothing, and tiers are empty afterwards."""
    wrong = [line for line in states if line.startswith(("wrong: ", "left: "))]
    wrong += [f"no `{line}`" for line in ("recover 1 exit 0", "recover 2 exit 0") if line not in states]
    if "recover 2: 0 instances recovered" not in states:
        wrong.append("the second recovery found something")
    return wrong + ([line for line in states if line.startswith("recover ")] if wrong else [])


def judge(guest: Guest, name: str, kind: str, file_system: str, manifest: list[str]) -> Outcome:
    """Compare one recovery with the manifest of the load before it."""
    outcome = Outcome(kind, file_system, acknowledged=sum(is_end(line) for line in manifest))
    outcome.wrong = what_is_wrong(states_of(guest.text("states"), name))
    result = check_tree(manifest, read_trees((guest.folder / "tree").read_bytes())[name])
    outcome.promised = result.promised
    outcome.wrong += result.wrong
    return outcome


def load_job(kind: str, seed: str, chance: random.Random) -> str:
    """What the guest does after it has recovered."""
    job = f"clean\nload {seed} {CLIENTS}\nsleep {1.5 + 2.5 * chance.random():.2f}\n"
    if kind == "errors":
        device, disk = chance.choice([("tiers", "/dev/vda"), ("pfs", "/dev/vdb")])
        job += f"change {device} {disk} error_writes\nsleep {0.1 + chance.random():.2f}\nchange {device} {disk} none\n"
    if kind in ("drop", LIE):
        job += "drop_all\n"
    return job + "say struck\nsleep 100\n"


def save_for_series(bench: Bench) -> Path:
    """A machine that has started, for series to go on with."""
    folder = bench.folder / f"saved-{bench.file_system}"
    folder.mkdir()
    empty = [disks.make_sparse(folder / place, disks.SIZES[bench.file_system]) for place in ("tiers", "pfs")]
    return save_machine(bench.machine, folder / "life", empty)


class Series:
    """One pair of disks."""

    def __init__(self, bench: Bench, number: int, saved: Path | None) -> None:
        self.bench, self.name = bench, f"{bench.seed}-{bench.file_system}-{number}"
        self.folder = bench.folder / self.name
        self.folder.mkdir(parents=True)
        self.disks = [
            disks.make_file_system(self.folder / place, bench.file_system) for place in ("tiers", "pfs")
        ]
        self.saved, self.lives = saved, 0

    def boot(self, job: str, **files: str) -> Guest:
        """Give the machine power."""
        self.lives += 1
        text = f"FS={self.bench.file_system}\non_two_disks /dev/vda /dev/vdb\nmount_all\n{job}"
        return Guest(
            self.bench.machine,
            self.folder / f"life{self.lives}",
            self.disks,
            {"job.sh": text, **files},
            self.saved,
        )

    def load(self, number: int, before: str, old: str) -> tuple[Guest, str, str]:
        """Recover what is there, load, and cut the power: the guest, the round's kind and its configuration."""
        chance = random.Random(f"{self.name}-{number}")
        kind, new = chance.choice(self.bench.kinds), config_text(chance)
        guest = self.boot(
            before + load_job(kind, f"{self.name}-{number}", chance), **{"old.yaml": old, "new.yaml": new}
        )
        guest.wait_for("loading")
        guest.wait_for("struck", may_end=kind == "errors")
        time.sleep(chance.random() * (0.3 if kind == "cut" else 1.0) + (3.0 if kind == LIE else 0.0))
        guest.cut_power()
        return guest, kind, new

    def cut_recovery(self, old: str, chance: random.Random) -> None:
        """A second cut while the first is recovered."""
        guest = self.boot("recover again\n", **{"old.yaml": old})
        guest.wait_for("recovering again")
        time.sleep(chance.random() * 0.4)
        guest.cut_power()

    def keep_evidence(self, number: int) -> None:
        """The disks as the cut left them."""
        for disk in self.disks:
            disks.copy_sparse(disk, self.folder / f"{disk.name}.{number % 2}")

    def run(self, rounds: int) -> list[Outcome]:
        """A cut a round; the last life only recovers."""
        outcomes: list[Outcome] = []
        guest, kind, old = self.load(0, "", "")
        for number in range(1, rounds + 1):
            manifest = manifest_of(guest, kind, self.bench.file_system)
            self.keep_evidence(number)
            chance = random.Random(f"{self.name}-again-{number}")
            if chance.random() < SECOND_CUT_CHANCE:
                self.cut_recovery(old, chance)
            last_kind = kind
            if number < rounds:
                guest, kind, old = self.load(number, "recover first\n", old)
            else:
                guest = self.boot("recover first\n", **{"old.yaml": old})
                guest.wait_for_end()
            outcomes.append(judge(guest, "first", last_kind, self.bench.file_system, manifest))
            if outcomes[-1].wrong:
                outcomes[-1].wrong.insert(
                    0, f"life {self.lives} of {self.folder}; its disks before: *.{number % 2}"
                )
                break
        else:
            shutil.rmtree(self.folder)
        return outcomes


def manifest_of(guest: Guest, kind: str, file_system: str) -> list[str]:
    """What was acknowledged before the cut, before the devices lost all writes, or before ext4 lied.

    Once its journal is aborted ext4 fails one fsync and may return 0 from later ones (guest.sh).
    """
    lines = guest.text("manifest").splitlines()
    if kind == "errors" and file_system == "ext4":
        return until_error(lines)
    return until_mark(lines, "drop", "drop") if kind == "drop" else lines


def log_round(bench: Bench, number: int, prefixes: int) -> list[Outcome]:
    """A load with its writes logged, and for some prefixes of the log a recovery of what a disk had there."""
    name = f"{bench.seed}-{bench.file_system}-log{number}"
    chance, folder = random.Random(name), bench.folder / name
    folder.mkdir(parents=True)
    parts = [disks.make_file_system(folder / place, bench.file_system) for place in ("tiers", "pfs")]
    empty = disks.join(parts, folder / "empty")
    log = disks.make_sparse(folder / "log", LOG_MIB << 20)
    config = config_text(chance)
    job = f"FS={bench.file_system}\nlog_writes /dev/vda /dev/vdb\non_one_disk /dev/loop0\nmount_all\n"
    job += f"clean\nmark_log &\nload {name} {CLIENTS}\nsleep {3 + 2 * chance.random():.2f}\n"
    disk = disks.copy_sparse(empty, folder / "disk")
    guest = Guest(
        bench.machine,
        folder / "load",
        [disk, log],
        {"job.sh": job + "say struck\nsleep 100\n", "new.yaml": config},
    )
    guest.wait_for("struck")
    guest.cut_power()
    outcomes = recover_prefixes(bench, folder, config, guest.text("manifest").splitlines(), prefixes, chance)
    if any(outcome.wrong for outcome in outcomes):
        next(o for o in outcomes if o.wrong).wrong.insert(0, f"evidence is in {folder}")
    else:
        shutil.rmtree(folder)
    return outcomes


def choose(log: list[log_writes.Entry], prefixes: int, chance: random.Random) -> list[int]:
    """How many entries each prefix has: each ends with a flush or a mark, after the first mark."""
    marks = [i for i, entry in enumerate(log) if entry.flags & log_writes.MARK]
    ends = [i + 1 for i in range(marks[0], len(log)) if log[i].flags & (log_writes.FLUSH | log_writes.MARK)]
    return sorted(chance.sample(ends, min(prefixes, len(ends))))


def recover_prefixes(
    bench: Bench, folder: Path, config: str, manifest: list[str], prefixes: int, chance: random.Random
) -> list[Outcome]:
    """One guest recovers them all, each from a disk of its own."""
    log = list(log_writes.entries(folder / "log"))
    lengths, images, job = choose(log, prefixes, chance), [], f"FS={bench.file_system}\n"
    for i, length in enumerate(lengths):
        images.append(disks.copy_sparse(folder / "empty", folder / f"prefix{i}"))
        log_writes.replay(folder / "log", log[:length], images[-1])
        job += f"on_one_disk /dev/vd{chr(ord('a') + i)}\nmount_all\nrecover {i}\nunmount_all\n"
    guest = Guest(bench.machine, folder / "recovery", images, {"job.sh": job, "old.yaml": config})
    guest.wait_for_end()
    outcomes = []
    for i, length in enumerate(lengths):
        before = [entry.name for entry in log[:length] if entry.name]
        after = [entry.name for entry in log[length:] if entry.name]
        lines = until_mark(manifest, before[-1] if before else "", after[0] if after else "")
        outcomes.append(judge(guest, str(i), "log", bench.file_system, lines))
        if outcomes[-1].wrong:
            outcomes[-1].wrong.insert(0, f"prefix of {length} entries, disk prefix{i}")
    return outcomes
