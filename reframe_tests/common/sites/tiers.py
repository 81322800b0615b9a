"""Tier configurations of a run: the files of configs/tiers with capacities scaled to the run's bytes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tierbench.base import sizes, strict_yaml

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED_BYTES_PER_NODE = (
    1536 << 20
)  # the bytes that the capacities in configs/tiers are for (webinar, section 3)
TIERS = ("pfs", "bb", "nvme", "ram", "bb-nvme", "nvme-ram", "bb-nvme-ram")
HPDC18_TIERS = ("pfs", "hpdc18/datawarp", "hpdc18/elevator", "hpdc18/hermes")

# Below a PFS alone, as a configuration names a tier at least; the mode bypass does not use it.
UNUSED = {
    "name": "unused",
    "medium": "memory",
    "capacity": "64MiB",
    "block": "1MiB",
    "slabs": [{"units": 1, "share": 1.0}],
}


class ScaleError(Exception):
    """A scale or tier configuration that cannot be used: file, key, value and what is allowed."""


def parse_bytes(text: str, where: str = "size") -> int:
    """Bytes of a size as IOR writes it (`64m`); `where` names in a refusal what it is of."""
    found = sizes.of_option(text)
    if not found:
        raise ScaleError(f"{where} {text!r}; allowed: a number above 0 with k, m, g or t")
    return found


def scale_file(name: str) -> Path:
    """configs/scales/NAME.yaml."""
    file = ROOT / "configs" / "scales" / f"{name}.yaml"
    known = sorted(p.stem for p in file.parent.glob("*.yaml"))
    if name not in known:
        raise ScaleError(f"scale {name!r}; allowed: {', '.join(known)}")
    return file


def read_scale(name: str) -> dict[str, Any]:
    """Ranks, block (text as for -b, and bytes) and repetitions of configs/scales/NAME.yaml."""
    file = scale_file(name)
    scale = strict_yaml.read_mapping(file, ScaleError)
    for key in ("ranks", "repetitions"):
        if not isinstance(scale.get(key), int) or scale[key] < 1:
            raise ScaleError(f"{file}: {key}: {scale.get(key)!r}; allowed: a whole number above 0")
    block = parse_bytes(str(scale.get("block")), f"{file}: block:")
    return {**scale, "name": name, "block_bytes": block}


def directories_of(tiers: str) -> list[str]:
    """The places that a configuration of tiers needs on a site, the PFS first."""
    if tiers == "pfs":
        return ["pfs"]
    found = strict_yaml.read(ROOT / "configs" / "tiers" / f"{tiers}.yaml", ScaleError)["tiers"]
    return ["pfs", *(tier["name"] for tier in found if tier["medium"] == "directory")]


def _scaled(text: str, factor: float) -> str:
    """A capacity in MiB times `factor`, in whole KiB so that ratios between tiers hold."""
    return f"{round(int(text.removesuffix('MiB')) * 1024 * factor / 4) * 4}KiB"


def write_config(
    tiers: str,
    bytes_per_node: int,
    policy: str,
    places: dict[str, str] | None,
    target: Path,
    *,
    models: dict[str, str] | None = None,
    volatile: bool = False,
) -> None:
    """Write the configuration `tiers` for a run of `bytes_per_node` to `target`.

    `places` maps `pfs` and tier names to the site's directories, and takes the models out; None keeps the
    models (or puts `models`, by place, there), on directories under ${TB_ROOT}. `volatile`: those are on a
    tmpfs, which is said in the file.
    """
    source = ROOT / "configs" / "tiers" / f"{tiers}.yaml"
    config = strict_yaml.read(source, ScaleError)
    rules = config["placement"].get("rules")
    config["placement"] = {"policy": policy} | ({"rules": rules} if policy == "user-defined" else {})
    if tiers == "pfs" and places is not None:  # a real site's baseline never needs a tier
        config |= {"tiers": [UNUSED], "fsync": "pfs"}
    if volatile:
        config["allow_volatile"] = True
    for tier in [config["pfs"], *config["tiers"]]:
        name = tier.get("name", "pfs")
        if "capacity" in tier and tier is not UNUSED:
            tier["capacity"] = _scaled(tier["capacity"], bytes_per_node / PUBLISHED_BYTES_PER_NODE)
        if places is None:
            tier["model"] = models[name] if models else str((source.parent / tier["model"]).resolve())
        else:
            tier.pop("model", None)
            if "path" in tier:
                if name not in places:
                    raise ScaleError(f"site: extras lacks {name!r}: the directory of that tier")
                tier["path"] = places[name]
    target.write_text(
        f"# {source.name}, for {bytes_per_node} bytes a node\n" + yaml.safe_dump(config, sort_keys=False)
    )


def check_config(tierctl: Path, config: Path, root: Path | None) -> None:
    """Refuse what the engine would refuse, in its words; `root` is what the file calls TB_ROOT."""
    if not tierctl.exists():
        raise ScaleError(f"{tierctl}: is missing; needs `make build`")
    env = {**os.environ, "TB_ROOT": str(root)} if root else None
    done = subprocess.run([tierctl, "check", config], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise ScaleError(done.stderr.strip())
