"""tierctl profile: what it writes reads back as a device, is plausible, and leaves nothing in the tiers."""

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from instances import BIN

TIERCTL = BIN / "tierctl"
CONFIG = """version: 1
max_files: 256
pfs: {{path: {root}/pfs{pfs}}}
fsync: tier
allow_volatile: true
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]{ram}}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]{nvme}}}
"""
PLACES = ("ram", "nvme", "pfs")


class Place:
    """A configuration of places in memory."""

    def __init__(self, root: Path) -> None:
        self.root, self.config = root, root / "c.yaml"
        for place in ("pfs", "nvme"):
            (root / place).mkdir()
        self.write_config()

    def write_config(self, **models: str) -> None:
        self.config.write_text(CONFIG.format(root=self.root, **{p: models.get(p, "") for p in PLACES}))

    def ctl(self, status: int, *args: str | Path) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([TIERCTL, *args], capture_output=True, text=True, timeout=100, cwd=self.root)
        assert done.returncode == status, done.stderr
        return done

    def left(self) -> list[Path]:
        return [p for place in ("pfs", "nvme") for p in (self.root / place).iterdir()]


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="tierbench-profile-", dir="/dev/shm") as name:
        yield Place(Path(name))


def tables(text: str) -> dict[str, dict[str, list[list[float]]]]:
    """Place -> direction -> MiB/s[threads][size], from what was printed."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    place = direction = ""
    for line in text.splitlines():
        words = line.split()
        if line and not line.startswith(" "):
            place = line.split(":")[0]
        elif "threads" in line:
            direction = words[0]
        elif line.startswith("  MiB/s"):
            found.setdefault(place, {}).setdefault(direction, []).append([float(w) for w in words[2:9]])
    return found


def test_devices_read_back(place: Place) -> None:
    done = place.ctl(0, "profile", place.config, "-o", "out", "--seconds", "1.2")
    for name in PLACES:
        assert f"measuring {name}" in done.stderr
    assert sorted(p.name for p in (place.root / "out").iterdir()) == sorted(f"{p}.yaml" for p in PLACES)
    assert place.left() == []
    place.write_config(**{p: f", model: out/{p}.yaml" for p in PLACES})
    said = json.loads(place.ctl(0, "plan", place.config, "--json").stdout)
    models = {"pfs": said["pfs"]["model"]} | {t["name"]: t["model"] for t in said["tiers"]}
    measured = tables(done.stdout)
    for name in PLACES:
        model, table = models[name], measured[name]
        for direction in ("read", "write"):
            cells = table[direction]
            assert [len(row) for row in cells] == [7] * 4
            assert all(0 < cell < 1e6 for row in cells for cell in row), table
            best = max(max(row) for row in cells)
            assert model[f"{direction}_bandwidth"] / 2**20 == pytest.approx(best, abs=0.1)
            large = max(max(row[4:]) for row in cells)
            assert large > cells[0][0] / 4  # all is memory here, and busy machines are noisy
            assert large > 100
            assert model[f"{direction}_latency"] < 0.1
        assert 1 <= model["channels"] <= 8
        times = [model[f"{kind}_time"] for kind in ("sync", "open", "metadata")]
        assert all((time == 0) if name == "ram" else (0 < time < 0.1) for time in times), times
    text = (place.root / "out" / "nvme.yaml").read_text()
    for part in (
        "# Measured by tierctl profile on",
        time.strftime("%Y-"),
        f"{place.root}/nvme",
        "threads",
    ):
        assert part in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(place: Place, number: signal.Signals) -> None:
    config = place.config.read_text().replace(
        "  - {name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{units: 16, share: 1.0}]}\n",
        "",
    )
    place.config.write_text(config)
    command = [str(TIERCTL), "profile", str(place.config), "--seconds", "60"]
    with subprocess.Popen(command, cwd=place.root, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 30
            while not place.left():
                assert time.monotonic() < end
                time.sleep(0.01)
            process.send_signal(number)
            assert process.wait(timeout=30) == 128 + number
        finally:
            process.kill()
    assert place.left() == []
    assert list((place.root / "c.profile").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "gone", "says"),
    [
        (("--seconds", "0"), "", ("--seconds", "0", "allowed")),
        (("-o", "no/such"), "", ("no/such", "allowed")),
        ((), "nvme", ("c.yaml", "tiers[1].path", "/no/such", "allowed")),
        ((), "pfs", ("c.yaml", "pfs.path", "/no/such", "allowed")),
    ],
)
def test_bad_input_is_refused(place: Place, args: tuple[str, ...], gone: str, says: tuple[str, ...]) -> None:
    if gone:
        place.config.write_text(place.config.read_text().replace(f"{place.root}/{gone}", "/no/such"))
    done = place.ctl(2, "profile", place.config, *args)
    for text in says:
        assert text in done.stderr
    assert place.left() == []
