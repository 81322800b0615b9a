"""Stage-out as a user of Spectral knows it: what arrives, what the log says, and what `tierctl wait` prints."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from staging import TIERCTL, Site


def test_files_arrive_and_the_log_has_spectrals_words(site: Site) -> None:
    out = site.run("mkdir bb/a; echo one > bb/a/x; head -c 3000000 /dev/urandom > bb/y; : > bb/empty")
    site.assert_same()
    for name in ("a/x", "y", "empty"):
        for word in ("ENQUEUE", "DEQUEUE", "DONE"):
            assert site.log().count(f"Spectral Work {word} File : {site.pfs}/{name}") == 1
    assert out.stdout.splitlines()[-2:] == ["Enqueued:3 Dequeued:3 Done:3", "All files moved"]


def test_size_checksum_and_seconds_are_in_the_log(site: Site) -> None:
    site.run("printf 'Hello, World!' > bb/x")
    (moved,) = [line.split("\t") for line in site.log() if line.startswith("Tierbench\tmoved")]
    assert moved[3:7] == [f"{site.bb}/x", f"{site.pfs}/x", "13", "60415d5f616602aa"]  # XXH3_64bits
    assert float(moved[9]) > 0


def test_files_move_while_the_program_runs(site: Site) -> None:
    """A later time step sees the first one on the PFS."""
    site.run(
        "echo 1 > bb/step1; for i in $(seq 200); do test -e pfs/step1 && exit 0; sleep 0.05; done; exit 1"
    )


def test_a_file_moves_from_its_last_close_on(site: Site) -> None:
    """Two descriptions write; the first close must not start the move."""
    site.run(
        "exec 3> bb/x 4>> bb/x; echo a >&3; exec 3>&-; sleep 0.5; test ! -e pfs/x || exit 9; echo b >&4; exec 4>&-"
    )
    assert site.moved() == {"x": 1}
    site.assert_same()


def test_what_was_there_before_stays(site: Site) -> None:
    (site.bb / "input").write_text("of another job")
    os.utime(site.bb / "input", (1, 1))
    time.sleep(0.05)
    site.run("echo > bb/output")
    assert site.names() == {"output"}


def test_a_folder_that_is_named_by_a_link_is_staged_out(site: Site) -> None:
    site.bb.rename(site.root / "real")
    site.bb.symlink_to("real")
    site.run(
        "echo 1 > bb/x; mkdir bb/d; echo 2 > bb/d/y; for i in $(seq 100); do test -e pfs/d/y && break; sleep 0.02; done"
    )
    assert site.names() == {"x", "d", "d/y"}
    (site.bb / "z").write_text("z")
    assert site.tierctl("wait").stdout.splitlines()[-1] == "All files moved"
    site.assert_same()


@pytest.mark.parametrize("inner", ["bb/in", "bb", "."])
def test_folders_that_lie_in_each_other_by_a_link_are_refused(site: Site, inner: str) -> None:
    (site.bb / "in").mkdir()
    site.pfs.rmdir()
    site.pfs.symlink_to(site.root / inner)
    assert "they lie in each other" in site.run("touch bb/ran", status=2).stderr
    assert not (site.bb / "ran").exists()


def test_attributes_arrive(site: Site) -> None:
    site.run("echo x > bb/x; chmod 4751 bb/x; touch -d '2001-02-03 04:05:06.789012345' bb/x; ln bb/x bb/y; ln -s nowhere bb/l;"
             " truncate -s 64M bb/hole; echo end >> bb/hole; mkdir -m 0711 bb/d; echo > bb/d/f")  # fmt: skip
    site.assert_same()
    x, hole = (site.pfs / "x").stat(), (site.pfs / "hole").stat()
    assert (x.st_mtime_ns, x.st_mode & 0o7777) == (981173106789012345, 0o4751)
    assert x.st_ino == (site.pfs / "y").stat().st_ino
    assert hole.st_blocks * 512 < 1 << 20
    assert (site.pfs / "d").stat().st_mode & 0o777 == 0o711


def test_extended_attributes_arrive(site: Site) -> None:
    try:
        os.setxattr(site.bb, "user.tried", b"1")
    except OSError:
        pytest.skip("no user attributes on this file system")
    script = "import os; open('bb/x', 'w').write('x'); os.setxattr('bb/x', 'user.run', b'17')"
    site.tierctl("run", "--", "python3", "-c", script)
    assert os.getxattr(site.pfs / "x", "user.run") == b"17"


def test_a_mode_arrives_where_new_files_get_another(site: Site) -> None:
    entries = [(1, 7), (4, 0), (0x20, 0)]  # owner, group, others
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, may, 0xFFFFFFFF) for tag, may in entries)
    try:
        os.setxattr(site.pfs, "system.posix_acl_default", acl)
    except OSError:
        pytest.skip("no ACLs on this file system")
    site.run("umask 0; for mode in 644 400 666 4755 2775; do echo > bb/$mode; chmod $mode bb/$mode; done")
    for name in site.names():
        assert (site.pfs / name).stat().st_mode & 0o7777 == int(name, 8)


def test_a_name_with_any_bytes_arrives(site: Site) -> None:
    site.run(r"""printf 1 > "$(printf 'bb/a\tb\nc\\d')"; printf 2 > "$(printf 'bb/\377\"')" """)
    assert len(site.names()) == 2 and sum(site.moved().values()) == 2
    assert "Enqueued:2 Dequeued:2 Done:2" in site.tierctl("wait").stdout


def test_a_file_that_changes_while_it_moves_is_moved_again(site: Site) -> None:
    """Slow enough that the second content comes in the middle of the first one's move."""
    site.run(
        "head -c 2000000 /dev/zero > bb/x; sleep 0.3; head -c 2000000 /dev/urandom > bb/x",
        "bandwidth: 4MiB/s",
    )
    site.assert_same()


@pytest.mark.parametrize("links", [0, 1])
def test_a_change_that_leaves_size_and_mtime_as_they_were_is_moved(site: Site, links: int) -> None:
    """As rsync --inplace or a restored time does; the ctime tells it, which a new link changes too."""
    program = (
        "import os, time\n"
        "f = open('bb/x', 'wb'); f.write(b'a' * 2000); f.flush()\n"
        f"if {links}: os.link('bb/x', 'bb/y')\n"
        "f.close()\n"
        "while not os.path.exists('pfs/x'): time.sleep(0.01)\n"
        "time.sleep(0.2); st = os.stat('bb/x'); f = os.open('bb/x', os.O_WRONLY); os.pwrite(f, b'b' * 100, 0)\n"
        "os.utime('bb/x', ns=(st.st_atime_ns, st.st_mtime_ns)); os.close(f)\n"
    )
    site.tierctl("run", "--", "python3", "-c", program)
    site.assert_same()
    assert not links or (site.pfs / "x").stat().st_ino == (site.pfs / "y").stat().st_ino


def test_a_file_that_got_another_name_is_not_copied_again(site: Site) -> None:
    site.run("echo > bb/x; until test -e pfs/x; do sleep 0.02; done")
    before = (site.pfs / "x").stat().st_ino
    time.sleep(0.02)
    site.run("ln bb/x bb/y")
    assert (site.pfs / "x").stat().st_ino == (site.pfs / "y").stat().st_ino == before
    site.run("chmod 600 bb/y")
    assert (site.pfs / "x").stat().st_ino == (site.pfs / "y").stat().st_ino
    assert (site.pfs / "x").stat().st_mode & 0o777 == 0o600


def test_bandwidth_is_limited(site: Site) -> None:
    start = time.monotonic()
    site.run(
        "head -c 2097152 /dev/zero | tr '\\0' x > bb/x; head -c 2097152 /dev/zero | tr '\\0' y > bb/y",
        "bandwidth: 4MiB/s",
    )
    assert time.monotonic() - start > 0.85


def test_a_mover_keeps_to_its_processors(site: Site) -> None:
    look = "sleep 0.1; for p in /proc/[0-9]*; do grep -q tb-mover $p/comm 2>/dev/null && grep -q ${PPID}$ $p/status && grep Cpus_allowed_list $p/status; done; true"
    assert re.search(
        r"Cpus_allowed_list:\s0$", site.run(look, "processors: '0', priority: idle").stdout, re.M
    )


def test_large_files_move_in_pieces(site: Site) -> None:
    site.run("head -c 70000000 /dev/urandom > bb/pieces", "streams: 3")
    site.assert_same()


def test_a_second_write_of_a_file_replaces_the_first(site: Site) -> None:
    site.run("echo 1 > bb/x")
    time.sleep(0.02)
    site.run("echo 22 > bb/x")
    site.assert_same()


def test_a_name_clash_is_named_and_nothing_is_replaced(site: Site) -> None:
    (site.pfs / "x").write_text("somebody's")
    out = site.run("echo mine > bb/x; echo > bb/y", status=3)
    assert "name clash" in out.stderr and str(site.pfs / "x") in out.stderr
    assert (site.pfs / "x").read_text() == "somebody's" and (site.pfs / "y").exists()


def test_another_jobs_clash_is_not_this_ones(site: Site) -> None:
    (site.pfs / "x").write_text("somebody's")
    site.run("echo mine > bb/x", status=3)
    (site.root / "other").mkdir()
    other = Site(site.root / "other")
    other.pfs = site.pfs
    out = other.run("echo > bb/y")
    assert out.stdout.endswith("All files moved\n") and "not moved" not in out.stderr


def test_a_source_that_is_removed_is_no_failure(site: Site) -> None:
    site.run(
        "head -c 2000000 /dev/zero > bb/big; echo > bb/x; sleep 0.2; rm bb/x bb/big",
        "bandwidth: 1MiB/s, streams: 1",
    )
    assert "x" not in site.moved()


def test_the_programs_status_comes_first(site: Site) -> None:
    (site.pfs / "x").write_text("clash")
    site.run("echo > bb/x; exit 7", status=7)


def test_files_of_an_instance_are_staged_out_after_its_drain(site: Site) -> None:
    """The PFS of the configuration is the node-local folder here: buffered bytes arrive too."""
    config = site.config("streams: 2")
    config.write_text(config.read_text().replace("/buffered}", "/bb}") + "flush: {policy: manual}\n")
    site.tierctl("run", "-c", str(config), "--", "python3", "-c", "open('bb/x', 'wb').write(b'x' * 1000000)")
    assert (site.pfs / "x").read_bytes() == b"x" * 1000000


def test_the_list_of_what_is_left_is_written_at_the_deadline(site: Site) -> None:
    left = site.root / "left"
    site.run(
        "head -c 4000000 /dev/zero | tr '\\0' x > bb/x",
        f"bandwidth: 1MiB/s, deadline: 0.3s, left: {left}",
        status=3,
    )
    assert left.read_text() == f'"{site.bb}/x" "{site.pfs}/x"\n'
    assert site.names() == set()
    site.tierctl("wait")
    site.assert_same()


def test_a_signal_ends_the_wait_and_the_list_is_written(site: Site) -> None:
    left = site.root / "left"
    config = site.config("bandwidth: 1MiB/s")
    script = f"head -c 6000000 /dev/zero | tr '\\0' x > bb/x; {TIERCTL} wait --left {left} & sleep 0.5; kill $!; wait $!; test $? = 3 && exit 9"
    with site.start("run", "-c", str(config), "--", "sh", "-c", script) as run:
        for _ in range(200):
            if left.exists():
                break
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 9, err
    assert left.read_text() == f'"{site.bb}/x" "{site.pfs}/x"\n'


def is_free(lease: Path) -> bool:
    with lease.open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def test_the_mover_of_a_killed_run_moves_what_was_closed_and_ends(site: Site) -> None:
    script = "head -c 6000000 /dev/urandom > bb/x; echo > bb/y; sleep 60"
    with site.start("run", "-c", str(site.config("bandwidth: 2MiB/s")), "--", "sh", "-c", script) as run:
        while not any("DEQUEUE" in line for line in site.log_so_far()):
            time.sleep(0.02)
        (lease,) = site.pfs.glob(".tierbench-mover-*")
        run.kill()
    clear = f"mount -t tmpfs none /dev/shm && exec {TIERCTL} gc"  # it looks at all instances
    gc = ["unshare", "-m", "sh", "-c", clear]
    named = subprocess.run(gc, capture_output=True, text=True)
    assert named.returncode or f"moves files for {site.pfs} without a tierctl" in named.stdout
    for _ in range(200):
        if not lease.exists() or is_free(lease):
            break
        time.sleep(0.05)
    else:
        pytest.fail("the mover lives")
    site.assert_same()
    assert site.names() == {"x", "y"}


def test_a_mover_that_is_stopped_is_named_by_who_waits(site: Site) -> None:
    with site.start("run", "--", "sh", "-c", "until test -e go; do sleep 0.05; done; echo > bb/x") as run:
        while not (starts := [line for line in site.log_so_far() if line.startswith("Tierbench\tstarts")]):
            time.sleep(0.02)
        host, mover = starts[0].split("\t")[2:4]
        pid = int(mover.removeprefix(host + ".").split(".")[0])
        os.kill(pid, signal.SIGSTOP)
        waited = site.tierctl("wait", "--deadline", "5", status=3)
        assert f"waits for the mover on {host}, process {pid}, which does not answer" in waited.stderr
        (site.root / "go").touch()
        assert run.stderr
        assert f"waits for the mover, process {pid}, which was stopped" in run.stderr.readline()
        os.kill(pid, signal.SIGCONT)
        assert run.wait(60) == 0
    site.assert_same()


def test_wait_moves_what_no_mover_moved(site: Site) -> None:
    (site.bb / "x").write_text("x")
    assert site.tierctl("wait").stdout.splitlines()[-1] == "All files moved"
    site.assert_same()


def test_two_nodes_write_one_log_and_either_waits_for_both(site: Site) -> None:
    (site.root / "other").mkdir()
    other = Site(site.root / "other")
    other.pfs = site.pfs
    script = "until test -e go; do sleep 0.05; done; echo $SLURMD_NODENAME > bb/$SLURMD_NODENAME; sleep 1"
    with (
        site.start("run", "--", "sh", "-c", script, node="n1") as one,
        other.start("run", "--", "sh", "-c", script, node="n2") as two,
    ):
        while not (site.pfs / "spectral.log").exists() or sum("starts" in line for line in site.log()) < 2:
            time.sleep(0.02)
        (site.root / "go").touch()
        (other.root / "go").touch()
        time.sleep(0.3)
        out = site.tierctl("wait", node="n1")
        assert "Enqueued:2 Dequeued:2 Done:2" in out.stdout
        assert one.wait(30) == 0 and two.wait(30) == 0
    assert site.names() == {"n1", "n2"}


def test_a_node_does_not_answer_for_what_another_one_still_moves(site: Site) -> None:
    (site.root / "other").mkdir()
    other = Site(site.root / "other")
    other.pfs = site.pfs
    slow = other.config("bandwidth: 1MiB/s")
    slow.write_text(slow.read_text().replace(f"{other.root}/pfs", str(site.pfs)))
    with other.start(
        "run", "-c", str(slow), "--", "sh", "-c", "head -c 6000000 /dev/zero > bb/large", node="n2"
    ) as two:
        while not any("large" in line for line in site.log_so_far()):
            time.sleep(0.02)
        out = site.tierctl("run", "--", "sh", "-c", "echo > bb/small", node="n1")
        assert "not moved" not in out.stderr and site.moved() == {"small": 1}
        assert two.wait(30) == 0
    assert site.names() == {"small", "large"}


def test_the_same_name_from_two_nodes_is_a_clash(site: Site) -> None:
    site.tierctl("run", "--", "sh", "-c", "echo 1 > bb/out", node="n1")
    time.sleep(0.02)
    site.tierctl("run", "--", "sh", "-c", "echo 22 > bb/out", node="n2", status=3)
    assert (site.pfs / "out").read_text() == "1\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"PFS_DIR": ""}, "PERSIST_DIR is set and PFS_DIR is not"),
        ({"PFS_DIR": "{root}/bb/in"}, "lie in each other"),
        ({"PFS_DIR": "{root}/none"}, "No such file"),
        ({"PERSIST_DIR": "{root}/none"}, "No such file"),
    ],
)
def test_bad_folders_are_refused_before_the_program_starts(
    site: Site, change: dict[str, str], words: str
) -> None:
    env = site.environment() | {k: v.format(root=site.root) for k, v in change.items()}
    out = subprocess.run(
        [TIERCTL, "run", "--", "touch", site.root / "ran"], env=env, capture_output=True, text=True
    )
    assert out.returncode == 2 and words in out.stderr
    assert not (site.root / "ran").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("speed: 3", "stage_out: speed: unknown key; allowed: from, to,"),
        ("streams: 0", "stage_out.streams"),
        ("bandwidth: fast", "stage_out.bandwidth"),
        ("processors: x", "0-3,8"),
        ("priority: high", "normal, low, idle"),
    ],
)
def test_bad_keys_are_refused_with_file_and_line(site: Site, more: str, words: str) -> None:
    err = site.run("touch ran", more, status=2).stderr
    assert "stage.yaml:8: " in err and words in err
    assert not (site.root / "ran").exists()


def test_spectrals_script_works_as_it_is(site: Site) -> None:
    (site.bb / "x").write_text("x")
    script = TIERCTL.with_name("spectral_wait.py")
    out = subprocess.run([script], env=site.environment(), capture_output=True, text=True)
    assert (out.returncode, out.stdout.splitlines()[-1]) == (0, "All files moved")


def test_files_are_staged_in_before_the_program_and_not_out_again(site: Site) -> None:
    (site.root / "mesh" / "d").mkdir(parents=True)
    (site.root / "mesh" / "d" / "x").write_text("mesh")
    (site.root / "mesh" / "y").write_text("old")
    config = site.config("streams: 1")
    config.write_text(config.read_text() + f"stage_in: {{from: {site.root}/mesh, to: {site.bb}}}\n")
    out = site.tierctl("run", "-c", str(config), "--", "sh", "-c", "cat bb/d/x > bb/result; echo new > bb/y")
    assert out.stdout.count("All files moved") == 2
    assert {name: (site.pfs / name).read_text() for name in site.names()} == {"result": "mesh", "y": "new\n"}


ASKS = """
import os, sys
small = open("bb/d/small").read()
seen = os.listdir("bb")
large = os.stat("bb/large").st_size
absent = os.path.exists("bb/none") or os.path.exists("bb/d/none")
folder = os.listdir("bb/empty/below")
open("bb/result", "w").write(f"{small} {'large' in seen} {large} {absent} {folder}")
"""


def test_a_file_is_staged_in_when_it_is_asked_for(site: Site) -> None:
    """The large file takes six seconds, and comes first by its name; the small one does not wait for it."""
    (site.root / "mesh" / "d").mkdir(parents=True)
    (site.root / "mesh" / "empty" / "below").mkdir(parents=True)
    (site.root / "mesh" / "d" / "small").write_text("small")
    (site.root / "mesh" / "large").write_bytes(b"l" * 6000000)
    config = site.config("streams: 1")
    more = f"stage_in: {{from: {site.root}/mesh, to: {site.bb}, when: open, streams: 2, bandwidth: 1MiB/s}}\n"
    config.write_text(config.read_text() + more)
    out = site.tierctl("run", "-c", str(config), "--", "python3", "-c", ASKS)
    assert (site.pfs / "result").read_text() == "small False 6000000 False []"
    assert site.names() == {"result"}, "what was staged in is not staged out"
    assert site.moved() == {"small": 1, "large": 1, "result": 1}
    assert out.stdout.count("All files moved") == 2


def bringing(site: Site, rate: str) -> Path:
    """A configuration whose `large` of 6 MB is brought when it is asked for."""
    (site.root / "mesh").mkdir()
    (site.root / "mesh" / "large").write_bytes(b"l" * 6000000)
    config = site.config("streams: 1")
    more = f"stage_in: {{from: {site.root}/mesh, to: {site.bb}, when: open, bandwidth: {rate}}}\n"
    config.write_text(config.read_text() + more)
    return config


def bringer_of(site: Site) -> int:
    """The mover of the stage-in: its line has no folder."""
    while len(starts := [line for line in site.log_so_far() if line.startswith("Tierbench\tstarts")]) < 2:
        time.sleep(0.02)
    (mine,) = (line.split("\t") for line in starts if line.split("\t")[5] == "")
    return int(mine[3].removeprefix(mine[2] + ".").split(".")[0])


def line_within_ten_seconds(run: subprocess.Popen[str]) -> str:
    assert run.stderr
    return run.stderr.readline() if select.select([run.stderr], [], [], 10)[0] else ""


WAITS = (
    "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint(len(open('bb/large').read()))"
)


def test_a_stopped_mover_is_named_by_the_program_that_waits_for_its_file(site: Site) -> None:
    config = bringing(site, "4MiB/s")
    with site.start("run", "-c", str(config), "--", "python3", "-c", WAITS) as run:
        os.kill(mover := bringer_of(site), signal.SIGSTOP)
        (site.root / "go").touch()
        line = line_within_ten_seconds(run)
        os.kill(mover, signal.SIGCONT)
        out, err = run.communicate(timeout=60)
    assert line == f"tierbench: {site.bb}/large: waits for the mover, process {mover}, to bring it\n"
    assert run.returncode == 0 and "6000000" in out and "waits for" not in err, (out, err)


@pytest.mark.parametrize("first", ["asks", "is killed"])
def test_a_program_does_not_wait_for_a_killed_mover(site: Site, first: str) -> None:
    config = bringing(site, "1MiB/s")
    with site.start("run", "-c", str(config), "--", "python3", "-c", WAITS) as run:
        mover = bringer_of(site)
        if first == "asks":
            (site.root / "go").touch()
            line_within_ten_seconds(run)  # it waits
        os.kill(mover, signal.SIGKILL)
        (site.root / "go").touch()
        _, err = run.communicate(timeout=60)
    who = f"the mover, process {mover}," if first == "asks" else "the mover"
    assert f"tierbench: {site.bb}/large: is missing: {who} ended before it had brought it\n" in err
    assert run.returncode == 1 and "FileNotFoundError" in err
    assert not (site.bb / "large").exists()


def test_a_staged_in_file_that_the_program_removes_does_not_come_back(site: Site) -> None:
    config = bringing(site, "100MiB/s")
    program = (
        "import os; n = 'bb/large'; len(open(n).read()); os.remove(n); open(n, 'x').close(); print('made')"
    )
    assert "made" in site.tierctl("run", "-c", str(config), "--", "python3", "-c", program).stdout


@pytest.mark.parametrize("when", ["start", "open"])
def test_a_stage_in_between_folders_that_are_named_by_links(site: Site, when: str) -> None:
    site.bb.rename(site.root / "real")
    site.bb.symlink_to("real")
    (site.root / "mesh_v2").mkdir()
    (site.root / "mesh_v2" / "x").write_text("mesh")
    (site.root / "mesh").symlink_to("mesh_v2")
    config = site.config("streams: 1")
    config.write_text(
        config.read_text() + f"stage_in: {{from: {site.root}/mesh, to: {site.bb}, when: {when}}}\n"
    )
    program = "import os; open('bb/y', 'w').write(open('bb/x').read()); os.chdir('bb'); open('x')"
    site.tierctl("run", "-c", str(config), "--", "python3", "-c", program)
    assert site.names() == {"y"}, "what was staged in is not staged out"


def test_a_file_that_cannot_be_staged_in_is_named(site: Site) -> None:
    (site.root / "mesh").mkdir()
    (site.root / "mesh" / "x").mkdir()
    (site.root / "mesh" / "x" / "y").write_text("mesh")
    (site.bb / "x").write_text("in its way")
    config = site.config("retries: 0")
    config.write_text(
        config.read_text() + f"stage_in: {{from: {site.root}/mesh, to: {site.bb}, when: open, retries: 0}}\n"
    )
    program = "import os; assert not os.path.exists('bb/x/y')"
    out = site.tierctl("run", "-c", str(config), "--", "python3", "-c", program, status=3)
    assert f"not moved: {os.uname().nodename}:{site.root}/mesh/x/y" in out.stderr


def test_a_program_without_its_input_is_not_started(site: Site) -> None:
    (site.root / "mesh").mkdir()
    (site.root / "mesh" / "x").write_text("mesh")
    (site.bb / "x").write_text("another")
    config = site.config("retries: 0")
    config.write_text(config.read_text() + f"stage_in: {{from: {site.root}/mesh, to: {site.bb}}}\n")
    site.tierctl("run", "-c", str(config), "--", "touch", "ran", status=3)
    assert not (site.root / "ran").exists()


def test_a_log_that_is_a_link_is_not_followed(site: Site) -> None:
    other = site.root / "other"
    other.write_text("other\n")
    (site.pfs / "spectral.log").symlink_to(other)
    site.run(f"echo x > {site.bb}/x", status=2)
    assert other.read_text() == "other\n" and not (site.pfs / "x").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a file of another user")
def test_a_log_that_another_user_made_is_not_believed(site: Site) -> None:
    (site.pfs / "spectral.log").touch(mode=0o666)
    os.chown(site.pfs / "spectral.log", 65534, 65534)
    site.run(f"echo x > {site.bb}/x", status=2)
    assert (site.pfs / "spectral.log").read_text() == ""
