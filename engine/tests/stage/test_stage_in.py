"""Stage-in: before the program starts, or file by file when the program names one."""

import os
import signal
import time
from pathlib import Path

import pytest
from staging import TIERCTL, Site, until_there


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
    assert any(line.startswith("Tierbench\tmoving\t") for line in site.log()), "how far the large one is"
    assert out.stdout.count("All files moved") == 2


def bringing(site: Site, rate: str, keys: str = "") -> Path:
    """A configuration with a file `large` of 6 MB, which is brought when it is asked for."""
    (site.root / "mesh").mkdir()
    (site.root / "mesh" / "large").write_bytes(b"l" * 6000000)
    config = site.config("streams: 1")
    more = f"stage_in: {{from: {site.root}/mesh, to: {site.bb}, when: open, bandwidth: {rate}, {keys}}}\n"
    config.write_text(config.read_text() + more)
    return config


def bringer_of(site: Site) -> int:
    """The mover of the stage-in: its line has no folder. The program has begun, so that tierctl waits for no mover any more."""
    until_there(site.root / "begun")
    while len(starts := [line for line in site.log_so_far() if line.startswith("Tierbench\tstarts")]) < 2:
        time.sleep(0.02)
    (mine,) = (line.split("\t") for line in starts if line.split("\t")[5] == "")
    return int(mine[3].removeprefix(mine[2] + ".").split(".")[0])


WAITS = (
    "import os, time\nopen('begun', 'w').close()\n"
    "while not os.path.exists('go'): time.sleep(0.02)\nprint(len(open('bb/large').read()))"
)


def test_a_stopped_mover_is_named_by_the_program_that_waits_for_its_file(site: Site) -> None:
    config = bringing(site, "1MiB/s")
    with site.start("run", "-c", str(config), "--", "python3", "-c", WAITS) as run:
        os.kill(mover := bringer_of(site), signal.SIGSTOP)
        (site.root / "go").touch()
        line = run.line()
        os.kill(mover, signal.SIGCONT)
        out, err = run.communicate(timeout=60)
    assert line == f"tierbench: {site.bb}/large: waits for the mover, process {mover}, to bring it\n"
    assert run.returncode == 0 and "6000000" in out and "waits for" not in err, (out, err)


@pytest.mark.parametrize("first", ["asks", "is killed"])
def test_a_program_does_not_wait_for_a_killed_mover(site: Site, first: str) -> None:
    config = bringing(site, "128KiB/s")
    with site.start("run", "-c", str(config), "--", "python3", "-c", WAITS) as run:
        mover = bringer_of(site)
        if first == "asks":
            (site.root / "go").touch()
            run.line()  # it waits
        os.kill(mover, signal.SIGKILL)
        (site.root / "go").touch()
        _, err = run.communicate(timeout=60)
    (line,) = (line for line in err.splitlines() if "is missing" in line)
    told = line.replace(f", process {mover},", "")  # a mover that was dead already is told without it
    assert told == f"tierbench: {site.bb}/large: is missing: the mover ended before it had brought it"
    assert first == "is killed" or told != line
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


def test_files_without_room_are_refused_before_the_program(site: Site) -> None:
    (site.root / "mesh").mkdir()
    with (site.root / "mesh" / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 43)
    config = site.config("streams: 1")
    config.write_text(config.read_text() + f"stage_in: {{from: {site.root}/mesh, to: {site.bb}}}\n")
    out = site.tierctl("run", "-c", str(config), "--", "touch", "ran", status=2)
    assert f"stage_in.to: {site.bb}: no room: {1 << 43} bytes are to go there; allowed: the " in out.stderr
    assert not (site.root / "ran").exists() and not list(site.bb.iterdir()) and site.names() == set()


@pytest.mark.parametrize(
    ("options", "change", "says"),
    [
        (["--mode", "fast"], ("", ""), "--mode: fast; allowed: "),
        (["--per-node", "env"], ("", ""), "nodes: one; allowed: several, shared"),
        ([], ("max_files: 64\n", ""), "capacity: 4194304 bytes do not hold the engine's metadata"),
        ([], ("version: 1\n", "version: 1\nnodes: shared\n"), "nodes: shared needs the number of nodes"),
        ([], ("/buffered}", "/nowhere}"), "/nowhere"),
    ],
)
def test_what_cannot_run_stages_nothing_in(
    site: Site, options: list[str], change: tuple[str, str], says: str
) -> None:
    (site.root / "mesh").mkdir()
    (site.root / "mesh" / "x").write_text("mesh")
    config = site.config("streams: 1")
    more = f"stage_in: {{from: {site.root}/mesh, to: {site.bb}}}\n"
    config.write_text(config.read_text().replace(*change) + more)
    out = site.tierctl("run", "-c", str(config), *options, "--", "touch", "ran", status=2)
    assert says in out.stderr and out.stderr.count("\n") == 1, out.stderr
    assert not (site.root / "ran").exists() and not list(site.bb.iterdir()) and site.names() == set()


REMOVES = """
import os, shutil
while not os.path.exists("bb/d/early"): pass
for _ in range(50):  # the mover may put something into it while it is removed
    shutil.rmtree("bb/d", ignore_errors=True)
for name in ("bb/d", "bb/d/early", "bb/d/late", "bb/d/e"):
    assert not os.path.exists(name), name
if {again}: os.mkdir("bb/d")
assert not os.path.exists("bb/d/late") and not os.path.exists("bb/d/e")
"""


@pytest.mark.parametrize("again", [False, True])
def test_a_staged_in_folder_that_the_program_removes_does_not_come_back(site: Site, again: bool) -> None:
    """Also not by a file of it that was still to come, nor into a folder that the program makes of that name."""
    left = site.root / "left"
    config = bringing(site, "2MiB/s", f"streams: 4, retries: 0, left: {left}")
    (site.root / "mesh" / "d" / "e").mkdir(parents=True)
    (site.root / "mesh" / "d" / "early").write_text("early")
    (site.root / "mesh" / "d" / "late").write_bytes(b"l" * 4000000)
    out = site.tierctl("run", "-c", str(config), "--", "python3", "-c", REMOVES.format(again=again))
    stays = {"large", "d"} if again else {"large"}
    assert {str(p.relative_to(site.bb)) for p in site.bb.rglob("*")} == stays
    assert "could not be staged in" not in out.stderr and left.read_text() == ""


def test_a_wait_does_not_bring_back_what_the_program_removed(site: Site) -> None:
    left = site.root / "left"
    config = bringing(site, "100MiB/s", f"left: {left}")
    program = (
        "import os, subprocess; n = 'bb/large'; len(open(n).read()); os.remove(n)\n"
        f"subprocess.run(['{TIERCTL}', 'wait'], check=True)"
    )
    site.tierctl("run", "-c", str(config), "--", "python3", "-c", program)
    assert site.moved() == {"large": 1} and not (site.bb / "large").exists()
    assert left.read_text() == ""
