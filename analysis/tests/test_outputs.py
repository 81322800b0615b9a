from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierbench.outputs import OutputError, parse_ior, parse_mdtest, read_ior, read_mdtest

DATA = Path(__file__).parent / "data"
IOR = DATA / "ior-4.0.0"


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
        ("ior-4.0.0/json-v.out", "json",
         [("write", 0, 0, 1787.7105), ("read", 0, 0, 39130.5329), ("remove", 0, 0, None)]),
        ("ior-4.0.0/json-v-file.summary.json", "json",
         [("write", 0, 0, 6589.6371), ("read", 0, 0, 43464.2902), ("remove", 0, 0, None)]),
        ("ior-4.0.0/json-two.summary.json", "json",
         [("write", 0, 0, 1351.5843), ("read", 0, 0, 39199.1028), ("write", 1, 0, 594.0835),
          ("read", 1, 0, 41221.6609)]),
        ("ior-4.0.0/tests-script-colon.out", "text",
         [("write", 0, 0, 2015.64), ("read", 0, 0, 51543), ("write", 1, 0, 993.91), ("read", 1, 0, 69471)]),
        ("ior-4.0.0/multi.out", "text",
         [("write", 0, 0, 2345.52), ("read", 0, 0, 41996), ("write", 0, 1, 1603.77), ("read", 0, 1, 43296)]),
        ("ior-4.0.0/mpiio-c.out", "text", [("write", 0, 0, 1141.35), ("read", 0, 0, 29492)]),
        ("ior-head/json-v.out", "json",
         [("write", 0, 0, 302.2799), ("read", 0, 0, 37957.5023), ("remove", 0, 0, None)]),
        ("ior-head/stonewall-D2-wearout-json.out", "json", [("write", 0, 0, 26.666)]),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    "path",
    sorted(p for p in DATA.glob("ior-*/*") if p.suffix in (".out", ".json", ".csv")),
    ids=lambda p: f"{p.parent.name}/{p.name}",
)
def test_every_ior_number_stands_in_the_file(path: Path) -> None:
    text = path.read_text()
    try:
        out = read_ior(path)
    except OutputError as e:
        assert str(e).startswith(str(path))
        return
    words = {float(w) for w in re.findall(r"\d+\.?\d*", text)}
    for r in out.results:
        numbers = (
            r.bandwidth_mib_s,
            r.iops,
            r.latency_s,
            r.block_kib,
            r.transfer_kib,
            r.open_s,
            r.transfer_s,
            r.close_s,
            r.total_s,
        )
        assert all(n in words for n in numbers if n is not None)


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


@pytest.mark.parametrize(("name", "driver"), [
    ("ior-4.0.0/Y.out", "IOR-4.0.0"), ("ior-4.0.0/Y-json.out", "IOR-4.0.0"), ("ior-4.0.0/csv.out", None),
    ("ior-head/default-i4.out", "IOR-4.1.0+dev"),
    ("ior-head/json-i4.summary.json", "IOR-4.1.0+dev")])  # fmt: skip
def test_ior_driver(name: str, driver: str | None) -> None:
    assert read_ior(DATA / name).driver == driver


def test_tb_ior_never_claims_to_be_ior() -> None:
    text = (IOR / "Y.out").read_text().replace("IOR-4.0.0:", "tb-ior 0.1:", 1)
    assert parse_ior(text).driver == "tb-ior 0.1"
    document = json.loads((IOR / "Y-json.out").read_text())
    document["Version"] = "tb-ior 0.1"
    assert parse_ior(json.dumps(document)).driver == "tb-ior 0.1"


def test_ior_before_3_3_has_fewer_columns() -> None:
    text = (IOR / "Y.out").read_text().replace("IOR-4.0.0", "IOR-3.2.0")
    lines = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["access"], ["write"], ["read"]) and len(words) == 11:
            line = "   ".join(words[:2] + words[4:])
        elif len(words) == 27:
            line = "   ".join(words[:10] + words[12:])
        lines.append(line)
    out = parse_ior("\n".join(lines))
    assert [(r.bandwidth_mib_s, r.iops, r.latency_s, r.open_s) for r in out.results] == [
        (373.30, None, None, 0.000101),
        (37293, None, None, 0.000010),
    ]


def test_ior_data_errors_are_read_from_the_text_not_the_status() -> None:
    assert read_ior(IOR / "err-verify-128m.out").data_errors == 256
    assert read_ior(IOR / "check-corrupt.out").data_errors == 1
    assert read_ior(IOR / "Y.out").data_errors == 0


def test_ior_out_of_space_that_exits_zero_is_noticed() -> None:
    assert read_ior(IOR / "err-enospc-mpiio.out").file_is_short
    assert not read_ior(IOR / "stonewall-D2.out").file_is_short


@pytest.mark.parametrize(("name", "words"), [
    ("err-enospc.out", "cut off"), ("err-enospc-json.out", "cut off"),
    ("err-missing.out", "the program said: ERROR"),
    ("err-t-gt-b.out", "block size must be a multiple"), ("csv-err.out", "No such file or directory"),
    ("dryrun.out", "Cannot create file"), ("dummy.out", "'inf'")])  # fmt: skip
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


@given(st.data())
def test_damaged_ior_raises_nothing_but_its_own_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["Y.out", "Y-json.out", "csv-i4.out", "json-quote.out"]))
    text = (IOR / name).read_text()
    at = data.draw(st.integers(0, len(text) - 1))
    damage = data.draw(st.text(max_size=4))
    with contextlib.suppress(OutputError):
        parse_ior(text[:at] + damage + text[at + data.draw(st.integers(0, 40)) :])


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


@given(st.integers(0, 1000))
def test_truncated_mdtest_is_refused(at: int) -> None:
    text = (DATA / "mdtest-4.0.0/n200.out").read_text()
    with pytest.raises(OutputError):
        parse_mdtest(text[:at])
