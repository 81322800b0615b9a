"""Made-up measurements of components, kept in a run folder as the suite does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def row(system: str, rate: float, *, depth: int = 1, server_us: float = 0, **more: Any) -> dict[str, Any]:
    return {
        "component": "metadata",
        "system": system,
        "operation": "put",
        "processes": 1,
        "depth": depth,
        "operations": 1000,
        "cpu_us": {"client": 0.5, "server": server_us},
        "ops_per_s": [rate * (1 + i / 100) for i in range(10)],
    } | more


def keep(run: Path, name: str, *rows: dict[str, Any]) -> Path:
    folder = run / "cases" / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "components.json").write_text(json.dumps({"rows": rows}))
    return folder / "components.json"
