"""Stage-out as a user of Spectral knows it: what arrives, what the log says, and what `tierctl wait` prints."""

import contextlib
import ctypes
import ctypes.util
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from staging import TIERCTL, Site, until_there


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
    assert float(moved[9]) > 0 and float(moved[10]) >= 0


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
    assert "one is inside the other" in site.run("touch bb/ran", status=2).stderr
    assert not (site.bb / "ran").exists()


def test_attributes_arrive(site: Site) -> None:
    site.run("echo x > bb/x; chmod 4751 bb/x; touch -d '2001-02-03 04:05:06.789012345' bb/x; ln bb/x bb/y; ln -s nowhere bb/l;"
             " truncate -s 64M bb/hole; echo end >> bb/hole; mkdir -m 2711 bb/d; echo > bb/d/f")  # fmt: skip
    site.assert_same()
    x, hole = (site.pfs / "x").stat(), (site.pfs / "hole").stat()
    assert (x.st_mtime_ns, x.st_mode & 0o7777) == (981173106789012345, 0o4751)
    assert x.st_ino == (site.pfs / "y").stat().st_ino
    assert hole.st_blocks * 512 < 1 << 20
    assert (site.pfs / "d").stat().st_mode & 0o7777 == 0o2711


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


LOOK = """
import os, subprocess
from pathlib import Path
for process in Path("/proc").glob("[0-9]*"):
    try:
        name, parent = (process / "stat").read_text().rsplit(")", 1)
    except OSError:  # it has ended
        continue
    if name.endswith("(tb-mover") and parent.split()[1] == str(os.getppid()):
        for thread in map(int, os.listdir(process / "task")):
            device = subprocess.check_output(["ionice", "-p", str(thread)], text=True).strip()
            print("thread", os.sched_getaffinity(thread), device, "nice", os.getpriority(os.PRIO_PROCESS, thread))
"""


def test_all_threads_of_a_mover_keep_to_its_processors_and_priority(site: Site) -> None:
    config = str(site.config("streams: 2, processors: '0', priority: idle"))
    out = site.tierctl("run", "-c", config, "--", "python3", "-c", LOOK).stdout
    threads = [line for line in out.splitlines() if line.startswith("thread")]
    assert threads == ["thread {0} idle nice 19"] * 20, "the main one, two for each stream, and 15 that wait"


def test_a_log_of_progress_grows(site: Site) -> None:
    """A line at most each second, and the last one."""
    out = site.run(
        "for i in 1 2 3; do head -c 1500000 /dev/urandom > bb/$i; done", "bandwidth: 1MiB/s, streams: 1"
    )
    lines = re.findall(r"^Enqueued:3 Dequeued:(\d) Done:(\d)$", out.stdout, re.M)
    assert len(lines) > 2 and lines == sorted(set(lines)) and lines[-1] == ("3", "3")
    assert out.stdout.endswith("\nAll files moved\n")


def on_a_terminal(site: Site, script: str, more: str, columns: int) -> list[str]:
    """What `tierctl run` shows there, each time that it begins the line again."""
    config = site.config(more)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [TIERCTL, "run", "-c", config, "--", "sh", "-c", script],
        cwd=site.root,
        stdout=slave,
        stderr=subprocess.DEVNULL,
    ) as run:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while more_shown := os.read(master, 4096):
                shown += more_shown
        assert run.wait(60) == 0
    os.close(master)
    return shown.decode().split("\r\033[K")


FOUR = "for i in 1 2 3 4; do head -c 1100000 /dev/urandom > bb/$i; done"  # each goes alone


def test_a_terminal_shows_a_bar_with_rate_and_time_left(site: Site) -> None:
    parts = on_a_terminal(site, FOUR, "bandwidth: 1MiB/s, streams: 1", 80)
    assert any(re.search(r"Done:[123] \[#+-+\] \d\.\d MiB/s, \d+ s left$", part) for part in parts), parts
    assert re.search(r"Done:4 \[#{24}\] \d\.\d MiB/s, 0 s left\r\nAll files moved\r\n", parts[-1]), parts


@pytest.mark.parametrize(
    ("columns", "bar"), [(66, r" \[[#-]{6,23}\] \d"), (50, r"Done:\d \d"), (20, r"^Enqueued:\d Dequeued$")]
)
def test_a_narrow_terminal_gets_no_more_than_a_line(site: Site, columns: int, bar: str) -> None:
    parts = on_a_terminal(site, FOUR, "bandwidth: 4MiB/s, streams: 1", columns)
    assert all(len(part.split("\r\n")[0]) < columns for part in parts), parts
    assert any(re.search(bar, part.split("\r\n")[0]) for part in parts), parts


def test_a_large_file_is_seen_to_grow(site: Site) -> None:
    parts = on_a_terminal(site, "head -c 130M /dev/zero | tr '\\0' x > bb/large", "bandwidth: 40MiB/s", 80)
    assert any(re.search(r"Done:0 \[#+-+\] [1-9]\d*\.\d MiB/s, [1-9]\d* s left$", part) for part in parts), (
        parts
    )
    assert re.search(r"Done:1 \[#{24}\] [1-4]?\d\.\d MiB/s, 0 s left", parts[-1]), parts
    moving = [line.split("\t") for line in site.log() if line.startswith("Tierbench\tmoving")]
    assert {fact[4] for fact in moving} == {f"{site.pfs}/large"}
    assert [int(fact[5]) for fact in moving] == sorted(int(fact[5]) for fact in moving)


def test_a_low_bandwidth_does_not_hold_up_a_signal(site: Site) -> None:
    """At 4 KiB in a second the turn of the next piece is far."""
    config = site.config("bandwidth: 4KiB/s, deadline: 0.5s")
    start = time.monotonic()
    site.tierctl(
        "run", "-c", str(config), "--", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x > bb/x", status=3
    )
    assert time.monotonic() - start < 8  # it was 16 for each piece


def test_empty_folders_come_with_those_of_a_list(site: Site) -> None:
    deep = site.root / "mesh" / "a" / "empty"
    deep.mkdir(parents=True, mode=0o711)
    if not os.geteuid():
        os.chown(deep, 1, 2)
    (site.root / "manifest").write_text(f"{site.root}/mesh {site.pfs}/mesh\n")
    site.tierctl("stage", "--manifest", "manifest")
    there = (site.pfs / "mesh" / "a" / "empty").stat()
    assert (there.st_mode & 0o777, there.st_uid, there.st_gid) == (
        0o711,
        deep.stat().st_uid,
        deep.stat().st_gid,
    )


def test_a_folder_of_a_list_that_cannot_be_made_is_named(site: Site) -> None:
    (site.root / "mesh" / "a").mkdir(parents=True)
    (site.root / "there").mkdir()
    (site.root / "there" / "a").write_text("a file")
    (site.root / "manifest").write_text(f"{site.root}/mesh {site.root}/there\n")
    out = site.tierctl("stage", "--manifest", "manifest", status=3)
    assert f"{site.root}/mesh/a to {site.root}/there/a: " in out.stderr
    (site.root / "there" / "a").unlink()
    site.tierctl("stage", "--manifest", "manifest")
    assert (site.root / "there" / "a").is_dir()


def test_a_wait_for_a_folder_that_no_mover_knows_is_refused(site: Site) -> None:
    """A wrong PFS_DIR is not a stage-out with all files moved."""
    env = site.environment() | {"PERSIST_DIR": str(site.root / "none")}
    out = subprocess.run([TIERCTL, "wait"], env=env, capture_output=True, text=True, timeout=60)
    assert out.returncode == 2 and f"{site.pfs}/spectral.log is not there" in out.stderr
    assert not site.log_so_far()


def test_large_files_move_in_pieces(site: Site) -> None:
    """The sum in the log is that of the pieces' sums."""
    site.run("head -c 70000000 /dev/urandom > bb/pieces", "streams: 3")
    site.assert_same()
    if not (library := ctypes.util.find_library("xxhash")):
        pytest.skip("no shared libxxhash")
    sum_of = ctypes.CDLL(library).XXH3_64bits
    sum_of.restype = ctypes.c_uint64
    sum_of.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    whole = (site.pfs / "pieces").read_bytes()
    pieces = [whole[: 64 << 20], whole[64 << 20 :]]
    sums = b"".join(sum_of(piece, len(piece)).to_bytes(8, "little") for piece in pieces)
    (moved,) = (line.split("\t") for line in site.log() if line.startswith("Tierbench\tmoved"))
    assert moved[6] == f"{sum_of(sums, len(sums)):016x}"


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
    assert site.tierctl("wait", "--left", str(left)) and left.read_text() == ""
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


def slow_manifest(site: Site) -> list[str]:
    """A file that takes six seconds, as a list."""
    (site.root / "large").write_bytes(b"x" * 6000000)
    (site.root / "manifest").write_text(f"{site.root}/large {site.pfs}/large\n")
    config = site.config("bandwidth: 1MiB/s")
    return ["stage", "--manifest", "manifest", "-c", str(config), "--left", "left", "--log", str(site.pfs)]


def test_a_signal_ends_a_list_and_what_is_left_is_written(site: Site) -> None:
    with site.start(*slow_manifest(site)) as stage:
        while not any("DEQUEUE" in line for line in site.log_so_far()):
            time.sleep(0.02)
        stage.send_signal(signal.SIGTERM)
        _, err = stage.communicate(timeout=60)
    assert stage.returncode == 3 and "stopped before all files were moved" in err
    assert (site.root / "left").read_text() == f'"{site.root}/large" "{site.pfs}/large"\n'


@pytest.mark.parametrize("command", ["run", "stage"])
def test_a_key_ends_the_moving(site: Site, command: str) -> None:
    """The terminal tells the processes in its foreground, of which the mover is none."""
    stage = slow_manifest(site)
    words = {"run": ["run", "-c", stage[4], "--", "mv", "large", "bb/large"], "stage": stage}[command]
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(site.root)
        os.execv(TIERCTL, ["tierctl", *words])
    while not any("DEQUEUE" in line for line in site.log_so_far()):
        time.sleep(0.02)
    while b"Dequeued:1" not in os.read(master, 4096):  # it waits for the mover by now
        pass
    os.write(master, b"\x03")
    start = time.monotonic()
    with contextlib.suppress(OSError):
        while os.read(master, 4096):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert time.monotonic() - start < 3
    os.close(master)


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
    script = "touch begun; until test -e go; do sleep 0.05; done; echo > bb/x"
    with site.start("run", "--", "sh", "-c", script) as run:
        until_there(site.root / "begun")
        host, mover = site.log()[0].split("\t")[2:4]
        pid = int(mover.removeprefix(host + ".").split(".")[0])
        os.kill(pid, signal.SIGSTOP)
        waited = site.tierctl("wait", "--deadline", "5", status=3)
        assert f"waits for the mover on {host}, process {pid}, which does not answer" in waited.stderr
        (site.root / "go").touch()
        assert f"waits for the mover, process {pid}, which was stopped" in run.line()
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
        ({"PFS_DIR": "{root}/bb/in"}, "one is inside the other"),
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


@pytest.mark.parametrize(("key", "mode"), [("mode: scratch\n", []), ("", ["--mode", "scratch"])])
@pytest.mark.parametrize("by", ["stage_out", "environment", "stage_in"])
def test_a_node_local_folder_in_scratch_is_refused(site: Site, by: str, key: str, mode: list[str]) -> None:
    """The program's files would go elsewhere: 'All files moved' would be said of none."""
    config = site.config("streams: 1")
    text = config.read_text().replace(f"{site.root}/buffered", str(site.root)) + key
    if by != "stage_out":
        text = re.sub("^stage_out: .*$", "", text, flags=re.M)
    if by == "stage_in":
        text += f"stage_in: {{from: {site.pfs}, to: {site.bb}}}\n"
    config.write_text(text)
    env = {
        k: v
        for k, v in site.environment().items()
        if by == "environment" or k not in ("PERSIST_DIR", "PFS_DIR")
    }
    words = [str(TIERCTL), "run", "-c", str(config), *mode, "--", "touch", "ran"]
    out = subprocess.run(words, env=env, cwd=site.root, capture_output=True, text=True, timeout=60)
    assert out.returncode == 2 and f"{site.bb}: is in {site.root}, which has mode scratch" in out.stderr, (
        out.stderr
    )
    assert not (site.root / "ran").exists()


def test_spectrals_script_works_as_it_is(site: Site) -> None:
    (site.bb / "x").write_text("x")
    script = TIERCTL.with_name("spectral_wait.py")
    out = subprocess.run([script], env=site.environment(), capture_output=True, text=True)
    assert (out.returncode, out.stdout.splitlines()[-1]) == (0, "All files moved")


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
