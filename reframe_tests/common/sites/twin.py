"""The modelled hierarchy that a recipe runs on away from home: a node's share, slowed by K.

The PFS is the recipe's twin (`configs/devices/`), the tiers in front of it are the same for all recipes. All
are slowed by the recipe's factor K, so that ratios between them hold on a machine with a slower medium than
the published one; results are multiplied by K.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tierbench.base import strict_yaml
from tierbench.recipes.published import Recipe

from .tiers import ROOT, ScaleError

DEVICES = ROOT / "configs" / "devices"
TIER_DEVICES = {"ram": "hpdc18-ddr4", "nvme": "summit-nvme", "bb": "twins/cori-datawarp-1"}
_VALUE = re.compile(r"(\d+(?:\.\d+)?)(.*)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def device(name: str) -> dict[str, Any]:
    """A device file."""
    file = DEVICES / f"{name}.yaml"
    if not file.is_file():
        raise ScaleError(f"device {name!r}: {file} is missing")
    found: dict[str, Any] = strict_yaml.read(file, ScaleError)
    return found


def slowed(model: dict[str, Any], factor: int) -> dict[str, Any]:
    """The device with rates divided, and times multiplied, by `factor`; its capacity stays out of it."""
    made = {key: value for key, value in model.items() if key != "capacity"}
    for key, value in made.items():
        if key.endswith(("_bandwidth", "_latency", "_time")):
            match = _VALUE.fullmatch(str(value))
            assert match, f"{key}: {value}"
            number = float(match[1])
            changed = number / factor if key.endswith("_bandwidth") else number * factor
            made[key] = f"{changed:.6f}{match[2]}"
    made["name"] = f"{model['name']}-by-{factor}" if factor > 1 else model["name"]
    return made


def write_devices(
    pfs: str, factor: int, folder: Path, tiers: Mapping[str, str] = MappingProxyType(TIER_DEVICES)
) -> dict[str, str]:
    """Write the PFS and the tiers in front of it, slowed; returns the files by place (`pfs`, tiers)."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {"pfs": pfs, **tiers}
    files = {}
    for place, name in names.items():
        file = folder / f"{place}.yaml"
        file.write_text(yaml.safe_dump(slowed(device(name), factor), sort_keys=False))
        files[place] = str(file.resolve())
    return files


def rate(model: Mapping[str, Any], direction: str) -> float:
    """Bytes a second that a device reads or writes."""
    match = _VALUE.fullmatch(str(model[f"{direction}_bandwidth"]))
    assert match and match[2] == "MiB/s", model["name"]
    return float(match[1]) * (1 << 20)


def seconds_of(model: Mapping[str, Any], key: str) -> float:
    """A time of a device; 0 where it has none."""
    match = _VALUE.fullmatch(str(model.get(key, "0us")))
    assert match, model["name"]
    return float(match[1]) * _SECONDS[match[2]]


def read_limit(recipe: Recipe, launch_transfer: int) -> float | None:
    """Bytes a second that the twin can read in such transfers, before K; None where it has no read rate."""
    model = device(recipe.twin.device)
    if "read_bandwidth" not in model:
        return None
    seconds = seconds_of(model, "read_latency")
    return launch_transfer / (
        seconds / float(model.get("channels", 1)) + launch_transfer / rate(model, "read")
    )
