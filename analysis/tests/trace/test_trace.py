from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import darshan
import darshan_logs
import numpy as np
import pandas as pd
import polars
import pytest
from darshan.backend import cffi_backend

from tierbench import trace
from tierbench.cli import main
from tierbench.trace import drawings, evidence, find, findings, page
from tierbench.trace.frames import BINS

REAL = sorted(Path(darshan.__file__).parent.rglob("*.darshan"))
MIB = 1 << 20
EMPTY = darshan_logs.accesses([], 0, [], 0)


@pytest.fixture(scope="module")
def real() -> trace.Traces:
    return trace.read(REAL)


# --- frames ------------------------------------------------------------------------------------------------


def test_every_real_log_is_read_whole(real: trace.Traces) -> None:
    assert len(REAL) >= 18 and not real.errors and len(real.job) == len(REAL)
    assert not any("cannot read" in p or "stops" in p for p in real.job["problems"])


def test_numbers_are_pydarshans(real: trace.Traces) -> None:
    """Every record's bytes and times, and all segments, against PyDarshan's own reader."""
    for path in REAL:
        labels = [n for n in real.job["log"].astype(str) if n in (path.name, str(path))]
        log, mine = cffi_backend.log_open(str(path)), real.of(labels[0])
        modules = cffi_backend.log_get_modules(log)
        for module in {"POSIX", "MPI-IO", "STDIO"} & modules.keys():
            prefix, files = module.replace("-", ""), mine.files[mine.files["module"] == module]
            written, spent = 0, 0.0
            while record := cffi_backend.log_get_record(log, module, "dict"):
                written += record["counters"][f"{prefix}_BYTES_WRITTEN"]
                spent += max(record["fcounters"][f"{prefix}_F_WRITE_TIME"], 0.0)
            assert files["bytes_written"].sum() == written and np.isclose(files["write_s"].sum(), spent)
        for module in {"DXT_POSIX", "DXT_MPIIO"} & modules.keys():
            lengths: dict[str, list[int]] = {"read": [], "write": []}
            while record := cffi_backend.log_get_record(log, module):
                for access in lengths:
                    lengths[access] += [s["length"] for s in record[f"{access}_segments"]]
            segments = mine.segments[mine.segments["module"] == module]
            for access, some in lengths.items():
                assert segments["length"][segments["access"] == access].tolist() == some
        cffi_backend.log_close(log)


def test_frames_of_a_known_log(strided: Path) -> None:
    traces = trace.read([strided], {"/scratch": "pfs"})
    assert traces.job["nprocs"].tolist() == [4] and traces.job["run_s"].tolist() == [10.0]
    line = traces.files.iloc[0]
    assert (line["file"], line["rank"], line["opens"]) == ("/scratch/shared.dat", -1, 4)
    assert (line["writes"], line["bytes_written"], line["end_written"]) == (256, 256 * MIB, 256 * MIB)
    assert (line["slowest_rank"], line["fastest_rank"], line["sequential_writes"]) == (3, 0, 252)
    assert np.allclose(line[["open_start_s", "open_end_s"]].astype(float), [0.001, 0.004])
    assert np.isclose(line["close_end_s"], 3.31) and pd.isna(line["read_start_s"])
    ranks = traces.ranks[traces.ranks["module"] == "DXT_POSIX"]
    assert ranks["rank"].tolist() == [0, 1, 2, 3] and ranks["writes"].tolist() == [64] * 4
    assert np.allclose(ranks["write_s"], [0.64, 0.64, 0.64, 3.2])
    sizes = traces.sizes[traces.sizes["count"] > 0]
    assert sizes[["kind", "low", "high", "count"]].to_numpy().tolist() == [
        ["bin", 100 * 1024 + 1, MIB, 256],
        ["common", MIB, MIB, 256],
    ]
    second = traces.segments[traces.segments["rank"] == 1].iloc[1]
    assert (second["offset"], second["length"], second["access"], second["host"]) == (
        5 * MIB,
        MIB,
        "write",
        "n1",
    )
    assert traces.tiers[["place", "bytes_written"]].to_numpy().tolist() == [["pfs", 256 * MIB]]


def test_what_is_not_counted_is_missing_and_what_is_large_is_exact(tmp_path: Path) -> None:
    made = darshan_logs.Made()
    made.counters("STDIO", "/x", 0, BYTES_WRITTEN=2**53 + 1, F_WRITE_TIME=-2.0)
    made.counters("POSIX", "/x", 0, READS=-1, BYTES_READ=5)
    traces = trace.read([made.write(tmp_path / "a.darshan")])
    posix, stdio = traces.files.iloc[0], traces.files.iloc[1]
    assert stdio["bytes_written"] == 2**53 + 1 and pd.isna(stdio["stats"]) and pd.isna(stdio["write_s"])
    assert pd.isna(posix["reads"]) and posix["bytes_read"] == 5
    assert traces.job["problems"].tolist() == ["1 times of STDIO are negative and not shown"]


def test_bins_are_darshans() -> None:
    assert BINS[0] == (0, 100) and BINS[1] == (101, 1024) and BINS[-1][0] == 2**30 + 1
    assert all(after[0] == before[1] + 1 for before, after in itertools.pairwise(BINS))


def test_heat_map_of_the_runtime(tmp_path: Path) -> None:
    made = darshan_logs.strided()
    made.modules.pop("DXT_POSIX")
    made.heat(0, 0.5, [10, 0, 20], [0, 0, 7])
    traces = trace.read([made.write(tmp_path / "a.darshan")])
    assert traces.heat[["start_s", "bytes_written", "bytes_read"]].to_numpy().tolist() == [
        [0, 10, 0],
        [1, 20, 7],
    ]
    moved = drawings.flow(traces)
    assert moved is not None and np.isclose(moved.written.sum(), 30) and np.isclose(moved.read.sum(), 7)


def test_longest_prefix_wins_and_names_are_whole(tmp_path: Path) -> None:
    made = darshan_logs.Made(mounts=(("/", "ext4"), ("/scratch", "lustre"), ("/scratch/bb", "xfs")))
    for name in ("/scratch/bb/f", "/scratch/bbq", "/scratch/nvme/f", "<STDOUT>"):
        made.counters("POSIX", name, 0, WRITES=1, BYTES_WRITTEN=1)
    tiers = trace.read([made.write(tmp_path / "a.darshan")], {"/scratch/nvme": "nvme"}).tiers
    assert set(tiers["place"]) == {"/scratch/bb (xfs)", "/scratch (lustre)", "nvme", "streams"}


def test_incomplete_and_storage_side_are_said(tmp_path: Path) -> None:
    made = darshan_logs.strided()
    made.metadata += "tierbench_side=storage\ntierbench_incomplete=1\n"
    job = trace.read([made.write(tmp_path / "a.darshan"), made.write(tmp_path / "b.storage.darshan")]).job
    assert job["side"].tolist() == ["storage"] * 2 and job["complete"].tolist() == [False] * 2


def test_dxt_of_a_newer_runtime_is_said(tmp_path: Path) -> None:
    made = darshan_logs.strided()
    made.versions["DXT_POSIX"] = 2
    traces = trace.read([made.write(tmp_path / "new.darshan")])
    assert not len(traces.segments) and len(traces.files) == 1
    assert "DXT_POSIX version 2: PyDarshan 3.5.0 cannot read any of its records" in traces.job["problems"][0]
    assert "cannot read any" in page.as_html(traces, page.sections(traces))


_MEASURE = """
import resource, sys
from tierbench import trace
traces = trace.read(sys.argv[1:])
usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(len(traces.segments), sum(usage))
"""


def test_a_million_segments_stay_within_2_gib(tmp_path: Path) -> None:
    path = darshan_logs.strided(ranks=16, each=62_500, length=4096).write(tmp_path / "big.darshan")
    environment = {**os.environ, "PYTHONPATH": str(Path(trace.__file__).parents[2])}
    command = [sys.executable, "-c", _MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    segments, kib = map(int, done.stdout.split())
    assert segments == 1_000_000 and kib < 2 << 20


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    evil = "/x/<script>alert(1)</script><img src=http://evil/> $\\frac{ |`*_[a](javascript:x)"
    made = darshan_logs.Made(executable=f"./a {evil}", metadata="lib_ver=<b>\n")
    made.counters(
        "POSIX",
        evil,
        0,
        OPENS=200,
        READS=200,
        SIZE_READ_0_100=200,
        BYTES_READ=200,
        F_META_TIME=9,
        F_READ_TIME=1,
    )
    traces = trace.read([made.write(tmp_path / "<i>.darshan")])
    html, markdown = (
        page.as_html(traces, page.sections(traces)),
        page.as_markdown(traces, page.sections(traces)),
    )
    for text in (html, markdown):
        assert not any(tag in text for tag in ("<script", "<img", "<b>", "<i>")) and "alert(1)" in text
    assert not re.search(r"(?<!\\)\]\(javascript", markdown)


# --- findings ----------------------------------------------------------------------------------------------


def found(tmp_path: Path, rank: float = 0, **values: float) -> dict[str, findings.Finding]:
    made = darshan_logs.Made()
    made.counters("POSIX", "/scratch/f", int(rank), **values)
    return {f.title: f for f in find(trace.read([made.write(tmp_path / "f.darshan")]))}


def test_each_finding_and_its_threshold(tmp_path: Path) -> None:
    assert not found(tmp_path, WRITES=1000, SIZE_WRITE_1M_4M=1000, SEQ_WRITES=999, BYTES_WRITTEN=2000 * MIB)
    small = {"WRITES": 1000, "SEQ_WRITES": 999, "BYTES_WRITTEN": 10**6}
    assert set(found(tmp_path, SIZE_WRITE_1K_10K=101, SIZE_WRITE_1M_4M=899, **small)) == {"Small accesses"}
    assert not found(tmp_path, SIZE_WRITE_1K_10K=100, SIZE_WRITE_1M_4M=900, **small)
    assert not found(tmp_path, WRITES=50, SIZE_WRITE_1K_10K=50, SEQ_WRITES=49)
    assert set(found(tmp_path, READS=1000, SEQ_READS=700)) == {"Random accesses"}
    assert not found(tmp_path, READS=1000, SEQ_READS=799)
    assert set(found(tmp_path, READS=1000, SEQ_READS=999, FILE_NOT_ALIGNED=101)) == {"Unaligned accesses"}
    assert not found(tmp_path, READS=1000, SEQ_READS=999, FILE_NOT_ALIGNED=100)
    assert set(found(tmp_path, F_META_TIME=0.31, F_READ_TIME=0.69)) == {"Bound by metadata"}
    assert not found(tmp_path, F_META_TIME=0.29, F_READ_TIME=0.71) and not found(tmp_path, F_META_TIME=0.04)
    both = {"BYTES_READ": MIB, "BYTES_WRITTEN": MIB, "F_WRITE_TIME": 0.3}
    assert set(found(tmp_path, F_READ_TIME=0.09, **both)) == {"Reads served by a cache"}
    assert not found(tmp_path, F_READ_TIME=0.11, **both)
    merged = {"FASTEST_RANK": 1, "SLOWEST_RANK": 2, "F_FASTEST_RANK_TIME": 1.0, "F_WRITE_TIME": 2.0}
    slow = found(tmp_path, -1, F_SLOWEST_RANK_TIME=1.2, **merged)["A straggler"]
    assert "rank 2 spent 1.2 s in I/O, 1.2 times the fastest, rank 1" in slow.measured and slow.files == (
        "/scratch/f",
    )
    assert not found(tmp_path, -1, F_SLOWEST_RANK_TIME=1.1, **merged)


def test_flushes_are_time_in_io(tmp_path: Path) -> None:
    """Segments leave them out: with them the ranks are equally slow."""
    made = darshan_logs.Made()
    for rank, length in enumerate((0.1, 0.2, 0.1, 0.1)):
        made.counters("POSIX", f"/f{rank}", rank, WRITES=2, F_WRITE_TIME=1.0)
        made.dxt(f"/f{rank}", rank, darshan_logs.accesses([0, 1], 1, [0, 1], length), EMPTY)
    assert not find(trace.read([made.write(tmp_path / "a.darshan")]))


@pytest.mark.parametrize(("told", "named"), [("", True), ("tierbench_ranks=0\n", False)])
def test_processes_that_are_no_ranks_are_no_stragglers(tmp_path: Path, told: str, named: bool) -> None:
    made = darshan_logs.strided()
    made.metadata += told
    traces = trace.read([made.write(tmp_path / "a.darshan")])
    assert ("A straggler" in {f.title for f in findings.find(traces)}) is named


def test_the_real_straggler_is_named(real: trace.Traces) -> None:
    label = next(n for n in real.job["log"].astype(str) if n.endswith("sample-badost.darshan"))
    worst = findings.slowest(real.of(label))
    assert worst is not None and worst.rank == 1507 and worst.file and worst.file.endswith(".00001507")


# --- two sides ---------------------------------------------------------------------------------------------

PLAN = {"pfs": {"path": "/pfs"}, "tiers": [{"name": "ram", "path": ""}, {"name": "nvme", "path": "/nvme"}]}


def side(tmp_path: Path, name: str, metadata: str = "", **written: int) -> trace.Traces:
    """A log of a program that closes at 3 s, while the storage is written to until 17 s."""
    made = darshan_logs.Made()
    made.metadata += metadata
    for place, count in written.items():
        made.counters(
            "POSIX",
            f"/{place}/f",
            0,
            WRITES=1,
            BYTES_WRITTEN=count,
            READS=1,
            BYTES_READ=count,
            MAX_BYTE_WRITTEN=count - 1,
            F_WRITE_TIME=2,
            F_META_TIME=1,
            F_CLOSE_END_TIMESTAMP=3,
            F_WRITE_END_TIMESTAMP=17,
        )
    return trace.read([made.write(tmp_path / f"{name}.darshan")], evidence.places_of(PLAN))


def lies_on(**things: str) -> dict[str, Any]:
    """Places and the one thing that each is on."""
    return {
        n: {"path": f"/{n}", "real": f"/{n}", "lies_on": {on: f"words of {on}"}} for n, on in things.items()
    }


STATS: dict[str, Any] = {
    "tiers": [{"name": "ram", "bytes_in": 4 * MIB}, {"name": "nvme", "bytes_in": 2 * MIB}],
    "pfs": {"bytes_written": 6 * MIB},
    "drain_s": 14.0,
}


def proof(
    application: trace.Traces | None, storage: trace.Traces | None, stats: dict[str, Any], mode: str = ""
) -> evidence.Evidence:
    found = evidence.gather("NVMe + RAM", application, storage, PLAN | {"mode": mode}, stats)
    assert found is not None
    return found


def test_proof_of_the_tier(tmp_path: Path) -> None:
    application = side(tmp_path, "application", pfs=6 * MIB)
    storage = side(tmp_path, "storage", pfs=6 * MIB, nvme=2 * MIB)
    found = proof(application, storage, STATS)
    assert found.proven and found.sentence == (
        "NVMe + RAM: 100 % of 6 MiB acknowledged in ram (4 MiB) and nvme (2 MiB); PFS received 6 MiB"
        " within 14 s after close."
    )
    ram, nvme, pfs = found.places
    assert ram.storage is None and ram.engine == evidence.Moved(4 * MIB, 0)
    assert nvme.storage is not None and nvme.storage.written == 2 * MIB
    assert pfs.asked is not None and pfs.storage is not None and pfs.asked.seconds == pfs.storage.seconds == 3
    alone = proof(application, None, STATS).sentence
    assert "within 14 s after the program's end (the engine's own count: no storage log)" in alone
    assert evidence.gather("x", None, None, PLAN, STATS) is None


@pytest.mark.parametrize(
    ("pfs", "nvme", "told"),
    [
        ("device 1:1", "device 2:2", None),
        ("device 1:1", "device 1:1", "pfs and nvme share storage: words of device 1:1"),
        ("device 1:1", "memory", "nvme is in memory: words of memory"),
    ],
)
def test_a_tier_that_is_no_place_of_its_own_proves_nothing(
    pfs: str, nvme: str, told: str | None, tmp_path: Path
) -> None:
    both = side(tmp_path, "application", pfs=6 * MIB), side(tmp_path, "storage", pfs=6 * MIB, nvme=2 * MIB)
    found = evidence.gather("x", *both, PLAN, STATS, lies_on(pfs=pfs, nvme=nvme))
    assert found is not None and found.missing == ((told,) if told else ())
    assert told is None or found.sentence.endswith(f". NOT PROVEN: {told}.")
    baseline = evidence.gather("x", *both, PLAN | {"mode": "bypass"}, STATS, lies_on(pfs=pfs, nvme=nvme))
    assert baseline is not None and baseline.proven  # no tier, no claim


def test_a_move_and_scratch_are_said(tmp_path: Path) -> None:
    stats = {"tiers": [{"name": "ram", "bytes_in": 6 * MIB}, {"name": "nvme", "moved_in": 6 * MIB}]}
    application = side(tmp_path, "application", pfs=6 * MIB)
    found = proof(application, side(tmp_path, "storage", nvme=6 * MIB), stats, "scratch")
    assert found.proven and found.sentence == (
        "NVMe + RAM: 100 % of 6 MiB acknowledged in ram, moved on to nvme;"
        " PFS received 0 B, as scratch promises."
    )
    found = proof(application, side(tmp_path, "storage", pfs=6 * MIB), stats, "bypass")
    assert found.proven and "no tiers, 6 MiB written; PFS received 6 MiB" in found.sentence


@pytest.mark.parametrize(
    ("stats", "told"),
    [
        ({"tiers": [{"name": "ram", "bytes_in": 6 * MIB - 1}]}, "99.9 % of 6 MiB"),
        (
            {"tiers": [{"name": "ram", "bytes_in": 3 * MIB}]},
            "NOT PROVEN: 3 MiB were not acknowledged by a tier",
        ),
        ({"spilled": MIB}, "1 MiB found the tiers full and went straight to the PFS"),
        ({"passed": 3}, "3 opens passed through unbuffered"),
        (
            {"tiers": [{"name": "ram", "bytes_in": 8 * MIB}]},
            "took 2 MiB that the application log does not hold",
        ),
        ({"tiers": [{"name": "nvme", "bytes_in": 6 * MIB}]}, "nvme acknowledged 4 MiB more than its storage"),
        ({"errors": [{"path": "/pfs/f", "error": "No space"}]}, "the flush of /pfs/f failed (No space)"),
        ({"tiers": [{"name": "ram", "bytes_in": 6 * MIB, "dirty": MIB}]}, "1 MiB are not on the PFS yet"),
        ({"tiers": []}, "no counters of the engine say"),
    ],
)
def test_what_keeps_a_proof_from_holding(stats: dict[str, Any], told: str, tmp_path: Path) -> None:
    application = side(tmp_path, "application", pfs=6 * MIB)
    found = proof(application, side(tmp_path, "storage", pfs=6 * MIB, nvme=2 * MIB), STATS | stats)
    assert not found.proven and told in found.sentence and "NOT PROVEN" in found.sentence


def test_lost_bytes_and_incomplete_logs_prove_nothing(tmp_path: Path) -> None:
    application = side(tmp_path, "application", pfs=6 * MIB)
    found = proof(application, side(tmp_path, "storage", pfs=4 * MIB, nvme=2 * MIB), STATS)
    assert found.sentence.endswith(
        "NOT PROVEN: the PFS received 2 MiB less than was written (removed before its flush, or lost)."
    )
    died = side(tmp_path, "died", metadata="tierbench_incomplete=1\n", pfs=6 * MIB)
    assert proof(died, None, STATS).missing == ("the application log is incomplete",)
    assert "nothing is proven" in proof(None, side(tmp_path, "storage", pfs=1), STATS).sentence


def test_bytes_written_twice_need_to_arrive_once(tmp_path: Path) -> None:
    made = darshan_logs.Made()
    made.counters("POSIX", "/pfs/f", 0, WRITES=6, BYTES_WRITTEN=6 * MIB, MAX_BYTE_WRITTEN=4 * MIB - 1)
    written = darshan_logs.accesses(np.array([0, 1, 2, 3, 1, 0]) * MIB, MIB, np.arange(6), 1)
    made.dxt("/pfs/f", 0, written, EMPTY)
    application = trace.read([made.write(tmp_path / "a.darshan")], evidence.places_of(PLAN))
    assert proof(application, side(tmp_path, "storage", pfs=4 * MIB, nvme=2 * MIB), STATS).proven
    assert not proof(application, side(tmp_path, "storage", pfs=3 * MIB, nvme=2 * MIB), STATS).proven


def test_a_program_that_only_reads(tmp_path: Path) -> None:
    made = darshan_logs.Made()
    made.counters("POSIX", "/pfs/f", 0, READS=6, BYTES_READ=6 * MIB)
    reads = trace.read([made.write(tmp_path / "a.darshan")], evidence.places_of(PLAN))
    stats = {"tiers": [{"name": "ram", "bytes_out": 5 * MIB}, {"name": "nvme"}], "pfs": {"bytes_read": MIB}}
    found = proof(reads, None, stats)
    assert found.proven
    assert found.sentence == "NVMe + RAM: 83.3 % of 6 MiB read from ram; PFS was asked for 1 MiB."
    found = proof(reads, None, stats | {"pfs": {"bytes_read": 0}})
    assert found.missing == ("1 MiB came neither from a tier nor from the PFS",)


def test_reads_that_the_storage_did_not_see(tmp_path: Path) -> None:
    application = side(tmp_path, "application", pfs=6 * MIB)
    assert findings.served_by_buffers(application, side(tmp_path, "below", pfs=MIB)) is not None
    assert findings.served_by_buffers(application, side(tmp_path, "storage", pfs=6 * MIB)) is None


# --- figures and exports -----------------------------------------------------------------------------------


def test_bandwidth_is_shared_out_over_time(tmp_path: Path) -> None:
    made = darshan_logs.Made()
    rng = np.random.default_rng(5)
    starts = rng.uniform(0, 50, 2000)
    made.dxt(
        "/f",
        0,
        darshan_logs.accesses(np.zeros(2000), MIB, starts, 0.003),
        darshan_logs.accesses([0], 600, 10.0, 30.0),
    )
    moved = drawings.flow(trace.read([made.write(tmp_path / "a.darshan")]))
    assert (
        moved is not None
        and np.isclose(moved.written.sum(), 2000 * MIB)
        and np.isclose(moved.read.sum(), 600)
    )
    width = moved.edges_s[1]
    whole = [i for i, e in enumerate(moved.edges_s[:-1]) if e >= 10 and e + width <= 40]
    assert np.allclose(moved.read[0, whole], 20 * width)
    counted, _ = np.histogram(starts + 0.0015, moved.edges_s, weights=np.full(2000, MIB))
    assert np.corrcoef(counted, moved.written[0])[0, 1] > 0.99


def test_exports_hold_every_line(tmp_path: Path, strided: Path) -> None:
    assert main(["trace", str(strided), "-o", str(tmp_path / "out")]) == 0
    traces = trace.read([strided])
    for name, frame in traces.frames().items():
        parquet = polars.read_parquet(tmp_path / "out" / f"{name}.parquet")
        csv = pd.read_csv(tmp_path / "out" / f"{name}.csv")
        assert parquet.columns == list(csv.columns) == list(frame.columns)
        assert len(parquet) == len(csv) == len(frame)
    written = polars.read_parquet(tmp_path / "out" / "segments.parquet")
    assert written["offset"].to_list() == traces.segments["offset"].tolist()
    assert written["access"].to_list() == traces.segments["access"].astype(str).tolist()
    assert polars.read_parquet(tmp_path / "out" / "files.parquet")["bytes_written"].to_list() == [256 * MIB]
    assert "A straggler" in (tmp_path / "out" / "trace.md").read_text()


def test_the_engines_own_files_are_not_blamed(tmp_path: Path) -> None:
    """Of the storage side; a program's file there, and the same name on the application side, are."""
    slab, shared = "/nvme/tierbench.0.n1.run-7/slab.0", "/pfs/shared.dat"
    busy = {
        "WRITES": 1000,
        "BYTES_WRITTEN": 1000,
        "F_META_TIME": 5.0,
        "OPENS": 9,
        "SIZE_WRITE_0_100": 1000,
        "FILE_NOT_ALIGNED": 900,
        "FILE_ALIGNMENT": 4096,
    }

    def titles(files: tuple[str, ...], name: str) -> set[str]:
        made = darshan_logs.Made(nprocs=1)
        for file in files:
            made.counters("POSIX", file, 0, **busy)
        return {f.title for f in find(trace.read([made.write(tmp_path / name)]))}

    every = {"Small accesses", "Random accesses", "Unaligned accesses", "Bound by metadata"}
    assert titles((slab,), "a.storage.darshan") == set()
    assert titles((slab, shared), "b.storage.darshan") == every - {"Small accesses"}
    assert titles((shared,), "c.storage.darshan") == every
    assert titles((slab,), "d.darshan") == every
