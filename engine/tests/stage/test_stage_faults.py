"""Stage-out under faults: a mover killed in each step, errors of the storage, and a full one. No partial file has a final name."""

import errno
import subprocess
import time
from pathlib import Path

import pytest
from staging import TIERCTL, Site

STEPS = ["log", "pwrite", "attributes", "fsync", "rename", "fsync-folder"]
THREE = "for i in 1 2 3; do head -c 300000 /dev/urandom > bb/$i; sleep 0.15; done"


def assert_no_partial_file(site: Site) -> None:
    for name in site.names():
        if not Path(name).name.startswith(".tierbench-"):
            assert (site.pfs / name).read_bytes() == (site.bb / name).read_bytes()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("at", [1, 3])
def test_a_mover_killed_in_a_step_is_gone_on_with(site: Site, step: str, at: int) -> None:
    site.run(THREE, fault=f"{step}:{at + 4 * (step == 'log')}:1:0", status=3)
    assert_no_partial_file(site)
    done = site.moved()
    out = site.tierctl("wait")
    assert out.stdout.splitlines()[-1] == "All files moved"
    site.assert_same()
    assert set(site.moved()) == {"1", "2", "3"}
    assert all(site.moved()[name] == 1 for name in done), "what was moved was moved again"


@pytest.mark.parametrize("make", ["echo > bb/x", "ln -s nowhere bb/x", "head -c 2M /dev/urandom > bb/x"])
def test_a_mover_killed_before_it_could_say_that_it_moved(site: Site, make: str) -> None:
    """What has its name is no clash, and is not copied again."""
    site.run(make, fault="log:4:1:0", status=3)
    assert "x" in site.names() and not site.moved()
    before = (site.pfs / "x").lstat().st_ino
    site.tierctl("wait")
    assert any("\tthere\t" in line for line in site.log()) and (site.pfs / "x").lstat().st_ino == before
    site.assert_same()


def test_the_names_of_a_file_stay_one_after_a_kill(site: Site) -> None:
    """One has its name on the PFS, and the log does not say so; which of the others comes first is the folder's order."""
    site.run("echo > bb/x", fault="log:4:1:0", status=3)
    for name in "abcdefgh":
        (site.bb / name).hardlink_to(site.bb / "x")
    site.tierctl("wait")
    assert len({(site.pfs / name).stat().st_ino for name in "abcdefghx"}) == 1


@pytest.mark.parametrize("step", STEPS[1:])
def test_an_error_that_passes_is_tried_again(site: Site, step: str) -> None:
    site.run(THREE, fault=f"{step}:2:2:{errno.EIO}")
    site.assert_same()


def test_what_a_killed_mover_had_and_is_removed_is_reported_once(site: Site) -> None:
    site.run("echo > bb/x", fault="rename:1:1:0", status=3)
    (site.bb / "x").unlink()
    assert "it was removed before it was moved" in site.tierctl("wait", status=3).stderr
    assert site.run("echo > bb/y").stdout.endswith("All files moved\n")


def test_wait_ends_where_no_mover_has_what_is_queued(site: Site) -> None:
    """A list's mover was killed; the folder's mover lives, and has nothing of it."""
    (site.root / "manifest").write_text(f"{site.root}/manifest {site.pfs}/copy\n")
    site.tierctl("stage", "--manifest", "manifest", fault="rename:1:1:0", status=3)
    with site.start("run", "--", "sleep", "5") as run:
        while sum("starts" in line for line in site.log_so_far()) < 2:
            time.sleep(0.02)
        waited = site.tierctl("wait", status=3)
        assert run.wait(60) == 0
    assert f"{site.root}/manifest to {site.pfs}/copy: there was no time, or no mover" in waited.stderr


def test_an_error_that_stays_is_reported_by_name(site: Site) -> None:
    left = site.root / "left"
    out = site.run("echo > bb/x", f"retries: 1, left: {left}", fault=f"fsync:1:100:{errno.EIO}", status=3)
    assert f"{site.bb}/x" in out.stderr and "fsync: Input/output error" in out.stderr
    assert left.read_text() == f'"{site.bb}/x" "{site.pfs}/x"\n'
    assert site.names() == set()
    site.tierctl("wait")
    site.assert_same()


def test_a_full_destination_is_reported_by_name(site: Site) -> None:
    """In a mount namespace of its own: a tmpfs of 1 MiB is the PFS."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    config = site.config("retries: 1")
    script = (
        f"mount -t tmpfs -o size=1M none {site.pfs} && "
        f'"$@" -c {config} -- sh -c "head -c 2000000 /dev/zero | tr \'\\0\' x > bb/big; echo small > bb/small";'
        f" status=$?; ls -A {site.pfs}; exit $status"
    )
    out = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", TIERCTL, "run"],
        cwd=site.root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert out.returncode == 3 and "No space left on device" in out.stderr and "bb/big" in out.stderr
    assert out.stdout.split()[-2:] == ["small", "spectral.log"], out.stdout


def with_a_mount(site: Site, program: str, after: str) -> subprocess.CompletedProcess[str]:
    """`tierctl run` of a program that may unmount the PFS, in a mount namespace, then a script in the same one."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    (site.root / "real").mkdir()
    (site.root / "program").write_text(program)
    config = site.config("retries: 3")
    script = (
        f"mount() {{ command mount --bind {site.root}/real {site.pfs}; }}; mount || exit 9; "
        f"{TIERCTL} run -c {config} -- sh program; echo status $?; {after}"
    )
    return subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", script],
        cwd=site.root,
        env=site.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )


ONE = "echo 1 > bb/1; until test -e pfs/1; do sleep 0.02; done; umount -l pfs; echo 2 > bb/2; "


def test_a_pfs_that_is_unmounted_is_reported_and_gone_on_with_later(site: Site) -> None:
    out = with_a_mount(site, ONE, f"echo below:; ls -A pfs; mount; {TIERCTL} wait; echo status $?")
    assert "bb/2" in out.stderr and "its file system is not there any more" in out.stderr
    _, after = out.stdout.split("status 3\n")
    assert after.startswith("below:\nEnqueued:") and after.endswith("All files moved\nstatus 0\n"), out.stdout
    site.pfs = site.root / "real"
    site.assert_same()
    assert site.moved() == {"1": 1, "2": 1}


def test_a_pfs_that_comes_back_is_gone_on_with(site: Site) -> None:
    again = f"sleep 0.3; mount --bind {site.root}/real {site.pfs}"
    out = with_a_mount(site, ONE + again, "true")
    assert out.stdout.endswith("All files moved\nstatus 0\n"), (out.stdout, out.stderr)
    site.pfs = site.root / "real"
    site.assert_same()
    assert site.moved() == {"1": 1, "2": 1}


def test_a_destination_that_becomes_unwritable_is_named(site: Site) -> None:
    """Root may write anywhere, so a file is where a folder has to be made."""
    (site.pfs / "d").write_text("a file")
    out = site.run("mkdir bb/d; echo > bb/d/x", "retries: 0", status=3)
    assert f"{site.bb}/d/x" in out.stderr and "Not a directory" in out.stderr


def test_a_file_beside_gets_no_bytes(site: Site) -> None:
    """A killed mover's file is replaced, not written: whoever has it open sees nothing of the next one's bytes."""
    site.run(THREE, fault="rename:1:1:0", status=3)
    (left,) = (p for p in site.pfs.glob(".tierbench-*") if "mover" not in p.name)
    with left.open("rb") as held:
        left.write_bytes(b"planted")
        site.tierctl("wait")
        assert held.read() == b"planted"
