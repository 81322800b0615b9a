"""Times of single accesses: percentiles with a known answer, and which accesses were made under flush."""

from __future__ import annotations

from pathlib import Path

import darshan_logs
import numpy as np
import pytest

from tierbench import trace
from tierbench.trace import latency, of_run, page
from tierbench.trace.frames import Traces

FILE = "/pfs/out"


def made(
    tmp_path: Path, name: str, starts: object, lasting: float | list[float], *, storage: bool = False
) -> Path:
    """A log of writes; the application's and the storage's job start at the same second."""
    log = darshan_logs.Made(nprocs=1, mounts=(("/", "ext4"),))
    segments = darshan_logs.accesses(np.arange(len(starts)), 4096, starts, 0.0)  # type: ignore[arg-type]
    segments["end_s"] = segments["start_s"] + lasting
    log.dxt(FILE, 0, segments, darshan_logs.accesses([], 0, [], 0))
    log.counters("POSIX", FILE, 0, WRITES=len(segments), BYTES_WRITTEN=4096 * len(segments), OPENS=1)
    if storage:
        log.metadata += "tierbench_side=storage\n"
    return log.write(tmp_path / name)


def read(*logs: Path) -> Traces:
    return trace.read(logs, {"/pfs": "pfs"})


def test_percentiles(tmp_path: Path) -> None:
    lasting = np.arange(1, 1001) / 1000
    (one,) = latency.table(read(made(tmp_path, "a.darshan", np.arange(1000.0), list(lasting))), None)
    assert (one.access, one.when, one.count) == ("write", "all", 1000)
    assert one.p50_s == pytest.approx(0.5005) and one.maximum_s == pytest.approx(1.0)
    assert one.p99_s == pytest.approx(np.percentile(lasting, 99))
    assert one.p999_s == pytest.approx(np.percentile(lasting, 99.9))


@pytest.mark.parametrize(
    ("count", "p99", "p999"), [(99, False, False), (100, True, False), (999, True, False)]
)
def test_a_percentile_needs_accesses_beyond_it(tmp_path: Path, count: int, p99: bool, p999: bool) -> None:
    (one,) = latency.table(read(made(tmp_path, "a.darshan", np.arange(float(count)), 0.25)), None)
    assert ((one.p99_s is not None), (one.p999_s is not None)) == (p99, p999)


def test_accesses_under_flush_are_apart(tmp_path: Path) -> None:
    """The PFS is written from 10 to 13 s, by overlapping writes, and from 20 to 21 s."""
    slow = [0.5 if 10 <= at < 13 or at == 20 else 0.1 for at in range(30)]
    both = read(
        made(tmp_path, "app.darshan", np.arange(30.0), slow),
        made(tmp_path, "app.storage.darshan", [10.0, 11.5, 20.0], [2.0, 1.4, 0.9], storage=True),
    )
    sides = {
        side: both.of(str(both.job["log"][both.job["side"] == side].iloc[0]))
        for side in ("application", "storage")
    }
    periods = latency.flushes(sides["application"], sides["storage"])
    assert periods is not None and list(periods.starts) == [10, 20] and list(periods.ends) == [12.9, 20.9]
    told = {one.when: (one.count, one.maximum_s) for one in latency.table(sides["application"], periods)}
    assert told["all"][0] == 30 and told["under flush"][0] == 4 and told["without flush"][0] == 26
    assert told["under flush"][1] == pytest.approx(0.5) and told["without flush"][1] == pytest.approx(0.1)
    made_page = page.sections(both)
    html, markdown = page.as_html(both, made_page), page.as_markdown(both, made_page)
    assert "<td>under flush</td>" in html and latency.DRAWING.title in html
    assert "| writes | under flush | 4 | 500 ms | – | – | 500 ms |" in markdown
    document = of_run.as_json(next(s for s in made_page if s.latencies))
    assert document["latencies"][0]["p99_s"] is None and document["latencies"][0]["count"] == 30


def test_without_segments_nothing_is_told(tmp_path: Path) -> None:
    log = darshan_logs.Made(nprocs=1)
    log.counters("POSIX", FILE, 0, WRITES=3, OPENS=1)
    traces = read(log.write(tmp_path / "a.darshan"))
    assert latency.table(traces, None) == [] and latency.draw(traces, None) is None
    assert latency.flushes(traces, traces) is None
