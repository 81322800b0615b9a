"""Bounded exhaustive crash tests: sequences of few operations, a crash after each, and a model of what is allowed.

ace.py --bin BIN_DIR --lib LIB_DIR [--sequences N] [--sampled N] [--seed TEXT] [--jobs N] [--batch N]
       [--shrink N] [--without WORD]... [--keep FOLDER]
ace.py --bin BIN_DIR --lib LIB_DIR --only 'SETUP FAULT SEED: OPERATION; OPERATION ...'

Without --sequences, all of up to two core operations (ace_operations.py), and --sampled of three; with it, that many
drawn from them.  Each meets one setup and one fault (ace_batch.py), drawn by the seed.  What fails is run again alone,
made shorter while it fails, and printed as a command that repeats it.  --without WORD leaves out sequences with that
operation, to go on past a known fault.
"""

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import reliability
from ace_batch import FAULTS, SETUPS, Batch, Case, run, run_bare
from ace_operations import exhaustive, is_possible, sampled
from instance import Programs

TRIES = 3


def batches(sequences: list[list[str]], seed: str, size: int) -> list[Batch]:
    """Every sequence in one batch; setups and faults take turns, all pairs of them alike often."""
    chance = random.Random(seed)
    chance.shuffle(sequences)
    pairs = list(itertools.product(SETUPS, FAULTS))
    chance.shuffle(pairs)
    found = []
    for number, first in enumerate(range(0, len(sequences), size)):
        setup, fault = pairs[number % len(pairs)]
        cases = [Case(sequence, look=chance.random() < 0.3) for sequence in sequences[first : first + size]]
        found.append(Batch(setup, fault, f"{seed}-{number}", cases))
    return found


def spell(batch: Batch, operations: list[str]) -> str:
    return f"{batch.setup} {batch.fault} {batch.seed}: {'; '.join(operations)}"


def read_spelling(text: str) -> Batch:
    head, _, tail = text.partition(":")
    setup, fault, seed = head.split()
    return Batch(setup, fault, seed, [Case([operation.strip() for operation in tail.split(";")])])


def fails(programs: Programs, batch: Batch, operations: list[str]) -> list[str]:
    """What is wrong with a sequence alone, in some of a few tries: the crash draws what it takes back."""
    for attempt in range(TRIES):
        alone = Batch(
            batch.setup,
            batch.fault,
            f"{batch.seed}.{attempt}" if attempt else batch.seed,
            [Case(operations, look=attempt == 1)],
        )
        wrong = run(programs, alone) + alone.cases[0].wrong
        if wrong:
            return wrong
    return []


def shrink(programs: Programs, batch: Batch, operations: list[str]) -> tuple[list[str], list[str]]:
    """The shortest sequence that still fails by leaving out operations, and how; no failure alone: as it was."""
    wrong = fails(programs, batch, operations)
    left_out = range(len(operations)) if wrong else range(0)
    for i in left_out:
        shorter = operations[:i] + operations[i + 1 :]
        if shorter and is_possible(shorter) and fails(programs, batch, shorter):
            return shrink(programs, batch, shorter)
    return operations, wrong


def report(programs: Programs, batch: Batch, case: Case, options: argparse.Namespace) -> None:
    shortest, wrong = shrink(programs, batch, case.operations)
    how = wrong or [f"only beside the others of its batch: {bad}" for bad in case.wrong]
    command = f"{sys.executable} {__file__} --bin {options.bin} --lib {options.lib} --only '{spell(batch, shortest)}'"
    print(f"failed: {spell(batch, case.operations)}", *how[:4], command, sep="\n  ", flush=True)


def run_batch(programs: Programs, batch: Batch, keep: Path | None) -> list[str]:
    try:
        return run(programs, batch, keep)
    except Exception as error:  # a batch that breaks is evidence too
        return [repr(error)]


def run_all(programs: Programs, todo: list[Batch], options: argparse.Namespace) -> int:
    counted: Counter[str] = Counter()
    shown: Counter[tuple[str, ...]] = Counter()
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, (batch, wrong) in enumerate(
            zip(todo, pool.map(lambda b: run_batch(programs, b, options.keep), todo), strict=True), 1
        ):
            failed = [case for case in batch.cases if case.wrong]
            counted[batch.fault] += len(batch.cases)
            counted["operations"] += sum(len(case.operations) for case in batch.cases)
            counted["failed"] += len(failed) + bool(wrong and not failed)
            if wrong:
                print(
                    f"batch {number} ({batch.setup} {batch.fault} {batch.seed}):",
                    *wrong,
                    sep="\n  ",
                    flush=True,
                )
            for case in failed:
                kind = tuple(sorted({operation.split()[0] for operation in case.operations}))
                shown[kind] += 1
                if shown[kind] == 1 and len(shown) <= options.shrink:
                    report(programs, batch, case, options)
                else:
                    print(f"failed: {spell(batch, case.operations)}: {case.wrong[0]}", flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(todo)} batches", flush=True)
    if options.record:
        record(options, counted)
    faults = ", ".join(f"{counted[fault]} {fault}" for fault in FAULTS)
    print(f"{sum(counted[fault] for fault in FAULTS)} sequences ({faults}): {counted['failed']} failed")
    return 1 if counted["failed"] else 0


def record(options: argparse.Namespace, counted: Counter[str]) -> None:
    """Each sequence has a process of its own, which is killed but where tierd alone dies; what failed counts as lost."""
    run_ = sum(counted[fault] for fault in FAULTS)
    row = reliability.Row(
        date=reliability.today(),
        commit=reliability.commit(),
        part="ace",
        seed=options.seed,
        run=run_,
        passed=run_ - counted["failed"],
        not_run=0,
        operations=counted["operations"],
        promised=run_,
        kills=run_ - counted["daemon"],
        lost=counted["failed"],
    )
    reliability.add(options.record, row)


def all_sequences(options: argparse.Namespace) -> list[list[str]]:
    found = [*exhaustive(), *sampled(options.sampled, options.seed)]
    if run_bare(options.keep, [["zero a"]])[0].wrong:
        print("skipped: sequences with `zero`: this file system has no FALLOC_FL_ZERO_RANGE", flush=True)
        found = [sequence for sequence in found if not any(o.startswith("zero") for o in sequence)]
    found = [sequence for sequence in found if not any(o.split()[0] in options.without for o in sequence)]
    return random.Random(options.seed).sample(found, options.sequences) if options.sequences else found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--lib", type=Path, required=True)
    parser.add_argument("--sequences", type=int, default=0)
    parser.add_argument("--sampled", type=int, default=2000)
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--shrink", type=int, default=12, help="how many failures are made shorter")
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--without", action="append", default=[], metavar="WORD")
    parser.add_argument("--record", type=Path, help="the file to which the totals are added (reliability.py)")
    parser.add_argument("--only")
    options = parser.parse_args()
    programs = Programs(options.bin.resolve(), options.lib.resolve())
    if options.only:
        batch = read_spelling(options.only)
        wrong = fails(programs, batch, batch.cases[0].operations)
        print(*(wrong or ["passed"]), sep="\n")
        return 1 if wrong else 0
    print(f"seed {options.seed}", flush=True)
    return run_all(programs, batches(all_sequences(options), options.seed, options.batch), options)


if __name__ == "__main__":
    sys.exit(main())
