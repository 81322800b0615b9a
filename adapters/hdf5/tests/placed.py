"""Does each data set lie in one tier?  placed.py STATS.json prints which tier has which, judged by the bytes that each
tier holds, and exits 1 where no way of dividing whole sets among the tiers gives these bytes."""

import itertools
import json
import sys

from write_sets import ROW, SETS

SLACK = 3 * ROW // 2  # HDF5's own metadata, and buffers across the ends of sets

used = {tier["name"]: tier["used"] for tier in json.load(open(sys.argv[1]))["tiers"]}
print(used)
for homes in itertools.product(used, repeat=len(SETS)):
    held = {name: sum(ROW * rows for rows, home in zip(SETS, homes, strict=True) if home == name) for name in used}
    if all(abs(used[name] - held[name]) <= SLACK for name in used):
        print("sets lie in", *homes)
        sys.exit(0)
print("sets lie in pieces")
sys.exit(1)
