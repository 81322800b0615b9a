"""`tierbench trace` on a Darshan log that may be made by hand: a page and status 0, or one line and status 2.

An input is a log in pieces, because what is changed inside a compressed region would only spoil its
checksum. The first byte says how it is meant; odd: the rest is a file as it is. Each piece is its kind, two
bytes of length, and its content, which is compressed here and entered in the header:

    0 to 63   the region of that module
    64, 65    names; the job
    66        two bytes where in the header, and the bytes for that place

Beside another exception and another status, a log that takes more than 5 s of processor time or more than
1 GiB is a finding.
"""

from __future__ import annotations

import io
import resource
import struct
import sys
import tempfile
import zlib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
with atheris.instrument_imports(include=["tierbench"]):
    from tierbench import trace  # noqa: F401 - the command imports them when it needs them
    from tierbench.cli import main
    from tierbench.trace import page  # noqa: F401

MAGIC = 6567223
HEADER_BYTES = 1328
MODULES = 64
NAMES, JOB, HEADER = 64, 65, 66
VERSIONS = {1: 4, 2: 3, 9: 2, 10: 1, 11: 2, 15: 1}  # of the modules that are looked into most
MOST_BYTES = 1 << 30
MOST_S = 5.0
# The child that reads the log ends by the signals that damage gives it: they are not this process's own. On a
# busy machine a log takes long; one that hangs is given up by the reader itself.
OWN_LIMITS = [f"-handle_{signal}=0" for signal in ("segv", "bus", "abrt", "ill", "fpe")]
OWN_LIMITS += ["-close_fd_mask=0", "-timeout=120"]


def pieces(data: bytes) -> list[tuple[int, bytes]]:
    """The kinds and contents that an input names."""
    found, at = [], 0
    while at + 3 <= len(data):
        kind, length = struct.unpack_from("<BH", data, at)
        found.append((kind % (HEADER + 1), data[at + 3 : at + 3 + length]))
        at += 3 + length
    return found


def log_of(data: bytes) -> bytes:
    """The log that an input means."""
    if not data or data[0] % 2:
        return data[1:]
    given = pieces(data[1:])
    whole = {k: b"".join(content for kind, content in given if kind == k) for k in range(HEADER)}
    log = bytearray(HEADER_BYTES) + zlib.compress(whole[JOB], 1)
    places = []
    for kind in (NAMES, *range(MODULES)):
        packed = zlib.compress(whole[kind], 1) if whole[kind] else b""
        places += [len(log) if packed else 0, len(packed)]
        log += packed
    versions = [VERSIONS.get(module, 1) for module in range(MODULES)]
    struct.pack_into("<8sqB7x131Q64I", log, 0, b"3.41", MAGIC, 0, 0, *places, *versions)
    for kind, content in given:
        at = int.from_bytes(content[:2], "little") % HEADER_BYTES
        if kind == HEADER:
            log[at : at + len(content[2:])] = content[2 : 2 + HEADER_BYTES - at]
    return bytes(log)


def outcome(arguments: list[str]) -> tuple[int, str, str]:
    """Status and what was said, in the encoding of a terminal."""
    out, err = io.BytesIO(), io.BytesIO()
    with (
        redirect_stdout(io.TextIOWrapper(out, "utf-8", write_through=True)),
        redirect_stderr(io.TextIOWrapper(err, "utf-8", write_through=True)),
    ):
        return main(arguments), out.getvalue().decode(), err.getvalue().decode()


def used() -> tuple[float, int]:
    """Seconds of the processor so far, and bytes at most: of this process and the children that read logs."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage), max(u.ru_maxrss for u in usage) << 10


def one_input(data: bytes) -> None:
    """A page, or one line that names the file."""
    before_s, _ = used()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "a.darshan")
        path.write_bytes(log_of(data))
        status, out, err = outcome(["trace", str(path)])
    said = f"status {status}, {out[:200]!r}, {err!r}"
    if status == 0:
        assert out.startswith("a.darshan\n") and not err, said
    else:
        assert status == 2 and not out and err.count("\n") == 1 and "a.darshan" in err, said
    after_s, peak = used()
    assert peak < MOST_BYTES and after_s - before_s < MOST_S, f"{peak} bytes, {after_s - before_s} s"


if __name__ == "__main__":
    atheris.Setup([*sys.argv, *OWN_LIMITS], one_input)
    atheris.Fuzz()
