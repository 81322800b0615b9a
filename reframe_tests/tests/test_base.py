"""The objects that every test is built of: a site, the places of its data, its records."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from common.jobs.script import Script
from common.outcome import held
from common.outcome.results import Results
from common.sites.extras import check_extras
from common.sites.places import Places
from common.sites.plan import Plan
from common.sites.site import Site
from common.sites.tiers import ROOT, ScaleError
from tierbench.base.errors import RunError
from tierbench.runs.case import Case, read_case


def site(scheduler: str = "local", **extras: Any) -> Site:
    partition = SimpleNamespace(
        extras=extras,
        processor=SimpleNamespace(num_cores=4),
        scheduler=SimpleNamespace(registered_name=scheduler),
        launcher_type=SimpleNamespace(registered_name="srun" if scheduler == "slurm" else "mpirun"),
    )
    return Site.of(SimpleNamespace(name="here"), partition)


def plan(**more: Any) -> Plan:
    given: dict[str, Any] = {"name": "r", "tiers": "ram", "policy": "max-bandwidth", "ranks": 4}
    given["mode"] = "persistent-async"
    return Plan(**given | {"config_bytes": 64 << 20, "place_bytes": 1} | more)


def case(**more: Any) -> Case:
    given: dict[str, Any] = {
        "test": "t",
        "system": "s",
        "metric": "bandwidth",
        "unit": "MiB/s",
        "direction": "higher",
        "value": 2.5,
        "open_s": None,
        "write_s": None,
        "close_s": None,
        "total_s": None,
        "verified": True,
        "driver": "d",
        "command": "c",
        "bytes": 1,
        "published": None,
        "published_source": None,
        "requirement": None,
    }
    return Case(**given | more)


# --- a site ------------------------------------------------------------------------------------------------


def test_a_site_that_says_nothing_is_modelled() -> None:
    found = site()
    assert found.modelled and found.measures and not found.published
    assert (found.scale, found.cores, found.places) == ("local", 4, {})
    assert found.memory > 0 and found.lacks("bb-nvme-ram") == []


def test_a_published_site_is_not_modelled() -> None:
    assert not site(published=True).modelled
    assert not site(tiers="real").modelled


def test_places_that_a_site_does_not_name() -> None:
    found = site(tiers="real", pfs="/pfs", nvme="/nvme", colour="blue")
    assert found.places == {"pfs": "/pfs", "nvme": "/nvme"}
    assert found.lacks("nvme-ram") == [] and found.lacks("bb-nvme-ram") == ["bb"]


@pytest.mark.parametrize(
    ("extras", "told"),
    [
        ({"tiers": "reel"}, "tiers: 'reel'; allowed: modelled, real"),
        ({"pfs": 3}, "pfs: 3; allowed: a path from / on, or from a $NAME"),
        ({"nvme": "nvme"}, "nvme: 'nvme'; allowed: a path from / on, or from a $NAME"),
        ({"apart": "False"}, "apart: 'False'; allowed: True, False"),
        ({"nodes": 0}, "nodes: 0; allowed: a whole number above 0"),
        ({"memory_bytes": "64 GiB"}, "memory_bytes: '64 GiB'; allowed: a whole number above 0"),
        ({"read_limit_mib_s": -1}, "read_limit_mib_s: -1; allowed: a number above 0"),
        ({"nodes_see": "all"}, "nodes_see: 'all'; allowed: several, shared"),
        ({"per_node": "srun -N {n}"}, "per_node: 'srun -N {n}'; allowed: a command, with {nodes} for"),
        ({"requires": []}, "unknown key 'requires'; allowed: require, or a name unlike it"),
        (
            {"read_limit_mibs": 9},
            "unknown key 'read_limit_mibs'; allowed: read_limit_mib_s, or a name unlike",
        ),
    ],
)
def test_wrong_extras_are_named_with_what_is_allowed(extras: dict[str, Any], told: str) -> None:
    with pytest.raises(ScaleError) as caught:
        check_extras({"tiers": "real", "pfs": "/pfs"} | extras)
    assert str(caught.value).startswith(f"site: extras: {told}")


def test_extras_of_the_sites_that_are_here_and_keys_of_ones_own_are_taken() -> None:
    for file in sorted((ROOT / "configs" / "sites").glob("*.py")):
        for system in runpy.run_path(str(file))["site_configuration"]["systems"]:
            for partition in system["partitions"]:
                check_extras(partition.get("extras", {}))
    check_extras({"colour": "blue", "gpus": 4, "root": None, "scale": "smoke", "read_limit_mib_s": 1.5})
    with pytest.raises(ScaleError, match="scale 'tiny'; allowed: full, local"):
        check_extras({"scale": "tiny"})


def test_several_nodes_need_a_launch_on_each() -> None:
    assert site().refusal(1) is None
    assert "per_node" in str(site().refusal(2))
    both = site("slurm", per_node="srun -N {nodes}")
    assert both.slurm and both.srun and both.refusal(2) is None
    assert both.per_node_options(1) == [] and both.per_node_options(2) == ["--per-node", "'srun -N 2'"]


# --- places ------------------------------------------------------------------------------------------------


def test_a_twin_stands_in_memory_where_there_is_room(tmp_path: Path) -> None:
    memory = site(root=str(tmp_path))
    small, large = plan(place_bytes=1), plan(place_bytes=1 << 60)
    found = Places.choose(memory, small, tmp_path / "stage", "abc")
    assert found.volatile and found.root and found.root.parent == tmp_path
    assert found.root.name.endswith("-abc")
    assert Places.choose(memory, large, tmp_path / "stage", "abc").root == tmp_path / "stage" / "work"


def test_a_run_removes_its_own_folder_and_nothing_else(tmp_path: Path) -> None:
    real = site(tiers="real", pfs=str(tmp_path), nvme=str(tmp_path / "nvme"))
    found, other = (Places.choose(real, plan(), tmp_path / "stage", "abc") for _ in range(2))
    assert found.pfs and found.pfs.name.endswith("-abc") and found.root is None and found.pfs != other.pfs
    (tmp_path / "mine").touch()
    found.make()
    (found.pfs / "out").touch()
    other.remove()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", found.pfs.name]
    found.remove()
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    letter = Places.choose(real, plan(to_the_letter=True), tmp_path / "stage", "abc")
    letter.make()
    letter.remove()
    assert letter.pfs is None and (tmp_path / "mine").exists()


@pytest.mark.parametrize("modelled", [True, False])
def test_a_folder_of_another_run_is_neither_used_nor_removed(tmp_path: Path, modelled: bool) -> None:
    places = site(root=str(tmp_path)) if modelled else site(tiers="real", pfs=str(tmp_path))
    found = Places.choose(places, plan(), tmp_path / "stage", "abc")
    folder = found.root or found.pfs
    assert folder
    folder.mkdir()
    (folder / "theirs").touch()
    with pytest.raises(ScaleError, match=f"{folder.name}: cannot be made: File exists"):
        found.make()
    found.remove()
    assert (folder / "theirs").exists()


def test_a_configuration_of_several_nodes(tmp_path: Path) -> None:
    twin = site(root=str(tmp_path))
    several = plan(nodes=2, close_to_open=True, max_files=2048, device="summit-nvme", factor=4)
    Places.choose(twin, several, tmp_path, "abc").write_config(twin, several, tmp_path)
    found = yaml.safe_load((tmp_path / "tiers.yaml").read_text())
    assert (found["nodes"], found["flush"]["policy"], found["max_files"]) == ("several", "on-close", 2048)
    assert found["allow_volatile"] is True
    assert yaml.safe_load(Path(found["pfs"]["model"]).read_text())["name"].endswith("-by-4")


def test_launches_with_and_without_tierctl() -> None:
    launcher = SimpleNamespace(modifier="", modifier_options=[])
    launcher.run_command = lambda _: " ".join(
        [launcher.modifier, *launcher.modifier_options, "mpirun"]
    ).strip()
    script = Script(SimpleNamespace(launcher=launcher), site(), plan())
    script.through_tierctl("stats.json", ["--trace", "t.darshan"])
    line = script.line("ior", ["-w"])
    assert line.endswith(
        "run -c tiers.yaml --mode persistent-async --stats stats.json --trace t.darshan -- mpirun ior -w"
    )
    script.directly()
    assert script.line("ior", ["-w"]) == "mpirun ior -w"
    assert Script(None, site(), plan(managed=False)).plan_lines() == []


@pytest.mark.parametrize(
    ("touch", "extras", "size", "touched"),
    [
        ("auto", {}, 7, True),
        ("auto", {"tiers": "real"}, 7, False),  # there it is the user's own memory
        ("always", {"tiers": "real"}, 7, True),
        ("never", {}, 7, False),
        ("auto", {}, 0, False),  # a plan that says no bytes
    ],
)
def test_memory_is_touched_right_before_a_launch_of_a_twin(
    touch: str, extras: dict[str, str], size: int, touched: bool
) -> None:
    *before, begins = Script(None, site(**extras), plan(touched_bytes=size), touch).begins("write")
    assert "launch write begins" in begins
    assert [line.split()[2:] for line in before] == ([[touch, "7", "touched-write.json"]] if touched else [])


def on_one_thing(tmp_path: Path, **extras: Any) -> held.Held:
    """A tier that is a link into the PFS, as the job sees it."""
    (tmp_path / "pfs").mkdir(exist_ok=True)
    if not (tmp_path / "nvme").is_symlink():
        (tmp_path / "nvme").symlink_to(tmp_path / "pfs")
    real = site(tiers="real", pfs=str(tmp_path / "pfs"), nvme=str(tmp_path / "nvme"), **extras)
    for line in Script(None, real, plan(tiers="nvme")).plan_lines()[1:]:
        subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    return held.places(tmp_path, real)


def test_a_tier_that_leads_into_the_pfs_fails(tmp_path: Path) -> None:
    found = on_one_thing(tmp_path)
    (told,) = found.disagreements
    assert told.startswith("places: asked for pfs and nvme apart, but both share storage: ")
    assert found.unseen == ()


def test_a_site_that_knows_its_places_are_one_claims_nothing(tmp_path: Path) -> None:
    found = on_one_thing(tmp_path, apart=False)
    (told,) = found.unseen
    assert told.startswith("pfs and nvme apart (both share storage: ") and found.disagreements == ()


def test_a_real_place_in_memory_fails(tmp_path: Path) -> None:
    lie = {"path": "/pfs", "real": "/pfs", "lies_on": {"memory": "a tmpfs", "device 0:50": "tmpfs on none"}}
    (tmp_path / "places.json").write_text(json.dumps({"pfs": lie}))
    told = "places: asked for pfs on a device, but it is in memory: a tmpfs"
    assert held.places(tmp_path, site(tiers="real", pfs="/pfs")).disagreements == (told,)


def test_places_that_no_job_looked_at_fail_on_a_real_site_only(tmp_path: Path) -> None:
    assert held.places(tmp_path, site()) == held.places(tmp_path, site(published=True)) == held.Held()
    (told,) = held.places(tmp_path, site(tiers="real", pfs="/pfs")).disagreements
    assert told.endswith("the job has not looked at it")


# --- records -----------------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    monkeypatch.setenv("TIERBENCH_RUN_DIR", str(tmp_path / "run"))
    stage = tmp_path / "stage"
    stage.mkdir()
    (stage / "stats.json").write_text('{"drain_s": 1.5}')
    (stage / "plan.json").write_text('{"fsync": "tier"}')
    (stage / "out").write_text("said")
    return Results.begin(stage, site(), plan(), {"write": "r-write_ram"})


def test_what_records_have_in_common(results: Results) -> None:
    found = results.common("write")
    assert (found["drain_s"], found["fsync"], found["repetition"]) == (1.5, "tier", 1)
    assert found["scale"] is None and found["nodes"] == 1 and found["touched"] is None
    for name, size in (("1", 9), ("2", 8)):
        (results.stage / f"touched-{name}.json").write_text(json.dumps({"bytes": size, "seconds": 0.1}))
    assert results.common("write")["touched"] == 8
    scratch = plan(mode="scratch", tiers="pfs")
    again = Results.begin(results.stage, results.site, scratch, {"write": "r-write_ram"})
    told = again.common("write")
    assert (told["drain_s"], told["policy"], told["repetition"]) == (None, "none", 2)


def test_artefacts_and_record_are_kept(results: Results) -> None:
    made = case(**results.common("write"))
    results.keep({"stdout.txt": results.stage / "out"}, "r-ram", {"name": "local"}, {"write": made})
    folder = results.folder("write")
    assert {p.name for p in folder.iterdir()} == {"case.json", "stats.json", "plan.json", "stdout.txt"}
    assert read_case(folder / "case.json") == made
    assert json.loads((folder.parents[2] / "provenance.json").read_text())["scale"] == {"name": "local"}


def test_a_record_that_does_not_fit_is_no_record(results: Results) -> None:
    bad = case(**results.common("write") | {"fsync": "maybe"})
    with pytest.raises(RunError, match=r"fsync: 'maybe'; allowed: pfs, tier, none"):
        results.keep({}, "r-ram", {"name": "local"}, {"write": bad})
    assert not (results.folder("write") / "case.json").exists()


def test_two_runs_of_one_second_have_two_folders(tmp_path: Path) -> None:
    (tmp_path / "date").write_text("#!/bin/sh\necho 20260101-000000\n")
    (tmp_path / "date").chmod(0o755)
    twice = 2 * f'new_run "{tmp_path}/a b" w; '
    line = f". {ROOT}/ci/measure.bash; PATH={tmp_path}:$PATH; {twice}"
    done = subprocess.run(["bash", "-eu", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["20260101-000000-w", "20260101-000000-w-2"]
    assert sorted(p.name for p in (tmp_path / "a b").iterdir()) == done.stdout.split()
