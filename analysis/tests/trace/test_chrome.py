"""Chrome trace events: whole, of the segments' bytes and times, in tracks that Perfetto can draw."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import darshan
import darshan_logs
import numpy as np
import pytest

from tierbench import trace
from tierbench.base.errors import RunError
from tierbench.cli import main
from tierbench.trace import chrome

MIB = 1 << 20
EMPTY = darshan_logs.accesses([], 0, [], 0)
STATS: dict[str, Any] = {
    "tiers": [{"name": "ram"}],
    "samples": {
        "seconds": [0.0, 0.5, 1.0],
        "used": {"ram": [0, 4 * MIB, 4 * MIB]},
        "dirty": {"ram": [0, 4 * MIB, MIB]},
        "bytes_in": {"ram": [0, 4 * MIB, 4 * MIB]},
        "bytes_out": {"ram": [0, 0, 0]},
        "flushed": {"ram": [0, 0, 3 * MIB]},
        "pfs_bytes_written": [0, 0, 3 * MIB],
        "pfs_bytes_read": [0, 0, 0],
    },
}


def checked(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The accesses by process and thread, each named once, none overlapping another one of its thread."""
    known = {"process_name": set(), "thread_name": set()}  # type: dict[str, set[tuple[int, int]]]
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for e in events:
        track = e["pid"], e["tid"]
        if e["ph"] == "M":
            assert track not in known[e["name"]] and e["args"]["name"]
            known[e["name"]].add(track)
            continue
        assert (e["pid"], 0) in known["process_name"] and e["ts"] >= 0
        if e["ph"] == "C":
            assert all(v >= 0 for v in e["args"].values())
            continue
        assert e["ph"] == "X" and e["dur"] >= 0 and e["name"] in ("read", "write")
        assert track in known["thread_name"]
        tracks.setdefault(track, []).append(e)
    for mine in tracks.values():
        for before, after in itertools.pairwise(sorted(mine, key=lambda e: (e["ts"], e["ts"] + e["dur"]))):
            assert round(before["ts"] + before["dur"], 3) <= after["ts"]
    return tracks


def names(events: list[dict[str, Any]], kind: str) -> list[str]:
    return [e["args"]["name"] for e in events if e["name"] == kind]


@pytest.fixture
def two_sides(tmp_path: Path) -> list[Path]:
    """Four ranks that write; below them one process that writes to a tier and to the PFS, two at once."""
    application = darshan_logs.strided().write(tmp_path / "app.darshan")
    made = darshan_logs.Made(nprocs=1, mounts=(("/", "ext4"),))
    for file in ("/nvme/slab", "/pfs/shared.dat"):
        made.dxt(file, 0, darshan_logs.accesses([0, MIB, 2 * MIB], MIB, [0.1, 0.2, 0.4], 0.15), EMPTY)
        made.counters("POSIX", file, 0, WRITES=3, BYTES_WRITTEN=3 * MIB)
    return [application, made.write(tmp_path / "app.storage.darshan")]


def test_bytes_and_durations_are_the_traces(two_sides: list[Path], tmp_path: Path) -> None:
    out, stats = tmp_path / "out.json", tmp_path / "stats.json"
    stats.write_text(json.dumps(STATS))
    options = ["--tier", "nvme=/nvme", "--tier", "pfs=/pfs", "--chrome", str(out), "--stats", str(stats)]
    assert main(["trace", *map(str, two_sides), *options]) == 0
    events = json.loads(out.read_text())
    tracks = checked(events)
    segments = trace.read(two_sides).segments
    accesses = list(itertools.chain(*tracks.values()))
    assert len(accesses) == len(segments) == 4 * 64 + 6
    assert sum(e["args"]["ret"] for e in accesses) == segments["length"].sum()
    lasted = (segments["end_s"] - segments["start_s"]).to_numpy()
    assert np.allclose(sorted(e["dur"] for e in accesses), np.sort(lasted) * 1e6, atol=2e-3)
    assert np.isclose(min(e["ts"] for e in accesses), segments["start_s"].min() * 1e6)
    assert {
        "application (app.darshan)",
        "storage: nvme (app.storage.darshan)",
        "tiers",
        "storage: pfs (app.storage.darshan)",
    } == set(names(events, "process_name"))
    threads = names(events, "thread_name")
    assert [t for t in threads if t.startswith("rank 3")] == ["rank 3 POSIX"]
    assert threads.count("rank 0 POSIX, lane 2") == 2  # of both places, where two accesses overlap
    second = next(e for e in accesses if e["args"]["offset"] == 5 * MIB)
    assert (second["args"]["fname"], second["args"]["hostname"], second["cat"]) == (
        "/scratch/shared.dat",
        "n1",
        "POSIX",
    )


def test_samples_become_counters() -> None:
    traces = trace.read([])
    events, left_out = chrome.events(traces, STATS)
    checked(events)
    assert left_out == 0
    shown = {(e["name"], e["ts"]): e["args"] for e in events if e["ph"] == "C"}
    assert shown["ram bytes", 1e6] == {"dirty": MIB, "clean": 3 * MIB}
    assert shown["ram bytes/s", 0.0] == {"written": 8 * MIB, "read": 0, "flushed": 0}
    assert shown["pfs bytes/s", 5e5] == {"written": 6 * MIB, "read": 0}
    assert shown["pfs bytes/s", 1e6] == {"written": 0, "read": 0}, "nothing moves after the last sample"


def test_sides_share_one_clock(two_sides: list[Path]) -> None:
    traces = trace.read(two_sides)
    later = traces.job["side"] == "storage"
    traces.job.loc[later, "start"] += np.timedelta64(2, "s")
    events, _ = chrome.events(traces, {})
    below = [e for e in events if e["ph"] == "X" and e["args"]["fname"] == "/nvme/slab"]
    assert min(e["ts"] for e in below) == 2.1e6


def test_lines_for_dfanalyzer(two_sides: list[Path], tmp_path: Path) -> None:
    """It reads each line for itself, and leaves out the brackets."""
    out = tmp_path / "out.pfw"
    assert main(["trace", *map(str, two_sides), "--tier", "nvme=/nvme", "--chrome", str(out)]) == 0
    lines = out.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("[", "]")
    assert len(checked([json.loads(line) for line in lines[1:-1]])) == 4 + 4, "ranks; lanes of two places"


def test_times_that_are_nonsense_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = darshan_logs.Made(nprocs=1)
    wrong = darshan_logs.accesses([0, 1, 2], 1, [1.0, 1e300, 3.0], 0.5)
    wrong["end_s"][2] = 2.0
    made.dxt("/x", 0, wrong, EMPTY)
    out = tmp_path / "out.json"
    assert main(["trace", str(made.write(tmp_path / "a.darshan")), "--chrome", str(out)]) == 0
    assert "without 2 segments" in capsys.readouterr().out
    assert sum(e["ph"] == "X" for e in json.loads(out.read_text())) == 1


def test_every_real_log_with_segments() -> None:
    traces = trace.read(sorted(Path(darshan.__file__).parent.rglob("*dxt*.darshan")))
    events, left_out = chrome.events(traces, {})
    tracks = checked(events)
    assert left_out + sum(map(len, tracks.values())) == len(traces.segments) > 1000


def test_nothing_to_show_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = darshan_logs.Made()
    made.counters("POSIX", "/x", 0, WRITES=1)
    log, out = made.write(tmp_path / "a.darshan"), tmp_path / "out.json"
    assert main(["trace", str(log), "--chrome", str(out)]) == 2
    assert f"{out}: the logs hold no segments (DXT)" in capsys.readouterr().err and not out.exists()
    assert main(["trace", str(log), "--stats", str(log)]) == 2
    assert "--stats: allowed with --chrome" in capsys.readouterr().err


def test_samples_of_two_lengths_are_refused() -> None:
    samples = {**STATS["samples"], "dirty": {"ram": [0]}}
    with pytest.raises(
        RunError, match=r"samples\.dirty\.ram: 1 values; allowed: 3, as many as samples\.seconds"
    ):
        chrome.events(trace.read([]), {"samples": samples})
    only_used = {"seconds": [0, 1], "used": {"ram": [0, 5]}}
    events, _ = chrome.events(trace.read([]), {"samples": only_used})
    assert events[2]["args"] == {"dirty": 0, "clean": 5}
