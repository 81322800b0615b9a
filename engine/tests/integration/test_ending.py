"""Programs that begin while an instance ends, or after it, started by a process that outlives the run: they find all bytes on the PFS."""

import subprocess
import time

import pytest
from instances import BIN, Instance

pytestmark = pytest.mark.usefixtures("own_shm")
DIRECTORY, MEMORY = ("ram", "nvme"), ("ram",)
KINDS = [
    pytest.param({"tiers": tiers, "fsync": fsync, "more": f"namespace: {names}\n"}, id=f"{tiers[-1]}-{names}")
    for tiers, fsync in ((DIRECTORY, "tier"), (MEMORY, "pfs"))
    for names in ("eager", "deferred")
]
# The shell ends at once; what it leaves starts one program after the other until a moment after the end of the run.
SURVIVOR = """
echo early > "$1/early"
(
    while [ ! -e "$2/over" ]; do
        [ "$(/bin/cat "$1/early")" = early ] || echo "early: no such bytes" >> "$2/failed"
    done
    /bin/echo late > "$1/late" || echo "late: status $?" >> "$2/failed"
    : > "$2/all"
) > /dev/null 2> "$2/said" &
"""


@pytest.fixture
def configured(request: pytest.FixtureRequest) -> dict[str, object]:
    made: dict[str, object] = request.param
    return made


@pytest.mark.parametrize("configured", KINDS, indirect=True)
@pytest.mark.parametrize("attempt", range(4))
def test_they_read_and_write_what_the_pfs_has(instance: Instance, attempt: int) -> None:
    del attempt  # the moment at which the run ends is another one each time
    pfs, notes = instance.root / "pfs", instance.root / "notes"
    notes.mkdir()
    words = [BIN / "tierctl", "run", "-c", instance.config, "--", "sh", "-c", SURVIVOR, "sh", pfs, notes]
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    instance.nothing_is_left()
    (notes / "over").touch()
    until = time.monotonic() + 30
    while not (notes / "all").exists():
        assert time.monotonic() < until, (notes / "said").read_text()
        time.sleep(0.01)
    assert not (notes / "failed").exists(), (notes / "said").read_text()
    assert (pfs / "late").read_text() == "late\n"
    assert "this program ends" not in (notes / "said").read_text()


class TestHalfRemoved:
    """A stop is removing an instance that has ended: its lease is void, and processes that outlived it hold that."""

    @pytest.fixture
    def configured(self) -> dict[str, object]:
        return {"tiers": DIRECTORY, "fsync": "tier"}

    def make_void(self, instance: Instance) -> None:
        instance.start()
        program = instance.program()
        instance.write_synced(program, "kept")
        instance.check(instance.ctl("drain", "-i", instance.name), 0)
        with (instance.directory() / "lease").open("r+b") as lease:
            lease.seek(lease.read().index(b"living"))
            lease.write(b"void  ")

    def look(self, instance: Instance) -> subprocess.CompletedProcess[str]:
        return instance.run_under("cat", instance.file, env={"TIERBENCH_CONFIG": str(instance.config)})

    def test_its_region_is_gone(self, instance: Instance) -> None:
        self.make_void(instance)
        instance.lose_region()
        instance.check(self.look(instance), 0, "no such instance runs", "kept")

    def test_its_region_is_there(self, instance: Instance) -> None:
        self.make_void(instance)
        instance.check(self.look(instance), 0, "no such instance runs", "kept")

    def test_one_that_lives_is_no_such(self, instance: Instance) -> None:
        """In another mount namespace it looks the same but for its lease."""
        instance.start()
        instance.write_synced(instance.program(), "kept")
        instance.lose_region()
        instance.check(self.look(instance), 2, "another mount namespace")
