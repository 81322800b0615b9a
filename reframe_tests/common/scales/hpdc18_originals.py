"""The public benchmarks that VPIC-IO and HACC-IO are, where a site has them, and ours in their places.

Both are given the same numbers. `vpicio_uni` counts its particles in Mi; the header of `hacc_io` is always
24 MiB; h5bench's write benchmark is VPIC's in several steps.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from .hpdc18_scale import HACC_RECORD, HEADER, PHASES, VPIC_RECORD, Hpdc18Scale

CONFIG = "h5bench.cfg"  # in the stage
LEAST_VPIC = 1 << 20  # particles of a rank, the fewest that vpicio_uni takes


@dataclass(frozen=True)
class Original:
    """A program of others and ours; arguments are of a folder, and of particles of a rank."""

    name: str
    embedded: str
    particles: Callable[[Hpdc18Scale], int]
    record: int  # bytes of a particle
    steps: int
    files: Callable[[int], int]  # that have a header, at most, of so many ranks
    header: int
    arguments: Callable[[str, int], list[str]]
    own_arguments: Callable[[str, int], list[str]]

    @property
    def variable(self) -> str:
        """That names the program, where it is not on PATH."""
        return self.name.upper()

    def path(self) -> str | None:
        """Of the program; a name that is no program is refused by the caller."""
        return os.environ.get(self.variable) or shutil.which(self.name)

    def bytes(self, scale: Hpdc18Scale) -> int:
        """Of all ranks, steps and headers."""
        moved = self.particles(scale) * self.record * scale.ranks * self.steps
        return moved + self.header * self.files(scale.ranks)


def _vpic(folder: str) -> str:
    return f"{folder}/vpic.h5"


ORIGINALS = {
    "hacc_io": Original(
        "hacc_io",
        "tb-hacc",
        lambda scale: scale.bytes["hacc"] // HACC_RECORD,
        HACC_RECORD,
        1,
        lambda ranks: ranks,  # built for a file per process
        HEADER,
        lambda folder, n: [str(n), f"{folder}/hacc"],
        lambda folder, n: [str(n), f"{folder}/hacc"],
    ),
    "vpicio_uni": Original(
        "vpicio_uni",
        "tb-vpic",
        lambda _scale: LEAST_VPIC,
        VPIC_RECORD,
        1,
        lambda _ranks: 0,
        0,
        lambda folder, n: [_vpic(folder), str(n >> 20)],
        lambda folder, n: [_vpic(folder), str(n >> 20), "--independent"],
    ),
    "h5bench_write": Original(
        "h5bench_write",
        "tb-vpic",
        lambda scale: scale.bytes["vpic"] // VPIC_RECORD,
        VPIC_RECORD,
        PHASES,
        lambda _ranks: 0,
        0,
        lambda folder, _n: [CONFIG, _vpic(folder)],
        lambda folder, n: [_vpic(folder), "--particles", str(n), "--steps", str(PHASES), "--independent"],
    ),
}


def h5bench_config(particles: int) -> str:
    """VPIC's layout: arrays in memory, a dataset a variable, no compute."""
    settings = {
        "MEM_PATTERN": "CONTIG",
        "FILE_PATTERN": "CONTIG",
        "TIMESTEPS": PHASES,
        "DELAYED_CLOSE_TIMESTEPS": 0,
        "COLLECTIVE_DATA": "NO",
        "COLLECTIVE_METADATA": "NO",
        "EMULATED_COMPUTE_TIME_PER_TIMESTEP": "0 s",
        "NUM_DIMS": 1,
        "DIM_1": particles,
        "DIM_2": 1,
        "DIM_3": 1,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
