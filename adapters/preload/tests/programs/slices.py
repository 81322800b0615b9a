"""Eight threads write interleaved slices that share pages, while others' closes flush the same file."""

import os
import threading

SLICE_BYTES = 1000


def write_slices(name: str, thread: int) -> None:
    """Every eighth slice of the file, through a descriptor of its own."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    for k in range(50):
        os.pwrite(fd, bytes([thread + 1]) * SLICE_BYTES, (k * 8 + thread) * SLICE_BYTES)
    os.close(fd)


expected = b"".join(bytes([i + 1]) * SLICE_BYTES for _ in range(50) for i in range(8))
for number in range(60):
    path = f"slices{number}"
    threads = [threading.Thread(target=write_slices, args=(path, i)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with open(path, "rb") as f:
        if f.read() != expected:
            print(path, "differs")
