"""tb-mdtest's tree against names computed here: names, shapes, and which rank works on which items."""

from __future__ import annotations

import re

import pytest
from driver import Mdtest


def tree(prefix: str, branching: int, depth: int) -> list[str]:
    """Paths of the tree's directories in the order of their numbers."""
    paths = [f"{prefix}.0"]
    level = [0]
    for _ in range(depth):
        level = [parent * branching + child for parent in level for child in range(1, branching + 1)]
        paths += [f"{paths[(n - 1) // branching]}/{prefix}.{n}" for n in level]
    return paths


@pytest.mark.parametrize(
    ("branching", "depth", "per_dir", "ranks"), [(1, 0, 3, 1), (2, 2, 1, 1), (3, 1, 2, 2)]
)
def test_items_lie_where_their_number_says(
    mdtest: Mdtest, branching: int, depth: int, per_dir: int, ranks: int
) -> None:
    mdtest.run(f"-C -z {depth} -b {branching} -I {per_dir}", ranks)
    dirs = tree("mdtest_tree", branching, depth)
    items = [
        f"{dirs[n // per_dir]}/{kind}.mdtest.{rank}.{n}"
        for kind in ("dir", "file")
        for rank in range(ranks)
        for n in range(per_dir * len(dirs))
    ]
    assert mdtest.names() == sorted(["test-dir.0-0", *(f"test-dir.0-0/{p}" for p in dirs + items)])
    mdtest.run(f"-r -z {depth} -b {branching} -I {per_dir}", ranks)
    assert mdtest.names() == []


def test_leaves(mdtest: Mdtest) -> None:
    mdtest.run("-C -F -L -z 1 -b 2 -n 4")
    dirs = tree("mdtest_tree", 2, 1)
    items = [f"{dirs[n // 2]}/file.mdtest.0.{n}" for n in range(2, 6)]
    assert mdtest.names() == sorted(["test-dir.0-0", *(f"test-dir.0-0/{p}" for p in dirs + items)])


def test_unique_trees_in_two_places(mdtest: Mdtest) -> None:
    mdtest.run(f"-C -F -u -n 2 -d {mdtest.folder}/a@{mdtest.folder}/b", ranks=3)
    expected = {"a", "b", "a/test-dir.0-0", "b/test-dir.0-0"}
    for rank in range(3):
        top = f"{'ab'[rank % 2]}/test-dir.0-0/mdtest_tree.{rank}.0"
        expected |= {top, *(f"{top}/file.mdtest.{rank}.{n}" for n in range(2))}
    assert mdtest.names() == sorted(expected)
    mdtest.run(f"-F -r -u -n 2 -d {mdtest.folder}/a@{mdtest.folder}/b", ranks=3)
    assert mdtest.names() == ["a", "b"]


def test_loops(mdtest: Mdtest) -> None:
    mdtest.run("-C -F -n 4 -I 2")
    tops = [f"test-dir.0-{loop}" for loop in range(2)]
    trees = [f"{top}/mdtest_tree.0" for top in tops]
    files = [f"{tree}/file.mdtest.0.{n}" for tree in trees for n in range(2)]
    assert mdtest.names() == sorted(tops + trees + files)


def test_directory_that_was_missing_goes(mdtest: Mdtest) -> None:
    mdtest.run(f"-n 2 -i 2 -d {mdtest.folder}/new", ranks=2)
    assert mdtest.names() == []
    (mdtest.folder / "old").mkdir()
    mdtest.run(f"-n 2 -d {mdtest.folder}/old", ranks=2)
    assert mdtest.names() == ["old"]


def test_everything_goes(mdtest: Mdtest) -> None:
    for line in (
        "-u -z 2 -b 2 -I 2 -i 2",
        "-S -n 4 -w 8",
        "-c -n 3 -w 9",
        "-R -n 9 -N 1 -u -y -w 1k -e 1k -X",
    ):
        mdtest.run(line, ranks=3)
        assert mdtest.names() == [], line
    for line in ("-n 3 -i 2 --verify-write -w 10", "-k -F -n 3 -Y", "-n 2 -B 1 -L -z 2"):
        mdtest.run(line)
        assert mdtest.names() == [], line


def test_stride(mdtest: Mdtest) -> None:
    """With -N 1 a rank stats the next one's items, reads those of the second, and removes the third's."""
    strace = 'exec strace -qq -e trace=%file -o trace.$OMPI_COMM_WORLD_RANK "$0" "$@"'
    mdtest.run("-n 1 -N 1 -w 1 -e 1", ranks=4, before=("sh", "-c", strace))
    for rank in range(4):
        calls = re.findall(
            r"(\w+)\(.*(dir|file)\.mdtest\.(\d)\.0\".*= \d+", (mdtest.folder / f"trace.{rank}").read_text()
        )
        owners = [(kind, (int(owner) - rank) % 4) for _, kind, owner in calls]
        assert owners == [("dir", 0), ("dir", 1), ("dir", 3), *(("file", n) for n in range(4))]


def test_renames_leave_every_name(mdtest: Mdtest) -> None:
    mdtest.run("-C -D -n 5")
    before = mdtest.names()
    mdtest.run("-r -D -n 5")
    mdtest.run("-D -n 5", before=("strace", "-qq", "-e", "trace=rename", "-o", "trace"))
    renames = re.findall(r"\.(\d(?:-XX)?)\", \"\S*\.(\d(?:-XX)?)\"", (mdtest.folder / "trace").read_text())
    assert renames == [("0", "0-XX"), ("1", "0"), ("2", "1"), ("3", "2"), ("0-XX", "3")]
    assert len(before) == 7
