"""The workloads of the HPDC'18 evaluation at a scale: their bytes, their compute and their command lines.

`published` is what one of 1024 ranks did. Of compute the source says data-intensive, balanced and
compute-intensive, and nothing of VPIC's and HACC's; as an assumption of ours it is counted in the time that
the same bytes take on the PFS alone: a half, once, twice, and one and a quarter times for both codes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tierbench.base import strict_yaml
from tierbench.base.sizes import MIB

from ..sites.tiers import ScaleError, parse_bytes, scale_file

PHASES = 16
RANKS = 1024
CLIENT_NODES = 32
HEADER, VPIC_RECORD, HACC_RECORD = 24 * MIB, 32, 38
LEAST_HEADER = 4096
TRANSFER = MIB
KINDS = ("alternating", "repetitive", "vpic", "hacc")


@dataclass(frozen=True)
class Workload:
    """One of the evaluation's; `part`: of the bytes of its kind, `times`: how often they are read."""

    kind: str
    program: str
    published: int  # bytes of a rank: of a phase, of a step, of the file that is read
    compute: Fraction = Fraction(0)
    part: int = 1
    times: int = 0

    @property
    def temporary(self) -> bool:
        """Need not be on the PFS in the end: the time counts without a flush."""
        return self.kind == "repetitive"


WORKLOADS = {
    "alternating-data-intensive": Workload("alternating", "alternate", 64 * MIB, Fraction(1, 2)),
    "alternating-balanced": Workload("alternating", "alternate", 64 * MIB, Fraction(1)),
    "alternating-compute-intensive": Workload("alternating", "alternate", 64 * MIB, Fraction(2)),
    "read-x1": Workload("repetitive", "reread", 32 * MIB, part=1, times=1),
    "read-x4": Workload("repetitive", "reread", 8 * MIB, part=4, times=4),
    "read-x16": Workload("repetitive", "reread", 2 * MIB, part=16, times=16),
    "vpic": Workload("vpic", "vpic", 64 * MIB, Fraction(5, 4)),
    "hacc": Workload("hacc", "hacc", 64 * MIB, Fraction(5, 4), times=1),
}


@dataclass(frozen=True)
class Hpdc18Scale:
    """Of a scale file what concerns this evaluation: bytes of a rank and K by kind of workload."""

    name: str
    ranks: int
    bytes: dict[str, int]
    factors: dict[str, int]


def hpdc18_scale(name: str) -> Hpdc18Scale:
    """The part `hpdc18` of configs/scales/NAME.yaml."""
    file = scale_file(name)
    given = strict_yaml.read_mapping(file, ScaleError).get("hpdc18")
    keys = ("ranks", *KINDS)
    if not isinstance(given, dict) or given.keys() != set(keys):
        raise ScaleError(f"{file}: hpdc18: {given!r}; allowed: a mapping of {', '.join(keys)}")
    ranks = given["ranks"]
    if not isinstance(ranks, int) or ranks < 1:
        raise ScaleError(f"{file}: hpdc18: ranks: {ranks!r}; allowed: a whole number above 0")
    sizes = {kind: _size(f"{file}: hpdc18: {kind}", given[kind]) for kind in KINDS}
    return Hpdc18Scale(
        name,
        ranks,
        {k: size for k, (size, _) in sizes.items()},
        {k: factor for k, (_, factor) in sizes.items()},
    )


def _size(where: str, given: Any) -> tuple[int, int]:
    if not isinstance(given, dict) or given.keys() != {"bytes", "factor"}:
        raise ScaleError(f"{where}: {given!r}; allowed: a mapping of bytes and factor")
    if not re.fullmatch(r"[1-9]\d*", str(given["factor"])):
        raise ScaleError(f"{where}: factor: {given['factor']!r}; allowed: a whole number above 0")
    size = parse_bytes(str(given["bytes"]), f"{where}: bytes:")
    if size % (64 << 10):
        raise ScaleError(f"{where}: bytes: {given['bytes']!r}; allowed: a multiple of 64k")
    return size, int(given["factor"])


@dataclass(frozen=True)
class Steps:
    """A workload at a scale; bytes are those of a rank in a phase (all there is of a repetitive read)."""

    workload: Workload
    ranks: int
    bytes: int
    header: int  # of each of HACC's files
    compute_us: int  # before each phase

    @property
    def phases(self) -> int:
        """How often bytes are written."""
        return 1 if self.workload.temporary else PHASES

    @property
    def phase_bytes(self) -> int:
        """Of all ranks, with a header."""
        return self.bytes * self.ranks + self.header

    @property
    def written(self) -> int:
        """Of all ranks and phases."""
        return self.phase_bytes * self.phases

    @property
    def read(self) -> int:
        """The same."""
        return self.written * self.workload.times

    @property
    def creates(self) -> int:
        """Files that are made."""
        return {"alternating": self.ranks, "repetitive": self.ranks, "vpic": 1, "hacc": PHASES}[
            self.workload.kind
        ]

    def arguments(self, folder: str) -> list[str]:
        """Of the workload's program, on files in that folder."""
        size, step = str(self.bytes), ["--compute-us", str(self.compute_us)]
        steps = ["--steps", str(PHASES), *step]
        pieces = ["-b", size, "-t", str(min(TRANSFER, self.bytes))]
        hacc = [str(self.bytes // HACC_RECORD), f"{folder}/hacc", "--mpiio", "--header", str(self.header)]
        vpic = [f"{folder}/vpic.h5", "--particles", str(self.bytes // VPIC_RECORD), "--independent"]
        made = {
            "alternating": [f"{folder}/checkpoint", "--phases", str(PHASES), *pieces, *step],
            "repetitive": [f"{folder}/temporary", *pieces, "--times", str(self.workload.times)],
            "vpic": [*vpic, *steps],
            "hacc": [*hacc, *steps],
        }[self.workload.kind]
        return made + ([] if self.workload.temporary else ["--flush"])


def steps_of(workload: Workload, scale: Hpdc18Scale, scaling: str, bytes_s: float) -> Steps:
    """The workload at that scale; `bytes_s`: what the PFS alone writes, which compute is counted in.

    `scaling` is none, or strong or weak with half or twice the ranks: the same bytes in all, or of a rank.
    """
    times = Fraction(1, 2) if scaling.endswith("half") else 2 if scaling.endswith("double") else 1
    ranks = max(1, int(scale.ranks * times))
    size = scale.bytes[workload.kind] // workload.part
    if scaling.startswith("strong"):
        size = size * scale.ranks // ranks
    header = 0
    if workload.kind == "hacc":
        header = min(HEADER, max(LEAST_HEADER, HEADER * size // workload.published // 8 * 8))
        size = size // HACC_RECORD * HACC_RECORD
    seconds = float(workload.compute) * (size * ranks + header) / bytes_s
    return Steps(workload, ranks, size, header, round(seconds * 1e6))


def dropped(steps: Steps) -> tuple[str, ...]:
    """What a run of these steps leaves out of the published one."""
    w = steps.workload
    told = [f"nodes: 1 of {CLIENT_NODES}", f"ranks: {steps.ranks} of {RANKS}"]
    if steps.bytes < w.published:
        each = "of a file" if w.temporary else "of a rank and phase"
        told.append(f"bytes {each}: {steps.bytes / MIB:.4g} of {w.published / MIB:.4g} MiB")
    if w.kind == "hacc" and steps.header < HEADER:
        told.append(f"header: {steps.header} of {HEADER} bytes")
    return tuple(told)
