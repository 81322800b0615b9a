"""By which interface a launch of IOR moved its data.

A log has the calls of MPI-IO beside the POSIX calls that they become.
"""

from __future__ import annotations

import pandas as pd

from tierbench.base.text import counted
from tierbench.judge.asked import IorAsked
from tierbench.judge.launch import Disagreement
from tierbench.trace.frames import Traces

MPI_IO = "MPI-IO"
BY_MPI_IO = ("MPIIO", "HDF5")
OTHER_SHARE = 0.01  # of the transfers that may be of the other type


def wrong_interface(
    asked: IorAsked, records: pd.DataFrame, traces: Traces, *, sees_mpi_io: bool
) -> tuple[list[Disagreement], list[str]]:
    """What the data files' records of MPI-IO contradict, and what they could not show.

    `sees_mpi_io`: calls of MPI-IO would be in the log. A log of several processes that is not of our own
    runtime was written by one that sees them anyway.
    """
    transfers = int(records[["reads", "writes"]].sum().sum())
    if asked.api not in BY_MPI_IO:
        told = f"the trace holds {counted(transfers, 'transfer')} by MPI-IO"
        return ([Disagreement("interface", f"asked for {asked.api}", told)] if transfers else []), []
    if not transfers:
        other_runtime = traces.job["unsynced"].isna() & (traces.job["nprocs"] > 1)
        if not sees_mpi_io and not other_runtime.any():
            return [], ["by which interface the bytes went (calls of this MPI library are in no trace)"]
        told = "the trace holds no transfer by MPI-IO"
        return [Disagreement("interface", f"asked for {asked.api}", told)], []
    if _has_no_header(asked, records):
        told = "the trace holds the data's bytes alone, and no header"
        return [Disagreement("interface", "asked for HDF5", told)], []
    return _wrong_type(asked, records, transfers)


def _has_no_header(asked: IorAsked, records: pd.DataFrame) -> bool:
    """A new file of HDF5 has bytes of its own."""
    fixed = asked.api == "HDF5" and asked.writes and not asked.deadline_s
    return fixed and int(records["bytes_written"].sum()) == (asked.total_bytes or 0) * (
        asked.repetitions or 1
    )


def _wrong_type(
    asked: IorAsked, records: pd.DataFrame, transfers: int
) -> tuple[list[Disagreement], list[str]]:
    """-c; HDF5's own bytes may go either way, and a rank that is alone has no other to join."""
    if records["collective"].isna().any():
        return [], ["whether transfers were collective"]
    collective = int(records["collective"].sum())
    of_hdf5 = asked.api == "HDF5"
    if asked.collective:
        others, word = transfers - collective, "independent"
        wrong = collective == 0 and asked.ranks > 1 if of_hdf5 else others > OTHER_SHARE * transfers
    else:
        others, word = collective, "collective"
        wrong = not of_hdf5 and others > OTHER_SHARE * transfers
    wanted = "collective transfers (-c)" if asked.collective else "independent transfers"
    told = f"{others} of {transfers} were {word}"
    return ([Disagreement("type", f"asked for {wanted}", told)] if wrong else []), []
