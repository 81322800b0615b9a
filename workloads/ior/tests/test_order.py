"""Where tb-ior's transfers go, as strace sees them, and of which rank the data are that a rank reads."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from case import expected
from driver import Ior


def offsets(ior: Ior, options: str, ranks: int, call: str = "write") -> list[list[int]]:
    """Each rank's transfers of 8 bytes, by their number in the file, in the order it makes them."""
    strace = 'exec strace -qq -y -e trace=lseek,write,read -o trace.$OMPI_COMM_WORLD_RANK "$0" "$@"'
    ior.run(f"-t 8 {options}", ranks, before=("sh", "-c", strace))
    pattern = re.compile(rf"lseek\(\d+<{ior.file}[^,]*, (\d+), .*\n{call}\(\d+<{ior.file}.*, 8\) += 8")
    texts = ((ior.folder / f"trace.{rank}").read_text() for rank in range(ranks))
    return [[int(offset) // 8 for offset in pattern.findall(text)] for text in texts]


def test_random_order_is_that_of_ior(ior: Ior) -> None:
    """Orders that IOR 4.0.0 was seen to make."""
    orders = offsets(ior, "-w -z -F -b 64 -s 2 --random-offset-seed=3", 2)
    first, second = [7, 4, 2, 0, 5, 1, 3, 6], [5, 1, 2, 7, 6, 3, 0, 4]
    assert orders == [first + [8 + n for n in first], second + [8 + n for n in second]]
    shared = offsets(ior, "-w -z -b 64 --random-offset-seed=3", 2)
    assert shared == [[6, 3, 0, 10, 5, 7, 11, 14, 2, 9], [15, 13, 4, 12, 8, 1]]


@pytest.mark.parametrize("options", ["", "-F"])
def test_random_covers_each_offset_once(ior: Ior, options: str) -> None:
    orders = offsets(ior, f"-w -z -b 256 -s 2 {options}", 3)
    for order in orders if options else [[n for part in orders for n in part]]:
        assert Counter(order) == Counter(range(64 if options else 192))
        assert order != sorted(order)


def test_random_order_without_a_table(ior: Ior) -> None:
    """Above a million transfers a permutation is computed: it fills the file and is read back."""
    for mode in ("", "-F"):
        ior.run(f"-a MMAP -w -r -R -W -k -z -G 5 -t 8 -b 8388616 {mode}")
    content = ior.of_rank(1).read_bytes()[:8388616]
    assert content == expected(5, 1, 8) * (8388616 // 8)
    data = ior.file.read_bytes()
    assert Counter(data[i] for i in range(4, len(data), 8)) == Counter({0: 1048577, 1: 1048577})


def test_random_reads_what_was_written(ior: Ior) -> None:
    ior.run("-w -r -R -W -z -G 5 -t 256 -b 4k -s 2", ranks=3)
    ior.run("-w -r -R -z -F -C -G 5 -t 256 -b 4k -s 2", ranks=2)


@pytest.mark.parametrize("order", ["-C", "-C -F -Q 2", "-Z -X 3 -F", "-Z -X 4 -z -F", "-C -a MPIIO -c"])
def test_other_ranks_data(ior: Ior, order: str) -> None:
    ior.run(f"-w -r -W -R -t 4k -b 64k -s 2 {order}", ranks=3)


def test_order_of_some_ranks_is_that_of_all(ior: Ior) -> None:
    """-C goes on by the ranks that a node has, also those that -N leaves out."""
    ior.run("-w -k -F -t 8 -b 8 -G 7 -N 2", ranks=3)
    ior.of_rank(1).unlink()
    ior.run("-r -R -k -F -t 8 -b 8 -G 7 -N 1", ranks=3)
    trace = offsets(ior, "-w -r -F -C -b 8 -N 2", 3, call="read")
    assert [len(order) for order in trace] == [1, 1, 0]


def test_random_task_is_that_of_ior(ior: Ior) -> None:
    """-Z -X 4 on three ranks: rank 0 reads 1, rank 1 reads 2, rank 2 reads its own."""
    ior.run("-w -k -F -t 8 -b 8 -G 7", ranks=3)
    ior.of_rank(0).unlink()
    ior.run("-r -R -k -F -t 8 -b 8 -G 7 -Z -X 4", ranks=3)
    ior.run("-r -R -k -F -t 8 -b 8 -G 7 -Z -X 2", ranks=3, status=3)


def test_negative_seed_changes_with_the_repetition(ior: Ior) -> None:
    """-X -1, as IOR 4.0.0: ranks read 1, 1, 2 (as with 1), then 0, 1, 0 (as with 2)."""
    ior.run("-w -k -F -m -i 2 -t 8 -b 8 -G 7", ranks=3)
    for unread in ("0.0", "2.1"):
        (ior.folder / f"data.0000000{unread}").unlink()
    ior.run("-r -R -k -F -m -i 2 -t 8 -b 8 -G 7 -Z -X -1", ranks=3)


def test_ranks_take_turns_on_names(ior: Ior) -> None:
    """-o a@b, as IOR 4.0.0: each rank has its own of the names, a shared file the first."""
    ior.run("-o a@b@ -w -r -R -W -k -F -m -C -t 8 -b 8", ranks=3)
    assert ior.names() == ["a.00000000.0", "a.00000002.0", "b.00000001.0"]
    ior.run("-o a@b@ -r -F -m -t 8 -b 8", ranks=3)
    text = ior.run("-o a@b -w -k -t 8 -b 8").stdout
    assert ior.names() == ["a"]
    assert "\nPath                : a\n" in text
