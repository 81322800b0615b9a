"""What the machine does below a twin is measured once, and too little of it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.scales import medium
from common.scales.medium import media_of, too_slow
from common.scales.scale import acceptance_scale, sizes
from common.sites.capacity_checks import hog_bytes, memory_bytes, short_of_memory
from common.sites.tiers import ScaleError
from tierbench.recipes.published import read_recipes

RECIPES = {r.name: r for r in read_recipes()}


@pytest.mark.parametrize("recipe", ["cfs-iops", "cfs-bandwidth", "summit-metadata-gpfs"])
def test_each_access_has_its_medium_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    found, record = RECIPES[recipe], tmp_path / "run" / "medium.json"
    scaled = sizes(found, acceptance_scale("smoke"), found.twin.factor, 1 << 30)
    first = media_of(found, scaled, tmp_path / "not" / "yet", record)
    assert first.keys() == {n.access for n in found.numbers}
    assert all(value > 0 for value in first.values())
    assert len(json.loads(record.read_text())) == len(first)
    monkeypatch.setattr(medium, "_measured", None)
    assert media_of(found, scaled, tmp_path, record) == first
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_units_are_those_of_the_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(medium, "_measured", lambda *_, **__: 100.0)

    def of(recipe: str) -> dict[str, float]:
        found = RECIPES[recipe]
        scaled = sizes(found, acceptance_scale("smoke"), found.twin.factor, 1 << 30)
        return media_of(found, scaled, tmp_path, tmp_path / f"{recipe}.json")

    assert of("cori-lustre-1-posix") == {"write": 400.0, "read": 400.0}  # transfers of 4 MiB
    assert of("cfs-iops") == {"write": 100.0, "read": 100.0}
    operations = of("summit-metadata-nvme")["metadata"] * 100 / 2
    assert operations == round(operations) > 0


def test_half_of_the_medium_is_the_most() -> None:
    recipe = RECIPES["cfs-bandwidth"]
    shares = {"write": 200.0, "read": 150.0}
    assert too_slow(recipe, {"write": 400.0, "read": 300.0}, shares, 16) is None
    lacks = too_slow(recipe, {"write": 400.0, "read": 200.0}, shares, 16)
    assert lacks and lacks.startswith("read: the medium does 200 MiB/s, less than twice the twin's 150")
    assert lacks.endswith("needs -S twin_factor=24")


def test_of_times_the_shorter_is_better() -> None:
    recipe = RECIPES["summit-metadata-gpfs"]
    assert too_slow(recipe, {"metadata": 0.4}, {"metadata": 1.0}, 4) is None
    lacks = too_slow(recipe, {"metadata": 0.8}, {"metadata": 1.0}, 4)
    assert lacks and lacks.endswith("needs -S twin_factor=7")


def test_a_hog_is_a_share_of_the_memory_or_a_size() -> None:
    assert hog_bytes("") == 0 and hog_bytes("2g") == 2 << 30
    assert 0 < hog_bytes("10%") < hog_bytes("80%")
    for text in ("0%", "100%", "much", "-1g"):
        with pytest.raises(ScaleError, match="allowed: 1% to 99%, or a size such as 2g"):
            hog_bytes(text)


def test_memory_that_lacks_is_told_by_what_needs_it() -> None:
    assert memory_bytes() > 0
    assert short_of_memory({"a": 1, "b": 2}, 3) is None
    assert short_of_memory({"a": 0, "b": 4}, 3) == "needs 4 bytes of memory (b 4); 3 are there"
