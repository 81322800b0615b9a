"""What a scale makes of a recipe, how its bytes are checked, and what bad input says; nothing is launched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from common.jobs.launches import PRINTED_TENTH
from common.outcome.launch_numbers import measured, outputs_of
from common.outcome.verify_bytes import check
from common.scales import hpdc18_scale
from common.scales.scale import (
    Sizes,
    acceptance_scale,
    read_acceptance,
    segments_of,
    size_of,
    sizes,
    value_of,
)
from common.sites import tiers
from common.sites.tiers import ROOT, ScaleError
from common.sites.twin import device, slowed
from tierbench.recipes.published import Recipe, read_recipes

RECIPES = {r.name: r for r in read_recipes()}
MEMORY = 16 << 30
SIZE_OPTIONS = ("-b", "-s", "-D")


def at(recipe: str, scale: str, factor: int | None = None) -> Sizes:
    found = RECIPES[recipe]
    return sizes(found, acceptance_scale(scale), factor or found.twin.factor, MEMORY)


def without_sizes(arguments: tuple[str, ...]) -> list[str]:
    values = {arguments.index(o) + 1 for o in SIZE_OPTIONS if o in arguments}
    return [a for i, a in enumerate(arguments) if i not in values]


@pytest.mark.parametrize("recipe", RECIPES)
def test_full_is_as_published(recipe: str) -> None:
    found = at(recipe, "full", 1)
    assert found.arguments == tuple(launch.arguments for launch in RECIPES[recipe].launches)
    assert (found.nodes, found.ranks) == (RECIPES[recipe].nodes, RECIPES[recipe].ranks)
    assert found.dropped == ()


@pytest.mark.parametrize("scale", ["smoke", "local", "node"])
@pytest.mark.parametrize("recipe", [n for n in RECIPES if "metadata" not in n])
def test_a_scale_changes_sizes_and_no_flag(recipe: str, scale: str) -> None:
    found = at(recipe, scale)
    for launch, arguments in zip(RECIPES[recipe].launches, found.arguments, strict=True):
        assert without_sizes(arguments) == without_sizes(launch.arguments)
        assert size_of(arguments, "-b") % size_of(arguments, "-t") == 0
    assert any(line.startswith("nodes: 1 of ") for line in found.dropped)


@pytest.mark.parametrize("recipe", [n for n in RECIPES if "metadata" not in n])
def test_node_defeats_the_cache_with_all_processes(recipe: str) -> None:
    found = at(recipe, "node", 1)
    assert found.ranks == RECIPES[recipe].ranks_per_node
    assert found.total_bytes >= 1.5 * MEMORY
    for launch, arguments in zip(RECIPES[recipe].launches, found.arguments, strict=True):
        assert value_of(arguments, "-D") == value_of(launch.arguments, "-D")


def test_what_is_dropped_is_said() -> None:
    told = at("perlmutter-read", "local").dropped
    assert "nodes: 1 of 1382 (90 % of the machine's)" in told
    assert "generated for: 2 of 90 s" in told
    assert "sustained: 1 of 30 s" in told
    assert "rank shift (-C): stays on the node" in told
    assert any(line.startswith("bytes a rank: ") and line.endswith(" of 100000 MiB") for line in told)


def test_a_deadline_leaves_data_that_no_rank_reaches() -> None:
    found, recipe = at("perlmutter-write", "local"), RECIPES["perlmutter-write"]
    share = recipe.number("write").per_node * 2**20 / recipe.twin.factor
    assert found.total_bytes >= 3 * share
    assert segments_of(found.arguments[0]) * size_of(found.arguments[0], "-b") == found.bytes_per_rank


def test_the_metadata_program_is_told_a_count() -> None:
    assert at("summit-metadata-gpfs", "full", 1).arguments == ((),)
    found = at("summit-metadata-gpfs", "local")
    assert found.arguments == ((str(found.operations),),)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("nodes", "some", "published or a whole number above 0"),
        ("ranks_per_node", 0, "published or a whole number above 0"),
        ("bytes", "64m", "published, a number and s, or a number and memory"),
        ("seconds", "1.5", "published or a fraction such as 1/45"),
    ],
)
def test_a_bad_scale_names_file_key_and_what_is_allowed(
    tmp_path: Path, key: str, value: object, allowed: str
) -> None:
    given = yaml.safe_load((ROOT / "configs" / "scales" / "local.yaml").read_text())
    given["acceptance"][key] = value
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(given))
    with pytest.raises(ScaleError, match=allowed) as caught:
        read_acceptance(file)
    assert f"{file}: acceptance: {key}: {value!r}" in str(caught.value)


WRONG_SIZE = """
{ranks: 2, repetitions: 1, block: 1m,
 hpdc18: {ranks: 2, alternating: &x {bytes: x, factor: 1}, repetitive: *x, vpic: *x, hacc: *x}}
"""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "None; allowed: a mapping"),
        ("- 1", "[1]; allowed: a mapping"),
        ("{ranks: 2, repetitions: 1}", "block: 'None'; allowed: a number above 0 with k, m, g or t"),
        (
            WRONG_SIZE,
            "hpdc18: alternating: bytes: 'x'; allowed: a number above 0 with k, m, g or t",
        ),
    ],
)
def test_a_scale_of_another_shape_is_refused_and_skips_no_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, told: str
) -> None:
    """ReFrame skips a test that cannot be made, and ends with 0: nothing was run, and nothing failed."""
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    for module in (tiers, hpdc18_scale):
        monkeypatch.setattr(module, "scale_file", lambda _: file)
    with pytest.raises(ScaleError) as caught:
        tiers.read_scale("mine")
        hpdc18_scale.hpdc18_scale("mine")
    assert str(caught.value) == f"{file}: {told}"


# --- twins -------------------------------------------------------------------------------------------------


def seconds_of(text: str) -> float:
    units = {"us": 1e-6, "ms": 1e-3}
    return float(text[:-2]) * units[text[-2:]]


def rate(model: dict[str, Any], access: str, transfer: int) -> float:
    """Bytes a second of a device, in transfers of that size."""
    latency: float = seconds_of(model.get(f"{access}_latency", "0us")) / model["channels"]
    bandwidth: float = float(model[f"{access}_bandwidth"].removesuffix("MiB/s")) * 2**20
    return transfer / (latency + transfer / bandwidth)


@pytest.mark.parametrize(
    "recipe", [r for r in RECIPES.values() if "metadata" not in r.name], ids=lambda r: r.name
)
def test_a_twin_has_the_published_share(recipe: Recipe) -> None:
    model = device(recipe.twin.device)
    for launch in recipe.launches:
        for number in map(recipe.number, launch.measures):
            transfer = size_of(launch.arguments, "-t")
            share = number.per_node * (2**20 if number.metric == "bandwidth" else transfer)
            assert rate(model, number.access, transfer) == pytest.approx(share, rel=2e-3)
            slow = rate(slowed(model, recipe.twin.factor), number.access, transfer)
            assert slow * recipe.twin.factor == pytest.approx(share, rel=2e-3)


@pytest.mark.parametrize("recipe", ["summit-metadata-gpfs", "summit-metadata-nvme"])
def test_the_metadata_twin_takes_the_published_time(recipe: str) -> None:
    time = seconds_of(device(RECIPES[recipe].twin.device)["metadata_time"])
    assert 2 * 1_000_000 * time == pytest.approx(RECIPES[recipe].numbers[0].value, rel=1e-3)


# --- bytes, outputs, datasets ------------------------------------------------------------------------------


def write_like_ior(base: Path, ranks: int, transfer: int, count: int) -> None:
    words = np.arange(transfer // 8, dtype=np.int64) + 1638301383
    for rank in range(ranks):
        row = (rank << 32) | words.astype(np.uint64)
        base.with_name(f"{base.name}.{rank:08d}").write_bytes(row.tobytes() * count)


def test_right_bytes_are_counted_and_holes_are_none(tmp_path: Path) -> None:
    base = tmp_path / "f"
    write_like_ior(base, 2, 4096, 8)
    with (tmp_path / "f.00000001").open("r+b") as file:
        file.seek(3 * 4096)
        file.write(bytes(4096))
    found = check(base, 2, 4096, 8 * 4096, shared=False)
    assert (found.right, found.wrong) == (15 * 4096, 0)


@pytest.mark.parametrize("place", [0, 4096 + 8, 5 * 4096 - 1])
def test_one_wrong_byte_is_found(tmp_path: Path, place: int) -> None:
    base = tmp_path / "f"
    write_like_ior(base, 2, 4096, 8)
    with (tmp_path / "f.00000001").open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))
    found = check(base, 2, 4096, 8 * 4096, shared=False)
    assert found.wrong == 4096 and found.problem and "f.00000001" in found.problem


def test_the_data_of_another_rank_is_wrong(tmp_path: Path) -> None:
    base = tmp_path / "f"
    write_like_ior(base, 2, 4096, 8)
    (tmp_path / "f.00000001").write_bytes((tmp_path / "f.00000000").read_bytes())
    assert check(base, 2, 4096, 8 * 4096, shared=False).wrong == 8 * 4096


def test_a_shared_file_has_a_block_of_each_rank_in_turn(tmp_path: Path) -> None:
    write_like_ior(tmp_path / "p", 2, 4096, 2)
    first, second = ((tmp_path / f"p.0000000{r}").read_bytes() for r in (0, 1))
    (tmp_path / "s").write_bytes((first + second) * 3)
    assert check(tmp_path / "s", 2, 4096, 8192, shared=True).right == 6 * 8192
    (tmp_path / "s").write_bytes((second + first) * 3)
    assert check(tmp_path / "s", 2, 4096, 8192, shared=True).wrong == 6 * 8192


def test_an_output_without_numbers_is_no_result() -> None:
    text = "tierbench: launch 1 begins\nnothing\ntierbench: launch 1 ends\n"
    with pytest.raises(Exception, match="is not output of IOR"):
        measured(outputs_of(text)["1"], "write", "bandwidth", ("-t", "1m"), 1, Path("none"))
    with pytest.raises(ValueError, match="holds 0 lines 'Duration:'"):
        measured(outputs_of(text)["1"], "metadata", "time", (), 1, Path("none"))
    with pytest.raises(ValueError, match="launch 1 began and did not end"):
        outputs_of("tierbench: launch 1 begins\n")
    limited = "tierbench: launch 1 begins\nwrite 5\ntierbench: launch 1 was ended after 70 s: 10 times 1 s\n"
    for script_goes_on in ("", "tierbench: launch 1 ends\n"):
        with pytest.raises(ValueError, match=r"^launch 1 was ended after 70 s: 10 times 1 s$"):
            outputs_of(limited + script_goes_on)


@pytest.mark.parametrize(
    ("sizes_there", "extent", "status"),
    [
        ([100, 100], "complete", 0),
        ([100, 99], "complete", 2),
        ([100], "complete", 2),
        ([], "complete", 2),
        ([60, 50], "stonewalled", 0),
        ([60, 0], "stonewalled", 2),
    ],
)
def test_a_dataset_that_is_not_there_is_refused(
    tmp_path: Path, sizes_there: list[int], extent: str, status: int
) -> None:
    for rank, size in enumerate(sizes_there):
        (tmp_path / f"d.{rank:08d}").write_bytes(b"x" * size)
    script = ROOT / "reframe_tests" / "common" / "jobs" / "dataset.py"
    command = [sys.executable, str(script), str(tmp_path / "d"), "2", "100", "separate", extent]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert ("is not generated: needs 2 files of 100 bytes; there are" in done.stderr) == (status == 2)


def test_bytes_that_a_driver_prints_in_tenths_of_a_mib_are_the_bytes_that_it_wrote() -> None:
    """Also 66.25 MiB, which is printed as 66.2."""
    for written in range(0, 256 << 20, 4096):
        printed = round(float(f"{written / (1 << 20):.1f}") * (1 << 20))
        assert abs(written - printed) <= PRINTED_TENTH, written
    assert PRINTED_TENTH < (1 << 20) / 10
