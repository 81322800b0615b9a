"""A job on both guests: `tierctl run --per-node` of a program as those of test_shared.py."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from instances import BIN
from machines import Guests
from test_loss_of_nodes import answering
from test_shared import SHARED, answer

TEXT = SHARED.replace("interface: lo", "interface: eth1")
"""The network that they have between them."""
TEXTS = {"one": TEXT, "two": TEXT.replace("nodes: shared", "nodes: shared\ncopies: 2")}
"""By how many copies there are of what was committed."""
PATIENT = {"time.time() + 30": "time.time() + 500", "time.sleep(0.001)": "time.sleep(0.05)"}
"""Barriers of these programs are for nodes that are not emulated, and have a processor for each rank that looks."""


class Job:
    """What is run, and then what it said."""

    def __init__(self, guests: Guests, program: str, flush: str = "manual", text: str = TEXT) -> None:
        self.guests, self.stats = guests, guests.root / "stats.json"
        self.stats.unlink(missing_ok=True)
        self.config = guests.root / "tiers.yaml"
        self.config.write_text(text.format(root=guests.root, flush=flush))
        told = f"import os\nos.environ['TB_TIERCTL'] = '{BIN}/tierctl'\n"
        for quick, patient in PATIENT.items():
            program = program.replace(quick, patient)
        (guests.root / "program.py").write_text(told + program)
        words = [
            "run",
            "-c",
            self.config,
            "--per-node",
            guests.launch,
            "--stats",
            self.stats,
            "--",
            guests.launch,
        ]
        self.words = [*words, sys.executable, guests.root / "program.py", guests.root]

    def run(self, acts: dict[str, Callable[[], None]] | None = None) -> "Job":
        """To its end. The host does `acts` when it is asked to; without any, it answers what is on the PFS."""
        with answering(self.guests.root, acts) if acts else looking(self.guests):
            self.status, self.said = self.guests.run(self.words)
        return self

    def ends_well(self) -> "Job":
        """And leaves nothing."""
        self.run()
        assert self.status == 0, self.said
        assert self.guests.left() == []
        return self

    def recover(self) -> tuple[int, str]:
        """On both nodes, as the run said."""
        assert "tierctl recover -c" in self.said, self.said
        launch, _, *words = self.said.split("in this allocation: ")[1].splitlines()[0].split()
        return self.guests.run(words, launch)

    def from_the_pfs(self) -> int:
        """Bytes that a node read from there."""
        return int(json.loads(self.stats.read_text())["pfs"]["bytes_read"])


@contextmanager
def looking(guests: Guests) -> Iterator[None]:
    """For `on_pfs`."""
    ends = Event()
    asked = Thread(target=answer, args=(guests.root, ends))
    asked.start()
    try:
        yield
    finally:
        ends.set()
        asked.join()
