"""The published flags in the words of several drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.jobs.driver_flags import respelled

IOR_3 = "  -B    useO_DIRECT\n  -H    showHints\n  -O S  directives (e.g. -O lustreStripeCount=32)\n"
IOR_4 = "  --posix.odirect   Direct I/O Mode\n  --mpiio.showHints   Show MPI hints\n"
IOR_4_LUSTRE = IOR_4 + "  --posix.lustre.stripecount=N\n"
FLAGS = ("-w", "-B", "-H", "-O", "lustrestripecount=1", "-t", "64m")


def driver(tmp_path: Path, text: str, name: str = "ior") -> str:
    file = tmp_path / name
    file.write_text(f"#!/bin/sh\ncat <<'end'\n{text}end\n")
    file.chmod(0o755)
    return str(file)


def test_what_the_driver_knows_stays(tmp_path: Path) -> None:
    assert respelled(driver(tmp_path, IOR_3), FLAGS) == (FLAGS, ())
    assert respelled(driver(tmp_path, "", "tb-ior"), FLAGS) == (FLAGS, ())


@pytest.mark.parametrize(
    ("text", "stripes"),
    [
        (IOR_4, ()),
        (IOR_4_LUSTRE, ("--posix.lustre.stripecount=1",)),
    ],
)
def test_letters_of_ior_3_become_names_of_ior_4(tmp_path: Path, text: str, stripes: tuple[str, ...]) -> None:
    made, lost = respelled(driver(tmp_path, text), FLAGS)
    assert made == ("-w", "--posix.odirect", "--mpiio.showHints", *stripes, "-t", "64m")
    assert bool(lost) == (not stripes)
    assert all("-O lustrestripecount=1" in line and "without Lustre" in line for line in lost)


def test_other_directives_stay(tmp_path: Path) -> None:
    flags = ("-w", "-O", "stoneWallingWearOut=1", "-D", "90")
    assert respelled(driver(tmp_path, IOR_4), flags) == (flags, ())
