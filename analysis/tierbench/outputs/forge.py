"""emulation.time of FORGE, or of tb-forge, which writes it, too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tierbench.outputs.strict_numbers import OutputError, natural, read_text, real, refuse


@dataclass(frozen=True)
class ForgeTransfer:
    """One read or write; the bandwidth is the data over the slowest client's seconds."""

    operation: str
    layout: str
    spatiality: str
    direct_io: bool
    stonewall_s: int
    request_kib: int
    total_mib: int
    fastest_s: float
    slowest_s: float
    data_mib: float
    bandwidth_mib_s: float


@dataclass(frozen=True)
class ForgeOutput:
    """One run: its I/O nodes, its clients, its reads and writes in their order."""

    path: str
    io_nodes: int
    clients: int
    transfers: tuple[ForgeTransfer, ...]


class _Field(NamedTuple):
    line: int
    key: str
    value: str


_HEAD = ("forwarders", "clients")
_NAME = ("operation", "layout")
_TIMES = ("min", "Q1", "Q2", "Q3", "max", "mean")
_TRANSFER = (*_NAME, "spatiality", "odirect", "stonewall", "request", "total", *_TIMES, "data", "bandwidth")
_UNITS = {"request": " KB", "total": " MB", "data": " MB", "bandwidth": " MB/s"} | dict.fromkeys(_TIMES, " s")
_WORDS = {
    "operation": ("open", "close", "read", "write"),
    "layout": ("individual", "shared"),
    "spatiality": ("contiguous", "strided"),
}
# Lines without a value of the run: rules, the title and its time, and each client's seconds of a debug build.
_NO_FIELD = re.compile(r"-*| I/O Forwarding Simulation| \| .* \| ?| rank \d+: .*")


def read_forge(path: Path | str) -> ForgeOutput:
    """Read an emulation.time."""
    return parse_forge(read_text(path), str(path))


def parse_forge(text: str, path: str) -> ForgeOutput:
    """Parse an emulation.time; `path` names it in messages."""
    fields = _fields(text, path)
    if tuple(f.key for f in fields[:2]) != _HEAD:
        refuse(text, path, "does not begin with the numbers of forwarders and clients")
    io_nodes, clients = (natural(f.value, path, f.line, f.key) for f in fields[:2])
    starts = [i for i, f in enumerate(fields) if f.key == "operation"]
    if starts[:1] != [2]:
        refuse(text, path, "holds no operation after its head")
    blocks = [fields[i:end] for i, end in zip(starts, [*starts[1:], len(fields)], strict=True)]
    return ForgeOutput(path, io_nodes, clients, tuple(t for b in blocks if (t := _transfer(b, path))))


def _fields(text: str, path: str) -> list[_Field]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if _NO_FIELD.fullmatch(line):
            continue
        parts = re.fullmatch(r" (\w+): (.+)", line)
        if not parts:
            raise OutputError(path, number, f"{line[:60]!r} is no line of FORGE")
        found.append(_Field(number, parts[1], parts[2]))
    return found


def _transfer(block: list[_Field], path: str) -> ForgeTransfer | None:
    """None: an open or a close."""
    moves = block[0].value not in ("open", "close")
    expected = _TRANSFER if moves else _NAME
    if (keys := tuple(f.key for f in block)) != expected:
        wrong = next((f for f, key in zip(block, expected, strict=False) if f.key != key), block[-1])
        raise OutputError(
            path, wrong.line, f"{block[0].value} has {', '.join(keys)}; expected {', '.join(expected)}"
        )
    values = {f.key: _value(f, path) for f in block}
    if not moves:
        return None
    words = {key: str(values[key]) for key in _WORDS}
    numbers = {key: float(values[key]) for key in _TRANSFER if key not in _WORDS}
    return ForgeTransfer(
        **words,
        direct_io=numbers["odirect"] == 1,
        stonewall_s=int(numbers["stonewall"]),
        request_kib=int(numbers["request"]),
        total_mib=int(numbers["total"]),
        fastest_s=numbers["min"],
        slowest_s=numbers["max"],
        data_mib=numbers["data"],
        bandwidth_mib_s=numbers["bandwidth"],
    )


def _value(field: _Field, path: str) -> str | float:
    if known := _WORDS.get(field.key):
        if field.value not in known:
            raise OutputError(
                path, field.line, f"{field.key} is {field.value!r}, expected {', '.join(known)}"
            )
        return field.value
    unit = _UNITS.get(field.key, "")
    if not field.value.endswith(unit):
        raise OutputError(path, field.line, f"{field.key} is {field.value!r}, expected{unit} at its end")
    number = field.value.removesuffix(unit)
    read = real if field.key in (*_TIMES, "data", "bandwidth") else natural
    return read(number, path, field.line, field.key)
