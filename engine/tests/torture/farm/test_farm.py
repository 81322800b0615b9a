"""Each oracle of the farm is seen to fail: on a manifest that says more than was done, or on an instance broken on purpose."""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import check
import check_records
import crash
import farm
import faults
import instance
import loop_disks
import manifest
import pytest
import reliability
import rounds
from client import content
from instance import Programs, processes_of
from manifest import Act
from rounds import Round
from workload_log import record
from workload_saves import document

BUILD = Path(__file__).parents[4] / "build"
PROGRAMS = Programs(BUILD / "bin", BUILD / "lib")
needs_build = pytest.mark.skipif(not (BUILD / "bin" / "tierctl").exists(), reason="the engine is not built")


def act(op: str, kind: str, began: int, ended: int = manifest.NEVER, **words: Any) -> Act:
    return Act(op, kind, words, began, ended)


OPEN = act("c0.1", "open", 1, 2, file="f", name="f")
WRITE = act("c0.2", "write", 3, 4, file="f", offset=0, length=500)
SYNC = act("c0.3", "fsync", 5, 6, file="f")


def test_a_manifest_is_read() -> None:
    lines = [
        '{"op": "c0.1", "t": 5, "is": "begin", "kind": "write", "file": "f"}\n',
        '{"op": "c0.2", "t": 6, "is": "begin", "kind": "fsync", "file": "f"}\n',
        '{"op": "c0.1", "t": 7, "is": "end"}\n',
        '{"op": "c0.2", "t": 8, "is": "error", "why": "EIO"}\n',
        '{"op": "c0.0", "t": 9, "is": "wrong", "why": "NULs"}\n',
        '{"op": "c0.3", "t": 9, "is": "be',
    ]
    acts, wrong = manifest.read(lines)
    assert acts == [act("c0.1", "write", 5, 7, file="f"), act("c0.2", "fsync", 6, file="f")]
    assert wrong == ["c0.0: NULs"]


def test_a_lost_write_is_found(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content("c0.2", 500))
    assert check.check([OPEN, WRITE], tmp_path, crash=False) == (1, [])
    (tmp_path / "f").write_bytes(bytes(500))
    assert check.check([OPEN, WRITE], tmp_path, crash=False)[1]
    assert check.check([OPEN, WRITE], tmp_path, crash=True) == (0, [])
    assert check.check([OPEN, WRITE, SYNC], tmp_path, crash=True)[1]
    (tmp_path / "f").unlink()
    assert check.check([OPEN, WRITE], tmp_path, crash=False)[1] == ["f: the file is gone"]


def test_a_file_keeps_its_name_when_several_renames_fail(tmp_path: Path) -> None:
    opens = [OPEN, *(act(f"c0.{name}", "open", 1, 2, file=name, name=name) for name in "gh")]
    renames = [act(f"c0.{n}", "rename", n, file="f", to=to, over=to) for n, to in ((5, "g"), (6, "h"))]
    for name in "gh":
        (tmp_path / name).write_bytes(b"another file's")
    for data, is_right in ((content("c0.2", 500), True), (bytes(500), False)):
        (tmp_path / "f").write_bytes(data)
        assert (check.check([*opens, WRITE, *renames], tmp_path, crash=False)[1] == []) is is_right


LOG = [
    act(f"c{i}.{n}", "append", 10 * n + i, 10 * n + i + 1, file="log", length=20)
    for n in (1, 2)
    for i in (0, 1)
]


def log_bytes(*ops: str) -> bytes:
    return b"".join(record(op, 20) for op in ops)


@pytest.mark.parametrize(
    "data",
    [
        log_bytes("c0.1", "c1.1", "c0.2"),  # one is missing
        log_bytes("c0.1", "c0.1", "c1.1", "c0.2", "c1.2"),  # one is there twice
        log_bytes("c0.2", "c1.1", "c0.1", "c1.2"),  # out of order
        log_bytes("c0.1", "c1.1", "c0.2", "c1.2") + bytes(40),  # NULs
        log_bytes("c0.1", "c1.1") + log_bytes("c0.2")[:-9] + log_bytes("c1.2"),  # torn
    ],
)
def test_a_wrong_log_is_found(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log").write_bytes(log_bytes("c0.1", "c1.1", "c0.2", "c1.2"))
    assert check_records.check_log(LOG, tmp_path, crash=False) == (4, [])
    (tmp_path / "log").write_bytes(data)
    assert check_records.check_log(LOG, tmp_path, crash=False)[1]


def test_what_a_killed_appender_began_may_be_there_in_part(tmp_path: Path) -> None:
    acts = [*LOG, act("c0.3", "append", 40, file="log", length=20)]
    (tmp_path / "log").write_bytes(
        log_bytes("c0.1", "c1.1", "c0.2") + record("c0.3", 20)[:15] + log_bytes("c1.2")
    )
    assert check_records.check_log(acts, tmp_path, crash=False) == (4, [])


def test_a_torn_or_old_document_is_found(tmp_path: Path) -> None:
    saves = [act(f"c0.{n}", "save", n, n + 1, name="d", length=900) for n in (1, 2)]
    (tmp_path / "d").write_bytes(document("c0.2", 900))
    assert check_records.check_saves(saves, tmp_path, crash=True) == (1, [])
    for data in (document("c0.1", 900), document("c0.2", 900)[:600], b""):
        (tmp_path / "d").write_bytes(data)
        assert check_records.check_saves(saves, tmp_path, crash=True)[1]


def test_a_lost_row_and_a_damaged_data_base_are_found(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "wal.db")
    base.execute("CREATE TABLE t (op TEXT PRIMARY KEY, filler BLOB)")
    base.executemany("INSERT INTO t VALUES (?, randomblob(3000))", [("c0.1",), ("c0.2",)])
    base.commit()
    base.close()
    commits = [act(f"c0.{n}", "commit", n, n + 1, base="wal") for n in (1, 2)]
    assert check_records.check_sqlite(commits, tmp_path, crash=False) == (2, [])
    lost = [*commits, act("c0.3", "commit", 5, 6, base="wal")]
    assert check_records.check_sqlite(lost, tmp_path, crash=False)[1] == [
        "wal.db: committed row c0.3 is gone"
    ]
    assert check_records.check_sqlite(commits[:1], tmp_path, crash=False)[1] == [
        "wal.db: row c0.2 was never begun"
    ]
    with (tmp_path / "wal.db").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(2000))
    assert check_records.check_sqlite(commits, tmp_path, crash=False)[1]


def test_a_counter_that_went_back_is_found(tmp_path: Path) -> None:
    counts = [act(f"c0.{n}", "count", n, n + 1, name="record0") for n in (1, 2)]
    (tmp_path / "record0").write_bytes((2).to_bytes(8, "little"))
    assert check_records.check_counters(counts, tmp_path, crash=False) == (2, [])
    for value in (1, 3):
        (tmp_path / "record0").write_bytes(value.to_bytes(8, "little"))
        assert check_records.check_counters(counts, tmp_path, crash=False)[1]


def play(tmp_path: Path, workload: str = "writers", fault: str = "both") -> rounds.Outcome:
    return Round(PROGRAMS, tmp_path, "s", workload, fault).run()


@needs_build
def test_a_sound_round_passes(tmp_path: Path) -> None:
    outcome = play(tmp_path, "saves")
    assert outcome.wrong == []
    assert outcome.promised > 0


@needs_build
def test_a_lost_region_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(r: Round) -> None:
        sound(r)
        instance.region_of(r.instance).unlink()

    sound = Round.end_load
    monkeypatch.setattr(Round, "end_load", end)
    monkeypatch.setattr(rounds, "write_config", lambda root, chance: manual(WRITE_CONFIG(root, chance)))
    assert play(tmp_path).lost


WRITE_CONFIG = rounds.write_config


def manual(config: Path) -> Path:
    """Nothing is flushed before the end."""
    text = config.read_text()
    for policy in ("on-close", "watermark"):
        text = text.replace(f"policy: {policy}", "policy: manual")
    config.write_text(text.replace("background: true", "background: false"))
    return config


@needs_build
def test_what_is_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Round.end_load
    monkeypatch.setattr(Round, "end_load", lambda r: (sound(r), (r.root / "nvme" / "left").write_text("x")))
    assert any("left is left" in wrong for wrong in play(tmp_path, "saves").wrong)


@needs_build
def test_what_a_drain_syncs_is_in_the_log_of_the_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the crash takes back what programs have written and the drain has synced."""
    logs: list[bool] = []

    def drain(r: Round) -> list[str]:
        before = (r.root / "undo").stat().st_size
        wrong = sound(r)
        records = crash.read_log((r.root / "undo").read_bytes()[before:])
        logs.append(any(record.kind == crash.SYNC_END for record in records))
        return wrong

    def disturb(r: Round) -> list[str]:
        r.kill(r.clients)
        return drain(r)

    sound = faults.drain_busy
    monkeypatch.setitem(faults.PLANS, "drain", replace(faults.PLANS["drain"], disturb=disturb))
    monkeypatch.setattr(rounds, "write_config", lambda root, chance: manual(WRITE_CONFIG(root, chance)))
    play(tmp_path, fault="drain")
    assert logs == [True]


def test_a_process_that_is_left_is_found(tmp_path: Path) -> None:
    left = subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path, stdin=subprocess.PIPE)
    assert left.pid in processes_of(tmp_path)
    left.communicate(b"\n")
    assert left.pid not in processes_of(tmp_path)


def test_a_command_without_an_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "tierctl"
    slow.write_text("#!/bin/sh\nexec sleep 5\n")
    slow.chmod(0o755)
    monkeypatch.setattr(Round, "run", lambda r: r.programs.tierctl("recover", limit=0.1))
    options = argparse.Namespace(bin=tmp_path, lib=tmp_path)
    assert "has not ended after 0.1 s" in farm.attempt(options, tmp_path, "writers", "both", "s").wrong[0]


@needs_build
def test_a_client_that_ends_by_itself_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Round.wait_for_load
    monkeypatch.setattr(
        Round, "wait_for_load", lambda r: (sound(r), r.clients[0].kill(), r.clients[0].wait())
    )
    assert any("c0: ended by itself" in wrong for wrong in play(tmp_path).wrong)


def test_a_lock_that_is_not_held_is_found(tmp_path: Path) -> None:
    script = Path(__file__).parent / "workload_locks.py"
    program = "import workload_locks as w; w.take = lambda kind, fd: None; w.Locker(*sys.argv[1:4]).step()"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(script.parent)!r}); {program}"]
    told = subprocess.run(
        [*command, str(tmp_path), "c0", "s"], capture_output=True, text=True, check=True
    ).stdout
    assert any(json.loads(line)["is"] == "wrong" for line in told.splitlines())


def test_every_pair_comes_before_any_comes_again_and_a_seed_repeats() -> None:
    pairs = [("a", "x"), ("a", "y"), ("b", "x")]
    once = list(farm.rounds(list(pairs), "s", 6))
    assert once == list(farm.rounds(list(pairs), "s", 6))
    assert sorted(words[:2] for words in once[:3]) == sorted(words[:2] for words in once[3:]) == pairs


def test_totals_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    path.write_text(f"Head\n{reliability.BEGIN}\n{reliability.END}\ntail\n")
    row = reliability.Row("2026-01-02", "abc", "ace", "s", 30_000, 29_999, 2, 1_234_567, 30_000, 24_000, 1)
    reliability.add(path, row)
    reliability.add(path, row)
    text = path.read_text()
    assert reliability.read(text) == [row, row]
    assert "2,469,134 operations, 60,000 of them promised; 48,000 kills; 2 promises lost" in text
    assert text.startswith("Head\n")
    assert text.endswith("tail\n")


def test_totals_begin_in_a_new_file(tmp_path: Path) -> None:
    row = reliability.Row("2026-01-02", "abc", "ace", "s", 3, 3, 0, 4, 3, 3, 0)
    reliability.add(tmp_path / "build" / "r.md", row)
    assert reliability.read((tmp_path / "build" / "r.md").read_text()) == [row]


FSX = "seed {}: 5000 operations, 17 kills, 2 resolved, 9 drains, {}\n"


def test_a_shard_that_fails_or_says_nothing_is_lost() -> None:
    good, bad = FSX.format(8, "none wrong"), FSX.format(7, "FAILED")
    rows = [
        reliability.fsx_row(good + bad, failed=True),
        reliability.fsx_row(good, failed=True),
        reliability.fsx_row(good, failed=False),
    ]
    assert [(row.seed, row.run, row.passed, row.operations, row.kills, row.lost) for row in rows] == [
        ("7", 2, 1, 10_000, 34, 1),
        ("8", 2, 1, 5000, 17, 1),
        ("8", 1, 1, 5000, 17, 0),
    ]


CASES = """<testsuites><testsuite><testcase name="a"><properties><property name="operations" value="5" />
<property name="operations" value="7" /><property name="kills" value="1" /></properties></testcase><testcase name="b"><failure />
</testcase><testcase name="c"><error /></testcase><testcase name="d"><skipped /></testcase></testsuite></testsuites>"""


def test_a_case_that_fails_is_lost_and_one_that_is_skipped_was_not_run(tmp_path: Path) -> None:
    (tmp_path / "cases.xml").write_text(CASES)
    row = reliability.cases_row([tmp_path / "cases.xml"] * 2, "nodes", "1")
    assert (row.part, row.run, row.passed, row.not_run, row.lost) == ("nodes", 6, 2, 2, 4)
    assert (row.operations, row.promised, row.kills) == (24, 0, 2)


def pretend_tree(tree: Path) -> None:
    """ci/torture with parts that only say what they were told."""
    source = Path(__file__).parents[4]
    (tree / "ci").mkdir()
    shutil.copy(source / "ci" / "torture", tree / "ci")
    (tree / "docs").mkdir()
    (tree / "docs" / "reliability.md").write_text(f"{reliability.BEGIN}\n{reliability.END}\n")
    for name in ("torture/farm/farm.py", "torture/ace/ace.py", "power/power.py"):
        (tree / "engine/tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "engine/tests" / name).write_text(f"import sys; print({name!r}, *sys.argv)")
    shutil.copy(source / "engine/tests/torture/reliability.py", tree / "engine/tests/torture")
    (tree / "build/bin").mkdir(parents=True)
    (tree / "build/bin/torture_fsx").write_text(
        "#!/bin/sh\n" + f"echo '{FSX.format(8, 'none wrong').strip()}'\n"
    )
    (tree / "build/bin/torture_fsx").chmod(0o755)


@pytest.mark.parametrize("kept", [None, "docs/reliability.md"])
def test_a_plain_run_leaves_the_project_as_it_was(tmp_path: Path, kept: str | None) -> None:
    pretend_tree(tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TB_")} | (
        {"TB_RECORD": kept} if kept else {}
    )
    done = subprocess.run(
        ["bash", tmp_path / "ci/torture", "kill", "ace", "farm", "fsx", "power"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    where = kept or "build/reliability.md"
    assert done.stdout.count(f"--record {where}") == 4
    assert [row.part for row in reliability.read((tmp_path / where).read_text())] == ["fsx"]
    assert bool(reliability.read((tmp_path / "docs/reliability.md").read_text())) == bool(kept)


EXECUTES = """
import os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"x" * 100, 0)
os.lseek(fd, 50, os.SEEK_SET)
try:
    subprocess.run(["cat"], input=b"y" * 10, stdout=fd)
except OSError as error:
    print(error.strerror)
"""


@needs_build
@pytest.mark.parametrize(
    ("fault", "said", "left"), [(None, "", b"y"), ("ENOSPC", "No space left on device\n", b"x")]
)
def test_no_program_is_executed_on_a_file_that_cannot_be_flushed(
    tmp_path: Path, fault: str | None, said: str, left: bytes
) -> None:
    """It would write where the kernel's offset is, which is not the program's."""
    r = Round(PROGRAMS, tmp_path, "s", "writers", "both")
    assert r.make()
    env = PROGRAMS.under(r.instance) | (
        {"TB_FAULT": f"op=pwrite,errno={fault},count=0,path={tmp_path}/pfs"} if fault else {}
    )
    done = subprocess.run(
        [sys.executable, "-c", EXECUTES, f"{tmp_path}/pfs/f"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not PROGRAMS.tierctl("stop", "-i", r.instance).returncode
    assert done.stdout == said
    assert (tmp_path / "pfs" / "f").read_bytes() == b"x" * 50 + left * 10 + b"x" * 40


REMOUNTS = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import loop_disks
from rounds import Round
from instance import Programs, kill
root, build = Path(sys.argv[2]), Path(sys.argv[3])
programs = Programs(build / "bin", build / "lib")
r = Round(programs, root, "s", "writers", "read-only-disk")
assert r.make(), r.outcome.wrong
write = "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 9000, 0); print(flush=True); input()"
command = [sys.executable, "-c", write, str(root / "pfs" / "f")]
client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=programs.under(r.instance))
client.stdout.readline()
client.kill()
client.wait()
kill(r.daemon)
before = os.stat(root / "pfs").st_dev
loop_disks.run("umount", root / "pfs")
(root / "another").mkdir()
loop_disks.make(root / "another")  # takes the device's number
loop_disks.mount(root / "pfs")
assert os.stat(root / "pfs").st_dev != before
done = programs.tierctl("recover", "-c", root / "c.yaml")
print(done.returncode, done.stderr, (root / "pfs" / "f").read_bytes() == b"x" * 9000)
"""


@needs_build
@pytest.mark.skipif(bool(loop_disks.missing()), reason=loop_disks.missing())
def test_a_pfs_that_is_mounted_again_is_the_same(tmp_path: Path) -> None:
    """Its device has another number; the region's records have the old one."""
    here, script = str(Path(__file__).parent), [sys.executable, "-c", REMOUNTS]
    done = subprocess.run(
        ["unshare", "-m", *script, here, str(tmp_path), str(BUILD)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("0  True\n", "")
