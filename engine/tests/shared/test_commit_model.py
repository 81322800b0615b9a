"""Histories that the commit model allows, and others that it does not."""

from __future__ import annotations

from commit_model import END, ZEROS, Operation, check


class History:
    """Operations one after the other, 10 ns each; `a` to `b` are times where that is not so."""

    def __init__(self) -> None:
        self.now = 0
        self.operations: list[Operation] = []

    def do(self, node: str, kind: str, *span: int, **more: object) -> None:
        begin, end = span or (self.now, self.now + 5)
        self.now = max(self.now, end) + 5
        self.operations.append(Operation(node, 0, kind, begin, end, **more))  # type: ignore[arg-type]

    def write(self, node: str, value: int, at: int, length: int, *span: int) -> None:
        self.do(node, "write", *span, at=at, length=length, value=value)

    def read(self, node: str, *got: tuple[int, int, int], span: tuple[int, ...] = ()) -> None:
        at, end = got[0][0], got[-1][1]
        self.do(node, "read", *span, at=at, length=end - at, got=got)

    def says(self) -> list[str]:
        """Why, and the values of the two writes."""
        return [
            f"{v.why} {v.got.value if v.got else None} {v.other.value if v.other else None}"
            for v in check(self.operations)
        ]


def committed(value: int = 1, node: str = "a", length: int = 100) -> History:
    made = History()
    made.do(node, "open")
    made.write(node, value, 0, length)
    made.do(node, "fsync")
    return made


def test_a_commit_is_seen_after_an_open() -> None:
    made = committed()
    made.do("b", "open")
    made.read("b", (0, 100, 1))
    assert made.says() == []
    made.read("b", (0, 60, 1), (60, 100, ZEROS))
    made.read("b", (0, 60, 1), (60, 100, END))
    assert made.says() == ["is zeros None 1", "the file ends None 1"]


def test_without_a_look_what_was_there_before_may_be_read() -> None:
    made = History()
    made.do("b", "open")
    made.operations += committed().operations
    made.now = 100
    made.read("b", (0, 100, END))
    made.read("b", (0, 100, 1))
    assert made.says() == []
    made.do("b", "fsync")
    made.read("b", (0, 100, END))
    assert made.says() == ["the file ends None 1"]


def test_an_open_by_another_process_of_the_node_is_a_look() -> None:
    made = committed()
    made.operations.append(Operation("b", 7, "open", 100, 110))
    made.operations.append(Operation("b", 8, "read", 120, 130, 0, 100, got=((0, 100, ZEROS),)))
    assert made.says() == ["is zeros None 1"]


def test_a_look_that_began_before_the_commit_ended_orders_nothing() -> None:
    made = committed()
    fsync = made.operations[-1]
    made.do("b", "open", fsync.end - 1, fsync.end + 20)
    made.read("b", (0, 100, END))
    assert made.says() == []


def test_within_a_node_a_write_is_seen_at_once() -> None:
    made = History()
    made.write("a", 1, 0, 100)
    made.write("a", 2, 0, 50)
    made.read("a", (0, 50, 2), (50, 100, 1))
    assert made.says() == []
    made.read("a", (0, 50, 1), (50, 100, 1))
    assert made.says() == ["is old 1 2"]


def test_a_read_that_meets_a_write_has_either() -> None:
    made = committed()
    made.write("a", 2, 0, 100, 100, 200)
    made.read("a", (0, 30, 2), (30, 100, 1), span=(150, 160))
    assert made.says() == []


def test_the_later_commit_counts() -> None:
    made = committed(1, "a")
    made.write("b", 2, 0, 100)
    made.do("b", "fsync")
    for node in "ab":
        made.do(node, "open")
        made.read(node, (0, 100, 2))
    assert made.says() == []
    made.read("a", (0, 100, 1))
    made.read("b", (0, 100, 1))
    assert made.says() == ["is old 1 2", "is old 1 2"]


def both_wrote() -> History:
    made = History()
    made.write("a", 1, 0, 100, 0, 10)
    made.write("b", 2, 50, 100, 0, 10)
    return made


def test_a_write_before_the_other_commit_returned_has_no_order() -> None:
    made = both_wrote()
    made.do("b", "fsync")
    made.do("a", "fsync")
    for got in (((0, 100, 1), (100, 150, 2)), ((0, 50, 1), (50, 150, 2))):
        for node in "ab":
            made.do(node, "open")
            made.read(node, *got)
    assert made.says() == []


def test_one_of_two_commits_without_an_order_wins_as_a_whole() -> None:
    for got in (((0, 100, 1), (100, 150, 2)), ((0, 50, 1), (50, 150, 2))):
        made = both_wrote()
        made.do("a", "fsync", 20, 40)
        made.do("b", "fsync", 30, 50)
        made.do("c", "open")
        made.read("c", *got)
        assert made.says() == []
    made.read("c", (0, 70, 1), (70, 150, 2))
    assert made.says() == ["has parts of two commits 1 2"]


def test_what_is_not_committed_may_be_seen_early() -> None:
    made = History()
    made.do("b", "open")
    made.write("a", 1, 0, 100)
    made.read("b", (0, 100, 1))
    made.read("b", (0, 50, 1), (50, 100, END))
    assert made.says() == []


def test_bytes_of_nobody() -> None:
    made = committed()
    made.read("a", (0, 50, 1), (50, 100, 3))
    made.read("a", (0, 104, 1))
    made.read("a", (0, 100, 1), (100, 104, ZEROS))
    made.read("a", (0, 100, 1), (100, 104, END))
    made.read("a", (0, 100, 2))
    made.write("a", 2, 0, 100)
    assert made.says() == [
        "has 0x3, which no node wrote there None None",
        "has 0x1, which no node wrote there 1 None",
        "is zeros after the end of all that was written None None",
        "has what was written later 2 None",
    ]


def test_a_hole_is_zeros() -> None:
    made = History()
    made.write("a", 1, 100, 50)
    made.do("a", "drain")
    made.do("b", "open")
    made.read("b", (0, 100, ZEROS), (100, 150, 1))
    assert made.says() == []
    made.read("b", (0, 50, ZEROS), (50, 100, END))
    assert made.says() == ["the file ends None 1"]


def test_both_operations_are_named() -> None:
    made = committed(1, "a")
    made.write("b", 2, 0, 100)
    made.read("b", (0, 100, 1))
    assert str(check(made.operations)[0]) == (
        "read of [0, 100) by worker 0 of b, 0.000000 to 0.000000 s: at [0, 100) is old\n"
        "    got write of [0, 100) by worker 0 of a, 0.000000 to 0.000000 s\n"
        "    for write of [0, 100) by worker 0 of b, 0.000000 to 0.000000 s"
    )
