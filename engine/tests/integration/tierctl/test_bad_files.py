"""Every file that a command of tierctl reads or writes, as what it should not be: one message, status 2, no wait."""

import os
import subprocess
from pathlib import Path

import pytest
from instances import BUILD

CONFIG = """version: 1
max_files: 256
pfs: {{path: {root}{more}}}
fsync: pfs
tiers:
  - {{name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{{units: 16, share: 1.0}}]}}
"""
WRITTEN = {
    "empty": b"",
    "binary": bytes(range(256)) * 9,
    "truncated": b"version: 1\npfs: {path: /tmp\ntiers:\n  - {na",
    "list": b"[1, {a: [2]}]",
    "scalar": b"hello",
    "other types": b"version: [1]\npfs: {path: [x]}\ntiers: [3]\n",
    "nulls": b'{"version": 1, "pfs": null, "tiers": null}',
    "nested": b"[" * 200_000,
    "alias": b"version: &a 1\npfs: *a\ntiers: *b\n",
}
READ = (*WRITTEN, "missing", "directory", "fifo", "loop", "huge", "device")
READERS = (
    "check FILE",
    "plan FILE",
    "plan GOOD FILE",
    "profile FILE",
    "run -c FILE -- true",
    "run -c GOOD -c FILE -- true",
    "start -c FILE",
    "recover -c FILE",
    "stage --watch -c FILE",
    "import-hermes FILE",
    "check MODEL",
)
SCRIPTS = ("stage --script FILE --check", "stage --manifest FILE --check")  # any text is a script
WRITERS = (
    "plan GOOD --svg FILE",
    "run -c GOOD --stats FILE -- true",
    "run -c GOOD --trace FILE -- true",
    "status --openmetrics -o FILE",
    "import-hermes GOOD -o FILE",
)


def make(kind: str, file: Path) -> None:
    if kind in WRITTEN:
        file.write_bytes(WRITTEN[kind])
    elif kind == "directory":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "huge":
        with file.open("wb") as stream:
            stream.truncate(5 << 30)


def refused(line: str, root: Path, file: Path) -> str:
    """The message of a command that is refused, with FILE, a good configuration and one that names FILE."""
    names = {"FILE": str(file), "GOOD": str(root / "good.yaml"), "MODEL": str(root / "model.yaml")}
    (root / "good.yaml").write_text(CONFIG.format(root=root, more=""))
    (root / "model.yaml").write_text(CONFIG.format(root=root, more=f", model: {file}"))
    words = [names.get(word, word) for word in line.split()]
    done = subprocess.run([BUILD / "bin/tierctl", *words], capture_output=True, timeout=60, cwd=root)
    told = done.stderr.decode(errors="replace")
    assert done.returncode == 2 and not done.stdout, told
    assert told.count("\n") == 1 and told.startswith("tierctl: ") and str(file) in told, told
    return told


@pytest.mark.parametrize("kind", READ)
def test_a_file_to_read(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path / "file.yaml")
    for line in READERS:
        refused(line, tmp_path, tmp_path / "file.yaml")


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "loop", "huge", "device"])
@pytest.mark.parametrize("line", SCRIPTS)
def test_a_script_to_read(line: str, kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path / "file")
    refused(line, tmp_path, tmp_path / "file")


@pytest.mark.parametrize("kind", ["directory", "fifo", "device", "loop"])
@pytest.mark.parametrize("line", WRITERS)
def test_a_file_to_write(line: str, kind: str, tmp_path: Path) -> None:
    """Before anything runs; a rename would remove a device or a fifo, as root even /dev/null."""
    file = tmp_path / "file.darshan"
    make(kind, file)
    before = file.lstat()
    assert "allowed: a file, new or to be replaced" in refused(line, tmp_path, file)
    assert (file.lstat().st_ino, file.lstat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("line", WRITERS)
def test_a_folder_that_is_not_there(line: str, tmp_path: Path) -> None:
    assert "may be written" in refused(line, tmp_path, tmp_path / "none" / "file.darshan")


@pytest.mark.parametrize("name", ["s.json", "%h.json", "sub/s.json"])
def test_a_name_without_its_folder_is_of_this_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "good.yaml").write_text(CONFIG.format(root=tmp_path, more=""))
    line = [BUILD / "bin/tierctl", "plan", "good.yaml", "--svg", name]
    subprocess.run([*map(str, line)], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / name).read_text().startswith("<svg")


@pytest.mark.parametrize("kind", ["empty", "fifo"])
def test_devices_go_to_a_directory(kind: str, tmp_path: Path) -> None:
    """Told before anything is measured."""
    make(kind, tmp_path / "file")
    assert "allowed: a directory" in refused("profile GOOD -o FILE", tmp_path, tmp_path / "file")
