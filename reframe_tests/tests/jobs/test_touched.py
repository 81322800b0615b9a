"""Memory that is touched before a launch: where, how much, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.jobs import touched
from tierbench.base.sizes import MIB

BALLOON, HYPER_V = "virtio_balloon/virtio0/features", "sys/bus/vmbus/drivers/hv_balloon/x/device_id"


def made(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, False),  # a machine of its own
        ({f"sys/bus/virtio/drivers/{BALLOON}": "0110010100\n"}, True),
        ({f"sys/bus/virtio/drivers/{BALLOON}": "0110000100\n"}, False),  # no reports
        ({f"sys/bus/virtio/drivers/{BALLOON}": "01\n"}, False),
        ({HYPER_V: "{x}"}, True),
    ],
)
def test_where_memory_is_taken_back(tmp_path: Path, files: dict[str, str], told: bool) -> None:
    for name, text in files.items():
        made(tmp_path / name, text)
    assert touched.is_taken_back(tmp_path) is told


def test_what_is_free_is_also_the_control_groups(tmp_path: Path) -> None:
    made(tmp_path / "proc/meminfo", "MemTotal:  9 kB\nMemFree:   1024 kB\nMemAvailable: 4096 kB\n")
    made(tmp_path / "proc/self/cgroup", "0::/job/step\n")
    assert touched.free_bytes(tmp_path) == MIB
    made(tmp_path / "sys/fs/cgroup/job/step/memory.current", "1000\n")
    made(tmp_path / "sys/fs/cgroup/job/step/memory.max", "max\n")
    assert touched.free_bytes(tmp_path) == MIB
    made(tmp_path / "sys/fs/cgroup/job/step/memory.max", "5000\n")
    assert touched.free_bytes(tmp_path) == 4000
    made(tmp_path / "sys/fs/cgroup/job/step/memory.max", "500\n")
    assert touched.free_bytes(tmp_path) == 0


@pytest.mark.parametrize(
    ("when", "taken_back", "free", "size"),
    [
        ("auto", False, 100 * MIB, None),
        ("auto", True, 100 * MIB, 8 * MIB),
        ("always", False, 100 * MIB, 8 * MIB),
        ("always", False, 8 * MIB, 6 * MIB),  # a fourth of what is free stays so
        ("always", False, MIB, None),
    ],
)
def test_no_more_is_touched_than_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, taken_back: bool, free: int, size: int | None
) -> None:
    monkeypatch.setattr(touched, "is_taken_back", lambda: taken_back)
    monkeypatch.setattr(touched, "free_bytes", lambda: free)
    file = tmp_path / "touched.json"
    assert touched.main([when, str(8 * MIB), str(file)]) == 0
    found = json.loads(file.read_text())["bytes"] if file.exists() else None
    assert found == size


def test_a_launch_goes_on_where_none_can_be_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: int) -> tuple[int, float]:
        raise OSError(12, "no memory")

    monkeypatch.setattr(touched, "touch", fails)
    assert touched.main(["always", str(8 * MIB), str(tmp_path / "touched.json")]) == 0
    assert "touched.py: no memory was touched: [Errno 12] no memory" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
