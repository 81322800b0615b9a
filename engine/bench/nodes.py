"""What a call to another node costs: tb_net_call over a raw socket and over fi_pingpong, in turn.

    nodes.py [BUILD_DIR [OUT_DIR]] [--repetitions N] [--only WORD]

Two processes of this machine, by its loopback: one asks for 1 MiB or 4 KiB by a request of 64 bytes. The raw
socket does the same with nothing in between; fi_pingpong (libfabric-bin) sends as much there and back with
the provider itself, and half of its time counts. Rates, as one over seconds.

As root also operations of programs with `nodes: shared` (several/shared.py): their cost with 1 to 8 nodes and
1 to 64 ranks, what a second copy adds to a commit, messages, and memory of keepers; and reads of another
node's file over a link of a modelled rate (several/link.py). Prints as bench.py does, writes
OUT_DIR/nodes-<time>.json with `costs`, from which `tierbench project --measured` goes on. What is not here is
left out by name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rows import CannotMeasureError, Pairs, Row
from session import chosen, finish, measuring, parse, provenance, run
from setting import MIB, Bench
from several import link, shared

BUDGET = 0.8
PROVIDERS = ("tcp", "tcp;ofi_rxm", "shm")
CALLS = {MIB: 500, 4096: 5000}
NAMES = {MIB: "1 MiB", 4096: "4 KiB"}
PORT = 47600
"""Of fi_pingpong's own connection; the process id is added, so that two runs do not meet."""
LIMIT_S = 120


def call_rate(bench: Bench, way: str, size: int, at_once: int) -> float:
    """Calls a second."""
    folder = bench.root / "net"
    folder.mkdir(mode=0o700, exist_ok=True)
    words = [
        str(bench.build / "bin/tb-net-cost"),
        str(folder),
        way,
        str(size),
        str(CALLS[size]),
        str(at_once),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)  # noqa: S603
    if done.returncode:
        raise CannotMeasureError(done.stderr.strip()[-300:])
    return CALLS[size] / (int(done.stdout) / 1e9)


def pingpong_rate(provider: str, size: int) -> float:
    """Transfers one way a second."""
    port = str(PORT + os.getpid() % 1000)
    words = ["fi_pingpong", "-p", provider, "-e", "rdm", "-S", str(size), "-I", str(CALLS[size] // 5)]
    with subprocess.Popen([*words, "-B", port], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:  # noqa: S603
        try:
            for _ in range(50):  # until the server listens
                time.sleep(0.1)
                client = subprocess.run(  # noqa: S603
                    [*words, "-P", port, "127.0.0.1"],
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_S,
                    check=False,
                )
                if client.returncode == 0:
                    break
        finally:
            server.kill()
    numbers = client.stdout.split("\n")[-2].split() if client.returncode == 0 else []
    if not numbers:
        raise CannotMeasureError(f"fi_pingpong: {client.stderr.strip()[-300:]}")
    return 1e6 / float(numbers[-2])


def pairs(bench: Bench, ours: Callable[[], float], theirs: Callable[[], float]) -> Pairs:
    """By turns."""
    return [(ours(), theirs()) for _ in range(bench.repetitions)]


def against_raw(provider: str, size: int, at_once: int) -> Row:
    """One size, and so many calls at once."""

    def measure(bench: Bench) -> Pairs:
        return pairs(
            bench,
            lambda: call_rate(bench, provider, size, at_once),
            lambda: call_rate(bench, "raw", size, at_once),
        )

    path = f"tb_net_call by {provider}, {NAMES[size]}, {at_once} at once"
    budget = BUDGET if size == MIB and provider == "tcp" else None
    return Row(path, "raw sockets", "at least", budget, measure)


def against_pingpong(provider: str, size: int) -> Row:
    """One size, one call at a time."""

    def measure(bench: Bench) -> Pairs:
        return pairs(
            bench, lambda: call_rate(bench, provider, size, 1), lambda: pingpong_rate(provider, size)
        )

    budget = BUDGET if size == MIB else None
    return Row(
        f"tb_net_call by {provider}, {NAMES[size]}", f"fi_pingpong -p {provider}", "at least", budget, measure
    )


def overlap(size: int) -> Row:
    """What several calls at once buy: more than 1, where there is a core for them."""

    def measure(bench: Bench) -> Pairs:
        return pairs(
            bench, lambda: call_rate(bench, "tcp", size, 4), lambda: call_rate(bench, "tcp", size, 1)
        )

    return Row(f"tb_net_call by tcp, {NAMES[size]}, 4 at once", "one at a time", "at least", None, measure)


def is_here(build: Path, provider: str) -> bool:
    """Whether the build and its libfabric have that provider."""
    if provider == "tcp":
        return True
    words = [str(build / "bin/net_provider"), provider]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0  # noqa: S603


def raw_rate(size: int) -> Callable[[Bench], float]:
    """Of raw sockets, one call at a time."""
    return lambda bench: call_rate(bench, "raw", size, 1)


def of_reads(size: int) -> float | None:
    """The budget."""
    return BUDGET if size == MIB else None


def of_programs(jobs: shared.Jobs, twice: shared.Jobs) -> list[Row]:
    """What programs see, where nodes can be made."""
    if not shared.can_have_nodes():
        print("left out, needs root and the right to make namespaces: nodes: shared")
        return []
    raw = [
        shared.against_raw(jobs, name, raw_rate(size), of_reads(size))
        for name, size in link.OPERATIONS.items()
    ]
    if not link.can_limit():
        print("left out, needs ip, tc and a kernel with veth and tbf: a link of a modelled rate")
        return shared.rows(jobs, twice) + raw
    return shared.rows(jobs, twice) + raw + link.rows(of_reads)


def all_rows(build: Path, jobs: shared.Jobs, twice: shared.Jobs) -> list[Row]:
    """What can be measured here; says what can't."""
    here = [p for p in PROVIDERS if is_here(build, p)]
    left_out = [p for p in PROVIDERS if p not in here]
    has_pingpong = shutil.which("fi_pingpong") is not None
    if left_out:
        print(f"left out, not here: {', '.join(left_out)}")
    if not has_pingpong:
        print("left out, not here: fi_pingpong (package libfabric-bin)")
    rows = [against_raw(p, size, n) for p in here for size in CALLS for n in (1, 4)]
    rows += [against_pingpong(p, size) for p in here if p != "tcp" and has_pingpong for size in CALLS]
    return rows + [overlap(size) for size in CALLS] + of_programs(jobs, twice)


def main() -> int:
    """Measure all of it."""
    args = parse()
    jobs, twice = shared.Jobs(), shared.Jobs(copies=2)
    wanted = chosen(all_rows(args.build, jobs, twice), args)
    with measuring(args) as bench:
        about = provenance(bench)
        about["load_before"] = os.getloadavg()[0]
        run(bench, wanted)
    print("\n".join([*shared.sentences(jobs), *shared.sentences(twice)]))
    return finish(args, "nodes-", about, wanted, costs=jobs.as_json())


if __name__ == "__main__":
    sys.exit(main())
