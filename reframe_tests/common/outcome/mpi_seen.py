"""Whether a trace holds a program's calls of MPI-IO.

The MPI adapter is made for one MPI library, and lets others pass.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ..sites.programs import own_program

LIBRARY = b"libmpi.so.40"  # Open MPI 2 to 5; adapters/mpi/symbols.c says so, too
ADAPTER = "../lib/libtierbench_mpi.so"  # beside tierctl, which loads it


def sees_mpi_io(executable: str) -> bool:
    """Of a command line; a script is taken to start what is linked as our own driver is."""
    words = executable.split()
    found = shutil.which(words[0]) if words else None
    program = _bytes(Path(found)) if found else b""
    if not program.startswith(b"\x7fELF") or Path(str(found)).name in _SHELLS:
        program = _bytes(own_program("tb-ior"))
    return (own_program("tierctl").parent / ADAPTER).exists() and LIBRARY in program


_SHELLS = ("sh", "bash", "dash")


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
