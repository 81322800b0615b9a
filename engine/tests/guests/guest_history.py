"""history_worker.py on kernels of their own: also how far the clock of this node is from that of the first one.

    guest_history.py FIRST TIERCTL ROOT NAMES WORKERS SEED ROUNDS CALLS GRAIN turns|free

FIRST is the first node's address. ROOT/meet/clock.NODE has two numbers: nanoseconds to add to this node's times, and by how many they may be
wrong: half of the fastest answer's way, and what it changed by in the run.
"""

import os
import socket
import sys
import time
from pathlib import Path
from threading import Thread

import history_worker

PORT = 7007
ASKS = 300


def answer(server: socket.socket) -> None:
    """The time here, to all who ask."""
    while True:
        _, who = server.recvfrom(1)
        server.sendto(time.monotonic_ns().to_bytes(8, "little"), who)


def ask(address: str) -> tuple[int, int]:
    """How far its clock is ahead of this one, and how wrong that may be."""
    found: list[tuple[int, int]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(1)
        while len(found) < ASKS:
            begin = time.monotonic_ns()
            asking.sendto(b"?", (address, PORT))
            try:
                there = int.from_bytes(asking.recv(8), "little")
            except TimeoutError:
                continue
            end = time.monotonic_ns()
            found.append(((end - begin) // 2 + 1, there - (begin + end) // 2))
    wrong, ahead = min(found)
    return ahead, wrong


def run() -> None:
    """The workers, each a process; only the first one comes back here."""
    me = os.getpid()
    try:
        history_worker.main()
    except SystemExit as ended:
        if os.getpid() == me and ended.code:
            raise
    if os.getpid() != me:
        os._exit(0)


def main() -> None:
    first, os.environ["TB_TIERCTL"], root, names = sys.argv[1:5]
    del sys.argv[1:3]
    history_worker.MEET_S, history_worker.LOOK_S = 500, 0.05
    node, server = os.uname().nodename, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    is_first = node == names.split(",")[0]
    if is_first:
        server.bind(("", PORT))
        Thread(target=answer, args=(server,), daemon=True).start()
    before = (0, 0) if is_first else ask(first)
    run()
    after = (0, 0) if is_first else ask(first)
    told = f"{before[0]} {max(before[1], after[1]) + abs(before[0] - after[0])}"
    Path(f"{root}/meet/clock.{node}").write_text(told)
    while not all(Path(f"{root}/meet/clock.{name}").exists() for name in names.split(",")):
        time.sleep(0.01)  # the first one answers


if __name__ == "__main__":
    main()
