"""The benchmarks of others, where a site has them: stubs in their places run ours, or spoil something."""

from __future__ import annotations

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from test_suite import reframe

from common.outcome.same_files import differences
from common.scales.hpdc18_originals import ORIGINALS, h5bench_config
from common.scales.hpdc18_scale import hpdc18_scale
from common.sites.programs import own_program

H5BENCH = """
of() { sed -n "s/^$1=//p" "$2"; }
set -- "$2" --particles "$(of DIM_1 "$1")" --steps "$(of TIMESTEPS "$1")"
"""


def stub(folder: Path, name: str, more: str = "") -> Path:
    """A program with the original's command line, which ours reads, too; `more` comes after it."""
    own = own_program(ORIGINALS[name].embedded)
    words = H5BENCH if name == "h5bench_write" else ""
    program = folder / name
    program.write_text(f'#!/bin/bash\nset -e\nfile=$2\n{words}{own} "$@"\n{more}\n')
    program.chmod(0o755)
    return program


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *programs: Path) -> str:
    """The whole class with these in the variables."""
    monkeypatch.setenv("TIERBENCH_RUN_DIR", str(tmp_path / "run"))
    for program in programs:
        monkeypatch.setenv(program.name.upper(), str(program))
    options = [
        "-n",
        "Hpdc18Originals",
        "-S",
        "scale=smoke",
        "--exec-policy=serial",
        "--prefix",
        str(tmp_path),
    ]
    done = reframe("-r", *options)
    return re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)


def test_one_that_is_missing_is_skipped_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HACC_IO", raising=False)
    text = run(tmp_path, monkeypatch)
    for name, original in ORIGINALS.items():
        assert text.count(f"needs {original.variable} set to the program, or {name} on PATH") >= 2


def test_each_runs_on_the_pfs_and_on_tiers_and_ours_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run(tmp_path, monkeypatch, *(stub(tmp_path, name) for name in ORIGINALS))
    assert "Ran 6/6 test case(s) from 6 check(s) (0 failure(s)" in text, text
    cases = [json.loads(file.read_text()) for file in (tmp_path / "run/cases").glob("*/1/case.json")]
    kinds = {(case["test"], case["tiers"]): (case["driver"], case["verified"]) for case in cases}
    expected = {
        (f"hpdc18-{name}-{who}", tiers): (name if who == "original" else original.embedded, True)
        for name, original in ORIGINALS.items()
        for who in ("original", "embedded")
        for tiers in ("pfs", "hpdc18/hermes")
    }
    assert kinds == expected


def test_other_files_than_ours_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte of a checkpoint, a particle too few, a program that ends badly."""
    spoil = 'printf x | dd of="$file-Part00000000-of-00000001.data" bs=1 seek=99 conv=notrunc 2> /dev/null'
    few = stub(tmp_path, "h5bench_write")
    few.write_text(few.read_text().replace('"$(of DIM_1 "$1")"', "7"))
    bad = stub(tmp_path, "vpicio_uni", "exit 7")
    text = run(tmp_path, monkeypatch, stub(tmp_path, "hacc_io", spoil), few, bad)
    assert "(6 failure(s)" in text, text
    assert text.count("hacc-Part00000000-of-00000001.data: the original has") == 2
    assert text.count("vpic.h5: the original has") == 2
    assert text.count("vpicio_uni") >= 4


def test_a_variable_that_names_no_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(tmp_path, monkeypatch, tmp_path / "hacc_io")
    assert f"HACC_IO='{tmp_path}/hacc_io'; allowed: a program" in text


def test_one_on_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = stub(tmp_path, "vpicio_uni")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ORIGINALS["vpicio_uni"].path() == str(program)
    monkeypatch.setenv("VPICIO_UNI", "/other")
    assert ORIGINALS["vpicio_uni"].path() == "/other"


def test_both_get_the_same_numbers() -> None:
    scale = hpdc18_scale("local")
    n = {name: original.particles(scale) for name, original in ORIGINALS.items()}
    assert ORIGINALS["hacc_io"].arguments("/p", n["hacc_io"]) == [str((3 << 20) // 38), "/p/hacc"]
    assert ORIGINALS["vpicio_uni"].arguments("/p", n["vpicio_uni"]) == ["/p/vpic.h5", "1"]
    assert ORIGINALS["h5bench_write"].bytes(scale) == 2 * 16 * (4 << 20)
    told = h5bench_config(n["h5bench_write"])
    assert f"DIM_1={(4 << 20) // 32}\n" in told and "TIMESTEPS=16\n" in told


def _h5(path: Path, group: str, count: int, kind: str = "<f4") -> None:
    with h5py.File(path, "w") as file:
        file[f"{group}x"] = np.zeros(count, kind)


@pytest.mark.parametrize(
    ("group", "count", "kind", "same"),
    [("Step#0/", 8, "<f4", True), ("", 8, "<i4", True), ("", 9, "<f4", False), ("", 8, "<f8", False)],
)
def test_hdf5_is_compared_by_its_layout(
    tmp_path: Path, group: str, count: int, kind: str, *, same: bool
) -> None:
    for folder in ("theirs", "ours"):
        (tmp_path / folder).mkdir()
    _h5(tmp_path / "theirs/v.h5", "Timestep_0/", 8)
    _h5(tmp_path / "ours/v.h5", group, count, kind)
    assert (not differences(tmp_path / "theirs", tmp_path / "ours")) == same


def test_no_files_are_a_difference(tmp_path: Path) -> None:
    for folder in ("theirs", "ours"):
        (tmp_path / folder).mkdir()
    assert differences(tmp_path / "theirs", tmp_path / "ours") == ["files: the original left [], ours []"]
