"""A site of real directories without a burst buffer: what needs one is skipped, the user's files stay."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_suite import REFRAME

from common.sites.tiers import ROOT

SITE = """\
site_configuration = {{
    "systems": [{{"name": "mysite", "hostnames": [".*"], "partitions": [{{
        "name": "compute", "scheduler": "local", "launcher": "mpirun", "max_jobs": 1, "environs": ["builtin"],
        "env_vars": [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"],
                     ["OMPI_MCA_rmaps_base_oversubscribe", "1"]],
        "extras": {{"tiers": "real", "pfs": "{0}/pfs", "nvme": "{0}/nvme", "require": {1}, "apart": {2}}},
    }}]}}],
    "environments": [{{"name": "builtin", "cc": "mpicc"}}],
    "general": [{{"trap_job_errors": True, "remote_detect": False}}],
}}
"""


def run(
    tmp_path: Path, *options: str, status: int = 0, require: Any = (), apart: bool = False
) -> tuple[str, list[dict[str, Any]]]:
    """The comparison on that site; what ReFrame printed, and the cases."""
    if not (ROOT / "build" / "bin" / "tierctl").exists():
        pytest.skip("needs `make build`")
    for place in ("pfs", "nvme", "run"):
        (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / "site.py").write_text(SITE.format(tmp_path, list(require), apart))
    line: list[str | Path] = [REFRAME, "-C", tmp_path / "site.py", "-c", "reframe_tests/webinar.py"]
    line += ["-r", "-S", "scale=smoke"]
    line += ["--exec-policy=serial", "--prefix", tmp_path / "reframe", *options]
    line += ["--report-file", tmp_path / "run" / "reframe.json"]
    done = subprocess.run(
        line,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TIERBENCH_RUN_DIR": str(tmp_path / "run")},
    )
    assert done.returncode == status, done.stdout[-4000:]
    return done.stdout + done.stderr, [
        json.loads(f.read_text()) for f in (tmp_path / "run").glob("cases/*/*/case.json")
    ]


def test_the_tiers_at_hand_are_measured_and_the_users_files_stay(tmp_path: Path) -> None:
    (tmp_path / "pfs").mkdir()
    theirs = tmp_path / "pfs" / "ior.out.00000000"
    theirs.write_text("mine")
    told, cases = run(tmp_path)
    assert "the site names no directory of bb" in told
    assert {c["tiers"] for c in cases} == {"pfs", "ram", "nvme", "nvme-ram"}
    assert {c["system"] for c in cases} == {"mysite"}
    assert not any(c["requirement"] for c in cases) and any(c["published"] for c in cases)
    assert [p.name for p in (tmp_path / "pfs").iterdir()] == [theirs.name] and theirs.read_text() == "mine"
    assert list((tmp_path / "nvme").iterdir()) == []


def test_one_tier_is_measured_once_a_mode_and_not_beside_itself(tmp_path: Path) -> None:
    told, cases = run(tmp_path, "-P", "tiers=pfs,nvme")
    found = sorted((c["tiers"], c["mode"], c["policy"], c["repetition"]) for c in cases)
    assert found == [
        ("nvme", "persistent-async", "max-bandwidth", 1),
        ("nvme", "scratch", "max-bandwidth", 1),
        ("pfs", "bypass", "none", 1),
        ("pfs", "bypass", "none", 1),  # with -Y and without
    ]
    assert "WebinarSideBySide" not in told and "Traceback" not in told


ALONE = """#!/bin/bash
if [ "$OMPI_COMM_WORLD_RANK" = 0 ] && [[ " $* " = *" -w "* ]]; then
    mkdir {0}/writing || echo "$@" >> {0}/overlaps
    {1} "$@"
    status=$?
    rmdir {0}/writing
    exit $status
fi
exec {1} "$@"
"""


def test_no_two_measurements_are_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ReFrame's own policy, on a site that does not say how many jobs may run."""
    (tmp_path / "ior").write_text(ALONE.format(tmp_path, ROOT / "build/bin/tb-ior"))
    (tmp_path / "ior").chmod(0o755)
    monkeypatch.setenv("IOR", str(tmp_path / "ior"))
    monkeypatch.setitem(globals(), "SITE", SITE.replace('"max_jobs": 1, ', ""))
    _, cases = run(tmp_path, "-P", "tiers=pfs,nvme", "--exec-policy=async")
    assert len(cases) == 4 and not (tmp_path / "overlaps").exists()


def test_places_on_one_file_system_fail_unless_the_site_says_so(tmp_path: Path) -> None:
    told, cases = run(tmp_path, "-P", "tiers=nvme", "-n", "WebinarTiers|SiteTiers", status=1, apart=True)
    assert "is not what was asked for: ['places: asked for pfs and nvme apart, but both share storage" in told
    assert all(any(x.startswith("places: ") for x in c["disagreements"]) for c in cases) and cases
    _, cases = run(tmp_path, "-P", "tiers=nvme", "-n", "WebinarTiers|SiteTiers")
    again = [c for c in cases if c["repetition"] == 2]
    assert again and all("pfs and nvme apart (both share storage" in c["witness"] for c in again)


REQUIRED = {
    "test": "webinar-write-Y",
    "metric": "bandwidth",
    "at_least": 5,
    "unit": "MiB/s",
    "source": "ours",
}


def test_what_the_site_requires_is_in_its_cases(tmp_path: Path) -> None:
    _, cases = run(tmp_path, "-P", "tiers=pfs", require=[REQUIRED])
    found = {c["test"]: (c["requirement"], c["requirement_source"]) for c in cases}
    assert found == {"webinar-write-Y": (5.0, "ours"), "webinar-write": (None, None)}


def test_a_requirement_of_an_unknown_test_is_refused_before_anything_runs(tmp_path: Path) -> None:
    told, cases = run(tmp_path, "-P", "tiers=pfs", status=2, require=[REQUIRED | {"test": "webinar"}])
    assert not cases and told.count("number 1: test 'webinar'; allowed: ") == 1
    assert "webinar-write-Y" in told and "cori-" in told and "io500-" in told


def test_a_place_with_a_blank_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Job scripts would make, and remove, two other folders."""
    place = tmp_path / "a place"
    place.mkdir()
    told, cases = run(place, "-P", "tiers=pfs", status=2)
    assert not cases and f"site: pfs: '{place}/pfs' has a blank" in told
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a place"]
