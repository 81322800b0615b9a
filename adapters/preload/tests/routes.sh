#!/bin/bash
# A call by name routes each of its names once: rename and link have two.
#   routes.sh BIN
set -eu
bin=$(realpath "$1")
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-routes.XXXXXX")
name=routes-$$
trap '"$bin/tierctl" stop -i $name > /dev/null 2>&1 || true; rm -rf "$root"' EXIT
mkdir -p "$root/pfs/other" "$root/nvme"
for mode in persistent-async scratch; do
    # In scratch mode a walk asks of each part whether another prefix begins there: there is only one, so that this is not counted.
    prefixes=$mode
    [ $mode = scratch ] || prefixes="[{prefix: $root/pfs, mode: $mode}, {prefix: $root/pfs/other, mode: persistent-sync}]"
    cat > "$root/$mode.yaml" <<YAML
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $prefixes
tiers:
  - {name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 4MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
YAML
    "$bin/tierctl" start -c "$root/$mode.yaml" -i $name
    TIERBENCH_INSTANCE=$name LD_PRELOAD=$bin/../lib/libtest_preload_routes.so "$bin/test_preload_routes" "$root/pfs" > "$root/$mode"
    "$bin/tierctl" stop -i $name > /dev/null
    echo "$mode: $(tr '\n' ' ' < "$root/$mode")"
    [ "$(wc -l < "$root/$mode")" = 13 ]
    awk '$2 != ($1 == "rename" || $1 == "link" ? 2 : 1) {print; wrong = 1} END {exit wrong}' "$root/$mode"
done
