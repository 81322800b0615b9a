"""The protocol of `nodes: shared` as a model (commit_protocol.pml): spin tries its steps in all orders.

What the protocol is to prevent is taken from it in turn, and then spin must find an order that goes wrong: else the
model sees nothing. With TB_HISTORIES above 1 (`ci/torture nodes`) all scenes are tried, with two cells: some minutes.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "commit_protocol.pml"
LONG = int(os.environ.get("TB_HISTORIES", 1)) > 1
SCENES: list[tuple[str, ...]] = [("-DSCENE=1", "-DWHOLE"), ("-DSCENE=3", "-DCELLS=1")]
WRONG: dict[tuple[str, ...], str] = {
    ("-DSCENE=1", "-DCELLS=1", "-DNO_TURN"): "it is lost",
    ("-DSCENE=3", "-DCELLS=1", "-DSILENT"): "what was read is old",
}
if LONG:
    SCENES += [(f"-DSCENE={i}", "-DCELLS=2") for i in (2, 3, 4)]
    SCENES += [("-DSCENE=4", "-DWHOLE"), ("-DSCENE=5", "-DCELLS=1")]
    WRONG |= {
        ("-DSCENE=4", "-DCELLS=1", "-DNO_TURN"): "what was read is old",
        ("-DSCENE=4", "-DWHOLE", "-DTEARS"): "parts of two commits",
    }


def meaning(asserted: str) -> str:
    """Of an assertion of the model."""
    if "replaced[" not in asserted:
        return "it is lost"
    return "parts of two commits" if "replaced[x]" in asserted else "what was read is old"


def explore(flags: tuple[str, ...], folder: Path) -> str:
    """What the exploration says."""
    if not shutil.which("spin"):
        pytest.skip("needs spin (Debian's package of that name)")
    made = subprocess.run(
        ["spin", "-a", *flags, MODEL], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stdout
    assert not made.stdout, made.stdout
    words = ["cc", "-O1", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=3000", "-o", "pan", "pan.c"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=1200)
    done = subprocess.run(
        ["./pan", "-m1000000", "-w22"], cwd=folder, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def name(flags: tuple[str, ...]) -> str:
    return "".join(flags).replace("-D", " ").strip()


@pytest.mark.parametrize("flags", SCENES, ids=name)
def test_no_order_goes_wrong(flags: tuple[str, ...], tmp_path: Path) -> None:
    said = explore(flags, tmp_path)
    assert "errors: 0" in said, said
    assert "Search not completed" not in said, said
    assert "max search depth too small" not in said, said
    states = re.search(r"(\d[\d.e+]*) states, stored", said)
    assert states
    assert float(states[1]) > 100_000, "it has tried next to nothing"


@pytest.mark.parametrize("flags", WRONG, ids=name)
def test_what_is_prevented_is_seen_without_it(flags: tuple[str, ...], tmp_path: Path) -> None:
    said = explore(flags, tmp_path)
    asserted = re.search(r"assertion violated (.*) \(at depth", said)
    assert asserted, said
    assert meaning(asserted[1]) == WRONG[flags], said
