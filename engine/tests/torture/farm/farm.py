"""The oracle farm: seeded workloads under the adapter, times fault plans, judged by what was acknowledged.

farm.py --bin BIN_DIR --lib LIB_DIR [--hours H | --rounds N] [--workload NAME]... [--fault NAME]... [--seed TEXT]
        [--jobs N] [--keep FOLDER] [--record FILE]
farm.py --bin BIN_DIR --lib LIB_DIR --only 'WORKLOAD FAULT SEED'

workloads.py and faults.py list the names.  Without --hours and --rounds, each pair once.  What can't run here is named
and counted as not run.  A failing round keeps its folder and prints the command that repeats its choices.  --record adds the
totals of the run to a file (reliability.py).
"""

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import faults
import reliability
import workloads
from faults import PLANS
from instance import Programs
from rounds import Outcome, Round
from workloads import WORKLOADS

HERE = Path(__file__).parent
NOBODY = 65534
OWN_SHM = 'mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm && exec "$@"'
ELSEWHERE = "TB_FARM_PYTHON"  # the Python to use, in a farm that another one started for one round
LONGEST_ROUND_S = 300


def elsewhere(workload: str, fault: str) -> list[str]:
    """What a round must be started through: other rights, or a /dev/shm of its own."""
    if os.environ.get(ELSEWHERE):
        return []
    plan = PLANS[fault]
    words = ["unshare", "-m", "bash", "-c", OWN_SHM, "farm"] if plan.own_shm else []
    words = ["unshare", "-m"] if plan.disks else words
    if WORKLOADS[workload].without_root and not os.geteuid():
        words += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return words


def python_of_others(prefix: list[str]) -> str:
    """The first Python that runs itself with those rights; ours may be in a home that is closed to others."""
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])"
    for python in (sys.executable, "/usr/bin/python3"):
        if not subprocess.run([*prefix, python, "-c", again], capture_output=True, check=False).returncode:
            return python
    return ""


def folder_for(workload: str, keep: Path | None) -> Path:
    """One that the user of the round may enter."""
    if not WORKLOADS[workload].without_root or os.geteuid():
        return Path(tempfile.mkdtemp(prefix="tierbench-torture-", dir=keep))
    folder = Path(tempfile.mkdtemp(prefix="tierbench-torture-", dir="/var/tmp"))
    os.chown(folder, NOBODY, NOBODY)
    return folder


def run_elsewhere(
    prefix: list[str], options: argparse.Namespace, root: Path, workload: str, fault: str, seed: str
) -> Outcome:
    python = python_of_others([word for word in prefix if word.startswith(("setpriv", "--"))])
    command = [
        python,
        str(HERE / "farm.py"),
        "--bin",
        str(options.bin),
        "--lib",
        str(options.lib),
        "--in",
        str(root),
    ]
    done = subprocess.run(
        [*prefix, *command, "--only", f"{workload} {fault} {seed}"],
        capture_output=True,
        text=True,
        timeout=LONGEST_ROUND_S,
        env=dict(os.environ) | {ELSEWHERE: python},
        check=False,
    )
    last = done.stdout.strip().rpartition("\n")[2]
    return (
        Outcome(**json.loads(last))
        if last.startswith("{")
        else Outcome(wrong=[f"{prefix[0]}: {done.stderr[-500:]}"])
    )


def attempt(options: argparse.Namespace, root: Path, workload: str, fault: str, seed: str) -> Outcome:
    try:
        if prefix := elsewhere(workload, fault):
            return run_elsewhere(prefix, options, root, workload, fault, seed)
        return Round(
            Programs(options.bin, options.lib, os.environ.get(ELSEWHERE, sys.executable)),
            root,
            seed,
            workload,
            fault,
        ).run()
    except subprocess.TimeoutExpired as error:
        return Outcome(wrong=[f"{' '.join(map(str, error.cmd))}: has not ended after {error.timeout} s"])
    except Exception as error:  # a round that breaks is evidence too
        return Outcome(wrong=["".join(traceback.format_exception(error))[-600:]])


def run_round(options: argparse.Namespace, workload: str, fault: str, seed: str) -> tuple[str, Outcome]:
    root = folder_for(workload, options.keep)
    outcome = attempt(options, root, workload, fault, seed)
    if outcome.wrong:
        command = f"{sys.executable} {__file__} --bin {options.bin} --lib {options.lib} --only '{workload} {fault} {seed}'"
        print(
            f"failed: {workload} {fault} {seed}; its evidence is in {root}",
            *outcome.wrong[:8],
            command,
            sep="\n  ",
            flush=True,
        )
    else:
        shutil.rmtree(root)
    return f"{workload} {fault}", outcome


def unfit(workload: str, plan: faults.Plan) -> str:
    """Why the pair makes no sense; empty: it does."""
    if WORKLOADS[workload].maps and plan.loses_unsynced and not plan.disks:
        return "a played crash of the node does not see what mappings change"
    if WORKLOADS[workload].maps and plan.disks and plan.dies != "node":
        return "a store into a mapping of a read-only file system is a SIGBUS, without the engine too"
    if WORKLOADS[workload].without_root and plan.disks and not os.geteuid():
        return "only root mounts disks"
    return ""


def choose(options: argparse.Namespace) -> tuple[list[tuple[str, str]], int]:
    """The pairs that can run here; those that can't are named, and counted."""
    here, not_run = [], 0
    for workload, fault in itertools.product(options.workload or WORKLOADS, options.fault or PLANS):
        why = workloads.missing(WORKLOADS[workload], not os.geteuid()) or faults.missing(PLANS[fault])
        if why := why or unfit(workload, PLANS[fault]):
            print(f"skipped: {workload} {fault}: {why}", flush=True)
            not_run += 1
        else:
            here.append((workload, fault))
    return here, not_run


def rounds(pairs: list[tuple[str, str]], seed: str, count: int) -> Iterator[tuple[str, str, str]]:
    """Every pair before any comes again; `count` of them, 0: without end."""
    chance = random.Random(seed)
    for number in itertools.count():
        if number and number == count:
            return
        if number % len(pairs) == 0:
            chance.shuffle(pairs)
        yield (*pairs[number % len(pairs)], f"{seed}-{number}")


def run_all(options: argparse.Namespace, pairs: list[tuple[str, str]]) -> list[tuple[str, Outcome]]:
    """Rounds side by side until their number or the time is reached."""
    deadline = time.monotonic() + options.hours * 3600 if options.hours else float("inf")
    todo = rounds(pairs, options.seed, 0 if options.hours else options.rounds or len(pairs))
    done: list[tuple[str, Outcome]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        running: set[Future[tuple[str, Outcome]]] = set()
        while True:
            while len(running) < options.jobs and time.monotonic() < deadline and (words := next(todo, None)):
                running.add(pool.submit(run_round, options, *words))
            if not running:
                return done
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            done += [future.result() for future in finished]
            if len(done) % 50 == 0:
                print(f"{len(done)} rounds", flush=True)


def summarise(done: list[tuple[str, Outcome]], which: int) -> None:
    """By workload (0) or fault (1)."""
    for name in sorted({pair.split()[which] for pair, _ in done}):
        some = [outcome for pair, outcome in done if pair.split()[which] == name]
        promised, unsynced = sum(o.promised for o in some), sum(o.unsynced for o in some)
        extra = f", {unsynced} unsynced changes taken back" if unsynced else ""
        print(
            f"{name}: {len(some)} rounds, {promised} promises checked{extra}, {sum(bool(o.wrong) for o in some)} failed"
        )


def record(options: argparse.Namespace, done: list[tuple[str, Outcome]], not_run: int) -> None:
    outcomes = [outcome for _, outcome in done]
    row = reliability.Row(
        date=reliability.today(),
        commit=reliability.commit(),
        part=options.part,
        seed=options.seed,
        run=len(done),
        passed=sum(not o.wrong for o in outcomes),
        not_run=not_run,
        operations=sum(o.operations for o in outcomes),
        promised=sum(o.promised for o in outcomes),
        kills=sum(o.kills for o in outcomes),
        lost=sum(o.lost for o in outcomes),
    )
    reliability.add(options.record, row)


def run_only(options: argparse.Namespace) -> int:
    workload, fault, seed = options.only.split()
    if options.inside:
        print(json.dumps(asdict(attempt(options, options.inside, workload, fault, seed))))
        return 0
    _, outcome = run_round(options, workload, fault, seed)
    print("failed" if outcome.wrong else f"passed: {outcome.promised} promises checked")
    return 1 if outcome.wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--lib", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--workload", action="append", choices=WORKLOADS)
    parser.add_argument("--fault", action="append", choices=PLANS)
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--part", default="farm", help="the name of this run in the totals")
    parser.add_argument("--only")
    parser.add_argument("--in", dest="inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.bin, options.lib = options.bin.resolve(), options.lib.resolve()
    if options.only:
        return run_only(options)
    print(f"seed {options.seed}", flush=True)
    pairs, not_run = choose(options)
    done = run_all(options, pairs)
    summarise(done, 0)
    summarise(done, 1)
    if options.record:
        record(options, done, not_run)
    return 1 if any(outcome.wrong for _, outcome in done) else 0


if __name__ == "__main__":
    sys.exit(main())
