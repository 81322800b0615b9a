"""Is each data set in one tier?  placed.py STATS.json prints which tier has which.

Judged by the bytes that each tier holds: exits 1 where no way of dividing whole sets among them gives these.
"""

import itertools
import json
import sys
from pathlib import Path

from write_sets import ROW, SETS

SLACK = 3 * ROW // 2  # HDF5's own metadata, and buffers across the ends of sets

used = {tier["name"]: tier["used"] for tier in json.loads(Path(sys.argv[1]).read_text())["tiers"]}
print(used)
for homes in itertools.product(used, repeat=len(SETS)):
    held = dict.fromkeys(used, 0)
    for rows, home in zip(SETS, homes, strict=True):
        held[home] += rows * ROW
    if all(abs(used[name] - held[name]) <= SLACK for name in used):
        print("sets are in", *homes)
        sys.exit(0)
print("sets are in pieces")
sys.exit(1)
