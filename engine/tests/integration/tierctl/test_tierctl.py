"""tierctl as a user meets it: exit statuses, messages, what is left, faults while draining, flipped bytes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from buffered import BYTES, WRITE, write_buffered
from instances import BIN, PRELOAD, SOURCE, Instance


@pytest.mark.parametrize("command", ["start", "run"])
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("max_files: 256", "max_filez: 256", ("max_filez", "allowed")),
        ("max_files: 256", "max_files: 0", ("max_files", '"0"', "allowed")),
        ("4MiB, block: 4KiB", "4MB, block: 4KiB", ("tiers[0].capacity", "4MB", "MiB")),
        ("ROOT/nvme", "ROOT/none", ("tiers[1].path", "ROOT/none", "allowed")),
        ("ROOT/pfs", "ROOT/none", ("pfs.path", "ROOT/none", "allowed")),
        ("fsync: tier", "fsync: none", ("fsync", "none", "scratch")),
    ],
)
def test_bad_input_leaves_nothing(
    instance: Instance, command: str, old: str, new: str, says: tuple[str, ...]
) -> None:
    old, new, *said = (text.replace("ROOT", str(instance.root)) for text in (old, new, *says))
    instance.config.write_text(instance.config.read_text().replace(old, new, 1))
    more = ("-i", instance.name) if command == "start" else ("--", "true")
    done = instance.ctl(command, "-c", instance.config, *more)
    instance.check(done, 2, str(instance.config), *said)
    assert done.stderr.count("\n") == 1
    instance.nothing_is_left()
    assert instance.daemons() == []


def test_start_status_stop(instance: Instance) -> None:
    instance.start()
    state = instance.status()
    assert (state["instance"], state["daemon_alive"]) == (instance.name, True)
    assert [t["name"] for t in state["tiers"]] == ["ram", "nvme"]
    assert instance.name in instance.ctl("status", "-i", instance.name).stdout
    instance.refuse_start(instance.name)
    assert instance.status()["daemon_alive"]
    other = instance.name + "-b"
    instance.check(instance.ctl("start", "-c", instance.config, "-i", other), 0)
    # Only reads: were it broken, it could meet another user's instance.
    instance.check(instance.ctl("status"), 2, instance.name + " ", other)
    instance.check(instance.ctl("stop", "-i", other), 0)
    instance.stop()
    instance.nothing_is_left()
    assert instance.ctl("status", "-i", instance.name).returncode != 0


def test_status_shows_how_bytes_are_copied(instance: Instance) -> None:
    instance.start()
    copy = instance.status()["copy"]
    places = ["aligned", "misaligned by 1", "misaligned by 16", "page-aliased"]
    ways = dict.fromkeys(rate["way"] for rate in copy["rates"])
    rates = {(r["copied"], r["way"], r["bytes"], r["program"]): r["bytes_per_second"] for r in copy["rates"]}
    sizes, ahead = (4096, 65536, 1 << 20), "in, asked for ahead"
    measured = {"in": sizes, "out": sizes, ahead: sizes[:1]}
    assert next(iter(ways)) == "memcpy"
    assert set(rates) == {
        (k, w, n, p) for k, some in measured.items() for w in ways for n in some for p in places
    }
    assert min(rates.values()) > 0
    lines = instance.ctl("status", "-i", instance.name).stdout.splitlines()
    words = {}
    for direction in ("in", "out"):
        short, long = copy[direction]["short"], copy[direction]["long"]
        kind = ahead if copy[direction]["ahead"] else direction
        words[direction] = short + " asked for ahead" * copy[direction]["ahead"]
        words[direction] += f", from 32KiB {long}" if long != short else ""
        chosen = {4096: (kind, short), 65536: (direction, long), 1 << 20: (direction, long)}
        shown = [
            f"{place} " + " ".join(f"{rates[*chosen[n], n, place] / 1e9:.1f}" for n in sizes)
            for place in places
        ]
        line = f"copy {direction} by {words[direction]}  GB/s of 4KiB, 64KiB, 1MiB  " + "  ".join(shown)
        assert line in lines
    assert copy["way"] in {f"in {words['in']}; out {words['out']}", words["in"]}


def test_status_says_how_to_have_huge_pages(instance: Instance) -> None:
    """Where the region has some there is nothing to say."""
    instance.config.write_text("region: {huge_pages: never}\n" + instance.config.read_text())
    instance.start()
    region = instance.status()["region"]
    lines = instance.ctl("status", "-i", instance.name).stdout.splitlines()
    hint = f"  huge pages for the next start, as root: {region['enable_huge_pages']}"
    assert (region["huge_pages"] == "none") == (hint in lines)
    if region["huge_pages"] == "none":
        assert region["enable_huge_pages"] == "mount -o remount,huge=advise /dev/shm"


def test_a_log_that_says_nothing_is_not_left(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(instance.root))
    logs = instance.root / f"tierbench.{os.getuid()}"
    log = logs / f"tierd.{instance.name}.log"
    instance.start()
    assert log.exists()
    instance.stop()
    assert not log.exists()
    instance.start()
    log.write_text("a message\n")
    instance.stop()
    assert log.read_text() == "a message\n"


@pytest.mark.parametrize("given", ["", "logs"])
def test_a_log_goes_to_no_relative_path(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Empty it would be the root directory, where root can make one."""
    (instance.root / "logs").mkdir()
    monkeypatch.chdir(instance.root)
    monkeypatch.setenv("XDG_RUNTIME_DIR", given)
    instance.start()
    assert Path(f"/tmp/tierbench.{os.getuid()}/tierd.{instance.name}.log").exists()
    instance.stop()
    assert list((instance.root / "logs").iterdir()) == []


def test_stop_waits_until_the_process_is_gone(instance: Instance) -> None:
    """Its lease ends before it does; a script that looks for processes after a stop must find none."""
    slow = {
        "LD_PRELOAD": str(BIN.parent / "lib" / "libslow_end.so"),
        "ASAN_OPTIONS": "verify_asan_link_order=0",
    }
    with subprocess.Popen([BIN / "tierd", instance.config, "-i", instance.name], env=os.environ | slow):
        until = time.monotonic() + 60
        while instance.ctl("status", "-i", instance.name).returncode and time.monotonic() < until:
            time.sleep(0.02)
        assert len(instance.daemons()) == 1
        instance.stop()
        assert instance.daemons() == []


def test_daemon_keeps_no_descriptor_of_its_starter(instance: Instance) -> None:
    """Else a lock that a script holds while it starts an instance would be the daemon's as long as it lives."""
    with (instance.root / "lock").open("w") as lock:
        given = os.dup(lock.fileno())
        command = [BIN / "tierctl", "start", "-c", instance.config, "-i", instance.name]
        subprocess.run(
            [str(word) for word in command], pass_fds=[given], check=True, timeout=60, capture_output=True
        )
        os.close(given)
        mine = Path(f"/proc/{instance.status()['daemon_pid']}/fd")
        kept = [str(fd.readlink()) for fd in mine.iterdir()]
        assert kept
        assert str(instance.root / "lock") not in kept


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("sh", "-c", "exit 0"), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("sh", "-c", "no-such-program-here"), 127),
        (("no-such-program-here",), 127),
    ],
)
def test_run_status_is_the_commands(instance: Instance, words: tuple[str, ...], status: int) -> None:
    instance.check(instance.ctl("run", "-c", instance.config, "--", *words), status)
    instance.nothing_is_left()


@pytest.mark.parametrize("command", ["status", "drain", "stop"])
def test_an_instance_that_there_is_none_of(instance: Instance, command: str) -> None:
    done = instance.ctl(command, "-i", instance.name)
    instance.check(done, 1, f"instance {instance.name}: cannot attach: no such instance runs")
    assert done.stderr.count("\n") == 1


def test_run_names_what_cannot_be_executed(instance: Instance) -> None:
    """As shells do: 126 for what is there, also where it is found by PATH, 127 for what is not."""
    program = instance.root / "notes"
    program.write_text("#!/bin/sh\n")
    run = ("run", "-c", instance.config, "--")
    instance.check(instance.ctl(*run, program), 126, f"{program}: is not executable")
    path = {"PATH": f"{instance.root}:{os.environ['PATH']}"}
    instance.check(instance.ctl(*run, "notes", env=path), 126, f"{program}: is not executable")
    instance.check(instance.ctl(*run, instance.root), 126, "directory")
    program.chmod(0o755)
    instance.check(instance.ctl(*run, "notes", env=path), 0)
    instance.nothing_is_left()


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 3, 5, 8, 12, 20, 40])
def test_run_leaves_no_daemon_when_it_is_ended_early(instance: Instance, delay_ms: int) -> None:
    process = subprocess.Popen(
        [BIN / "tierctl", "run", "-c", instance.config, "--", "sleep", "30"], stderr=subprocess.DEVNULL
    )
    time.sleep(delay_ms / 1000)
    process.terminate()
    process.wait(timeout=20)
    assert instance.daemons() == []


def test_run_refuses_static(instance: Instance) -> None:
    source = instance.root / "s.c"
    source.write_text("int main(void) { return 0; }\n")
    if subprocess.run(["cc", "-static", "-o", instance.root / "s", source], capture_output=True).returncode:
        pytest.skip("cc cannot link statically here")
    done = instance.ctl("run", "-c", instance.config, "--", instance.root / "s")
    assert done.returncode == 2
    assert "statically linked" in done.stderr


def test_run_stats_and_keep(instance: Instance) -> None:
    stats = instance.root / "stats.json"
    program = (sys.executable, "-c", WRITE, instance.file)
    instance.check(instance.ctl("run", "-c", instance.config, "--stats", stats, "--keep", "--", *program), 0)
    seen = json.loads(stats.read_text())
    assert set("instance config modelled fsync policy fsyncs files dirty_files region".split()) <= set(seen)
    assert set("exit_status program_s drain_s drained_bytes durable_s".split()) <= set(seen)
    schema = json.loads((SOURCE / "analysis/tierbench/base/schemas/stats.schema.json").read_text())
    jsonschema.validate(seen, schema)
    for part, names in (  # what the schema names is there
        (seen, schema["properties"]),
        (seen["pfs"], schema["properties"]["pfs"]["properties"]),
        (seen["tiers"][0], schema["properties"]["tiers"]["items"]["properties"]),
        (seen["samples"], schema["properties"]["samples"]["properties"]),
    ):
        assert set(names) <= set(part)
    assert (seen["exit_status"], seen["drained_bytes"]) == (0, len(BYTES))
    samples, flushed = seen["samples"], sum(t["flushed"] for t in seen["tiers"])
    assert {t["name"]: t["bytes_in"] for t in seen["tiers"]} == {
        n: s[-1] for n, s in samples["bytes_in"].items()
    }
    assert (sum(s[-1] for s in samples["bytes_in"].values()), samples["pfs_bytes_written"][-1]) == (
        len(BYTES),
    ) * 2
    assert (sum(s[-1] for s in samples["flushed"].values()), samples["spilled"][-1]) == (flushed, 0)
    assert instance.file.read_bytes() == BYTES
    instance.name = seen["instance"]
    assert instance.status()["daemon_alive"]
    instance.stop()
    assert not instance.shm().exists()


def leave_buffered(instance: Instance) -> None:
    """A file of which the tiers alone know, and no daemon."""
    instance.start()
    write_buffered(instance)
    instance.kill_daemons()


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("cp /etc/hostname PFS/a", 0),
        ("dd if=/etc/hostname of=PFS/a status=none", 1),  # of standard output
        (
            "echo x > PFS/a; cat PFS/a > /dev/null; seq 9 > PFS/b",
            2,
        ),  # its own, and what another program inherits
    ],
)
def test_what_falls_back_is_counted(instance: Instance, line: str, times: int) -> None:
    stats = instance.root / "stats.json"
    command = ("sh", "-c", line.replace("PFS", str(instance.root / "pfs")))
    done = instance.ctl("run", "-c", instance.config, "--stats", stats, "--", *command)
    instance.check(done, 0)
    assert json.loads(stats.read_text())["fallbacks"] == times
    assert (f"files that fell back to it: {times} " in done.stderr) == (times > 0)


def test_drain_and_stop_without_daemon(instance: Instance) -> None:
    leave_buffered(instance)
    instance.check(instance.ctl("drain", "-i", instance.name), 0)
    assert instance.file.read_bytes() == BYTES
    instance.stop()
    assert not instance.shm().exists()


@pytest.mark.parametrize("command", ["drain", "stop"])
def test_failed_drain_keeps_all(instance: Instance, command: str) -> None:
    fault = f"op=pwrite,errno=ENOSPC,count=0,path={instance.root}/pfs"
    leave_buffered(instance)
    done = instance.ctl(command, "-i", instance.name, env={"TB_FAULT": fault})
    instance.check(done, 3, str(instance.file), "No space left")
    assert instance.shm().exists()
    retry = done.stderr.split("try again with: tierctl ")[1].split()
    instance.check(instance.ctl(*retry), 0)
    assert instance.file.read_bytes() == BYTES
    if command == "drain":
        instance.stop()
    assert not instance.shm().exists()


@pytest.mark.parametrize(("which", "at"), [("slab-*", 7), ("journal", 512 + 40)])
def test_flipped_byte_is_reported(instance: Instance, which: str, at: int) -> None:
    leave_buffered(instance)
    instance.lose_region()
    paths = list((instance.root / "nvme").glob(f"*/{which}"))
    assert paths
    for path in paths:
        with path.open("r+b") as file:
            file.seek(at)
            old = file.read(1)
            file.seek(at)
            file.write(bytes([old[0] ^ 0xFF]))
    instance.recover(3, "not recovered")
    found = instance.file.read_bytes() if instance.file.exists() else b""
    assert all(b in (0, BYTES[i]) for i, b in enumerate(found)), "wrong bytes on the PFS"


def test_tierctl_is_no_client_of_what_it_ends(instance: Instance) -> None:
    """A program under tiers starts it: as a client it would wait for the file that its own drain holds."""
    env = os.environ | {"LD_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": "none-such"}
    told = "instance none-such cannot be used"
    for command, is_client in (
        (["cat", instance.config], True),
        ([BIN / "tierctl", "check", instance.config], False),
    ):
        done = subprocess.run([*map(str, command)], env=env, capture_output=True, text=True, check=True)
        assert (told in done.stderr) == is_client


def test_json_shows_names_that_are_not_utf8(instance: Instance) -> None:
    """A name may hold any byte, and JSON may not: else the whole output, or the file that failed, would be missing."""
    odd = Path(os.fsdecode(os.fsencode(instance.root) + b"/c\xff.yaml"))
    instance.config.rename(odd)
    instance.config = odd
    failing = Path(os.fsdecode(os.fsencode(instance.file) + b"\xff"))
    stats = instance.root / "stats.json"
    instance.start()
    assert instance.program(file=failing).ask("write 8388608 far") == "3"
    drain = ("prlimit", "--fsize=4194304", BIN / "tierctl", "drain", "-i", instance.name)
    assert subprocess.run(drain, stderr=subprocess.DEVNULL, timeout=60).returncode == 3
    state = instance.status()
    assert state["config"] == str(instance.root / "c?.yaml")
    assert state["errors"] == [{"path": str(instance.file) + "?", "error": "File too large"}]
    plan = json.loads(instance.ctl("plan", odd, "--json").stdout)
    assert plan["config"] == state["config"]
    instance.check(instance.ctl("stop", "-i", instance.name, "--stats", stats), 0)
    assert json.loads(stats.read_text())["config"] == state["config"]


@pytest.mark.parametrize("what", ["status -i NAME", "status -i NAME --json", "plan FILE", "plan FILE --json"])
def test_output_that_is_lost_is_told(instance: Instance, what: str) -> None:
    """As when it goes to a file on a full disk."""
    instance.start()
    words = what.replace("NAME", instance.name).replace("FILE", str(instance.config)).split()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [BIN / "tierctl", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (2, "tierctl: stdout: cannot write: No space left on device\n")
