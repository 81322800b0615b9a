"""How Summit's two file systems scale out, from what was published: a node's share and the whole's limit.

GPFS gives n nodes n times the share that 2 nodes had, until the system's limit; the NVMes have no common
limit and give n times a share. Where the lines cross, local storage overtakes the shared one. The limit
is taken twice: as stated, and as measured with 1100 nodes; how far these are apart is part of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tierbench.base.errors import RecipeError
from tierbench.base.sizes import MIB
from tierbench.recipes.published import Recipe, read_recipes


@dataclass(frozen=True)
class Projection:
    """One direction; bandwidths in MiB/s. `crossing_*`: from how many nodes on NVMe is ahead."""

    access: str
    gpfs_share: float
    nvme_share: float
    stated_limit: float
    measured_limit: float
    stated_nvme: float
    points: tuple[tuple[int, float, float], ...]

    def gpfs(self, nodes: int, limit: float) -> float:
        """What GPFS gives so many nodes."""
        return min(nodes * self.gpfs_share, limit)

    def nvme(self, nodes: int) -> float:
        """What their NVMes give."""
        return nodes * self.nvme_share

    @property
    def crossing_stated(self) -> float:
        """With the stated limit and the stated peak of an NVMe."""
        return self.stated_limit / self.stated_nvme

    @property
    def crossing_measured(self) -> float:
        """With what 1100 nodes measured."""
        return self.measured_limit / self.nvme_share

    @property
    def of_stated(self) -> float:
        """The measured limit as a fraction of the stated one."""
        return self.measured_limit / self.stated_limit


def project(recipes: list[Recipe] | None = None) -> list[Projection]:
    """Write and read."""
    known = {r.name: r for r in recipes or read_recipes()}
    names = ("summit-gpfs-2", "summit-nvme-2", "summit-gpfs-1100", "summit-nvme-1100")
    missing = [n for n in names if n not in known]
    if missing:
        raise RecipeError(f"configs/recipes: lacks {missing[0]!r}; allowed: a folder with {', '.join(names)}")
    few_gpfs, few_nvme, many_gpfs, many_nvme = (known[n] for n in names)
    return [
        Projection(
            access,
            few_gpfs.number(access).per_node,
            many_nvme.number(access).per_node,
            _rule(many_gpfs, "stated_limit_tb_s") * 1e12 / MIB,
            many_gpfs.number(access).value,
            _rule(many_nvme, f"stated_peak_{access}_gb_s") * 1e9 / MIB,
            tuple(
                (g.nodes, g.number(access).value, n.number(access).value)
                for g, n in ((few_gpfs, few_nvme), (many_gpfs, many_nvme))
            ),
        )
        for access in ("write", "read")
    ]


def _rule(recipe: Recipe, name: str) -> float:
    value = recipe.rules.get(name)
    if not isinstance(value, int | float) or value <= 0:
        raise RecipeError(
            f"{recipe.file}: {recipe.name}: rules: {name}: {value!r}; allowed: a number above 0"
        )
    return float(value)


def sentences(p: Projection) -> list[str]:
    """The projection in words, beside the published points."""
    nodes = p.points[-1][0]
    gpfs = f"GPFS gives a node {p.gpfs_share:,.0f}, until all have {p.measured_limit:,.0f}"
    limits = f"(measured with {nodes} nodes) or {p.stated_limit:,.0f} (stated)"
    nvme = f"an NVMe {p.nvme_share:,.0f}, stated {p.stated_nvme:,.0f}"
    crossing = f"{p.crossing_measured:,.0f} nodes on (measured limits), {p.crossing_stated:,.0f} (stated)"
    gap = f"the measured limit of GPFS is {p.of_stated:.0%} of the stated one"
    return [
        f"{p.access}, MiB/s: {gpfs} {limits}; {nvme}.",
        *(_point(p, *point) for point in p.points),
        f"  NVMe is ahead from {crossing}; {gap}.",
    ]


def _point(p: Projection, nodes: int, gpfs: float, nvme: float) -> str:
    measured, projected = gpfs / nvme, p.gpfs(nodes, p.measured_limit) / p.nvme(nodes)
    published = f"published GPFS {gpfs:,.0f}, NVMe {nvme:,.0f}"
    return f"  {nodes} nodes: {published}: {_ahead(measured)}; projected: {_ahead(projected)}."


def _ahead(ratio: float) -> str:
    name = "GPFS" if ratio > 1 else "NVMe"
    return f"{name} ahead by {max(ratio, 1 / ratio):.1f}x"


def as_json(p: Projection) -> dict[str, Any]:
    """The projection for scripts; MiB/s."""
    return {
        "access": p.access,
        "gpfs_share": p.gpfs_share,
        "nvme_share": p.nvme_share,
        "stated_limit": p.stated_limit,
        "measured_limit": p.measured_limit,
        "measured_of_stated": p.of_stated,
        "crossing_nodes_measured": p.crossing_measured,
        "crossing_nodes_stated": p.crossing_stated,
        "published": [{"nodes": n, "gpfs": g, "nvme": v} for n, g, v in p.points],
    }
