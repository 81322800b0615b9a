"""The job scripts of the published sites hold the published command lines, token by token.

The lines below are copied from the sources once more, by hand, and not from the recipes.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_suite import REFRAME

from common.jobs import own_files
from common.sites.tiers import ROOT

POSIX = "-a POSIX -F -C -e -g -k -b 4m -t 4m -s 1638 -o $SCRATCH/IOR_file -v"
MPIIO = "-a MPIIO -c -C -g -b 8m -t 8m -k -H -v -s 51 -o $SCRATCH/IOR_file"
STRIDED = "-t 1m -b 1m -s 100000 -a POSIX -F -e -g -vv -C -o"
SUMMIT = "-r 1 -a 16 -c 16 ./bin/ior -t 16m -b 19200m -F -g -G 27 -k -e -o"
RANDOM = (
    "srun ./ior -w -t 4m -k -a POSIX -F -b 16g -e -g -vv -C -D 45 -o /pscratch/IOR-random.read.out -O stoneWallingWearOut=1",  # noqa: E501
    "srun ./ior -r -t 4k -z -a POSIX -F -b 16g -e -g -vv -C -D 45 -o /pscratch/IOR-random.read.out",
)
# Recipe: nodes, ranks, ranks a node, launch lines.
PUBLISHED: dict[str, tuple[int, int, int, tuple[str, ...]]] = {
    "cori-lustre-1-posix": (960, 3840, 4, (f"srun ./IOR -w {POSIX}", f"srun ./IOR -r {POSIX}")),
    "cori-lustre-1-mpiio": (960, 30720, 32, (f"srun ./IOR -w {MPIIO}", f"srun ./IOR -r {MPIIO}")),
    "cori-lustre-2-knl-buffered": (960, 7680, 8, (f"srun ./IOR -w {POSIX}", f"srun ./IOR -r {POSIX}")),
    "cori-lustre-2-knl-direct": (960, 7680, 8, (f"srun ./IOR -w {POSIX} -B", f"srun ./IOR -r {POSIX} -B")),
    "cori-lustre-2-haswell": (960, 3840, 4, (f"srun ./IOR -w {POSIX}", f"srun ./IOR -r {POSIX}")),
    "cori-datawarp-1-mpiio": (
        1120,
        4480,
        4,
        ("srun ./IOR -a MPIIO -g -t 512k -b 8g -o $DW_JOB_STRIPED/IOR_file -v",),
    ),
    "cori-datawarp-1-posix": (
        1120,
        4480,
        4,
        ("srun ./IOR -a POSIX -F -e -g -t 512k -b 8g -o $DW_JOB_STRIPED/IOR_file -v",),
    ),
    "cori-datawarp-1-iops": (
        1120,
        4480,
        4,
        ("srun ./IOR -a POSIX -F -e -g -t 4k -b 1g -o $DW_JOB_STRIPED/IOR_file -v -z",),
    ),
    "cori-datawarp-2-posix": (
        11000,
        44000,
        4,
        ("srun ./IOR -a POSIX -F -e -g -t 1M -b 8G -o $DW_JOB_STRIPED/IOR_file -v",),
    ),
    "cori-datawarp-2-mpiio": (
        11000,
        44000,
        4,
        ("srun ./IOR -a MPIIO -g -t 1M -b 8G -o $DW_JOB_STRIPED/IOR_file -v",),
    ),
    "cori-datawarp-2-iops": (
        11000,
        44000,
        4,
        ("srun ./IOR -a POSIX -F -e -g -t 4k -b 1g -o $DW_JOB_STRIPED/IOR_file -v -z",),
    ),
    "cfs-iops": (
        28,
        184,
        8,
        ("mpirun -n 184 --map-by node ./ior -w -r -z -e -C -F -t 4k -b 1g -o /global/cfs/iorfpprandfile",),
    ),
    "cfs-bandwidth": (
        51,
        408,
        8,
        (
            "mpirun -n 408 --map-by node ./ior -w -r -e -C -F -t 1024k -b 32g -o /global/cfs/iorfppseqfile1MiB",  # noqa: E501
        ),
    ),
    "perlmutter-write": (1382, 5528, 4, (f"srun ./ior -w {STRIDED} /pscratch/IOR-strided.out -D 45",)),
    "perlmutter-write-64m": (
        1024,
        4096,
        4,
        (
            "srun ./ior -w -F -e -g -vv -O lustrestripecount=1 -t 64m -b 64g -D 45 -k -o /global/homes/g/glock/testFile",  # noqa: E501
        ),
    ),
    "perlmutter-read": (
        1382,
        5528,
        4,
        (
            f"srun ./ior -w {STRIDED} /pscratch/IOR-strided.out -k -O stoneWallingWearOut=1 -D 90",
            f"srun ./ior -r {STRIDED} /pscratch//IOR-strided.out -k -D 30",
        ),
    ),
    "perlmutter-write-iops": (
        230,
        7360,
        32,
        ("srun ./ior -w -t 4k -z -a POSIX -F -b 16g -e -g -vv -C -D 45 -o /pscratch/IOR-random.write.out",),
    ),
    "perlmutter-read-iops": (230, 7360, 32, RANDOM),
    "perlmutter-read-iops-1024": (1024, 32768, 32, RANDOM),
    "summit-gpfs-2": (2, 32, 16, (f"jsrun -n 2 {SUMMIT} ./output/ior_file_easy",)),
    "summit-nvme-2": (2, 32, 16, (f"jsrun -n 2 {SUMMIT} /mnt/bb/$USER/ior_file_easy",)),
    "summit-gpfs-1100": (1100, 17600, 16, (f"jsrun -n 1100 {SUMMIT} ./output/ior_file_easy",)),
    "summit-nvme-1100": (1100, 17600, 16, (f"jsrun -n 1100 {SUMMIT} /mnt/bb/$USER/ior_file_easy",)),
    "summit-metadata-gpfs": (1, 2, 2, ("jsrun -n 2 -r 2 -a 1 -c 1 ./metadata",)),
    "summit-metadata-nvme": (1, 2, 2, ("jsrun -n 2 -r 2 -a 1 -c 1 --chdir ${BBPATH} ./metadata",)),
}
CONDITIONS = {
    "cori-lustre-1-mpiio": [
        "lfs setstripe -S 8m -c $(lfs df $SCRATCH | grep -c OST) $SCRATCH",
        "export MPICH_MPIIO_HINTS=*:romio_cb_write=disable:romio_cb_read=disable",
    ],
    "cori-datawarp-1-posix": ["#DW jobdw type=scratch access_mode=striped capacity=35840GiB"],
    "summit-nvme-2": [
        "#BSUB -alloc_flags NVME",
        "#BSUB -W 20",
        "jsrun -n 2 -r 1 cp -r /mnt/bb/$USER/ ./nvme_output_$timest/",
    ],
    "summit-metadata-nvme": ["export BBPATH=/mnt/bb/$USER", "jsrun -n 1 cp metadata ${BBPATH}", "#BSUB -W 2"],
}
NAMES = {"cori": "Cori", "cfs": "Cfs", "perlmutter": "Perlmutter", "summit": "Summit"}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Lines of the job script of every recipe, from a dry run on its site."""
    found = {}
    for system in NAMES:
        folder = tmp_path_factory.mktemp(system)
        site = ["-C", f"configs/sites/{system}.py", f"--system={system}", "-P", "tiers=pfs", "-t", system]
        options = ["-c", "reframe_tests", "-R", "--dry-run", "--prefix", str(folder)]
        done = subprocess.run(
            [str(REFRAME), *site, *options], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        for script in folder.rglob("rfm_job.sh"):
            found[_recipe_of(script, done.stdout)] = script.read_text().splitlines()
    return found


def _recipe_of(script: Path, output: str) -> str:
    """The test's hash in the name of its folder leads to its parameters."""
    digest = script.parent.name.rpartition("_")[2]
    line = next(x for x in output.splitlines() if f"/{digest} " in x)
    return line.partition("%recipe=")[2].split()[0]


def _tokens(line: str) -> list[str]:
    return shlex.split(line, posix=False)


def test_every_recipe_makes_one_script(scripts: dict[str, list[str]]) -> None:
    assert scripts.keys() == PUBLISHED.keys()


@pytest.mark.parametrize("recipe", PUBLISHED)
def test_launch_lines_are_the_published_ones(scripts: dict[str, list[str]], recipe: str) -> None:
    marks = [i for i, line in enumerate(scripts[recipe]) if "begins at" in line]
    launched = [_tokens(scripts[recipe][i + 1]) for i in marks]
    assert launched == [_tokens(line) for line in PUBLISHED[recipe][3]]


@pytest.mark.parametrize("recipe", PUBLISHED)
def test_nodes_and_tasks_are_right(scripts: dict[str, list[str]], recipe: str) -> None:
    nodes, ranks, per_node, _ = PUBLISHED[recipe]
    lines = scripts[recipe]
    if recipe.startswith("summit"):
        assert f"#BSUB -nnodes {nodes}" in lines
        return
    for option in (f"--nodes={nodes}", f"--ntasks={ranks}", f"--ntasks-per-node={per_node}"):
        assert f"#SBATCH {option}" in lines


@pytest.mark.parametrize("recipe", CONDITIONS)
def test_conditions_stand_in_the_script(scripts: dict[str, list[str]], recipe: str) -> None:
    for condition in CONDITIONS[recipe]:
        assert condition in scripts[recipe]


STUBS = {
    "lfs": 'echo "lfs $*" >> calls\n[ "$1" = getstripe ] && echo "count: 4"; [ "$1" != df ] || echo OST',
    # What a launch leaves, before it has ended by itself.
    "srun": 'echo "srun $*" >> calls\ntouch $SCRATCH/IOR_file $SCRATCH/IOR_file.00000001\nHOW',
}
UNDONE = "lfs setstripe --yaml {0}/.tierbench-stripes.yaml {0}"


def striped(
    scripts: dict[str, list[str]],
    tmp_path: Path,
    how: str,
    lfs: str = "",
    recipe: str = "cori-lustre-1-mpiio",
) -> tuple[subprocess.Popen[str], Path]:
    """Start the published job of Lustre with stand-ins for lfs and srun, which ends as `how` says."""
    scratch, stage = tmp_path / "scratch", tmp_path / "stage"
    for folder in (scratch, stage, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
    for name, body in STUBS.items():
        (tmp_path / "bin" / name).write_text(
            "#!/bin/bash\n" + body.replace("HOW", how) + f"\n{lfs if name == 'lfs' else ''}"
        )
        (tmp_path / "bin" / name).chmod(0o755)
    for theirs in ("mine", "IOR_file.old", "IOR_file.00000000"):
        (scratch / theirs).write_text("the user's")
    (tmp_path / "job.sh").write_text("\n".join(scripts[recipe]) + "\n")
    found = {**os.environ, "SCRATCH": str(scratch), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    job = subprocess.Popen(
        ["bash", tmp_path / "job.sh"],
        cwd=stage,
        env=found,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return job, scratch


def undone(tmp_path: Path, scratch: Path) -> bool:
    """What the recipe set was put back as the last thing, and of the files the user's alone are left."""
    calls = (tmp_path / "stage" / "calls").read_text().splitlines()
    assert calls[0] == f"lfs getstripe -d --yaml {scratch}" and calls[1:3] == [
        f"lfs df {scratch}",
        f"lfs setstripe -S 8m -c 1 {scratch}",
    ]
    assert calls[3].startswith("srun ")
    left = sorted(p.name for p in scratch.iterdir())
    return calls[-1] == UNDONE.format(scratch) and left == ["IOR_file.00000000", "IOR_file.old", "mine"]


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("truncate -s 13142599925760 $SCRATCH/IOR_file", 0),
        ("true", 2),
        ("exit 3", 3),
    ],
)
def test_what_a_published_run_sets_and_leaves_is_undone(
    scripts: dict[str, list[str]], tmp_path: Path, how: str, status: int
) -> None:
    job, scratch = striped(scripts, tmp_path, how)
    told, _ = job.communicate(timeout=60)
    assert job.returncode == status and "2 files that this job made were removed" in told, told
    assert undone(tmp_path, scratch)


def test_it_is_undone_after_a_signal_in_the_middle(scripts: dict[str, list[str]], tmp_path: Path) -> None:
    job, scratch = striped(scripts, tmp_path, "exec sleep 60")
    deadline = time.monotonic() + 30
    while not (scratch / "IOR_file.00000001").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(job.pid, signal.SIGTERM)
    assert job.wait(30) == 143
    assert undone(tmp_path, scratch)


@pytest.mark.parametrize("recipe", ["cori-lustre-1-mpiio", "cori-lustre-1-posix"])
def test_what_a_killed_job_set_is_undone_by_the_next(
    scripts: dict[str, list[str]], recipe: str, tmp_path: Path
) -> None:
    """It knows the stripes as they were before the first, and notes no others, also where it sets none."""
    job, scratch = striped(scripts, tmp_path, "exec sleep 60")
    deadline = time.monotonic() + 60
    while not (scratch / "IOR_file.00000001").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(job.pid, signal.SIGKILL)
    assert job.wait(30) == -signal.SIGKILL
    note, calls = scratch / ".tierbench-stripes.yaml", tmp_path / "stage" / "calls"
    assert note.read_text() == "count: 4\n"
    calls.unlink()
    job, scratch = striped(scripts, tmp_path, "exit 3", recipe=recipe)
    assert job.wait(60) == 3 and not note.exists()
    stripes = [x for x in calls.read_text().splitlines() if "stripe" in x]
    assert stripes[-1] == UNDONE.format(scratch) and not any("getstripe" in x for x in stripes)


@pytest.mark.parametrize("broken", ["getstripe", "setstripe"])
def test_stripes_that_cannot_be_read_or_set_back(
    scripts: dict[str, list[str]], broken: str, tmp_path: Path
) -> None:
    """What is not known is not changed; what cannot be set back is said, and its note stays."""
    fails = f'[ "$1" != {broken} ] || [ "$2" = -S ] || exit 1'
    job, scratch = striped(scripts, tmp_path, "exit 3", lfs=fails)
    told, _ = job.communicate(timeout=60)
    calls = (tmp_path / "stage" / "calls").read_text()
    note = scratch / ".tierbench-stripes.yaml"
    if broken == "getstripe":
        assert job.returncode == 1 and "setstripe" not in calls and not note.exists()
    else:
        assert job.returncode == 3 and f"{scratch} keeps its stripes" in told and note.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_all_processes_while_it_is_undone_leaves_nothing(
    scripts: dict[str, list[str]], tmp_path: Path, number: signal.Signals
) -> None:
    """The stripes are set back slowly, and the signal comes then."""
    slowly = '[ "$2" != --yaml ] || { touch undoing; sleep 2; touch undone; }\n'
    job, scratch = striped(scripts, tmp_path, "exit 3", lfs=slowly)
    deadline = time.monotonic() + 60
    while not (tmp_path / "stage" / "undoing").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(job.pid, number)
    assert job.wait(60) == 3 and (tmp_path / "stage" / "undone").exists()
    assert undone(tmp_path, scratch)


def test_files_that_were_there_before_stay_the_users(tmp_path: Path) -> None:
    for name in ("data", "data.00000003", "data.txt"):
        (tmp_path / name).touch()
    own_files.note(tmp_path / "list", [str(tmp_path / "data"), str(tmp_path / "none" / "x")])
    for name in ("data.00000004", "data.00000005.1", "data.123", "database"):
        (tmp_path / name).touch()
    (tmp_path / "data.00000006").symlink_to(tmp_path / "data")
    assert own_files.remove(tmp_path / "list") == 2
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["data", "data.00000003", "data.00000006", "data.123", "data.txt", "database", "list"]


def test_files_of_another_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_files.note(tmp_path / "list", [str(tmp_path / "data")])
    (tmp_path / "data").touch()
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert own_files.remove(tmp_path / "list") == 0
    assert (tmp_path / "data").exists()


def test_write_and_read_are_separate_launches(scripts: dict[str, list[str]]) -> None:
    for recipe, (_, _, _, lines) in PUBLISHED.items():
        assert sum("begins at" in line for line in scripts[recipe]) == len(lines)
