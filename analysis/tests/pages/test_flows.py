from __future__ import annotations

from typing import Any

import numpy as np
import synthetic

from tierbench.pages import flows

SECONDS = [0.0, 1.0, 2.0, 4.0]
NOTHING = [0, 0, 0, 0]


def samples(**counted: Any) -> dict[str, Any]:
    """Nothing moved, except for what is given."""
    made: dict[str, Any] = {"seconds": SECONDS, "bytes_in": {}, "bytes_out": {}, "moved": {}, "flushed": {}}
    made |= dict.fromkeys(("spilled", "staged", "pfs_bytes_read", "pfs_bytes_written"), NOTHING)
    return made | counted


def moved(found: flows.Flows | None) -> dict[tuple[str, str], float]:
    assert found is not None
    return {(f.source, f.target): round(float(f.moved.sum()), 6) for f in found.flows}


def test_every_way_a_byte_can_go() -> None:
    found = flows.read(
        samples(
            bytes_in={"ram": [0, 5, 10, 10], "nvme": NOTHING},
            moved={"ram": {"nvme": [0, 0, 3, 7]}, "nvme": {}},
            flushed={"ram": [0, 0, 0, 3], "nvme": [0, 0, 0, 7]},
            pfs_bytes_written=[0, 2, 2, 12],
            spilled=[0, 2, 2, 2],
            pfs_bytes_read=[0, 0, 0, 9],
            staged=[0, 0, 0, 4],
            bytes_out={"ram": [0, 0, 0, 1], "nvme": NOTHING},
        )
    )
    assert moved(found) == {
        ("program", "ram"): 10,
        ("program", "PFS"): 2,
        ("ram", "nvme"): 7,
        ("ram, nvme", "PFS"): 10,
        ("PFS", "tiers"): 4,
        ("PFS", "program"): 5,
        ("ram", "program"): 1,
    }


def test_bytes_stand_where_they_moved() -> None:
    found = flows.read(samples(bytes_in={"ram": [0, 0, 8, 8]}))
    assert found is not None
    when = found.edges_s[:-1][found.flows[0].moved > 1e-9]
    assert np.isclose(when.min(), 1.0) and when.max() < 2.0
    assert np.isclose(found.peak_mib_s, 8 / 2**20)


def test_what_holds_no_flows() -> None:
    assert flows.read({}) is None and flows.read(samples()) is None
    assert flows.read({"seconds": SECONDS, "used": {"ram": SECONDS}}) is None
    assert flows.read(samples(bytes_in={"ram": [0, 1]})) is None


def test_figure_names_every_flow() -> None:
    found = flows.read(synthetic.samples("bb-nvme-ram", 2.0, 1.0))
    assert found is not None
    panel = flows.draw([("a run", found)]).axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == [
        "program → ram",
        "program → nvme",
        "ram, nvme → PFS",
    ]
    assert panel.get_title(loc="left").startswith("a run; darkest: ")
