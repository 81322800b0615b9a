"""Logs that are no logs, cut off, damaged or full of nonsense: one message, or what can be shown of them."""

from __future__ import annotations

import struct
from pathlib import Path

import darshan
import darshan_logs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tierbench import trace
from tierbench.cli import main
from tierbench.trace import drawings, findings, page

REAL = sorted(Path(darshan.__file__).parent.rglob("*.darshan"))
# Without shrinking: every example reads a log in a child of its own.
FUZZ = settings(
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)


def one_message(path: Path) -> str:
    traces = trace.read([path])
    assert len(traces.errors) == 1 and not len(traces.job)
    assert "\n" not in traces.errors[0] and "Traceback" not in traces.errors[0]
    return traces.errors[0]


def test_strangers_are_named(tmp_path: Path, strided: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert "is empty" in one_message(tmp_path / "empty")
    (tmp_path / "text").write_text("no log at all, only words")
    assert "wrong magic" in one_message(tmp_path / "text")
    assert "no regular file" in one_message(tmp_path)
    assert "No such file" in one_message(tmp_path / "none")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(5 << 30)
    assert "at most 4 GiB" in one_message(tmp_path / "huge")
    whole = strided.read_bytes()
    for length in (20, 1000, 1400, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:length])
        assert "is truncated" in one_message(tmp_path / "cut")


def test_old_logs_cut_off_anywhere_never_pass_for_whole(tmp_path: Path) -> None:
    whole = next(p for p in REAL if p.name == "sample-goodost.darshan").read_bytes()
    for part in (0.05, 0.2, 0.5, 0.9, 0.999):
        path = tmp_path / "cut.darshan"
        path.write_bytes(whole[: int(part * len(whole))])
        traces = trace.read([path])
        assert traces.errors or traces.job["problems"][0], part


def test_one_bad_log_does_not_hide_the_others(
    tmp_path: Path, strided: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad").write_bytes(b"x" * 40)
    assert main(["trace", str(tmp_path / "bad"), str(strided)]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "slowest: rank 3" in captured.out


@settings(FUZZ, max_examples=100)
@given(data=st.data())
def test_damage_anywhere_gives_a_message_or_a_log(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Flipped, cut and overwritten bytes, in the header most of all."""
    whole = bytearray(_small_log(tmp_path_factory))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.one_of(st.integers(0, 1327), st.integers(0, len(whole) - 1)))
        whole[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
    cut = data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))
    path = tmp_path_factory.getbasetemp() / "fuzzed.darshan"
    path.write_bytes(bytes(whole[:cut]))
    traces = trace.read([path])
    assert len(traces.errors) + len(traces.job) == 1
    assert all("\n" not in e and "Traceback" not in e for e in traces.errors)
    if len(traces.job):
        page.as_text(traces)


INTEGERS = st.sampled_from([0, 1, -1, -2, 77, 1 << 31, 1 << 53, 2**63 - 1, -(2**63)])
FLOATS = st.sampled_from([-1.0, 1e300, float("nan"), float("inf"), -float("inf")])
WORDS = st.one_of(INTEGERS.map(lambda n: struct.pack("<q", n)), FLOATS.map(lambda x: struct.pack("<d", x)))


@settings(FUZZ, max_examples=50)
@given(data=st.data())
def test_nonsense_inside_regions_gives_a_message_or_a_log(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Words of names and records replaced where no checksum tells of it; a page of each tenth is drawn."""

    def change(_: int, region: bytearray) -> None:
        for _ in range(data.draw(st.integers(0, 4))):
            at = 8 * data.draw(st.integers(0, len(region) // 8 - 1))
            region[at : at + 8] = data.draw(WORDS)

    path = tmp_path_factory.getbasetemp() / "words.darshan"
    path.write_bytes(darshan_logs.words_changed(_small_log(tmp_path_factory), change))
    traces = trace.read([path])
    assert len(traces.errors) + len(traces.job) == 1
    if len(traces.job):
        page.as_text(traces)
        if data.draw(st.integers(0, 9)) == 0:
            page.as_html(traces, page.sections(traces))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"FASTEST_RANK": -1}, ""),
        ({"SLOWEST_RANK": -4}, ""),
        ({"SLOWEST_RANK": 4}, "1 ranks of POSIX are outside 0 to 3 and not shown"),
        ({"FASTEST_RANK": 2**63 - 1}, "1 ranks of POSIX are outside 0 to 3 and not shown"),
        ({"F_FASTEST_RANK_TIME": float("nan")}, ""),
        ({"F_FASTEST_RANK_TIME": -1.0}, "1 times of POSIX are negative and not shown"),
        ({"SLOWEST_RANK_BYTES": 1 << 60}, f"1 counts of POSIX are above {1 << 56} and not shown"),
    ],
)
def test_ranks_of_merged_records_are_the_jobs(values: dict[str, float], said: str, tmp_path: Path) -> None:
    """A record that does not say in full which rank was slowest names none, and says what is left out."""
    whole: dict[str, float] = {"FASTEST_RANK": 0, "SLOWEST_RANK": 3, "WRITES": 4}
    whole |= {"F_FASTEST_RANK_TIME": 1.0, "F_SLOWEST_RANK_TIME": 5.0}
    made = darshan_logs.Made(nprocs=4)
    made.counters("POSIX", "/f", -1, **(whole | values))
    traces = trace.read([made.write(tmp_path / "a.darshan")])
    page.as_text(traces)
    assert traces.job["problems"][0] == said
    assert (findings.slowest(traces) is None) == ("SLOWEST_RANK_BYTES" not in values)


_made: dict[str, bytes] = {}


def _small_log(factory: pytest.TempPathFactory) -> bytes:
    if "small" not in _made:
        path = factory.mktemp("small") / "a.darshan"
        _made["small"] = darshan_logs.strided(each=8).write(path).read_bytes()
    return _made["small"]


@settings(FUZZ, max_examples=15)
@given(
    counts=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4),
    times=st.lists(st.floats(), min_size=4, max_size=4),
    name=st.binary(min_size=1, max_size=60).filter(lambda b: b"\0" not in b),
)
def test_nonsense_in_records_never_ends_in_a_traceback(
    counts: list[int], times: list[float], name: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = darshan_logs.Made()
    made.counters(
        "POSIX",
        name,
        counts[0],
        OPENS=counts[1],
        WRITES=counts[2],
        BYTES_WRITTEN=counts[3],
        F_WRITE_TIME=times[0],
        F_META_TIME=times[1],
        F_SLOWEST_RANK_TIME=times[2],
    )
    segments = darshan_logs.accesses([counts[0], counts[1]], counts[2], times[0], times[3])
    made.dxt("/f", 1, segments, segments)
    path = made.write(tmp_path_factory.getbasetemp() / "nonsense.darshan")
    traces = trace.read([path])
    assert len(traces.job) == 1
    page.as_text(traces)
    drawings.flow(traces)


def test_nonsense_is_drawn_all_the_same(tmp_path: Path) -> None:
    made = darshan_logs.Made()
    for value in (-(2**63), 2**63 - 1):
        made.counters(
            "POSIX",
            b"\xff\x01$",
            5,
            WRITES=value,
            SIZE_WRITE_1G_PLUS=value,
            F_WRITE_TIME=1e300,
            F_META_TIME=float("nan"),
            FILE_ALIGNMENT=value,
            FILE_NOT_ALIGNED=value,
        )
    nonsense = darshan_logs.accesses([-5, 2**63 - 1], -(2**40), [1e300, -1.0], float("inf"))
    made.dxt("/f", -7, nonsense, darshan_logs.accesses([7], 2**62, 3.0, 0.0))
    traces = trace.read([made.write(tmp_path / "a.darshan")])
    assert "<svg" in page.as_html(traces, page.sections(traces))
