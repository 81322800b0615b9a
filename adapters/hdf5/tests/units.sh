#!/bin/bash
# Dispersion units of HDF5 files: tb-h5units says where data sets are, and data-locality keeps each in one tier.
#   units.sh BIN
source "$(dirname "$(readlink -f "$0")")/../../preload/tests/evidence/common.sh" "$1" persistent-async
tests=$(dirname "$(readlink -f "$0")")
python=$(realpath "$tests/../../..")/.venv/bin/python
"$python" -c 'import h5py' 2> /dev/null || { echo "SKIPPED: h5py is not in .venv (ci/bootstrap)"; exit 77; }

# config LINE: three tiers with room for everything, bandwidths 4 : 2 : 1
config() {
    mkdir -p "$root/bb"
    cat > "$root/tiers.yaml" <<YAML
version: 1
max_files: 1024
pfs: {path: $root/pfs}
flush: {policy: manual}
placement: $1
organizer: {enabled: false} # what is staged in goes to the top tier, whatever its unit
tiers:
  - {name: ram, medium: memory, capacity: 48MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}], profile: {name: t, source: test, write_bandwidth: 400MiB/s}}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 40MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}], profile: {name: t, source: test, write_bandwidth: 200MiB/s}}
  - {name: bb, medium: directory, path: $root/bb, capacity: 40MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}], profile: {name: t, source: test, write_bandwidth: 100MiB/s}}
YAML
}

for layout in contiguous chunked; do
    "$python" "$tests/write_sets.py" "$root/first.h5" $layout || bad "$layout: the first run"
    "$bin/tb-h5units" --pattern "*/step*.h5" "$root/first.h5" > "$root/units.txt" || bad "$layout: tb-h5units"
    [ "$(grep -c "^[0-9]" "$root/units.txt")" -ge 5 ] || bad "$layout: ranges of 5 sets"
    config "{policy: data-locality, units: units.txt}"
    under $layout "$python" "$tests/write_sets.py" "$root/pfs/step1.h5" $layout || bad "$layout" $layout
    cmp "$root/first.h5" "$root/pfs/step1.h5" || bad "$layout: the file differs"
    "$python" "$tests/placed.py" "$root/$layout.json" && ok "$layout: each set in one tier" || bad "$layout: sets in pieces"
    config "{policy: data-locality}"
    under plain "$python" "$tests/write_sets.py" "$root/pfs/plain.h5" $layout || bad "$layout, no table" plain
    "$python" "$tests/placed.py" "$root/plain.json" > "$root/plain.out" && bad "$layout: whole without a table too: proves nothing"
done

# Every byte of a set is in its ranges: those of the largest hold what was written to it.
"$bin/tb-h5units" --unit chunk "$root/first.h5" > "$root/chunks.txt"
"$python" - "$root/first.h5" "$root/chunks.txt" <<'PY' && ok "the ranges hold the sets' bytes, a unit a chunk" || bad "the ranges hold other bytes"
import sys
data, (head, *lines) = open(sys.argv[1], "rb").read(), open(sys.argv[2]).read().splitlines()
units = [line.split(" ", 2) for line in lines]
mine = [(int(o), int(n), u) for o, n, u in units if u.startswith("/fields/4 chunk ")]
assert head == "file " + sys.argv[1] and len(mine) == len({u for _, _, u in mine}) == 111, (head, len(mine))
found = sorted(value for o, n, _ in mine for value in data[o : o + n : 32768])
assert found == sorted([28 + row % 11 for row in range(444)]), found[:20]
PY

refused() {
    "$bin/tb-h5units" "${@:2}" > /dev/null 2> "$root/refused.out"
    [ $? = 2 ] && grep -q "$1" "$root/refused.out" && ok "refused: $1" || bad "not refused: $1" refused
}
echo text > "$root/text"
refused "is no HDF5 file" "$root/text"
refused "No such file" "$root/nothing"
refused "allowed: dataset, chunk" --unit file "$root/first.h5"
"$python" -c 'import sys, h5py; h5py.File(sys.argv[1], "w", userblock_size=512).close()' "$root/block.h5"
refused "user block" "$root/block.h5"
printf 'file *\n0 10 /a\n5 10 /b\n' > "$root/units.txt"
config "{policy: data-locality, units: units.txt}"
"$bin/tierctl" check "$root/tiers.yaml" 2> "$root/check.out"
[ $? = 2 ] && grep -q "units.txt:4: byte 5 of \*: is in two ranges" "$root/check.out" && ok "check names the line" || bad "check" check
finish
