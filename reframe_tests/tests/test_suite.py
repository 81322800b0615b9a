"""The suite as ReFrame sees it, and the tier configurations it writes."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from common.sites.tiers import ROOT, TIERS, ScaleError, parse_bytes, read_scale, write_config

REFRAME = Path(sys.executable).with_name("reframe")


def reframe(*options: str, site: bool = True) -> subprocess.CompletedProcess[str]:
    where = ["-C", "configs/sites/local.py", "--system=local"] if site else []
    return subprocess.run(
        [str(REFRAME), *where, "-c", "reframe_tests", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def listed(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- Webinar")]


@pytest.mark.parametrize("site", [True, False])
def test_the_suite_is_listed_with_and_without_a_site(site: bool) -> None:
    done = reframe("-l", site=site)
    assert done.returncode == 0
    assert len(listed(done.stdout)) == 11
    assert "skipping test" not in done.stdout


def test_a_site_of_other_machines_needs_the_system_named(tmp_path: Path) -> None:
    """ReFrame would take its own system, and the tests would run on models without a word."""
    here = tmp_path / "here.py"
    text = (ROOT / "configs" / "sites" / "local.py").read_text()
    here.write_text(text.replace('"hostnames": [".*"]', '"hostnames": ["no-such-host", "^none$"]'))
    done = reframe("-C", str(here), "-l", site=False)
    told = f"{here}: for {socket.gethostname()} ReFrame takes none of its systems "
    told += "(local: no-such-host, ^none$); allowed: --system=local"
    assert done.returncode == 2 and "Traceback" not in done.stdout + done.stderr
    assert done.stderr.count(told) == 1
    assert reframe("-C", str(here), "--system=local", "-l", site=False).returncode == 0


def test_names_and_tags_select() -> None:
    assert len(listed(reframe("-l", "-t", "smoke").stdout)) == 6
    assert len(listed(reframe("-l", "-n", "WebinarTiers.*tiers=bb-nvme.*scratch").stdout)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-S", "scale=huge"), "scale 'huge'; allowed: full, local, node, smoke, two-nodes"),
        (("-P", "tiers=tape"), "tiers='tape'; allowed: pfs, "),  # of the file that is loaded first
    ],
)
def test_what_is_unknown_is_refused_once(options: tuple[str, str], message: str) -> None:
    done = reframe("-r", *options)
    assert done.returncode == 2
    assert (done.stdout + done.stderr).count(message) == 1


@pytest.mark.parametrize("tiers", TIERS)
def test_scaled_capacities_keep_their_ratios(tiers: str, tmp_path: Path) -> None:
    full, small = tmp_path / "full.yaml", tmp_path / "small.yaml"
    write_config(tiers, 1536 << 20, "max-bandwidth", None, full)
    write_config(tiers, 256 << 20, "round-robin", None, small)
    a, b = yaml.safe_load(full.read_text()), yaml.safe_load(small.read_text())
    ratios = {
        int(x["capacity"].removesuffix("KiB")) / int(y["capacity"].removesuffix("KiB"))
        for x, y in zip(a["tiers"], b["tiers"], strict=True)
    }
    assert all(abs(r - 6) < 1e-3 for r in ratios)
    assert b["placement"]["policy"] == "round-robin"
    assert all(Path(t["model"]).is_file() for t in [b["pfs"], *b["tiers"]])


def test_real_places_carry_no_model(tmp_path: Path) -> None:
    target = tmp_path / "c.yaml"
    write_config("bb-nvme", 1 << 30, "max-bandwidth", {"pfs": "/a", "nvme": "/b", "bb": "/c"}, target)
    config = yaml.safe_load(target.read_text())
    assert [t["path"] for t in [config["pfs"], *config["tiers"]]] == ["/a", "/b", "/c"]
    assert "model" not in target.read_text()


def test_the_baseline_of_a_real_site_names_no_tier_of_it(tmp_path: Path) -> None:
    target = tmp_path / "c.yaml"
    for places in ({"pfs": "/a"}, {"pfs": "/a", "bb": "/c"}):
        write_config("pfs", 1 << 30, "max-bandwidth", places, target)
        config = yaml.safe_load(target.read_text())
        assert config["pfs"]["path"] == "/a"
        assert [t["medium"] for t in config["tiers"]] == ["memory"]


def test_a_site_without_a_needed_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScaleError, match="extras lacks 'bb'"):
        write_config("bb", 1 << 30, "max-bandwidth", {"pfs": "/a"}, tmp_path / "c.yaml")


@pytest.mark.parametrize(("text", "size"), [("64m", 64 << 20), ("1G", 1 << 30), ("512", 512)])
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "64mb", "-1m", "m"])
def test_bad_sizes_are_refused(text: str) -> None:
    with pytest.raises(ScaleError, match="allowed: a number above 0"):
        parse_bytes(text)


def test_the_local_scale_is_the_one_the_models_are_solved_for() -> None:
    scale = read_scale("local")
    assert scale["ranks"] * scale["block_bytes"] == 256 << 20


def test_every_test_takes_the_trace_variable() -> None:
    done = reframe("-S", "trace=1", "-l")
    assert done.returncode == 0 and "not set" not in done.stdout + done.stderr
    wrong = reframe("-S", "traces=1", "-l")
    assert "not set" in wrong.stdout + wrong.stderr


def test_a_dry_run_leaves_nothing_outside_its_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, here = tmp_path / "memory", tmp_path / "here.py"
    place.mkdir()
    text = (ROOT / "configs" / "sites" / "local.py").read_text()
    here.write_text(text.replace('"root": "/dev/shm"', f'"root": "{place}"'))
    chosen = "Webinar|recipe=(cfs-iops|mdtest-shared-node)( |$)"
    monkeypatch.setenv("TIERBENCH_RUN_DIR", str(tmp_path / "run"))
    options = ["-P", "tiers=pfs,ram", "-S", "scale=smoke", "-n", chosen]
    where = ["-C", str(here), "--system=local", "--prefix", str(tmp_path / "reframe")]
    done = reframe(*where, "-R", "--dry-run", *options, site=False)
    assert done.returncode == 0, done.stdout
    jobs = [file.read_text() for file in (tmp_path / "reframe").rglob("rfm_job.sh")]
    assert len(jobs) >= 4 and any(str(place) in job for job in jobs)
    assert not list(place.iterdir()) and not (tmp_path / "run").exists()
