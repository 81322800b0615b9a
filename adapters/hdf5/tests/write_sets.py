"""Data sets of SETS rows of 32 KiB, two at a time row by row: write_sets.py FILE [chunked]."""

import sys

import h5py
import numpy as np

ROW = 32 * 1024  # bytes
SETS = [4, 16, 48, 148, 444]  # rows: each more than twice all before, so that a sum says of which


def main() -> None:
    with h5py.File(sys.argv[1], "w") as f:
        sets = []
        for i, rows in enumerate(SETS):
            chunks = (4, ROW) if "chunked" in sys.argv else None
            made = f.create_dataset(f"fields/{i}", (rows, ROW), "u1", chunks=chunks, track_times=False)
            sets.append(made)
        for pair in [{0, 4}, {1, 3}, {2}]:
            for row in range(max(SETS[i] for i in pair)):
                for i in pair:
                    if row < SETS[i]:
                        sets[i][row] = np.full(ROW, 7 * i + row % 11, dtype="u1")


if __name__ == "__main__":
    main()
