"""What IOR, mdtest, FORGE and the embedded drivers print, as typed values.

A reader returns exactly the numbers that are in the file, or raises `OutputError` with file and line: a
truncated, interleaved or empty output is never half a result. Known flaws of the real programs are survived
and nothing else is: warnings between the lines of CSV and JSON, the second `]` of IOR 4.0.0's verbose JSON,
unescaped quotes in its strings, and headings that differ between versions.

Times are seconds, bandwidths MiB/s, sizes as the field names say.
"""

from tierbench.outputs.forge import ForgeOutput, ForgeTransfer, parse_forge, read_forge
from tierbench.outputs.ior import IorOutput, IorResult, IorSummary, parse_ior, read_ior
from tierbench.outputs.mdtest import MdtestIteration, MdtestOutput, MdtestRow, parse_mdtest, read_mdtest
from tierbench.outputs.ranks import (
    IorRank,
    MdtestRank,
    parse_ior_ranks,
    parse_mdtest_ranks,
    read_ior_ranks,
    read_mdtest_ranks,
)
from tierbench.outputs.strict_numbers import OutputError

__all__ = [
    "ForgeOutput",
    "ForgeTransfer",
    "IorOutput",
    "IorRank",
    "IorResult",
    "IorSummary",
    "MdtestIteration",
    "MdtestOutput",
    "MdtestRank",
    "MdtestRow",
    "OutputError",
    "parse_forge",
    "parse_ior",
    "parse_ior_ranks",
    "parse_mdtest",
    "parse_mdtest_ranks",
    "read_forge",
    "read_ior",
    "read_ior_ranks",
    "read_mdtest",
    "read_mdtest_ranks",
]
