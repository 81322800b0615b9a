"""The job script of Summit's tutorial for Spectral, as the suite writes it, against the tutorial's."""

import subprocess

import pytest
from test_suite import REFRAME

from common.sites.tiers import ROOT

TUTORIAL = """#BSUB -W 20
#BSUB -nnodes 2
#BSUB -alloc_flags spectral
module load spectral
export PERSIST_DIR=/mnt/bb/$USER
timest=$(date +%s)
mkdir nvme_output_$timest
export PFS_DIR=$PWD/nvme_output_$timest
jsrun -n 2 -r 1 -a 16 -c 16 ./bin/ior -t 16m -b 19200m -F -g -G 27 -k -e -o /mnt/bb/$USER/ior_file_easy
jsrun -n 2 -r 1 ls -l /mnt/bb/$USER/
spectral_wait.py
""".splitlines()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("summit")
    site = ["-C", "configs/sites/summit.py", "--system=summit", "-c", "reframe_tests/stage.py"]
    done = subprocess.run(
        [str(REFRAME), *site, "--dry-run", "--prefix", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    (found,) = folder.rglob("rfm_job.sh")
    return found.read_text().splitlines()


def test_all_lines_of_the_tutorial_are_there(script: list[str]) -> None:
    assert set(TUTORIAL) <= set(script)


def test_commands_are_in_the_tutorials_order(script: list[str]) -> None:
    commands = [line for line in TUTORIAL if not line.startswith("#BSUB")]
    assert [line for line in script if line in commands] == commands
