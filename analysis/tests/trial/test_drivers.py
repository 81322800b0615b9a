"""IOR and recipes in the place of a program, and the places of a site file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierbench.base.errors import RunError
from tierbench.recipes import published
from tierbench.site import site_reader
from tierbench.trial import drivers


@pytest.fixture(autouse=True)
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 4 cores with Open MPI and the programs of the build, and no ior of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("mpirun", "tb-ior", "tb-mdtest"):
        (folder / name).write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4'\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("IOR", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr(drivers, "program", lambda name: folder / name)


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("-w -t 1m", (), "-w -t 1m -o {pfs}/ior.data -k -G 1"),
        ("mpirun -n 4 ior -w -F", ("mpirun", "-n", "4"), "-w -F -o {pfs}/ior.data -k -G 1"),
        ("srun -n 4 /opt/IOR -w -k -o {pfs}/x -G 7", ("srun", "-n", "4"), "-w -k -o {pfs}/x -G 7"),
        ("--testFile={pfs}/x --keepFile", (), "--testFile={pfs}/x --keepFile -G 1"),
    ],
)
def test_a_line_of_ior(line: str, before: tuple[str, ...], after: str, tmp_path: Path) -> None:
    made = drivers.ior(line)
    assert made.command == (*before, str(tmp_path / "bin" / "tb-ior"), *after.split())
    assert "the embedded one, since PATH has no ior" in made.notes[0]


def test_the_sites_ior_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin" / "ior").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "ior").chmod(0o755)
    assert drivers.ior("-w").command[0] == str(tmp_path / "bin" / "ior")
    assert drivers.ior("-w").notes[0].endswith("of this site")
    monkeypatch.setenv("IOR", "/opt/ior")
    assert drivers.ior("-w").command[0] == "/opt/ior"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "''; allowed: options of IOR"),
        ("mpirun -n 4", "allowed: options of IOR, or a launcher, ior and its options"),
        ("-w -o /scratch/x", "-o /scratch/x; allowed: a name below {pfs}"),
        ("-w 'x", "No closing quotation; allowed: words as a shell reads them"),
    ],
)
def test_lines_that_are_refused(line: str, told: str) -> None:
    with pytest.raises(RunError) as e:
        drivers.ior(line)
    assert told in str(e.value)


def test_a_recipe_keeps_its_pattern_at_this_nodes_size(tmp_path: Path) -> None:
    made = drivers.recipe("cori-lustre-1-posix")
    assert made.command[:2] == ("sh", "-c") and made.command[3:] == ("sh", "{pfs}")
    write, read = made.command[2].split("\n")[-2:]
    start = f"mpirun -n 4 {tmp_path}/bin/tb-ior -w -a POSIX -F -C -e -g -k -b 4m -t 4m -s 1638"
    assert write.startswith(start) and " -r " in read
    assert write.endswith('-o "$1/ior.data" -b 4194304 -s 64 -k -G 1')
    assert made.notes == (
        "recipe cori-lustre-1-posix: 4 of 3840 processes, 1 GiB in all, without the site's settings",
    )


def test_every_recipe_of_ior_has_a_size_and_no_deadline() -> None:
    for recipe in published.read_recipes():
        if any(launch.program_name != "ior" for launch in recipe.launches):
            with pytest.raises(RunError, match="allowed: cfs-iops"):
                drivers.recipe(recipe.name)
            continue
        lines = [x for x in drivers.recipe(recipe.name).command[2].split("\n") if "tb-ior" in x]
        assert len(lines) == len(recipe.launches)
        for line in lines:
            words = line.split()
            assert ("-D" in words) <= ("-D 0" in line.rpartition("-s")[2])
            size, count = (int(words[len(words) - 1 - words[::-1].index(o) + 1]) for o in ("-b", "-s"))
            assert 0 < size * count * 4 <= 1 << 30


def test_a_recipe_of_rules(tmp_path: Path) -> None:
    made = drivers.recipe("mdtest-unique-node")
    assert made.command[2].split("\n")[-2:] == [
        'mkdir -p "$1/mdtest"',
        f'mpirun -n 4 {tmp_path}/bin/tb-mdtest -F -C -T -r -n 2500 -d "$1/mdtest" -N 4 -u',
    ]
    with pytest.raises(RunError, match="'io500'"):
        drivers.recipe("io500")  # timed by its rules, so that its work is not the same each time


SITE = """\
site_configuration = {"systems": [{"name": "s", "partitions": [
    {"name": "login", "scheduler": "local"},
    {"name": "batch", "scheduler": "slurm", "env_vars": [["A", "1"]],
     "extras": {"tiers": "real", "pfs": "/lustre", "nvme": "/nvme", "per_node": "srun"}},
]}]}
"""


def test_the_places_of_a_site(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SITE)
    found = site_reader.read(tmp_path / "s.py")
    assert found.places == {"pfs": "/lustre", "nvme": "/nvme"}
    assert (found.name, found.scheduler, found.variables) == ("s:batch", "slurm", (("A", "1"),))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", "s.py: lacks 'site_configuration'; allowed: a site file"),
        ("site_configuration = {}\n", "s.py: lacks 'systems'; allowed: a site file"),
        (SITE.replace('[["A", "1"]]', '["A=1"]'), "ValueError: "),
        ("def f(:\n", "SyntaxError: "),
        ("raise SystemExit(7)\n", "SystemExit: 7"),
        (SITE.replace('"pfs"', '"p"'), "no partition's extras name a pfs"),
        ("site_configuration = 7\n", "TypeError: "),
    ],
)
def test_files_that_are_no_site(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(text)
    with pytest.raises(RunError) as e:
        site_reader.read(tmp_path / "s.py")
    assert f"--site: {tmp_path / 's.py'}: " in str(e.value) and told in str(e.value)
    with pytest.raises(RunError, match="is a directory; allowed: a site file"):
        site_reader.read(tmp_path)


@pytest.mark.parametrize(
    ("words", "root", "told"),
    [
        (["mpirun", "-n", "2", "./model"], True, True),
        (["/usr/bin/env", "/opt/bin/mpiexec", "./model"], True, True),
        (["mpirun", "-n", "2", "./model"], False, False),
        (["./model", "{pfs}/mpirun.data"], True, False),
    ],
)
def test_root_may_start_open_mpi(
    words: list[str], root: bool, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    made = drivers.command(words)
    assert made.command == tuple(words)
    assert [name for name, _ in made.variables] == [
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    ] * told
    assert ("mpirun runs as root by OMPI_ALLOW_RUN_AS_ROOT=1" in "".join(made.notes)) is told
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    assert drivers.command(words).variables == ()
