from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierbench.outputs import (
    IorOutput,
    MdtestOutput,
    OutputError,
    parse_ior,
    parse_ior_ranks,
    parse_mdtest,
    parse_mdtest_ranks,
    read_ior,
    read_ior_ranks,
    read_mdtest,
    read_mdtest_ranks,
)

DATA = Path(__file__).parents[1] / "data"
IOR = DATA / "ior-4.0.0"
MDTEST = [
    "mdtest-4.0.0/n200.out",
    "mdtest-4.0.0/P.out",
    "mdtest-4.0.0/v.out",
    "mdtest-head/Z.out",
    "mdtest-3.2.1/i3.out",
]


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [
        ("ior-4.0.0/Y.out", "text", [("write", 0, 0, 373.30), ("read", 0, 0, 37293)]),
        ("ior-4.0.0/Y-json.out", "json", [("write", 0, 0, 842.4147), ("read", 0, 0, 37428.2566)]),
        ("ior-4.0.0/csv-file.summary.csv", "csv", [("write", 0, 0, 1979.2330), ("read", 0, 0, 38971.4657)]),
        ("ior-4.0.0/csv-two-v.out", "csv", [("write", 0, 0, 6019.8120), ("read", 0, 0, 47393.2655)]),
        ("ior-4.0.0/stonewall-D2.out", "text", [("write", 0, 0, 7.78), ("remove", 0, 0, None)]),
        ("ior-4.0.0/stonewall-D2-csv.out", "csv", [("write", 0, 0, 14.4762)]),
        ("ior-4.0.0/stonewall-D2-json.out", "json", [("write", 0, 0, 6.0554)]),
        ("ior-4.0.0/json-quote.out", "json", [("write", 0, 0, 2898.6206)]),
        (
            "ior-4.0.0/json-v.out",
            "json",
            [("write", 0, 0, 1787.7105), ("read", 0, 0, 39130.5329), ("remove", 0, 0, None)],
        ),
        (
            "ior-4.0.0/json-v-file.summary.json",
            "json",
            [("write", 0, 0, 6589.6371), ("read", 0, 0, 43464.2902), ("remove", 0, 0, None)],
        ),
        (
            "ior-4.0.0/json-two.summary.json",
            "json",
            [
                ("write", 0, 0, 1351.5843),
                ("read", 0, 0, 39199.1028),
                ("write", 1, 0, 594.0835),
                ("read", 1, 0, 41221.6609),
            ],
        ),
        (
            "ior-4.0.0/tests-script-colon.out",
            "text",
            [("write", 0, 0, 2015.64), ("read", 0, 0, 51543), ("write", 1, 0, 993.91), ("read", 1, 0, 69471)],
        ),
        (
            "ior-4.0.0/multi.out",
            "text",
            [
                ("write", 0, 0, 2345.52),
                ("read", 0, 0, 41996),
                ("write", 0, 1, 1603.77),
                ("read", 0, 1, 43296),
            ],
        ),
        ("ior-4.0.0/mpiio-c.out", "text", [("write", 0, 0, 1141.35), ("read", 0, 0, 29492)]),
        (
            "ior-head/json-v.out",
            "json",
            [("write", 0, 0, 302.2799), ("read", 0, 0, 37957.5023), ("remove", 0, 0, None)],
        ),
        ("ior-head/stonewall-D2-wearout-json.out", "json", [("write", 0, 0, 26.666)]),
    ],
)
def test_ior_results(name: str, form: str, expected: list[tuple[str, int, int, float | None]]) -> None:
    out = read_ior(DATA / name)
    assert out.format == form
    assert [(r.access, r.test, r.iteration, r.bandwidth_mib_s) for r in out.results] == expected


@pytest.mark.parametrize(
    "name",
    [
        "ior-4.0.0/default-i4.out",
        "ior-4.0.0/csv-i4.out",
        "ior-4.0.0/json-i4.summary.json",
        "ior-head/default-i4.out",
        "ior-head/csv-i4.out",
        "ior-head/json-i4.summary.json",
    ],
)
def test_ior_iterations_count_from_zero(name: str) -> None:
    out = read_ior(DATA / name)
    for access in ("write", "read"):
        assert [r.iteration for r in out.select(access)] == [0, 1, 2, 3]


def numbers_in(text: str) -> set[float]:
    """All numbers of a text; a damaged one may end or begin anywhere."""
    return {float(w) for w in re.findall(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text)}


def numbers_of(parsed: object) -> set[float]:
    """Every number with a fraction (measured, not counted) in what a reader returned."""
    if isinstance(parsed, float):
        return {parsed}
    if dataclasses.is_dataclass(parsed):
        return numbers_of([getattr(parsed, f.name) for f in dataclasses.fields(parsed)])
    if isinstance(parsed, dict):
        return numbers_of(list(parsed.values()))
    if isinstance(parsed, list | tuple):
        return set().union(*map(numbers_of, parsed))
    return set()


@pytest.mark.parametrize(
    "path",
    sorted(
        p for p in DATA.glob("ior-*/*") if p.suffix in (".out", ".json", ".csv") and "ranks" not in p.name
    ),
    ids=lambda p: f"{p.parent.name}/{p.name}",
)
def test_every_ior_number_stands_in_the_file(path: Path) -> None:
    text = path.read_text()
    try:
        out = read_ior(path)
    except OutputError as e:
        assert str(e).startswith(str(path))
        return
    assert numbers_of(out) <= numbers_in(text)


def test_ior_times_and_command() -> None:
    out = read_ior(IOR / "Y.out")
    write = out.select("write")[0]
    assert (write.open_s, write.transfer_s, write.close_s, write.total_s) == (
        0.000101,
        0.085646,
        0.003876,
        0.085722,
    )
    assert (write.block_kib, write.transfer_kib, write.latency_s) == (16384, 1024, 0.005111)
    assert out.command == "ior -w -r -o /scratch/ior.out -t 1m -b 16m -F -e -Y"
    assert out.tasks == 2


@pytest.mark.parametrize(
    ("name", "driver"),
    [
        ("ior-4.0.0/Y.out", "IOR-4.0.0"),
        ("ior-4.0.0/Y-json.out", "IOR-4.0.0"),
        ("ior-4.0.0/csv.out", None),
        ("ior-head/default-i4.out", "IOR-4.1.0+dev"),
        ("ior-head/json-i4.summary.json", "IOR-4.1.0+dev"),
    ],
)
def test_ior_driver(name: str, driver: str | None) -> None:
    assert read_ior(DATA / name).driver == driver


def test_tb_ior_never_claims_to_be_ior() -> None:
    text = (IOR / "Y.out").read_text().replace("IOR-4.0.0:", "IOR-compatible tb-ior-0.1.0:", 1)
    assert parse_ior(text).driver == "tb-ior-0.1.0"
    document = json.loads((IOR / "Y-json.out").read_text())
    document["Version"] = "tb-ior 0.1"
    assert parse_ior(json.dumps(document)).driver == "tb-ior 0.1"


@pytest.mark.parametrize(
    ("name", "tasks", "expected"),
    [
        ("ior-3.0.1/i2.out", 2, [("write", 0, None), ("read", 0, None), ("remove", 0, None)]),
        ("ior-3.2.1/i2.out", 2, [("write", 0, None), ("read", 0, None), ("remove", 0, None)]),
    ],
)
def test_ior_before_3_3_has_fewer_columns(
    name: str, tasks: int, expected: list[tuple[str, int, None]]
) -> None:
    out = read_ior(DATA / name)
    assert [(r.access, r.iteration, r.iops) for r in out.results][:3] == expected
    assert (out.tasks, len(out.results), [s.repetitions for s in out.summaries]) == (tasks, 6, [2, 2])
    assert out.command is not None and out.command.startswith("ior -w -r -F")


@pytest.mark.parametrize("version", ["3.0.1", "3.2.1", "3.3.0"])
def test_ior_3_verbose(version: str) -> None:
    out = read_ior(DATA / f"ior-{version}/vv.out")
    assert [r.access for r in out.results] == ["write", "read", "remove"]
    assert out.driver == f"IOR-{version}"


def test_ior_3_3_json_has_a_list_for_each_repetition() -> None:
    out = read_ior(DATA / "ior-3.3.0/json.out")
    assert [(r.access, r.total_s) for r in out.results] == [
        ("write", 0.0033),
        ("read", 0.0033),
        ("remove", 0.0002),
    ]


def test_ior_3_csv_holds_no_table() -> None:
    with pytest.raises(OutputError, match="is not output of IOR"):
        read_ior(DATA / "ior-3.3.0/csv.out")


def test_ior_data_errors_are_read_from_the_text_not_the_status() -> None:
    assert read_ior(IOR / "err-verify-128m.out").data_errors == 256
    assert read_ior(IOR / "check-corrupt.out").data_errors == 1
    assert read_ior(IOR / "Y.out").data_errors == 0


def test_ior_out_of_space_that_exits_zero_is_noticed() -> None:
    assert read_ior(IOR / "err-enospc-mpiio.out").file_is_short
    assert not read_ior(IOR / "stonewall-D2.out").file_is_short


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("err-enospc.out", "cut off"),
        ("err-enospc-json.out", "cut off"),
        ("err-missing.out", "the program said: ERROR"),
        ("err-t-gt-b.out", "block size must be a multiple"),
        ("csv-err.out", "No such file or directory"),
        ("dryrun.out", "Cannot create file"),
        ("dummy.out", "'inf'"),
    ],
)
def test_failed_ior_is_refused_with_its_reason(name: str, words: str) -> None:
    with pytest.raises(OutputError, match=re.escape(words)) as caught:
        read_ior(IOR / name)
    assert str(caught.value).startswith(str(IOR / name)) and "\n" not in str(caught.value)


def test_interleaved_rows_are_refused_with_their_line() -> None:
    text = (IOR / "default-i4.out").read_text()
    with pytest.raises(OutputError, match=r"f:31: .*columns") as caught:
        parse_ior(text.replace("write     1644.14 ", "write     write 1644.14 "), "f")
    assert caught.value.line == 31


def test_lost_row_is_noticed() -> None:
    lines = (IOR / "default-i4.out").read_text().splitlines(keepends=True)
    last_read = max(i for i, line in enumerate(lines) if line.startswith("read") and line.split()[-1] == "3")
    with pytest.raises(OutputError, match="counts 4 repetitions of read, the table holds 3"):
        parse_ior("".join(lines[:last_read] + lines[last_read + 1 :]))


def test_summary_line_within_the_table() -> None:
    text = (IOR / "Y.out").read_text().replace("read      37293", "Summary of all tests:\nread      37293")
    with pytest.raises(OutputError, match="under a heading of 0"):
        parse_ior(text)


def test_changed_number_contradicts_the_summary() -> None:
    text = (IOR / "Y.out").read_text().replace("write     373.30 ", "write     973.30 ")
    with pytest.raises(OutputError, match="in the summary"):
        parse_ior(text)


@pytest.mark.parametrize("text", ["", "\n\n", "hello\n", "{", "{}", "[1]", "null", "access,bw(MiB/s),IOPS\n"])
def test_not_ior(text: str) -> None:
    with pytest.raises(OutputError):
        parse_ior(text, "f")


def test_json_without_its_end_is_cut_off() -> None:
    document = json.loads((IOR / "Y-json.out").read_text())
    del document["Finished"]
    with pytest.raises(OutputError, match="is cut off: no 'Finished'"):
        parse_ior(json.dumps(document))


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be read: No such file"):
        read_ior(tmp_path / "none")


@given(st.data())
def test_truncated_ior_never_gives_half_a_result(data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(["Y.out", "Y-json.out", "csv-i4.out", "json-v.out", "stonewall-D2-json.out"])
    )
    text = (IOR / name).read_text()
    whole = {(r.access, r.iteration, r.bandwidth_mib_s) for r in parse_ior(text).results}
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        out = parse_ior(cut, "f")
    except OutputError as e:
        assert str(e).startswith("f")
    else:  # CSV has no end mark: whole lines are whole results
        assert {(r.access, r.iteration, r.bandwidth_mib_s) for r in out.results} <= whole


def damaged(data: st.DataObject, text: str) -> str:
    """The text with a piece of it replaced, and perhaps lines of another run among its own."""
    at = data.draw(st.integers(0, len(text) - 1))
    damage = data.draw(st.one_of(st.text(max_size=4), st.sampled_from(["\n", " ", "0", "nan", "1e400", "-"])))
    text = text[:at] + damage + text[at + data.draw(st.integers(0, 40)) :]
    lines = text.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(0, 2))):
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.sampled_from(lines)))
    return "".join(lines)


@given(st.data())
def test_damaged_ior_gives_its_own_error_or_its_own_numbers(data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(
            ["4.0.0/Y.out", "4.0.0/Y-json.out", "4.0.0/csv-i4.out", "4.0.0/json-quote.out", "3.0.1/i2.out"]
        )
    )
    text = damaged(data, (DATA / f"ior-{name}").read_text())
    try:
        out = parse_ior(text, "f")
    except OutputError as e:
        assert str(e).startswith("f") and "\n" not in str(e)
    else:
        assert numbers_of(out) <= numbers_in(text)


@pytest.mark.parametrize("name", ["mdtest-4.0.0/n200-i3-u.out", "mdtest-head/n200-i3-u.out"])
def test_mdtest_both_headings(name: str) -> None:
    out = read_mdtest(DATA / name)
    assert (out.tasks, out.repetitions, len(out.rows)) == (2, 3, 10)
    assert {r.unit for r in out.rows} == {"ops/s"}
    text = (DATA / name).read_text()
    assert all(f"{r.max:.3f}" in text and f"{r.mean:.3f}" in text for r in out.rows)


def test_mdtest_units() -> None:
    assert {r.unit for r in read_mdtest(DATA / "mdtest-4.0.0/P.out").rows} == {"ops/s", "s"}
    assert {r.unit for r in read_mdtest(DATA / "mdtest-4.0.0/Z.out").rows} == {"s"}
    assert {r.unit for r in read_mdtest(DATA / "mdtest-head/Z.out").rows} == {"ms/op"}


def test_mdtest_rank_statistics_stand_before_the_iterations() -> None:
    row = read_mdtest(DATA / "mdtest-4.0.0/showRank.out").rows[0]
    assert (row.operation, row.max, row.std_dev) == ("File creation", 1034.206, 0.0)


def test_mdtest_verbose_gives_iterations() -> None:
    phases = read_mdtest(DATA / "mdtest-4.0.0/v.out").iterations
    assert [(p.operation, p.iteration, p.seconds, p.rate) for p in phases][1] == (
        "File creation",
        0,
        1.171,
        170.830,
    )


@pytest.mark.parametrize("name", ["err-enospc-data.out", "multidir.out"])
def test_failed_mdtest_is_refused(name: str) -> None:
    with pytest.raises(OutputError, match="cut off"):
        read_mdtest(DATA / "mdtest-4.0.0" / name)


@given(st.data())
def test_truncated_mdtest_is_refused(data: st.DataObject) -> None:
    text = (DATA / data.draw(st.sampled_from(MDTEST))).read_text()
    end = text.index("-- finished at") + len("-- finished at")
    with pytest.raises(OutputError):
        parse_mdtest(text[: data.draw(st.integers(0, end - 1))])


@given(st.data())
def test_damaged_mdtest_gives_its_own_error_or_its_own_numbers(data: st.DataObject) -> None:
    text = damaged(data, (DATA / data.draw(st.sampled_from(MDTEST))).read_text())
    try:
        out = parse_mdtest(text, "f")
    except OutputError as e:
        assert str(e).startswith("f") and "\n" not in str(e)
    else:
        assert numbers_of(out) <= numbers_in(text)


@pytest.mark.parametrize("name", ["mdtest-3.2.1", "mdtest-3.3.0"])
def test_mdtest_3(name: str) -> None:
    out = read_mdtest(DATA / name / "i3.out")
    assert (out.tasks, out.repetitions, len(out.rows), {r.unit for r in out.rows}) == (2, 3, 9, {"ops/s"})
    assert len(read_mdtest(DATA / name / "v.out").iterations) == 6


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("   File stat ", "   FileXstat ", ":18: unknown row"),
        ("   File stat ", "WARNING: File stat ", "the summary in ops/s above lacks File stat"),
        (
            "-- finished at",
            "   File stat  1.0 1.0 1.0 0.0 1.0\n-- finished at",
            "has 5 values, expected 4 or 7",
        ),
    ],
)
def test_mangled_mdtest_rows_are_noticed(old: str, new: str, problem: str) -> None:
    text = (DATA / "mdtest-4.0.0/n200.out").read_text()
    lines = text.splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("   File stat")) + 1
    with pytest.raises(OutputError, match=re.escape(problem.replace(":18:", f":{row}:"))):
        parse_mdtest(text.replace(old, new, 1), "f")


def test_mdtest_mean_outside_its_range() -> None:
    text = (DATA / "mdtest-4.0.0/P.out").read_text()
    with pytest.raises(OutputError, match="the mean is not between minimum and maximum") as caught:
        parse_mdtest(text.replace("889.239", "1889.239"), "f")
    assert text.splitlines()[caught.value.line - 1].startswith("   Directory creation")


def test_two_mdtest_runs_in_one_file() -> None:
    text = (DATA / "mdtest-4.0.0/n200.out").read_text()
    with pytest.raises(OutputError, match="a second run begins here"):
        parse_mdtest(text + text)


def test_ranks_of_ior() -> None:
    rows = read_ior_ranks(IOR / "rankcsv.ranks.csv")
    assert [(r.access, r.rank, r.iteration) for r in rows] == [
        ("write", 0, 0),
        ("write", 1, 0),
        ("read", 0, 0),
        ("read", 1, 0),
    ]
    assert (rows[1].total_s, rows[1].transfer_bytes_s) == (1.7378091812e-02, 9.7040259502e08)


def test_ranks_of_mdtest() -> None:
    rows = read_mdtest_ranks(DATA / "mdtest-4.0.0/saveRank.csv")
    first = [(r.operation, r.rank, r.iteration, r.rate) for r in rows if r.operation == "File creation"]
    assert first == [
        ("File creation", None, 0, 9.4315804623e02),
        ("File creation", 0, 0, 4.7429226001e02),
        ("File creation", 1, 0, 7.7131944176e02),
        ("File creation", 0, 1, 4.5982940184e02),
        ("File creation", 1, 1, 7.5533509037e02),
    ]
    assert [r.rank for r in rows if r.operation == "Tree removal"] == [None]


def test_rank_statistics_of_mdtest() -> None:
    row = read_mdtest(DATA / "mdtest-4.0.0/showRank.out").rows[0]
    assert (row.rank_max, row.rank_min, row.rank_mean) == (1007.278, 548.297, 777.787)
    assert read_mdtest(DATA / "mdtest-4.0.0/n200.out").rows[0].rank_max is None


@given(st.data())
def test_damaged_ranks_give_their_own_error_or_their_own_numbers(data: st.DataObject) -> None:
    name, parse = data.draw(
        st.sampled_from(
            [
                ("ior-4.0.0/rankcsv.ranks.csv", parse_ior_ranks),
                ("mdtest-4.0.0/saveRank.csv", parse_mdtest_ranks),
            ]
        )
    )
    text = damaged(data, (DATA / name).read_text())
    try:
        rows = parse(text, "f")
    except OutputError as e:
        assert str(e).startswith("f") and "\n" not in str(e)
    else:
        assert rows and numbers_of(rows) <= numbers_in(text)


EVERY = sorted(
    p
    for p in DATA.rglob("*")
    if p.suffix in (".out", ".json", ".csv") and ("ior" in p.parent.name or "mdtest" in p.parent.name)
)


def reader_of(path: Path) -> Callable[[str, str], object]:
    if "ranks" in path.name:
        return parse_ior_ranks
    if path.name == "saveRank.csv":
        return parse_mdtest_ranks
    return parse_mdtest if "mdtest" in path.parent.name else parse_ior


def attempt(path: Path, text: str) -> object | None:
    """What the reader says, or None for its error, which is one line and names one of the text's."""
    try:
        found = reader_of(path)(text, "f")
    except OutputError as e:
        assert "\n" not in str(e)
        assert e.line in range(1, len(text.splitlines()) + 1) or not text.strip(), str(e)
        return None
    assert numbers_of(found) <= numbers_in(text)
    return found


@pytest.mark.parametrize("path", EVERY, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_cut_at_every_line(path: Path) -> None:
    """An output that ends early is refused; of a table without an end (CSV) the whole lines are told."""
    lines = path.read_text().splitlines(keepends=True)
    ends = ("Finished", '"Finished"', "-- finished at")
    end = next((i for i, line in enumerate(lines) if line.strip().startswith(ends)), len(lines))
    table = "csv" in path.name
    for i in range(end):
        for text in ("".join(lines[:i]), "".join(lines[:i]) + lines[i][: len(lines[i]) // 2]):
            found = attempt(path, text)
            assert found is None or (table and text.endswith("\n")), f"{i}: {text[-80:]}"


@pytest.mark.parametrize("path", EVERY, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_line_lost_or_doubled(path: Path) -> None:
    """A damaged line gives an error with its place or what the file says, never more."""
    text = path.read_text()
    whole, lines = attempt(path, text), text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        attempt(path, "".join(lines[:i] + lines[i + 1 :]))
        found = attempt(path, "".join([*lines[: i + 1], *lines[i:]]))
        assert found is None or whole is None or len(rows_of(found)) == len(rows_of(whole)), line


def rows_of(found: object) -> tuple[object, ...]:
    """The rows of the output, in any format."""
    if isinstance(found, IorOutput):
        return found.results + found.summaries
    return found.rows if isinstance(found, MdtestOutput) else tuple(found)  # type: ignore[arg-type]


@given(st.data())
def test_two_runs_in_one_file_are_refused(data: st.DataObject) -> None:
    path = data.draw(
        st.sampled_from([p for p in EVERY if p.suffix == ".out" and not re.match("csv|.*json", p.stem)])
    )
    lines = path.read_text().splitlines(keepends=True)
    first = data.draw(st.lists(st.booleans(), min_size=2 * len(lines), max_size=2 * len(lines)))
    halves = [list(lines), list(lines)]
    mixed = [(halves[which] or halves[not which]).pop(0) for which in first]
    if attempt(path, "".join(lines)) is not None and "csv" not in path.name:
        assert attempt(path, "".join(mixed)) is None


def test_csv_of_two_tests() -> None:
    """Each test begins with the heading; without one, or without a row below it, something is lost."""
    text = (IOR / "csv-file.summary.csv").read_text()
    out = parse_ior(text + text)
    assert [(r.test, r.access) for r in out.results] == [(0, "write"), (0, "read"), (1, "write"), (1, "read")]
    heading, *rows = text.splitlines(keepends=True)
    for damaged_text, line in (
        (heading + text, 2),
        (text + "".join(rows), 4),
        (text + heading, 4),
    ):
        with pytest.raises(OutputError) as caught:
            parse_ior(damaged_text, "f")
        assert caught.value.line == line


def test_lost_ranks_are_noticed() -> None:
    text = (DATA / "mdtest-4.0.0/saveRank.csv").read_text()
    lines = text.splitlines(keepends=True)
    with pytest.raises(OutputError, match="f:3: rank 1 where rank 0 is due"):
        parse_mdtest_ranks("".join(lines[:2] + lines[3:]), "f")
    with pytest.raises(OutputError, match="f:5: is cut off: rank 1 is due"):
        parse_mdtest_ranks("".join(lines[:5]), "f")


def test_json_errors_name_their_line() -> None:
    text = (IOR / "Y-json.out").read_text()
    line = next(i for i, t in enumerate(text.splitlines(), 1) if '"iops"' in t)
    with pytest.raises(OutputError, match="the object that ends here lacks 'iops'") as caught:
        parse_ior(re.sub(r'"iops": [\d.]+,', "", text, count=1), "f")
    assert line < caught.value.line < line + 8
    with pytest.raises(OutputError, match="holds NaN") as caught:
        parse_ior(re.sub(r'("iops": )[\d.]+', r"\1NaN", text, count=1), "f")
    assert caught.value.line == line
