"""The engine beside other systems: ratios, what is asked of them, and the reason where less was reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from component_rows import keep, row

from tierbench.base.errors import RunError
from tierbench.judge import components
from tierbench.judge.components import Beside, Measured
from tierbench.runs.run_folder import read_run


def measured(run: Path, *rows: dict[str, Any]) -> list[Measured]:
    for i, one in enumerate(rows):
        keep(run, f"hpdc18-components-{i}", one)
    return components.of_run(read_run(run))


def test_systems_are_compared_at_the_same_point(run_folder: Path) -> None:
    found = components.beside(
        measured(
            run_folder,
            row("engine", 1000),
            row("redis", 100, server_us=2),
            row("engine", 2000, depth=64),
            row("redis", 500, depth=64, server_us=2),
            row("memcached", 100, depth=8, server_us=1),
        )
    )
    assert [(b.other.system, b.other.depth) for b in found] == [("redis", 1), ("redis", 64)]
    assert [b.ratio.value for b in found] == pytest.approx([10, 4])
    assert found[0].ratio.low < 10 < found[0].ratio.high


def test_five_times_is_asked_of_networked_systems(run_folder: Path) -> None:
    one = measured(
        run_folder, row("engine", 1000), row("redis", 200.0), row("memcached", 201), row("glibc", 900)
    )
    found: dict[str, Beside] = {b.other.system: b for b in components.beside(one)}
    reached = {system: b.reached for system, b in found.items()}
    assert reached == {"redis": True, "memcached": False, "glibc": None}


def test_the_reason_is_the_measured_processor_time(run_folder: Path) -> None:
    one = measured(run_folder, row("engine", 1000, depth=64), row("redis", 500, depth=64, server_us=1.5))
    found = components.beside(one)[0].reason
    assert found == (
        "redis took 2.00 us of processor time an operation, 1.50 of it in the server on another core, "
        "the engine 0.50 us: 4.0 times less; 64 requests shared 5 system calls, "
        "of which a write of 3 to 10 kB"
    )


def test_where_processor_time_would_do_the_rest_is_waiting(run_folder: Path) -> None:
    one = measured(run_folder, row("engine", 1000), row("nats", 500, server_us=9.5))
    assert components.beside(one)[0].reason.endswith(
        "20.0 times less; what is missing is waiting for a processor"
    )


def test_no_reason_is_given_where_none_is_needed(run_folder: Path) -> None:
    one = measured(run_folder, row("engine", 1000), row("redis", 100), row("glibc", 900))
    assert [b.reason for b in components.beside(one)] == ["", ""]


def test_memory_is_held_against_the_published_one(run_folder: Path) -> None:
    one = measured(run_folder, row("engine", 1000, bytes=275_000), row("redis", 100))
    found = components.memory(one)
    assert [(m.system, m.files, m.bytes) for m in found] == [("engine", 1000, 275_000)]
    assert found[0].of_paper == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"system": "etcd"}, "'etcd'; allowed: engine"),
        ({"ops_per_s": [0]}, "0; allowed"),
        ({"processes": 0}, "0; allowed"),
    ],
)
def test_what_no_program_prints_is_refused(run_folder: Path, damage: dict[str, Any], told: str) -> None:
    file = keep(run_folder, "hpdc18-components-x", row("engine", 1) | damage)
    with pytest.raises(RunError, match=told) as refused:
        components.of_run(read_run(run_folder))
    assert str(file) in str(refused.value)


def test_memory_is_that_of_the_most_files(run_folder: Path) -> None:
    """A system that was asked one by one may have had fewer."""
    few, many = (
        row("redis", 1, bytes=900),
        row("redis", 9, depth=64, bytes=2_000_000) | {"operations": 10_000},
    )
    found = components.memory(measured(run_folder, row("engine", 9, bytes=250_000), many, few))
    assert [(m.system, m.files, m.bytes) for m in found] == [
        ("engine", 1000, 250_000),
        ("redis", 10_000, 2_000_000),
    ]
