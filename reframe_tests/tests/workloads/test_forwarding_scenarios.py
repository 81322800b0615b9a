"""The forwarding study's scenarios: how many, their deployments, a job of each kind of site."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from test_suite import REFRAME

from common.scales.forwarding_scenarios import IO_NODES, SCENARIOS, Scenario
from common.sites.tiers import ROOT
from tierbench.forwarding import measurements
from tierbench.runs.case import read_case


def test_they_are_those_of_the_study() -> None:
    """Their keys are those of the published runs."""
    published = {s for s, _ in measurements.read("marenostrum4").scenarios()}
    ours = set()
    for s in SCENARIOS:
        layout, spatiality = s.pattern.split("-")
        ours.add((s.nodes, s.clients(True), measurements.LAYOUTS[layout], spatiality, float(s.request_kib)))
    assert len(ours) == len(SCENARIOS) == 189
    assert ours == {tuple(s) for s in published}


def test_names_and_local_ranks() -> None:
    assert [Scenario.named(s.name) for s in SCENARIOS] == SCENARIOS
    assert sum(s.is_local for s in SCENARIOS) == 9
    assert sorted({s.clients(False) for s in SCENARIOS}) == [1, 2, 4, 8, 16]
    found = Scenario(16, 12, "shared-strided", 128).file(4, 1 << 30, 60, True, False)
    assert (found["forwarders"], found["request_size"], found["stone_wall"]) == (4, 131072, 60)


def test_what_forge_can_run() -> None:
    """It needs I/O nodes, and as many clients for each; it reads phases."""
    of = Scenario.named("8n-24p-shared-strided-1024KiB")
    assert [n for n in IO_NODES if of.forge_runs(n, published=True)] == [1, 2, 4, 8]
    assert [n for n in IO_NODES if of.forge_runs(n, published=False)] == [1, 2]
    flat = of.file(2, 1 << 25, 1, False, False)
    told = of.file_with_phases(flat)
    assert (told["forwarders"], told["handlers"], told["dispatchers"]) == (2, 1, 1)
    (phase,) = told["phases"]
    assert [p["operation"] for p in phase["patterns"]] == ["open", "write", "close"]
    assert all(p["total_size"] == 1 << 25 and p["spatiality"] == "strided" for p in phase["patterns"])


def run(site: str, folder: Path, *options: str) -> str:
    """What ReFrame says of a run that ends well."""
    where = ["-C", f"configs/sites/{site}.py", f"--system={site}", "-c", "reframe_tests/forwarding.py"]
    done = subprocess.run(
        [str(REFRAME), *where, "--prefix", str(folder), *options],
        cwd=ROOT,
        env={**os.environ, "TIERBENCH_RUN_DIR": str(folder / "run")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_short_run_has_nine(tmp_path: Path) -> None:
    assert "Found 9 check(s)" in run("local", tmp_path, "-l", "-t", "forge")


def test_a_local_job_has_a_result_of_each_number(tmp_path: Path) -> None:
    one = ["-n", "scenario=8n-24p-shared-strided-1024KiB"]
    run("local", tmp_path, "-r", *one, "-S", "repetitions=1", "-S", "validate=1", "-S", "total=3000001")
    found = [json.loads(f.read_text()) for f in (tmp_path / "run").rglob(measurements.RESULT)]
    assert sorted(f["io_nodes"] for f in found) == list(IO_NODES)
    assert {f["patterns"][0]["validated_bytes"] for f in found} == {3000001}
    assert {f["clients"] for f in found} == {2}
    cases = [read_case(f) for f in (tmp_path / "run").rglob("case.json")]
    assert {c.test for c in cases} == {"forge-8n-24p-shared-strided-1024KiB"}
    assert sorted(c.tiers for c in cases) == ["io-nodes-1", "io-nodes-2", "io-nodes-4", "io-nodes-8", "pfs"]
    assert all(c.verified and c.value > 0 and c.bytes == 3000001 for c in cases)


FORGE = """#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 0 ] && grep -q phases "$1" || exit 0
n=$(sed -n 's/^ "forwarders": \\([0-9]*\\),*/\\1/p' "$1")
sed "s/forwarders: 1/forwarders: $n/" "{times}" > "$2/emulation.time"
"""


def test_forge_makes_the_launches_that_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forge = tmp_path / "forge"
    forge.write_text(FORGE.format(times=ROOT / "analysis/tests/data/forge/emulation.time"))
    forge.chmod(0o755)
    monkeypatch.setenv("FORGE", str(forge))
    run("local", tmp_path, "-r", "-n", "scenario=8n-24p-shared-strided-1024KiB", "-S", "repetitions=1")
    cases = [read_case(f) for f in (tmp_path / "run").rglob("case.json")]
    drivers = {c.tiers: c.driver for c in cases}
    assert drivers == {
        "pfs": "tb-forge",
        "io-nodes-1": "FORGE",
        "io-nodes-2": "FORGE",
        "io-nodes-4": "tb-forge",
        "io-nodes-8": "tb-forge",
    }
    one = next(c for c in cases if c.tiers == "io-nodes-1")
    assert (one.value, one.write_s, one.bytes, one.nodes) == (48.86163, 0.65491, 32 << 20, 1)
    assert one.command == "forge scenario.1.json"
    found = measurements.read(str(tmp_path / "run/forwarding"))
    ((_, bandwidths),) = found.scenarios()
    assert list(bandwidths) == list(IO_NODES) and bandwidths[2] == [48.86163]


def test_a_forge_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FORGE", str(tmp_path / "file"))
    with pytest.raises(AssertionError, match="is not allowed, expected a program"):
        run("local", tmp_path, "-r", "-n", "scenario=8n-24p-shared-strided-1024KiB")


@pytest.mark.parametrize(("site", "total"), [("marenostrum4", 128 << 30), ("santosdumont", 16 << 40)])
def test_a_job_of_the_study_gives_each_io_node_a_compute_node(tmp_path: Path, site: str, total: int) -> None:
    run(site, tmp_path, "--dry-run", "-n", "scenario=16n-12p-shared-strided-32KiB")
    (job,), (steps,) = tmp_path.rglob("rfm_job.sh"), tmp_path.rglob("steps.sh")
    assert {"#SBATCH --ntasks=288", "#SBATCH --ntasks-per-node=12"} <= set(job.read_text().splitlines())
    assert '--hostfile "$here/hosts.$n" -n $((n + 192)) ' in steps.read_text()
    (file,) = tmp_path.rglob("scenario.8.json")
    told = json.loads(file.read_text())
    assert (told["forwarders"], told["direct_io"], told["total_size"]) == (8, 1, total)
    listing = steps.read_text().split("place=")[0].partition("\n")[2].partition("\n")[2]
    (tmp_path / "nodes").write_text("".join(f"node{i}\n" for i in range(24)))
    subprocess.run(["sh", "-c", listing], cwd=tmp_path, check=True)
    hosts = (tmp_path / "hosts.2").read_text().splitlines()
    assert hosts[:3] == ["node0 slots=1", "node1 slots=1", "node2 slots=12"]
    assert len(hosts) == 18
