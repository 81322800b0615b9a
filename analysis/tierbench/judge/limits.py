"""What makes a number useless: it is printed, and does not mean what it seems to mean.

Each limit names the rows that it concerns and what to change. Rows on modelled devices have no limit by time
or cache: their devices are as slow as their model, and the check `agreement` sees whether they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tierbench.judge import stats
from tierbench.judge.verdict import Row

SHORT_S = 1.0  # below that a test is mostly start and end
WIDE = 2.0  # times the lower end of an interval
SLOWER = 0.05  # of the PFS, that is worth a word


@dataclass(frozen=True)
class Limit:
    """What is wrong with some rows, and what to change."""

    rows: tuple[Row, ...]
    what: str
    change: str


def limits(rows: Sequence[Row], memory_bytes: int | None) -> list[Limit]:
    """All limits of a run; `memory_bytes` is what one node has, None where that is not known."""
    least = stats.least_n_one_sample()
    found = [
        _of(
            rows,
            lambda r: r.median.n == 1,
            "Measured once, so there is no interval and nothing is shown",
            f"repeat {least} times or more",
        ),
        _of(
            rows,
            _short,
            f"Shorter than {SHORT_S:g} s, which is mostly start and end",
            "write or read more, for 10 s or longer",
        ),
        _of(
            rows,
            lambda r: memory_bytes is not None and _fits_the_cache(r, memory_bytes),
            "Fewer bytes than memory holds, and no wait for the device: perhaps the page cache took them",
            "move twice the memory, or sync writes (-e) and read what another node wrote (-C)",
        ),
        _of(
            rows,
            _wide,
            f"The interval spans a factor of {WIDE:g} or more",
            "repeat more often, on a quieter machine",
        ),
        _of(
            rows,
            _not_apart,
            "On storage that a tier shares with the PFS, or in memory, as the site says (apart: False): "
            "nothing is shown of a faster place",
            "give each tier a device of its own",
        ),
        _of(
            rows,
            slower_than_pfs,
            "Slower than the PFS alone",
            "leave that tier out, or check its path and its device",
        ),
    ]
    return [limit for limit in found if limit.rows]


def _of(rows: Iterable[Row], concerns: Callable[[Row], bool], what: str, change: str) -> Limit:
    return Limit(tuple(r for r in rows if concerns(r)), what, change)


def _short(row: Row) -> bool:
    return not row.key["modelled"] and row.close_s is not None and row.close_s < SHORT_S


def _not_apart(row: Row) -> bool:
    """As the suite says it beside a row (`reframe_tests/common/outcome/held.py`)."""
    return bool(re.search(r"\bnot shown: .*(\w+ and \w+ apart|\w+ on a device) \(", row.witness or ""))


def _wide(row: Row) -> bool:
    return row.median.n > 1 and row.median.high >= WIDE * row.median.low


def _fits_the_cache(row: Row, memory_bytes: int) -> bool:
    """On the PFS alone; what tiers take and promise is said by their fsync promise."""
    bandwidth = row.key["metric"] == "bandwidth" and row.key["mode"] == "bypass"
    if not bandwidth or row.key["modelled"] or not 0 < row.moved_bytes < memory_bytes * row.nodes:
        return False
    words = row.command.split()
    return "-e" not in words and "-Y" not in words if not row.reads else "-C" not in words


def slower_than_pfs(row: Row) -> bool:
    """Shown to be worse than the PFS with the same test."""
    known = row.ratio is not None and bool(row.ratio.level or row.ratio.dependent)
    staged = row.key["test"].startswith(
        "stage-"
    )  # a way of files to the PFS, beside another: no fault of a tier
    if row.ratio is None or not known or staged or row.key["tiers"] == "pfs":
        return False
    return (
        row.ratio.high < 1 - SLOWER if row.key["direction"] == "higher" else row.ratio.low > 1 / (1 - SLOWER)
    )
