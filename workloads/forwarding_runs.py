"""tb-forge as its tests run it: scenarios as dictionaries, results as the analysis reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from driver import Driver
from steps import Words

from tierbench.forwarding import measurements

RESULT = measurements.RESULT
Json = dict[str, Any]


def access(operation: str, **other: Any) -> Json:
    """A read or write of the shared file f, unless `other` says another thing."""
    usual = {
        "path": "f",
        "number_of_files": "shared",
        "spatiality": "contiguous",
        "total_size": 1 << 20,
        "request_size": 1 << 16,
        "validation": 1,
    }
    return {**usual, "operation": operation, **other}


def phases(forwarders: int, *operations: str, **other: Any) -> Json:
    """FORGE's newer format: open, the operations, close."""
    layout = {"path": "f", "number_of_files": other.get("number_of_files", "shared")}
    patterns = [
        {"operation": "open", **layout},
        *[access(operation, **other) for operation in operations],
        {"operation": "close", **layout},
    ]
    made = [{"repetitions": 1, "patterns": patterns}]
    return {"forwarders": forwarders, "handlers": 1, "dispatchers": 2, "phases": made}


def flat(forwarders: int, **other: Any) -> Json:
    """FORGE's older format, with which the study was made."""
    pattern = access("", **other)
    del pattern["operation"]
    return {"forwarders": forwarders, "handlers": 1, "dispatchers": 1, "operations": "write", **pattern}


def content(start: int, end: int, file: int = 0) -> bytes:
    """Of a validated file between two places: the finisher of splitmix64, over file and word."""
    with np.errstate(over="ignore"):
        x: Words = np.arange(start // 8 + 1, (end + 7) // 8 + 1, dtype=np.uint64) + np.uint64(file << 40)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).tobytes()[start % 8 :][: end - start]


class Forge(Driver):
    """Its scenario, its files and its results are in the folder."""

    name = "tb-forge"
    ranks = 2

    def scenario(self, what: Json | str) -> Path:
        """Its file; text goes as it is."""
        file = self.folder / "scenario.json"
        file.write_text(what if isinstance(what, str) else json.dumps(what))
        return file

    def result(self, what: Json, ranks: int, line: str = "", *, before: tuple[str, ...] = ()) -> Json:
        """Of a run that ends well. The analysis reads it, which checks it by the schema."""
        self.scenario(what)
        self.run(f"scenario.json {self.folder} {line}", ranks, before=before)
        measurements.read(str(self.folder))
        found: Json = json.loads((self.folder / RESULT).read_text())
        return found
