#!/bin/bash
# programs/meet.c in an instance: by processes, then by threads. Nothing may be left that can't be flushed.
#   meet.sh BIN MODE      MODE: persistent-async, persistent-sync, scratch, deferred
set -eu
bin=$(realpath "$1") mode=$2
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-meet.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir "$root/pfs"
cat > "$root/tiers.yaml" <<EOF
version: 1
pfs: {path: $root/pfs}
mode: ${mode/deferred/persistent-async}
namespace: $([ "$mode" = deferred ] && echo deferred || echo eager)
fsync: $([ "$mode" = scratch ] && echo none || echo pfs)
flush: {policy: manual}
tiers:
  - {name: ram, medium: memory, capacity: 64MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}
EOF
"$bin/tierctl" run -c "$root/tiers.yaml" -- sh -c "mkdir '$root/pfs/here' && '$bin/test_preload_meet' '$root/pfs/here' 8 1 3 && '$bin/test_preload_meet' '$root/pfs/here' 3 4 3"
