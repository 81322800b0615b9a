"""The protocol of `nodes: shared` as two models (commit_protocol.pml, copies_protocol.pml): spin tries their steps in all orders.

What the protocol is to prevent is taken from it in turn, and then spin must find an order that goes wrong: else the
model sees nothing. With TB_HISTORIES above 1 (`ci/torture nodes`) all scenes are tried: some minutes.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONG = int(os.environ.get("TB_HISTORIES", 1)) > 1
Flags = tuple[str, ...]
"""The model, and what is defined in it."""
SCENES: list[Flags] = [
    ("commit", "-DSCENE=1", "-DWHOLE"),
    ("commit", "-DSCENE=3", "-DCELLS=1", "-DALONG"),
    ("copies", "-DSCENE=3"),
]
WRONG: dict[Flags, str] = {
    ("commit", "-DSCENE=1", "-DCELLS=1", "-DNO_TURN"): "it is lost",
    ("commit", "-DSCENE=3", "-DCELLS=1", "-DALONG", "-DSILENT"): "what was read is old",
    ("copies", "-DSCENE=3", "-DTAKES"): "it is lost",
}
if LONG:
    SCENES += [("commit", f"-DSCENE={i}", "-DCELLS=2") for i in (2, 3, 4)]
    SCENES += [("commit", f"-DSCENE={i}", "-DWHOLE") for i in (2, 4, 6)]
    SCENES += [("commit", "-DSCENE=5", "-DCELLS=1")]
    SCENES += [("copies", f"-DSCENE={i}") for i in (1, 2, 4, 5)]
    SCENES += [("copies", "-DSCENE=1", "-DROOM", "-DLOST_END")]
    WRONG |= {
        ("commit", "-DSCENE=4", "-DCELLS=1", "-DNO_TURN"): "what was read is old",
        ("commit", "-DSCENE=4", "-DWHOLE", "-DTEARS"): "parts of two commits",
        ("commit", "-DSCENE=6", "-DWHOLE", "-DALONG"): "parts of two commits",
    }
    WRONG[("copies", "-DSCENE=4", "-DSTAYS")] = "what was read is old"
    WRONG |= {
        ("copies", "-DSCENE=1", f"-D{what}"): "what was read is old"
        for what in ("SAVED_ONCE", "NO_FENCE", "OPEN", "COPY_LATE")
    }


def meaning(asserted: str) -> str:
    """Of an assertion of the model."""
    if "replaced[" not in asserted:
        return "it is lost"
    return "parts of two commits" if "replaced[x]" in asserted else "what was read is old"


def explore(flags: Flags, folder: Path) -> str:
    """What the exploration says."""
    if not shutil.which("spin"):
        pytest.skip("needs spin (Debian's package of that name)")
    made = subprocess.run(
        ["spin", "-a", *flags[1:], HERE / f"{flags[0]}_protocol.pml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
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


def name(flags: Flags) -> str:
    return "".join(flags).replace("-D", " ").strip()


@pytest.mark.parametrize("flags", SCENES, ids=name)
def test_no_order_goes_wrong(flags: Flags, tmp_path: Path) -> None:
    said = explore(flags, tmp_path)
    assert "errors: 0" in said, said
    assert "Search not completed" not in said, said
    assert "max search depth too small" not in said, said
    states = re.search(r"(\d[\d.e+]*) states, stored", said)
    assert states
    assert float(states[1]) > 50_000, "it has tried next to nothing"


@pytest.mark.parametrize("flags", WRONG, ids=name)
def test_what_is_prevented_is_seen_without_it(flags: Flags, tmp_path: Path) -> None:
    said = explore(flags, tmp_path)
    asserted = re.search(r"assertion violated (.*) \(at depth", said)
    assert asserted, said
    assert meaning(asserted[1]) == WRONG[flags], said
