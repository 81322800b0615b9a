"""What cannot run is refused before anything is launched, and what went wrong is no result.

Whole runs of ReFrame on this machine, with drivers that misbehave.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_suite import REFRAME

from common.sites.tiers import ROOT

LOCAL = ROOT / "configs" / "sites" / "local.py"
SLOWER = ("-S", "twin_factor=128")  # no busy machine is too slow for it


def run(tmp_path: Path, *options: str, site: Path = LOCAL, **env: str) -> subprocess.CompletedProcess[str]:
    fixed = ["-C", str(site), "--system=local", "-r", "-P", "tiers=pfs", "-S", "scale=smoke"]
    where = ["--prefix", str(tmp_path), "--report-file", str(tmp_path / "run" / "reframe.json")]
    (tmp_path / "run").mkdir(exist_ok=True)
    return subprocess.run(
        [str(REFRAME), *fixed, *where, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TIERBENCH_RUN_DIR": str(tmp_path / "run"), **env},
    )


def recipe(name: str) -> tuple[str, ...]:
    """Options that choose it, from its system's file alone: loading all takes longer than a run."""
    return "-c", f"reframe_tests/{name.partition('-')[0]}.py", "-n", f"recipe={name}$"


def driver(tmp_path: Path, body: str) -> str:
    """An `ior` of that body; `calls` keeps what it is called with."""
    file = tmp_path / "ior"
    file.write_text(f'#!/bin/bash\necho "$@" >> {tmp_path}/calls\nours={ROOT}/build/bin/tb-ior\n{body}\n')
    file.chmod(0o755)
    return str(file)


def site(tmp_path: Path, extras: str) -> Path:
    """The local site with more in its extras."""
    text, file = LOCAL.read_text(), tmp_path / "site.py"
    assert '"extras": {"tiers": "modelled",' in text
    file.write_text(text.replace('"extras": {', f'"extras": {{{extras}, '))
    return file


# --- before anything is launched ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "env", "message"),
    [
        (
            (*recipe("cori-lustre-1-posix"), "-S", "scale=full"),
            {},
            r"cori-lustre-1-posix at scale full needs \d{14} bytes in \S+; \d+ are free",
        ),
        (
            recipe("cori-lustre-1-posix"),
            {"IOR": "/nowhere/ior"},
            r"no ior: needs IOR set to a program, ior on PATH, or `make build`; there is /nowhere/ior",
        ),
        (
            (*recipe("summit-gpfs-2"), "-S", "twin_factor=1"),
            {},
            (
                r"write: the medium does \S+ MiB/s, less than twice the twin's \S+ .*, K = 1\); "
                r"needs -S twin_factor="
            ),
        ),
        (
            (*recipe("cori-lustre-1-posix"), "-S", "memory_hog=99%", "-P", "tiers=ram"),
            {},
            r"needs \d+ bytes of memory \(memory_hog \d+, memory tier 67108864\); \d+ are there",
        ),
        (
            (*recipe("cori-lustre-1-posix"), "-S", "twin_factor=64", "-P", "tiers=ram", "-S", "policy=best"),
            {},
            r"tiers.yaml:\d+: placement.policy: \"best\": allowed: max-bandwidth",
        ),
    ],
)
def test_what_cannot_run_is_refused(
    tmp_path: Path, options: tuple[str, ...], env: dict[str, str], message: str
) -> None:
    done = run(tmp_path, *options, site=LOCAL, **env)
    assert done.returncode == 1
    assert re.search(message, done.stdout), done.stdout
    assert not list(tmp_path.rglob("rfm_job.sh"))


def test_a_site_with_too_little_memory_is_refused(tmp_path: Path) -> None:
    small = site(tmp_path, '"memory_bytes": 33554432')
    done = run(tmp_path, *recipe("cfs-bandwidth"), "-P", "tiers=ram", site=small)
    assert done.returncode == 1
    assert "needs 67108864 bytes of memory (memory tier 67108864); 33554432 are there" in done.stdout
    assert not list(tmp_path.rglob("rfm_job.sh"))


def test_little_shared_memory_is_told_in_the_engines_words(tmp_path: Path) -> None:
    """Also in ReFrame's summary, which is all that a user sees."""
    small = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"', "small"]
    if subprocess.run([*small, "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    line = [*small, str(REFRAME), "-C", str(LOCAL), "--system=local", "-c", "reframe_tests/webinar.py", "-r"]
    line += ["-n", "WebinarTiers.*tiers=ram.*scratch", "--prefix", str(tmp_path)]
    env = {**os.environ, "TIERBENCH_RUN_DIR": str(tmp_path / "run")}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    told = done.stdout.split("SUMMARY OF FAILURES")[1]
    assert done.returncode == 1
    assert re.search(r"Reason: .*: the region needs \d+ MiB and /dev/shm has \d+ MiB free; allowed: ", told)
    assert not list(tmp_path.rglob("rfm_job.sh"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-S", "touch=often"), "touch='often'; allowed: auto, always, never"),
        (("-S", "memory_hog=much"), "memory_hog='much'; allowed: 1% to 99%, or a size such as 2g"),
        (("-P", "recipe=cori-lustre-9"), "recipe='cori-lustre-9'; allowed: cfs-iops, cfs-bandwidth"),
    ],
)
def test_what_is_unknown_is_refused_with_status_2(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run(tmp_path, "-c", "reframe_tests/cfs.py", *options)
    assert done.returncode == 2
    assert done.stderr.count(message) == 1
    assert not list(tmp_path.rglob("rfm_job.sh"))


def test_a_dataset_that_was_not_generated_is_not_read(tmp_path: Path) -> None:
    done = run(tmp_path, *recipe("cori-lustre-1-posix"), *SLOWER, IOR=driver(tmp_path, "exit 0"))
    assert done.returncode == 1
    assert re.search(r"is not generated: needs 2 files of \d+ bytes; there are 0 of 2 files", done.stdout)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls and all(call.startswith("-w") for call in calls)


WITHOUT_READ = '"$ours" "$@" | grep -v -e "^read" -e "^Max Read"; exit 0'
# Goes past the model, as a read from a cache does, and changes a byte of what is checked.
LIES = """LD_PRELOAD= "$ours" "$@"
file=$(grep -o "[^ ]*check" <<< "$@") || exit 0
[ "$OMPI_COMM_WORLD_RANK" != 0 ] || printf x | dd of="$file.00000001" bs=1 seek=99 conv=notrunc status=none
"""

# --- no result ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo hello", "numbers are missing: OutputError"),
        (WITHOUT_READ, "numbers are missing: ValueError: stdout: holds 0 results of read"),
        ('"$ours" "$@"; exit 3', "job exited with exit code 3"),
    ],
)
def test_a_run_that_lacks_a_number_fails_and_keeps_what_it_left(
    tmp_path: Path, body: str, reason: str
) -> None:
    done = run(tmp_path, *recipe("cfs-bandwidth"), *SLOWER, IOR=driver(tmp_path, body))
    assert done.returncode == 1
    assert reason in done.stdout, done.stdout
    for access in ("write", "read"):
        kept = {p.name for p in (tmp_path / f"run/cases/cfs-bandwidth-{access}_pfs/1").iterdir()}
        assert {"stdout.txt", "stderr.txt", "job.sh", "df.txt", "plan.json", "tiers.yaml"} <= kept


def test_a_job_that_takes_too_long_keeps_what_it_left_and_leaves_no_data(tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "memory", tmp_path / "elsewhere.py"
    place.mkdir()
    elsewhere.write_text(LOCAL.read_text().replace('"root": "/dev/shm"', f'"root": "{place}"'))
    env = {"IOR": driver(tmp_path, "sleep 100")}
    done = run(tmp_path, *recipe("cfs-bandwidth"), *SLOWER, "-S", "time_limit=2s", site=elsewhere, **env)
    assert done.returncode == 1 and "timed out" in done.stdout
    assert str(place) in (tmp_path / "run/cases/cfs-bandwidth-read_pfs/1/job.sh").read_text()
    assert not list(place.iterdir())


def test_wrong_bytes_and_reads_from_a_cache_end_a_pipeline(tmp_path: Path) -> None:
    env = {**os.environ, "TIERBENCH_RUN_DIR": str(tmp_path / "run"), "IOR": driver(tmp_path, LIES)}
    command = [str(ROOT / "ci" / "run-acceptance"), "1", "-P", "tiers=pfs", "-S", "scale=smoke"]
    done = subprocess.run(
        [*command, *recipe("cfs-bandwidth"), *SLOWER], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 1
    assert "is not what was asked for" in done.stdout  # the trace says so before the bytes are read again
    told = " ".join(done.stdout.split())
    assert "cfs-bandwidth-write, PFS (on the PFS): fail: " in told
    assert "the bytes on the PFS were WRONG" in told
    assert "reads faster than the device can, from a cache: " in told


def test_a_name_that_matches_no_test_is_no_acceptance(tmp_path: Path) -> None:
    """ReFrame, which ends well without a test, is a stub here."""
    for name in ("run-acceptance", "measure.bash"):
        (tmp_path / "ci").mkdir(exist_ok=True)
        shutil.copy(ROOT / "ci" / name, tmp_path / "ci")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/true")
    command = [str(tmp_path / "ci" / "run-acceptance"), "1", "-n", "nonesuch"]
    # The suite's modules name a run folder in the checkout when they are imported here: it is not this run's.
    env = {**os.environ, "TIERBENCH_RUN_DIR": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 2 and "no test ran to its end" in done.stderr
    assert len(list(tmp_path.glob("results/runs/*"))) == 1


def test_a_list_says_what_each_test_is() -> None:
    listed = [str(REFRAME), "-C", str(LOCAL), "-c", "reframe_tests/webinar.py", "-L"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "description: all ranks write 1 MiB transfers with" in done.stdout
    assert "description: <none>" not in done.stdout


# --- a result ----------------------------------------------------------------------------------------------


def test_a_result_says_what_it_stands_on(tmp_path: Path) -> None:
    done = run(tmp_path, *recipe("perlmutter-read"), "-S", "trace=1")
    assert done.returncode == 0, done.stdout
    folder = tmp_path / "run/cases/perlmutter-read-read_pfs/1"
    case = json.loads((folder / "case.json").read_text())
    assert case["sustained"] is True and case["sustained_by"].startswith("the trace, largest offset read")
    assert case["medium"] >= 2 * case["expected"] > 0 and case["factor"] == 16
    assert 0 <= case["full_percent"] < 100 and case["verified"] is True
    assert case["scale"] == "smoke" and "nodes: 1 of 1382 (90 % of the machine's)" in case["dropped"]
    assert f"{case['value']:.2f}" in (folder / "stdout.txt").read_text()
    assert json.loads((tmp_path / "run" / "medium.json").read_text())
