"""Cut the power of a guest under load, again and again; everything promised is on its PFS after the recovery.

power.py --bin BIN_DIR --lib LIB_DIR --kernel FOLDER [--rounds N] [--file-system ext4|xfs] [--seed TEXT] [--keep FOLDER]
power.py ... --self-test

Of N rounds a quarter are prefixes of a log of writes (dm-log-writes), the others cuts: SIGKILL to qemu, some after a time
in which a device's writes failed or were lost (dm-flakey), some with a second cut while the first is recovered.
With --self-test the disks of each round lose writes and do not say so: all rounds must fail.
A failing round keeps its disks and prints where they are.  Exit status 77: what a guest needs is not here.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import initramfs
from guest import GuestError, Machine
from log_writes import LogError
from power_rounds import KINDS, LIE, Bench, Outcome, Series, log_round, save_for_series

sys.path.insert(0, str(initramfs.TORTURE))

import reliability

SKIPPED = 77
SERIES_ROUNDS = 12  # lives of one pair of disks
LOG_PREFIXES = 6


def run(bench: Bench, rounds: int) -> Iterator[list[Outcome]]:
    """Series and logs of writes in turn, until there are enough rounds."""
    done, number, saved = 0, 0, save_for_series(bench)
    while done < rounds:
        number += 1
        try:
            if number % 3:
                outcomes = Series(bench, number, saved if number % 4 else None).run(
                    min(SERIES_ROUNDS, rounds - done)
                )
            else:
                outcomes = log_round(bench, number, min(LOG_PREFIXES, rounds - done))
        except (GuestError, LogError) as error:  # evidence too
            outcomes = [Outcome("guest", bench.file_system, wrong=[str(error)])]
        done += len(outcomes)
        yield outcomes


def report(totals: dict[tuple[str, str], list[int]], outcome: Outcome) -> None:
    """Count one round, and say what is wrong with it."""
    total = totals.setdefault((outcome.file_system, outcome.kind), [0, 0, 0, 0])
    one = [1, outcome.acknowledged, outcome.promised, bool(outcome.wrong)]
    total[:] = [a + b for a, b in zip(total, one, strict=True)]
    if outcome.wrong:
        print(f"{outcome.file_system} {outcome.kind}: FAILED", *outcome.wrong[:20], sep="\n  ", flush=True)


def row_of(totals: dict[tuple[str, str], list[int]], seed: str) -> reliability.Row:
    """Each round ends with a cut; one that fails counts as lost."""
    run_, acknowledged, promised, failed = map(sum, zip(*totals.values(), strict=True))
    return reliability.Row(
        date=reliability.today(),
        commit=reliability.commit(),
        part="power",
        seed=seed,
        run=run_,
        passed=run_ - failed,
        not_run=0,
        operations=acknowledged,
        promised=promised,
        kills=run_,
        lost=failed,
    )


def main() -> int:
    """Run rounds, and print what they showed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--lib", type=Path, required=True)
    parser.add_argument("--kernel", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--file-system", choices=["ext4", "xfs"], action="append")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--record", type=Path, help="the file to which the totals are added (reliability.py)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tierbench-power-", dir=options.keep))
    print(f"seed {options.seed}, evidence in {folder}", flush=True)
    totals: dict[tuple[str, str], list[int]] = {}
    for kind in options.file_system or ["ext4", "xfs"]:
        try:
            machine = prepare(options, folder, kind)
        except initramfs.MissingError as missing:
            print(f"skipped: {missing}")
            folder.rmdir()
            return SKIPPED
        kinds = (LIE,) if options.self_test else KINDS
        for outcomes in run(Bench(machine, folder, kind, options.seed, kinds), options.rounds):
            for outcome in outcomes:
                report(totals, outcome)
            print(
                f"{kind}: {sum(t[0] for k, t in totals.items() if k[0] == kind)} of {options.rounds} rounds",
                flush=True,
            )
    for (file_system, kind), (n, acknowledged, promised, failed) in totals.items():
        print(
            f"{file_system} {kind}: {n} rounds, {acknowledged} acknowledgements, {promised} promised, {failed} failed"
        )
    if options.record and not options.self_test:
        reliability.add(options.record, row_of(totals, options.seed))
    failed = sum(total[3] for total in totals.values())
    as_it_should = failed == sum(total[0] for total in totals.values()) if options.self_test else not failed
    if as_it_should:
        shutil.rmtree(folder)
    return 0 if as_it_should else 1


def prepare(options: argparse.Namespace, folder: Path, kind: str) -> Machine:
    """The machine for guests with disks of one kind of file system."""
    kernel, modules = initramfs.find_kernel(options.kernel)
    qemu = initramfs.find_program("qemu-system-x86_64")
    initramfs.find_program(f"mkfs.{kind}")
    archive = initramfs.build(options.bin, options.lib, modules, kind)
    path = folder / f"archive.{kind}"
    path.write_bytes(archive)
    return Machine(qemu, kernel, path)


if __name__ == "__main__":
    sys.exit(main())
