"""Tests on several nodes: the launch lines and the configuration that a site's `per_node` makes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_suite import REFRAME

from common.sites.nodes import shows_others
from common.sites.tiers import ROOT

LAUNCH = "srun --overlap --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1"


def dry_run(site: str, *options: str) -> subprocess.CompletedProcess[str]:
    where = ["-C", f"configs/sites/{site}.py", f"--system={site}", "-c", "reframe_tests", "-R"]
    return subprocess.run(
        [str(REFRAME), *where, "--dry-run", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )


def stage_of(tmp_path: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Job script and configuration of the one case that the options choose, at two nodes."""
    done = dry_run("slurm-local", "--prefix", str(tmp_path), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (script,) = tmp_path.rglob("rfm_*.sh")
    return script.read_text(), yaml.safe_load((script.parent / "tiers.yaml").read_text())


@pytest.mark.parametrize(
    ("recipe", "policy"),
    [("cori-datawarp-1-posix", "manual"), ("cori-datawarp-1-mpiio", "on-close"), ("cfs-iops", "on-close")],
)
def test_a_tierd_on_each_node(recipe: str, policy: str, tmp_path: Path) -> None:
    script, config = stage_of(tmp_path, "-P", "tiers=bb-nvme-ram", "-n", f"recipe={recipe}( |$)")
    assert "#SBATCH --nodes=2" in script
    assert config["nodes"] == "several"
    assert config["flush"]["policy"] == policy
    words = shlex.split(next(line for line in script.splitlines() if "tierctl run" in line))
    assert words[words.index("--per-node") + 1] == LAUNCH
    assert words[0] == "srun" or words[words.index("--") + 1] == "srun"


@pytest.mark.parametrize("recipe", ["cori-datawarp-1-mpiio", "cfs-iops"])
def test_nodes_that_read_from_each_other_flush_by_hand(recipe: str, tmp_path: Path) -> None:
    options = ["-S", "nodes_see=shared", "-P", "tiers=bb-nvme-ram", "-n", f"recipe={recipe}( |$)"]
    _, config = stage_of(tmp_path, *options)
    assert (config["nodes"], config["flush"]["policy"]) == ("shared", "manual")
    assert config["network"] == {"interface": "eth0"}


@pytest.mark.parametrize(
    ("way", "nodes", "policy", "mode"),
    [
        ("pfs", "several", "manual", "bypass"),
        ("ram-several", "several", "on-close", "persistent-async"),
        ("ram-shared", "shared", "manual", "persistent-async"),
    ],
)
def test_each_way_to_what_a_neighbour_wrote(
    way: str, nodes: str, policy: str, mode: str, tmp_path: Path
) -> None:
    script, config = stage_of(tmp_path, "-t", "nodes", "-n", f"way={way}$")
    found = config["nodes"], config["flush"]["policy"], config["mode"]
    assert found == (nodes, policy, mode)
    assert config.get("network") == ({"interface": "eth0"} if nodes == "shared" else None)
    line = next(line for line in script.splitlines() if "tierctl run" in line)
    assert "--trace trace.darshan" in line and " -w -r -C -F -k -G 27 " in line
    assert " -r -R -C -F -k -G 27 " in script


def test_what_nodes_see_of_each_other_is_one_of_two() -> None:
    done = dry_run("slurm-local", "-S", "nodes_see=all", "-P", "tiers=ram", "-n", "recipe=cfs-iops")
    assert done.returncode == 2
    assert "nodes_see='all'; allowed: site, several, shared" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("-w -F -e", False),
        ("-w -C -F", False),
        ("-r -C -F", False),
        ("-r -C", False),
        ("-w -r -C -F", True),
        ("-C -F", True),
        ("-F", False),
        ("-w", True),
        ("-a MPIIO", True),
    ],
)
def test_what_a_launch_sees_of_other_nodes(line: str, *, others: bool) -> None:
    assert shows_others(line.split()) is others


def test_no_tiers_on_nodes_that_a_site_says_nothing_of() -> None:
    done = dry_run("local", "-S", "scale=two-nodes", "-P", "tiers=ram", "-n", "recipe=cfs-iops")
    assert "the site's extras must say how a command runs once on each (per_node)" in done.stdout
