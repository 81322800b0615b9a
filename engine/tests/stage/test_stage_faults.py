"""Stage-out under faults: a mover killed in each step, errors of the storage, and a full one. No partial file has a final name."""

import errno
import os
import shutil
import signal
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


DAMAGE = [("pwrite", "written"), ("pwrite", "stored"), ("fsync", "stored")]


@pytest.mark.parametrize(("call", "verify"), DAMAGE)
def test_wrong_bytes_are_found_and_written_again(site: Site, call: str, verify: str) -> None:
    """By the look at once, or by that past this node's cache, where the storage changed what an fsync took."""
    site.run("head -c 300000 /dev/urandom > bb/x", f"verify: {verify}", fault=f"{call}:1:1:-1")
    site.assert_same()


@pytest.mark.parametrize(("call", "verify"), DAMAGE)
def test_wrong_bytes_never_get_the_name(site: Site, call: str, verify: str) -> None:
    out = site.run("echo > bb/x", f"verify: {verify}, retries: 1", fault=f"{call}:1:9:-1", status=3)
    assert f"{site.bb}/x to {site.pfs}/x: compare: what was read back is not what was written" in out.stderr
    assert site.names() == set()


def test_what_a_killed_mover_had_and_is_removed_is_reported_once(site: Site) -> None:
    site.run("echo > bb/x", fault="rename:1:1:0", status=3)
    (site.bb / "x").unlink()
    assert "it was removed before it was moved" in site.tierctl("wait", status=3).stderr
    assert site.run("echo > bb/y").stdout.endswith("All files moved\n")


def test_wait_goes_on_where_the_mover_ends_without_an_answer(site: Site) -> None:
    """Else a file that it had not heard of would be passed over with `All files moved`."""
    with site.start("stage", "--watch") as mover:
        while "starts" not in "".join(site.log_so_far()):
            time.sleep(0.02)
        mover.send_signal(signal.SIGSTOP)
        (site.bb / "x").write_text("x")
        with site.start("wait") as wait:
            assert wait.stderr and "does not answer" in wait.stderr.readline()
            mover.kill()
            out, err = wait.communicate(timeout=60)
    assert wait.returncode == 0 and out.endswith("All files moved\n"), err
    site.assert_same()


def test_a_killed_mover_of_wait_is_no_success(site: Site) -> None:
    (site.bb / "x").write_text("x")
    out = site.tierctl("wait", fault="log:2:1:0", status=3)
    assert "All files moved" not in out.stdout
    site.tierctl("wait")
    site.assert_same()


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


def test_a_copy_that_is_there_is_on_the_storage_before_it_is_told(site: Site) -> None:
    """A user made it, and perhaps no program has fsynced it."""
    out = site.run(
        "echo > pfs/x && touch -d @1 pfs/x && cp -p pfs/x bb/x",
        "retries: 1",
        fault=f"fsync-there:1:2:{errno.EIO}",
        status=3,
    )
    assert "compare with the file that is there: Input/output error" in out.stderr and not site.moved()
    site.tierctl("wait")
    assert site.moved() == {"x": 1}


def test_a_full_destination_is_reported_by_name(site: Site) -> None:
    """In a mount namespace of its own: a tmpfs of 1 MiB is the PFS."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    config = site.config("retries: 1, streams: 1")
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


def in_a_namespace(site: Site, script: str) -> str:
    """What the script says, with an own tmpfs on pfs."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    out = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", f"mount -t tmpfs none pfs; {script}"],
        cwd=site.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return out.stdout


def test_nothing_is_moved_below_the_mount_point_of_a_list(site: Site) -> None:
    """It goes on as soon as the file system is there again."""
    (site.root / "many").mkdir()
    for i in range(200):
        (site.root / "many" / str(i)).write_bytes(b"x" * 4096)
    (site.root / "manifest").write_text("many pfs/made/many\n")
    stage = f"{TIERCTL} stage --manifest manifest -c {site.config('bandwidth: 512KiB/s, retries: 0')} --log ."
    out = in_a_namespace(
        site,
        f"{stage} & until test -d pfs/made/many/; do sleep 0.02; done; mkdir kept; mount --move pfs kept;"
        f"wait $!; echo status $?; find pfs -mindepth 1; mount --move kept pfs;"
        f"sed -i s/512KiB/1GiB/ stage.yaml; {stage}",
    )
    assert "its file system is not there any more" in out, out
    after = out.split("status 3\n")[1]
    assert after.startswith("Enqueued") and after.endswith("All files moved\n"), out


def test_a_file_system_that_went_between_two_phases_is_told(site: Site) -> None:
    """A folder that the program removed is made again."""
    (site.root / "job.sh").write_text(
        "#DW jobdw type=scratch capacity=1MiB\n"
        f"#DW stage_out type=directory source=$DW_JOB_STRIPED destination={site.pfs}/me/out\n"
    )
    phase = f"{TIERCTL} stage --script job.sh --place bb --log . --job j --phase"
    out = in_a_namespace(
        site,
        f"mkdir pfs/me; {phase} setup; echo 1 > bb/j/striped/x; umount pfs; {phase} out; echo status $?;"
        f"find pfs -mindepth 1; mount -t tmpfs none pfs; mkdir pfs/me; {phase} out; cat pfs/me/out/x; "
        f"{phase} teardown; {phase} setup; echo 2 > bb/j/striped/x; rm -r pfs/me; {phase} out; cat pfs/me/out/x",
    )
    told = f"tierctl: stage: {site.pfs}/me: its file system is not there any more; nothing was staged out\nstatus 3\n"
    assert out.startswith(told), out
    assert "All files moved\n1\n" in out and out.endswith("All files moved\n2\n"), out


def test_so_it_is_of_a_job_with_persistent_storage_alone(site: Site) -> None:
    (site.root / "make.sh").write_text("#DW create_persistent name=keep type=scratch capacity=1MiB\n")
    (site.root / "job.sh").write_text(
        "#DW persistentdw name=keep\n"
        f"#DW stage_out type=file source=$DW_PERSISTENT_keep/x destination={site.pfs}/out/x\n"
    )
    stage = f"{TIERCTL} stage --place bb --log . --job j --script"
    out = in_a_namespace(
        site,
        f"{stage} make.sh; echo 1 > bb/persistent/keep/x; {stage} job.sh --phase setup; umount pfs;"
        f"{stage} job.sh --phase out; echo status $?; find pfs -mindepth 1; {stage} job.sh --phase teardown; ls bb",
    )
    told = f"tierctl: stage: {site.pfs}: its file system is not there any more; nothing was staged out\nstatus 3\n"
    assert out.endswith(f"{told}persistent\n"), out


def test_a_destination_that_becomes_unwritable_is_named(site: Site) -> None:
    """Root may write anywhere, so a file is where a folder has to be made."""
    (site.pfs / "d").write_text("a file")
    out = site.run("mkdir bb/d; echo > bb/d/x", "retries: 0", status=3)
    assert f"{site.bb}/d/x" in out.stderr and "Not a directory" in out.stderr


def test_a_file_beside_gets_no_bytes(site: Site) -> None:
    """A killed mover's file is replaced, not written: a process that has it open sees none of the next one's bytes."""
    site.run(THREE, fault="rename:1:1:0", status=3)
    (left,) = (p for p in site.pfs.glob(".tierbench-*") if "mover" not in p.name)
    with left.open("rb") as held:
        left.write_bytes(b"planted")
        site.tierctl("wait")
        assert held.read() == b"planted"


def as_a_user(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    """Root may read any folder. The files become those of user 1."""
    if os.geteuid():
        return subprocess.run([TIERCTL, *words], cwd=site.root, env=site.environment(), capture_output=True, text=True, timeout=60)  # fmt: skip
    for path in [site.root, *site.root.rglob("*")]:
        os.chown(path, 1, 1)
    for above in site.root.parents[: len(site.root.parents) - 2]:
        above.chmod(above.stat().st_mode | 0o011)
    words = ("setpriv", "--reuid=1", "--regid=1", "--clear-groups", str(TIERCTL), *words)
    return subprocess.run(
        words, cwd=site.root, env=site.environment(), capture_output=True, text=True, timeout=60
    )


def test_a_folder_that_cannot_be_read_is_reported_until_it_can(site: Site) -> None:
    """What is in it is not known, so not all files were moved."""
    closed = site.root / "mesh" / "closed"
    closed.mkdir(parents=True)
    (closed / "x").write_text("x")
    (site.root / "mesh" / "y").write_text("y")
    (site.root / "manifest").write_text(f"{site.root}/mesh {site.pfs}/mesh\n")
    closed.chmod(0)
    words = ("stage", "--manifest", "manifest", "--left", "left")
    out = as_a_user(site, *words)
    assert out.returncode == 3 and f"{closed} to {site.pfs}/mesh/closed: what is in it is not known: Permission denied" in out.stderr  # fmt: skip
    assert f'"{closed}" "{site.pfs}/mesh/closed"' in (site.root / "left").read_text()
    closed.chmod(0o700)
    out = as_a_user(site, *words)
    assert (out.returncode, (site.pfs / "mesh" / "closed" / "x").read_text()) == (0, "x"), out.stderr


def test_a_folder_whose_reading_breaks_off_is_reported(site: Site) -> None:
    (site.bb / "x").write_text("x")
    (site.root / "manifest").write_text(f"{site.bb} {site.pfs}\n")
    out = site.tierctl("stage", "--manifest", "manifest", fault=f"readdir:2:1:{errno.EIO}", status=3)
    assert f"{site.bb} to {site.pfs}: what is in it is not known: Input/output error" in out.stderr


def test_a_file_system_below_is_reported(site: Site) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    (site.root / "mesh" / "other").mkdir(parents=True)
    (site.root / "manifest").write_text(f"{site.root}/mesh {site.pfs}/mesh\n")
    words = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none mesh/other && exec "{TIERCTL}" stage --manifest manifest']  # fmt: skip
    out = subprocess.run(words, cwd=site.root, capture_output=True, text=True, timeout=60)
    assert out.returncode == 3 and "mesh/other: what is in it is not known: another file system is mounted on it" in out.stderr  # fmt: skip


DEEP = "import os; os.chdir('bb')\nfor _ in range(25): os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('x', 'w').write('deep')"


def test_a_file_whose_path_is_too_long_is_reported(site: Site) -> None:
    out = site.tierctl("run", "--", "python3", "-c", DEEP, status=3)
    assert f"not moved: {os.uname().nodename}:{site.bb}/ddd" in out.stderr and "it is too long" in out.stderr
    shutil.rmtree(site.bb)  # by descriptors: no tool of a path could


def test_a_file_that_a_process_keeps_open_is_reported(site: Site) -> None:
    script = "sh -c 'exec 3> bb/open; echo half >&3; touch ready; exec sleep 50' > none 2>&1 & echo $! > pid; until test -e ready; do sleep 0.02; done"
    out = site.run(script, status=3)
    assert f"{site.bb}/open to {site.pfs}/open: a process has it open for writing" in out.stderr
    assert site.names() == set()
    assert "a process has it open for writing" in site.tierctl("wait", status=3).stderr
    os.kill(pid := int((site.root / "pid").read_text()), signal.SIGTERM)
    while Path(f"/proc/{pid}/fd/3").exists():
        time.sleep(0.02)
    assert site.tierctl("wait").stdout.endswith("All files moved\n")
    site.assert_same()


def test_a_mover_that_is_stopped_before_it_is_ready_is_named(site: Site) -> None:
    """The program has not begun: it waits for the mover."""
    with site.start("run", "--", "sh", "-c", "echo > bb/x", fault="log:1:1:-2") as run:
        said = run.line()
        mover = int(said.split("process ")[1].split(",")[0])
        assert said == f"tierctl: waits for the mover, process {mover}, which was stopped; kill -CONT {mover} lets it go on\n"  # fmt: skip
        os.kill(mover, signal.SIGCONT)
        assert run.wait(60) == 0
    site.assert_same()


def test_a_wait_beside_the_program_names_what_is_open(site: Site) -> None:
    script = "exec 3> bb/open; touch ready; until test -e go; do sleep 0.02; done; exec 3>&-"
    with site.start("run", "--", "sh", "-c", script) as run:
        while not (site.root / "ready").exists():
            time.sleep(0.02)
        waited = site.tierctl("wait")
        assert f"1 file is open for writing, and moved after the last close: {site.bb}/open" in waited.stderr
        (site.root / "go").touch()
        assert run.wait(60) == 0
    assert site.names() == {"open"}


def test_a_stale_handle_is_a_failure_and_no_change_of_the_file(site: Site) -> None:
    out = site.run("echo > bb/x", "retries: 1", fault=f"fsync:1:100:{errno.ESTALE}", status=3)
    assert "fsync: Stale file handle" in out.stderr


def test_a_file_that_is_always_written_is_given_up(site: Site) -> None:
    (site.root / "manifest").write_text(f"{site.bb}/log {site.pfs}/log\n")
    (site.bb / "log").write_bytes(b"x" * 3000000)
    with subprocess.Popen(
        ["sh", "-c", "while :; do echo >> bb/log; sleep 0.01; done"], cwd=site.root
    ) as writer:
        out = site.tierctl("stage", "--manifest", "manifest", "-c", str(site.config("bandwidth: 10MiB/s")), status=3)  # fmt: skip
        writer.kill()
    assert f"{site.bb}/log to {site.pfs}/log: it changes again and again while it is moved" in out.stderr
    assert site.names() == set()


@pytest.mark.parametrize("at", [2, 4])
def test_a_log_that_cannot_be_written_ends_the_wait(site: Site, at: int) -> None:
    """A full PFS: the first line of a file, or what became of it. When there is room again it is gone on with."""
    out = site.run("echo > bb/x", "retries: 1", fault=f"log:{at}:1000:{errno.ENOSPC}", status=3)
    assert (
        f"{site.pfs}/spectral.log: No space left on device: it does not say all that was moved" in out.stderr
    )
    assert site.tierctl("wait").stdout.endswith("All files moved\n")
    site.assert_same()


def test_lines_that_the_log_did_not_take_come_later(site: Site) -> None:
    """The file is not moved before its line is there, and no `wait` ends before."""
    with site.start("run", "--", "sh", "-c", "echo > bb/x; sleep 1", fault=f"log:2:20:{errno.ENOSPC}") as run:
        while not site.log_so_far():
            time.sleep(0.02)
        assert run.wait(60) == 0
    assert site.log()[1:4] == [
        f"Spectral Work ENQUEUE File : {site.pfs}/x",
        f"Tierbench\tqueued\t{os.uname().nodename}\t{site.bb}/x\t{site.pfs}/x\t1",
        f"Spectral Work DEQUEUE File : {site.pfs}/x",
    ]


def test_a_line_that_a_kill_cut_ends_before_the_next(site: Site) -> None:
    (site.pfs / "spectral.log").write_text("Tierbench\tmoved\tn1\t/half")
    site.run("echo > bb/x")
    assert site.log()[0] == "Tierbench\tmoved\tn1\t/half" and site.log()[1].startswith("Tierbench\tstarts\t")


@pytest.mark.parametrize("make", ["echo mine > bb/x", "ln -s nowhere bb/x"])
def test_a_name_that_is_taken_in_the_last_moment_is_a_clash(site: Site, make: str) -> None:
    """Also where no rename keeps what is there: Lustre's and NFS' say EINVAL."""
    out = site.run(make, fault=f"taken:1:100:{errno.EINVAL}", status=3)
    assert "name clash" in out.stderr and (site.pfs / "x").read_text() == "theirs"


def test_renames_that_always_replace_will_do(site: Site) -> None:
    fault = f"rename:1:100:{errno.EINVAL}"
    site.run("echo 1 > bb/x; ln -s nowhere bb/l; echo > bb/y; ln bb/y bb/z", fault=fault)
    time.sleep(0.02)
    site.run("echo 22 > bb/x", fault=fault)
    site.assert_same()
    assert (site.pfs / "y").stat().st_ino == (site.pfs / "z").stat().st_ino


def test_the_folders_above_new_folders_are_fsynced(site: Site) -> None:
    """The folder of the file, and the two that got new folders: the third fsync of a folder is killed."""
    site.run("mkdir -p bb/a/b; echo > bb/a/b/x", fault="fsync-folder:3:1:0", status=3)
    assert not site.moved()
    site.tierctl("wait")
    site.assert_same()


def test_an_fsync_that_fails_of_a_folder_above_is_a_failure(site: Site) -> None:
    """The second is that of pfs. It is made again, although what is new in pfs is there by then: so the fourth is killed."""
    (site.bb / "a").mkdir()
    (site.bb / "a" / "x").write_text("x")
    site.tierctl("wait", fault=f"fsync-folder:2:1:{errno.EIO};fsync-folder:4:1:0", status=3)
    assert not site.moved()
    site.tierctl("wait")
    site.assert_same()


def test_the_folders_of_a_list_are_fsynced_before_its_files_are_told(site: Site) -> None:
    """All are made at first: pfs/a, pfs, and then that of the file."""
    (site.root / "manifest").write_text(f"{site.root}/mesh {site.pfs}/a\n")
    (site.root / "mesh" / "b").mkdir(parents=True)
    (site.root / "mesh" / "b" / "x").write_text("x")
    site.tierctl("stage", "--manifest", "manifest", "--log", "pfs", fault="fsync-folder:2:1:0", status=3)
    assert not any("DEQUEUE" in line for line in site.log())
    site.tierctl("stage", "--manifest", "manifest", "--log", "pfs")
    assert (site.pfs / "a" / "b" / "x").read_text() == "x"
    (site.root / "manifest").write_text(f"{site.root}/mesh {site.pfs}/c\n")
    out = site.tierctl("stage", "--manifest", "manifest", "--log", "pfs", fault=f"fsync-folder:2:1:{errno.EIO}", status=3)  # fmt: skip
    assert f"{site.root}/mesh to {site.pfs}: fsync the folder: Input/output error" in out.stderr


def test_a_clock_that_is_ahead_of_the_files_makes_none_old(site: Site) -> None:
    """Where the folder is another machine's, and that machine's clock gives files their times."""
    site.run("echo > bb/x", fault="clock:1:1:60")
    site.assert_same()
