#!/bin/bash
# programs/calls.c, numbers.c, hooks.c, descriptors.c, cancelled.c, handlers.c and those of processes, on a managed folder that is flushed by hand only; see there.
#   calls.sh BIN MODE      MODE: persistent-async, scratch
set -eu
bin=$(realpath "$1") mode=$2
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-calls.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir "$root/pfs" "$root/nvme"
cat > "$root/tiers.yaml" <<EOF
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $mode
fsync: $([ "$mode" = scratch ] && echo none || echo tier)
flush: {policy: manual, threads: 2}
placement: {policy: max-bandwidth}
tiers:
  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 16MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
EOF
# What these ask for is right outside, too.
for program in numbers spawns descriptors cancelled hooks; do
    mkdir -p "$root/bare/$program"
    (cd "$root/bare/$program" && "$bin/test_preload_$program")
done
# liburing's names are asked where the library is.
uring=$(ldconfig -p 2>/dev/null | sed -n 's/.*liburing\.so\.2 .*=> //p' | head -1)
LD_PRELOAD=$uring "$bin/tierctl" run -c "$root/tiers.yaml" -- bash -c "mkdir '$root/pfs/here' && cd '$root/pfs/here' && '$bin/test_preload_calls' $mode && '$bin/test_preload_forks' && mkdir numbers && (cd numbers && '$bin/test_preload_numbers') && mkdir hooks && (cd hooks && '$bin/test_preload_hooks') && mkdir spawns && (cd spawns && '$bin/test_preload_spawns') && mkdir descriptors && (cd descriptors && '$bin/test_preload_descriptors' && '$bin/test_preload_cancelled') && mkdir handlers && cd handlers && '$bin/test_preload_handlers' 300"
