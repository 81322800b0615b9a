"""How long a launch may take: a multiple of what its work takes at the least rate to be expected."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass

from tierbench.base.sizes import MIB

from ..outcome.launch_numbers import START
from ..sites.tiers import ROOT

MULTIPLE = 10  # of the time that the work should take
START_S = 60  # for the launcher to start its ranks
LEAST_BYTES_S, LEAST_OPERATIONS_S = 20 * MIB, 500  # of a node, where nothing is known of a real site
LIMITED = ROOT / "reframe_tests" / "common" / "jobs" / "limited.sh"


@dataclass(frozen=True)
class Limit:
    """Of one launch; `work_s` is what its work should take, `why` says of what."""

    launch: str
    work_s: float
    why: str

    @property
    def seconds(self) -> int:
        """After so many the launch is ended."""
        return math.ceil(START_S + MULTIPLE * self.work_s)

    @property
    def words(self) -> str:
        """Where the limit comes from."""
        return f"{MULTIPLE} times {self.work_s:.3g} s for {self.why}, and {START_S} s to start"

    def command(self) -> list[str]:
        """The words that are put before the launch."""
        return [str(LIMITED), self.launch, str(self.seconds), shlex.quote(self.words)]


def of_start() -> Limit:
    """Of a launch that does nothing."""
    return Limit(START, 0.0, "no work")


def of_deadline(launch: str, seconds: int) -> Limit:
    """Of a launch with a stonewall, or one that works on what such a launch has left."""
    return Limit(launch, float(seconds), f"a stonewall of {seconds} s")


def of_bytes(launch: str, count: int, bytes_s: float) -> Limit:
    """Of so many bytes, moved at that rate."""
    return Limit(launch, count / bytes_s, f"{count / MIB:.4g} MiB at {bytes_s / MIB:.4g} MiB/s")


def of_operations(launch: str, count: int, a_second: float) -> Limit:
    """Of so many operations."""
    return Limit(launch, count / a_second, f"{count} operations at {a_second:.4g} a second")
