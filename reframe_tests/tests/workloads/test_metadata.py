"""What a scale and a site make of the recipes of rules, and the scripts that follow; nothing is launched."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from test_nodes import LAUNCH, stage_of
from test_suite import REFRAME, reframe

from common.scales.rules_scale import RuleSizes, metadata_seconds, rule_sizes
from common.scales.scale import acceptance_scale
from common.sites.tiers import ROOT, ScaleError
from tierbench.judge import io500
from tierbench.recipes.rules import read_rules

RECIPES = {r.name: r for r in read_rules()}
MDTEST = [n for n, r in RECIPES.items() if r.suite == "mdtest"]
SITE = """
site_configuration = {
    "systems": [{"name": "big", "hostnames": [".*"], "partitions": [{
        "name": "all", "scheduler": "local", "launcher": "srun", "environs": ["builtin"],
        "extras": {"tiers": "real", "pfs": "PFS", "nodes": 8, "ranks_per_node": 16},
    }]}],
    "environments": [{"name": "builtin"}],
    "general": [{"remote_detect": False}],
}
"""


def at(recipe: str, scale: str, site_nodes: int | None = 8, factor: int = 1, **searched: int) -> RuleSizes:
    return rule_sizes(RECIPES[recipe], acceptance_scale(scale), factor, 16, site_nodes, **searched)


@pytest.mark.parametrize("recipe", MDTEST)
@pytest.mark.parametrize("scale", ["full", "node"])
def test_the_rules_number_of_files_at_least(recipe: str, scale: str) -> None:
    found = at(recipe, scale)
    assert found.files and found.ranks * found.files >= 1048576
    assert not any(x.startswith("files") for x in found.dropped)
    assert scale == "node" or found.dropped == ()


def test_levels_of_concurrency() -> None:
    levels = {level: at(f"mdtest-unique-{level}", "full") for level in ("process", "node", "peak", "full")}
    counts = {level: (found.nodes, found.ranks) for level, found in levels.items()}
    assert counts == {"process": (1, 1), "node": (1, 16), "peak": (2, 32), "full": (8, 128)}
    assert at("mdtest-unique-peak", "full", ranks_per_node=4).ranks == 8
    searched = at("mdtest-unique-peak", "full", nodes=4)
    assert (searched.nodes, searched.ranks, searched.files) == (4, 64, 16384)


def test_a_scale_has_what_the_twin_does_in_its_seconds() -> None:
    factor = RECIPES["mdtest-shared-node"].twin.factor
    found = at("mdtest-shared-node", "local", factor=factor)
    assert found.ranks == 4 and found.files
    slowest = max(metadata_seconds(RECIPES["mdtest-shared-node"])) * factor
    assert found.files * found.ranks * slowest == pytest.approx(1, rel=0.01)
    assert any(re.fullmatch(r"files: \d+ of at least 1048576", x) for x in found.dropped)
    assert at("io500", "local").seconds == 7 and at("io500", "full").seconds == 300
    assert at("io500", "local").dropped == ("nodes: 1 of 8", "stonewall: 7 of 300 s")
    assert at("io500", "node").seconds == 300


def test_all_nodes_of_a_site_that_does_not_say_how_many() -> None:
    with pytest.raises(ScaleError, match="full needs the site's extras to say how many nodes there are"):
        at("mdtest-shared-full", "full", site_nodes=None)
    assert at("io500", "local", site_nodes=None).dropped[0] == "nodes: 1 of all"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The launches of both suites at full scale on a site of 8 nodes with 16 cores."""
    folder = tmp_path_factory.mktemp("site")
    site = folder / "big.py"
    site.write_text(SITE.replace("PFS", str(folder / "pfs")))
    done = subprocess.run(
        [
            str(REFRAME),
            "-C",
            str(site),
            "--system=big",
            "-c",
            "reframe_tests",
            "--dry-run",
            "-t",
            "metadata",
            "-P",
            "tiers=pfs",
            "-S",
            "scale=full",
            "--prefix",
            str(folder),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found = {}
    for script in folder.rglob("launches.sh"):
        digest = script.parent.name.rpartition("_")[2]
        line = next(x for x in done.stdout.splitlines() if f"/{digest} " in x)
        found[line.partition("%recipe=")[2].split()[0]] = script.read_text().splitlines()
    return found


def test_every_recipe_makes_a_script(scripts: dict[str, list[str]]) -> None:
    assert scripts.keys() == RECIPES.keys()


def test_io500_runs_its_phases_in_order_by_its_rules(scripts: dict[str, list[str]]) -> None:
    launched = [line.split() for line in scripts["io500"] if line.startswith("launch ")]
    assert [words[1] for words in launched] == ["start", *io500.PHASES]
    for words in launched[1:]:
        assert "limited.sh" in words[2] and words[3] == words[1]
        program = next(i for i, w in enumerate(words[4:], 4) if re.search(r"(^|[/-])(ior|mdtest|find)$", w))
        arguments = [w.strip("'") for w in words[program + 1 :]]
        assert io500.option_problems(words[1], arguments) == ()
        if words[1].endswith("-write"):
            assert io500.stonewall_of(arguments) == 300
    stamp = next(i for i, line in enumerate(scripts["io500"]) if line.startswith("touch "))
    assert "mdtest-easy-write" in scripts["io500"][stamp - 1]


@pytest.mark.parametrize(
    ("recipe", "files", "shift", "flags"),
    [
        ("mdtest-shared-process", "-n 1048576", "-N 1", ""),
        ("mdtest-shared-full", "-n 8192", "-N 16", ""),
        ("mdtest-unique-node", "-n 65536", "-N 16", " -u"),
        ("mdtest-directories-peak", "-I 1 -z 1 -b 32768 -L", "-N 16", " -u"),
    ],
)
def test_mdtest_lines(scripts: dict[str, list[str]], recipe: str, files: str, shift: str, flags: str) -> None:
    line = next(x for x in scripts[recipe] if x.startswith("launch mdtest "))
    assert re.search(rf"mdtest -F -C -T -r {files} -d \S+ {shift}{flags}$", line), line


def test_what_is_unknown_is_refused() -> None:
    done = reframe("-l", "-S", "Io500.scale=huge", "-n", "Io500")
    assert done.returncode == 2
    assert "scale 'huge'; allowed: full," in done.stdout + done.stderr


def test_metadata_is_not_part_of_the_acceptance_tag() -> None:
    listed = reframe("-l", "-t", "acceptance").stdout
    assert "Mdtest" not in listed and "Io500" not in listed


def test_all_phases_run_under_one_daemon_a_node(tmp_path: Path) -> None:
    script, config = stage_of(tmp_path, "-P", "tiers=bb-nvme-ram", "-n", "Io500")
    assert (config["nodes"], config["flush"]["policy"]) == ("several", "on-close")
    words = shlex.split(next(line for line in script.splitlines() if "tierctl run" in line))
    assert words[words.index("--per-node") + 1] == LAUNCH
    assert words[words.index("--") + 1 :] == ["bash", "launches.sh"]
    (launches,) = tmp_path.rglob("launches.sh")
    launched = [line for line in launches.read_text().splitlines() if " srun " in line]
    assert len(launched) == len(io500.PHASES) + 1 and launched[0].endswith(" /bin/true")


def test_two_nodes_have_two_twins() -> None:
    one, two = (at("mdtest-shared-peak", "two-nodes", factor=64, nodes=n) for n in (1, 2))
    assert (one.ranks, two.ranks) == (2, 4)
    assert one.files == two.files
