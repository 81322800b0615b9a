"""What places are on: links, bind mounts, loop devices and devices on devices lead to one thing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tierbench.base import devices, schema

FILE = devices.__file__


def told(tmp_path: Path, command: str, **places: Path) -> dict[str, dict[str, object]]:
    """After a command in a mount namespace of its own, as a job would ask."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs root, for mounts")
    look = " ".join([sys.executable, FILE, *(f"{name}={path}" for name, path in places.items())])
    line = f"cd {tmp_path}; {command} >&2 && {look}; status=$?; umount {tmp_path}/nvme; exit $status"
    done = subprocess.run(["unshare", "-m", "bash", "-c", line], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no such mount here: {done.stderr.strip()}")
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    assert schema.misfit(found, "places") is None
    return found


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("pfs", "nvme"):
        (tmp_path / name).mkdir()
    return tmp_path / "pfs", tmp_path / "nvme"


def test_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "pfs").mkdir()
    (tmp_path / "nvme").symlink_to("pfs")
    both = {name: devices.described(str(tmp_path / name)) for name in ("pfs", "nvme")}
    assert both["nvme"]["real"] == str(tmp_path / "pfs")
    ((a, b, words),) = devices.shared(both)
    assert (a, b) == ("pfs", "nvme") and " on " in words


def test_a_bind_mount_is_what_it_shows(tmp_path: Path, two: tuple[Path, Path]) -> None:
    pfs, nvme = two
    # The PFS is a file system of its own here: else both directories would share one anyway.
    setup = "mount -t tmpfs none pfs && mkdir pfs/in && mount --bind pfs/in nvme"
    found = told(tmp_path, setup, pfs=pfs, nvme=nvme)
    assert [(a, b) for a, b, _ in devices.shared(found)] == [("pfs", "nvme")]
    assert devices.in_memory(found["nvme"]) == "a tmpfs"


def test_two_file_systems_are_apart(tmp_path: Path, two: tuple[Path, Path]) -> None:
    found = told(tmp_path, "mount -t tmpfs none pfs && mount -t tmpfs none nvme", pfs=two[0], nvme=two[1])
    assert devices.shared(found) == []


def test_a_loop_device_is_its_file(tmp_path: Path, two: tuple[Path, Path]) -> None:
    if not shutil.which("mkfs.ext4"):
        pytest.skip("needs mkfs.ext4")
    pfs, nvme = two
    file = pfs / "tier.img"
    setup = f"truncate -s 8M {file} && mkfs.ext4 -q {file} && mount -o loop {file} {nvme}"
    ((a, b, words),) = devices.shared(told(tmp_path, setup, pfs=pfs, nvme=nvme))
    assert (a, b) == ("pfs", "nvme") and f"is the file {file}" in words


def test_an_overlay_is_its_upper_directory(tmp_path: Path, two: tuple[Path, Path]) -> None:
    pfs, nvme = two
    options = f"lowerdir={tmp_path}/low,upperdir={pfs}/up,workdir={pfs}/work"
    setup = f"mkdir low {pfs}/up {pfs}/work && mount -t overlay over -o {options} {nvme}"
    found = told(tmp_path, setup, pfs=pfs, nvme=nvme)
    assert [(a, b) for a, b, _ in devices.shared(found)] == [("pfs", "nvme")]


def block(system: Path, name: str, device: str, *, parts: tuple[str, ...] = (), disk: str = "") -> None:
    """A device of a made-up /sys: with parts (`slaves`), or a partition of a disk."""
    at = system / "block" / disk / name if disk else system / "block" / name
    (at / "slaves").mkdir(parents=True)
    (at / "dev").write_text(f"{device}\n")
    if disk:
        (at / "partition").write_text("1\n")
    for part in parts:
        (at / "slaves" / part).symlink_to(system / "block" / part)
    (system / "dev" / "block").mkdir(parents=True, exist_ok=True)
    (system / "dev" / "block" / device).symlink_to(at)


def test_devices_on_devices_lead_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "SYSTEM", str(tmp_path))
    block(tmp_path, "sda", "8:0")
    block(tmp_path, "sda1", "8:1", disk="sda")
    block(tmp_path, "dm-0", "253:0", parts=("sda",))
    block(tmp_path, "dm-1", "253:1", parts=("dm-0",))
    found: dict[str, dict[str, str]] = {"pfs": {}, "nvme": {}}
    devices._add_block("8:1", found["pfs"], 0)
    devices._add_block("253:1", found["nvme"], 0)
    assert found["nvme"] == {"device 253:1": "dm-1", "device 253:0": "dm-0", "device 8:0": "sda"}
    lie = {name: {"lies_on": on} for name, on in found.items()}
    assert devices.shared(lie) == [("pfs", "nvme", "sda")]


def test_a_device_in_memory_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "SYSTEM", str(tmp_path))
    block(tmp_path, "zram0", "252:0")
    found: dict[str, str] = {}
    devices._add_block("252:0", found, 0)
    assert devices.in_memory({"lies_on": found}) == "zram0"


@pytest.mark.parametrize(
    ("kind", "source", "key"),
    [
        ("nfs4", "server:/export", "source nfs4 server:/export"),
        ("lustre", "10.0.0.1@tcp:/fs", "source lustre 10.0.0.1@tcp:/fs"),
        ("zfs", "pool/data", "source zfs pool"),
    ],
)
def test_a_servers_file_system_is_known_by_its_name(kind: str, source: str, key: str) -> None:
    found: dict[str, str] = {}
    devices._add_source(devices.Mount("0:50", kind, source, ""), found, 0)
    assert list(found) == [key]


def test_a_mount_of_this_machines_own_directory_is_that(tmp_path: Path) -> None:
    for kind, source in (("fuse.bindfs", str(tmp_path)), ("nfs", f"localhost:{tmp_path}")):
        found: dict[str, str] = {}
        devices._add_source(devices.Mount("0:50", kind, source, ""), found, 0)
        assert devices.described(str(tmp_path))["lies_on"].items() <= found.items()


def test_what_is_no_directory_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert devices.main(["nvme=/none"]) == 2
    assert capsys.readouterr().err == (
        "devices: nvme: /none: No such file or directory; allowed: a directory\n"
    )
