"""Kill the client, the daemon, or both under load: every fsync-acknowledged byte is on the PFS afterwards.

A client under the adapter writes and fsyncs; after each fsync it notes file, offset, length and checksum in a
manifest outside. Run by ctest: kill.py BIN_DIR LIB_DIR.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLIENT = """
import hashlib, os, random, sys
pfs, manifest = sys.argv[1], open(sys.argv[2], "a")
random.seed(int(sys.argv[3]))
serial = 0
while True:
    name = f"{pfs}/f{serial}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    for k in range(random.randint(1, 4)):
        data = os.urandom(random.randint(1, 200000))
        offset = k * 200000
        os.pwrite(fd, data, offset)
        os.fsync(fd)
        manifest.write(f"{name} {offset} {len(data)} {hashlib.sha256(data).hexdigest()}\\n")
        manifest.flush()
    os.close(fd)
    serial += 1
"""

CONFIG = """
version: 1
max_files: 1024
pfs: {{path: {root}/pfs}}
fsync: tier
allow_volatile: true
flush: {{policy: manual, threads: 2}}
tiers:
  - {{name: ram, medium: memory, capacity: 8MiB, block: 4KiB, slabs: [{{units: 1, share: 0.2}}, {{units: 16, share: 0.8}}]}}
  - {{name: nvme, medium: directory, path: {root}/nvme, capacity: 8MiB, block: 4KiB, slabs: [{{units: 1, share: 0.2}}, {{units: 16, share: 0.8}}]}}
"""


def check(manifest: Path) -> int:
    """Compare every whole line of the manifest with the PFS; returns how many there were."""
    lines = [line for line in manifest.read_text().splitlines(keepends=True) if line.endswith("\n")]
    for line in lines:
        name, offset, length, digest = line.split()
        with Path(name).open("rb") as file:
            file.seek(int(offset))
            assert hashlib.sha256(file.read(int(length))).hexdigest() == digest, f"lost: {line}"
    return len(lines)


def one_round(bin_dir: Path, lib_dir: Path, number: int, victims: tuple[str, ...]) -> int:
    with tempfile.TemporaryDirectory(prefix="tierbench-kill-") as root:
        for place in ("pfs", "nvme"):
            Path(root, place).mkdir()
        config, manifest = Path(root, "c.yaml"), Path(root, "manifest")
        config.write_text(CONFIG.format(root=root))
        manifest.touch()
        name = f"kill-{os.getpid()}-{number}"
        tierctl = [str(bin_dir / "tierctl")]
        subprocess.run([*tierctl, "start", "-c", config, "-i", name], check=True, stdout=subprocess.DEVNULL)
        status = subprocess.run([*tierctl, "status", "-i", name, "--json"], check=True, capture_output=True).stdout
        daemon = int(json.loads(status)["daemon_pid"])
        env = os.environ | {"LD_PRELOAD": str(lib_dir / "libtierbench_preload.so"), "TIERBENCH_INSTANCE": name}
        client = subprocess.Popen([sys.executable, "-c", CLIENT, f"{root}/pfs", manifest, str(number)], env=env)
        deadline = time.monotonic() + 20
        while not manifest.stat().st_size and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.random() * 0.4)
        if "daemon" in victims:
            os.kill(daemon, signal.SIGKILL)
            time.sleep(random.random() * 0.2)
        client.kill()
        client.wait()
        if "region" in victims:
            Path(f"/dev/shm/tierbench.{os.getuid()}.{name}").unlink()
        done = ["recover", "-c", config] if "daemon" in victims else ["stop", "-i", name]
        subprocess.run([*tierctl, *done], check=True, stdout=subprocess.DEVNULL)
        assert not list(Path("/dev/shm").glob(f"tierbench.*.{name}*")), "the instance is still there"
        assert not list(Path(root, "nvme").iterdir()), "the tier is not empty"
        return check(manifest)


def main() -> None:
    bin_dir, lib_dir = Path(sys.argv[1]), Path(sys.argv[2])
    rounds = [("client",), ("client", "daemon"), ("client", "daemon", "region")] * 4
    for number, victims in enumerate(rounds):
        acknowledged = one_round(bin_dir, lib_dir, number, victims)
        assert acknowledged > 0, "the client never got as far as an fsync"
        print(f"killed {' and '.join(victims)}: {acknowledged} acknowledged ranges are on the PFS", flush=True)


main()
