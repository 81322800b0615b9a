"""A file that is written and synced under the adapter, and is in the tiers alone."""

import os
import subprocess
import sys

from instances import PRELOAD, Instance

WRITE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(fd, bytes(range(256)) * 1024, 0)
os.fsync(fd)
os.close(fd)
"""
BYTES = bytes(range(256)) * 1024


def write_buffered(instance: Instance) -> None:
    env = os.environ | {"LD_PRELOAD": str(PRELOAD), "TIERBENCH_INSTANCE": instance.name}
    subprocess.run([sys.executable, "-c", WRITE, instance.file], env=env, check=True)
    assert (instance.file.read_bytes() if instance.file.exists() else b"") != BYTES, "it was not buffered"
