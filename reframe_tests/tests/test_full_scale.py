"""The job scripts of the published sites hold the published command lines, token by token.

The lines below are copied from the sources once more, by hand, and not from the recipes.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from test_suite import REFRAME

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
        1120, 4480, 4, ("srun ./IOR -a MPIIO -g -t 512k -b 8g -o $DW_JOB_STRIPED/IOR_file -v",)),
    "cori-datawarp-1-posix": (
        1120, 4480, 4, ("srun ./IOR -a POSIX -F -e -g -t 512k -b 8g -o $DW_JOB_STRIPED/IOR_file -v",)),
    "cori-datawarp-1-iops": (
        1120, 4480, 4, ("srun ./IOR -a POSIX -F -e -g -t 4k -b 1g -o $DW_JOB_STRIPED/IOR_file -v -z",)),
    "cori-datawarp-2-posix": (
        11000, 44000, 4, ("srun ./IOR -a POSIX -F -e -g -t 1M -b 8G -o $DW_JOB_STRIPED/IOR_file -v",)),
    "cori-datawarp-2-mpiio": (
        11000, 44000, 4, ("srun ./IOR -a MPIIO -g -t 1M -b 8G -o $DW_JOB_STRIPED/IOR_file -v",)),
    "cori-datawarp-2-iops": (
        11000, 44000, 4, ("srun ./IOR -a POSIX -F -e -g -t 4k -b 1g -o $DW_JOB_STRIPED/IOR_file -v -z",)),
    "cfs-iops": (28, 184, 8, (
        "mpirun -n 184 --map-by node ./ior -w -r -z -e -C -F -t 4k -b 1g -o /global/cfs/iorfpprandfile",)),
    "cfs-bandwidth": (51, 408, 8, (
        "mpirun -n 408 --map-by node ./ior -w -r -e -C -F -t 1024k -b 32g -o /global/cfs/iorfppseqfile1MiB",)),  # noqa: E501
    "perlmutter-write": (
        1382, 5528, 4, (f"srun ./ior -w {STRIDED} /pscratch/IOR-strided.out -D 45",)),
    "perlmutter-write-64m": (1024, 4096, 4, (
        "srun ./ior -w -F -e -g -vv -O lustrestripecount=1 -t 64m -b 64g -D 45 -k -o /global/homes/g/glock/testFile",)),  # noqa: E501
    "perlmutter-read": (1382, 5528, 4, (
        f"srun ./ior -w {STRIDED} /pscratch/IOR-strided.out -k -O stoneWallingWearOut=1 -D 90",
        f"srun ./ior -r {STRIDED} /pscratch//IOR-strided.out -k -D 30")),
    "perlmutter-write-iops": (230, 7360, 32, (
        "srun ./ior -w -t 4k -z -a POSIX -F -b 16g -e -g -vv -C -D 45 -o /pscratch/IOR-random.write.out",)),
    "perlmutter-read-iops": (230, 7360, 32, RANDOM),
    "perlmutter-read-iops-1024": (1024, 32768, 32, RANDOM),
    "summit-gpfs-2": (2, 32, 16, (f"jsrun -n 2 {SUMMIT} ./output/ior_file_easy",)),
    "summit-nvme-2": (2, 32, 16, (f"jsrun -n 2 {SUMMIT} /mnt/bb/$USER/ior_file_easy",)),
    "summit-gpfs-1100": (1100, 17600, 16, (f"jsrun -n 1100 {SUMMIT} ./output/ior_file_easy",)),
    "summit-nvme-1100": (1100, 17600, 16, (f"jsrun -n 1100 {SUMMIT} /mnt/bb/$USER/ior_file_easy",)),
    "summit-metadata-gpfs": (1, 2, 2, ("jsrun -n 2 -r 2 -a 1 -c 1 ./metadata",)),
    "summit-metadata-nvme": (1, 2, 2, ("jsrun -n 2 -r 2 -a 1 -c 1 --chdir ${BBPATH} ./metadata",)),
}  # fmt: skip
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


def test_stripes_of_a_directory_are_put_back(scripts: dict[str, list[str]]) -> None:
    lines = scripts["cori-lustre-1-mpiio"]
    kept = next(i for i, x in enumerate(lines) if x.startswith("lfs getstripe -d --yaml $SCRATCH"))
    assert "trap 'lfs setstripe --yaml stripes.yaml $SCRATCH" in lines[kept] and lines[kept].endswith("EXIT")
    assert kept < lines.index(CONDITIONS["cori-lustre-1-mpiio"][0])


def test_write_and_read_are_separate_launches(scripts: dict[str, list[str]]) -> None:
    for recipe, (_, _, _, lines) in PUBLISHED.items():
        assert sum("begins at" in line for line in scripts[recipe]) == len(lines)
