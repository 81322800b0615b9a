"""The HPDC'18 evaluation: sizes at a scale, the check of bytes, one run of each program."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
import yaml
from test_suite import reframe

from common.outcome.verify_steps import header, numbers, particles, right, words
from common.scales.hpdc18_scale import WORKLOADS, Hpdc18Scale, Steps, dropped, hpdc18_scale, steps_of
from common.sites.programs import has_romio
from common.sites.tiers import HPDC18_TIERS, ROOT, ScaleError, directories_of
from common.sites.twin import device, rate
from tierbench.base.sizes import MIB

PUBLISHED = Hpdc18Scale(
    "published",
    1024,
    {"alternating": 64 * MIB, "repetitive": 32 * MIB, "vpic": 64 * MIB, "hacc": 64 * MIB},
    {},
)


def steps(name: str, scale: Hpdc18Scale = PUBLISHED, scaling: str = "none", bytes_s: float = 735e6) -> Steps:
    return steps_of(WORKLOADS[name], scale, scaling, bytes_s)


def test_the_published_runs_are_a_scale() -> None:
    found = steps("alternating-balanced")
    assert (found.written, found.phases, found.ranks) == (1 << 40, 16, 1024)  # "1TB total I/O"
    assert [steps(f"read-x{n}").bytes for n in (1, 4, 16)] == [32 * MIB, 8 * MIB, 2 * MIB]
    assert {steps(f"read-x{n}").read for n in (1, 4, 16)} == {32 << 30}
    assert steps("vpic").written == 1 << 40
    assert steps("hacc").header == 24 * MIB
    assert dropped(replace(found, ranks=1024)) == ("nodes: 1 of 32", "ranks: 1024 of 1024")


@pytest.mark.parametrize("file", sorted((ROOT / "configs/scales").glob("*.yaml")), ids=lambda f: f.stem)
def test_every_scale_has_its_part(file: Path) -> None:
    assert hpdc18_scale(file.stem).ranks > 0


def test_compute_is_counted_in_the_time_of_the_pfs() -> None:
    phase_s = 64 * MIB * 1024 / 735e6
    for name, times in (("data-intensive", 0.5), ("balanced", 1), ("compute-intensive", 2)):
        assert steps(f"alternating-{name}").compute_us == round(times * phase_s * 1e6)
    assert steps("read-x4").compute_us == 0


@pytest.mark.parametrize("name", ["vpic", "alternating-balanced"])
def test_strong_scaling_keeps_the_bytes_and_weak_those_of_a_rank(name: str) -> None:
    one, scale = steps(name), PUBLISHED
    for ranks, by in ((512, "half"), (2048, "double")):
        strong, weak = steps(name, scale, f"strong-{by}"), steps(name, scale, f"weak-{by}")
        assert strong.ranks == weak.ranks == ranks
        assert strong.written == one.written
        assert weak.bytes == one.bytes


def test_command_lines_are_those_of_the_benchmarks() -> None:
    assert steps("vpic").arguments("/p")[:3] == ["/p/vpic.h5", "--particles", str(2 * MIB)]
    hacc = steps("hacc").arguments("/p")
    assert hacc[:3] == [str(64 * MIB // 38), "/p/hacc", "--mpiio"] and hacc[-1] == "--flush"
    assert steps("read-x16").arguments("/p") == [
        "/p/temporary",
        "-b",
        str(2 * MIB),
        "-t",
        str(MIB),
        "--times",
        "16",
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  ranks: 2", "  ranks: 0", "hpdc18: ranks: 0; allowed: a whole number above 0"),
        ("  vpic:", "  vpik:", "allowed: a mapping of ranks, alternating, repetitive, vpic, hacc"),
        ("bytes: 16m", "bytes: 16x", "allowed: a number above 0 with k, m, g or t"),
        ("bytes: 16m", "bytes: 1000", "allowed: a multiple of 64k"),
        ("factor: 3", "factor: 0", "factor: 0; allowed: a whole number above 0"),
    ],
)
def test_a_wrong_scale_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, told: str
) -> None:
    text = (ROOT / "configs" / "scales" / "local.yaml").read_text()
    assert old in text
    (tmp_path / "x.yaml").write_text(text.replace(old, new))
    monkeypatch.setattr("common.scales.hpdc18_scale.scale_file", lambda name: tmp_path / f"{name}.yaml")
    with pytest.raises(ScaleError, match=told):
        hpdc18_scale("x")


def test_a_client_node_has_its_share_of_the_testbed() -> None:
    """Device table of the talk, last two rows, in MB/s of 32 client nodes."""
    tested = {"ram": (92647, 86496), "nvme": (38674, 33103), "bb": (3326, 2762), "pfs": (883, 735)}
    for name, (read, write) in tested.items():
        model = device(f"twins/hpdc18-{name}")
        assert rate(model, "read") * 32 / 1e6 == pytest.approx(read, rel=1e-5)
        assert rate(model, "write") * 32 / 1e6 == pytest.approx(write, rel=1e-5)


def test_the_comparators_have_the_tiers_of_the_papers() -> None:
    found = {name: directories_of(name) for name in HPDC18_TIERS}
    assert found["pfs"] == ["pfs"]
    assert found["hpdc18/datawarp"] == found["hpdc18/elevator"] == ["pfs", "bb"]
    assert found["hpdc18/hermes"] == ["pfs", "nvme", "bb"]


# --- bytes -------------------------------------------------------------------------------------------------

SMALL = Hpdc18Scale("small", 2, dict.fromkeys(("alternating", "repetitive", "vpic", "hacc"), 4096), {})


def write(found: Steps, folder: Path) -> None:
    """What the programs write, by Python."""
    kind = found.workload.kind
    if kind in ("alternating", "repetitive"):
        for rank in range(found.ranks):
            name = "temporary" if found.workload.temporary else "checkpoint"
            words(rank, found.bytes * found.phases // 8).tofile(folder / f"{name}.{rank:08d}")
    elif kind == "vpic":
        with h5py.File(folder / "vpic.h5", "w") as file:
            for step in range(16):
                for v, name in enumerate(("x", "y", "z", "id1", "id2", "px", "py", "pz")):
                    made = numbers(step, v, 2 * found.bytes // 32)
                    file[f"Step#{step}/{name}"] = made.astype("<i4" if name[0] == "i" else "<f4")
    else:
        count = found.bytes // 38
        for step in range(16):
            data = header(found, count) + particles(0, count, step) + particles(1, count, step)
            of_step = f"-Step{step:08d}" if step else ""
            (folder / f"hacc{of_step}-Part00000000-of-00000001.data").write_bytes(data)


@pytest.mark.parametrize("name", ["alternating-balanced", "read-x1", "vpic", "hacc"])
def test_one_wrong_byte_or_a_missing_file_is_seen(name: str, tmp_path: Path) -> None:
    found = steps(name, SMALL)
    write(found, tmp_path)
    assert right(found, tmp_path)
    last = sorted(tmp_path.iterdir())[-1]
    data = last.read_bytes()
    middle = len(data) // 2
    last.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    assert not right(found, tmp_path)
    last.unlink()
    assert not right(found, tmp_path)


def test_the_tag_is_of_workloads_originals_and_components() -> None:
    """The components have one of their own, too."""
    listed = {tag: reframe("-l", "-t", tag).stdout for tag in ("hpdc18", "components")}
    assert listed["hpdc18"].count("- Hpdc18Policies ") == 7 * len(WORKLOADS)
    assert listed["hpdc18"].count("- Hpdc18Originals ") == 6
    assert listed["hpdc18"].count("- Hpdc18Components ") == listed["components"].count("- ") > 30


def test_compute_is_left_out_where_nothing_moves_meanwhile(tmp_path: Path) -> None:
    """On the PFS alone and on DataWarp-like tiers; elsewhere compute hides the flush."""
    chosen = "Hpdc18Comparators.*workload=alternating-balanced"
    done = reframe("--dry-run", "--prefix", str(tmp_path), "-S", "scale=smoke", "-n", chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = [job.read_text() for job in tmp_path.glob("stage/**/rfm_job.sh")]
    computes = sorted(int(re.findall(r"--compute-us (\d+)", job)[0]) for job in jobs)
    assert computes[:2] == [0, 0] and computes[2] > 1000
    right_before = re.compile(r"touched\.py auto \d{9} touched-workload\.json\n.*launch workload begins")
    assert all(right_before.search(job) for job in jobs)


def test_temporary_data_are_not_flushed_while_the_program_runs(tmp_path: Path) -> None:
    """They need not reach the PFS; a checkpoint's bytes go there at once."""
    chosen = "Hpdc18Policies.*workload=(read-x16|vpic|hacc)%placement=max-bandwidth"
    done = reframe("--dry-run", "--prefix", str(tmp_path), "-S", "scale=smoke", "-n", chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for job in tmp_path.glob("stage/**/rfm_job.sh"):
        config = yaml.safe_load((job.parent / "tiers.yaml").read_text())
        found[re.findall(r"tb-(\w+)", job.read_text())[-1]] = (
            config["flush"]["policy"],
            "OMPI_MCA_io=^ompio" in job.read_text().replace('"', ""),
        )
    assert found == {
        "reread": ("manual", False),
        "vpic": ("watermark", False),
        "hacc": ("watermark", has_romio()),
    }


# --- a run -------------------------------------------------------------------------------------------------


def test_each_program_runs_under_hermes_tiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERBENCH_RUN_DIR", str(tmp_path / "run"))
    chosen = r"Hpdc18Policies.*workload=(alternating-balanced|read-x16|vpic|hacc)%placement=user-defined"
    done = reframe("-r", "--prefix", str(tmp_path), "-S", "scale=smoke", "-n", chosen, "--exec-policy=serial")
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted((tmp_path / "run" / "cases").glob("*/1/case.json"))
    cases = {case["test"]: case for case in map(json.loads, (file.read_text() for file in files))}
    assert set(cases) == {f"hpdc18-{name}" for name in ("alternating-balanced", "read-x16", "vpic", "hacc")}
    for file, case in zip(files, cases.values(), strict=True):
        assert (case["verified"], case["policy"], case["metric"], case["modelled"]) == (
            True,
            "user-defined",
            "time",
            True,
        )
        record = json.loads((file.parent / "hpdc18.json").read_text())
        assert record["buffering"] == "user-defined" and set(record["rates"]) == {"ram", "nvme", "bb", "pfs"}
        parts = sum(v for part, v in record["seconds"].items() if part not in ("compute", "drain"))
        late = 0 if record["kind"] == "repetitive" else record["seconds"]["drain"]
        assert case["value"] == pytest.approx(parts + late, abs=1e-4)
