#!/bin/bash
# programs/allocators: allocated.c on allocator.c, linked with it, and with it loaded before and after our library, also under a trace. What
# the allocator's constructor writes is in buffers, too. With LIBRARY on that one instead, loaded; 77: it is not here.
#   allocator.sh BIN MODE [LIBRARY]      MODE: persistent-async, scratch
set -eu
bin=$(realpath "$1") mode=$2
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-allocator.XXXXXX")
name=allocator-$mode-$$
trap '"$bin/tierctl" stop -i $name > /dev/null 2>&1 || true; rm -rf "$root"' EXIT
own=$bin/../lib/libtest_preload_allocator.so adapter=$bin/../lib/libtierbench_preload.so
mkdir "$root/pfs" "$root/nvme"
cat > "$root/tiers.yaml" <<EOF
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $mode
fsync: $([ "$mode" = scratch ] && echo none || echo tier)
flush: {policy: manual, threads: 2}
tiers:
  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 16MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
EOF
fail() {
    echo "$*: $(cat "$root/out")"
    exit 1
}
# A wait for itself never ends.
run() {
    (cd "$root/pfs" && timeout 60 "$bin/tierctl" run "${options[@]}" -c "$root/tiers.yaml" -- "$@") > "$root/out" 2>&1 || fail "$*, options ${options[*]}"
    grep -q "all written" "$root/out" || fail "$*, options ${options[*]}"
}
# What is preloaded, and the program.
run_early() {
    "$bin/tierctl" start -c "$root/tiers.yaml" -i $name
    (cd "$root/pfs" && TIERBENCH_INSTANCE=$name TEST_EARLY_FILE="$root/pfs/early" LD_PRELOAD=$1 timeout 60 "$bin/$2" 40) > "$root/out" 2>&1 || fail "$*"
    [ ! -s "$root/pfs/early" ] || fail "$*: the early file is not in buffers"
    "$bin/tierctl" stop -i $name > "$root/out"
    [ "$mode" = scratch ] || [ "$(cat "$root/pfs/early")" = early ] || fail "$*: what the early file has"
    rm -f "$root/pfs"/*
}
library=${3:+$(ldconfig -p 2> /dev/null | sed -n "s/.*$3 .*=> //p" | head -1)}
if [ -z "${3:-}" ]; then
    run_early "$adapter" test_preload_allocated_own
    run_early "$own:$adapter" test_preload_allocated
    run_early "$adapter:$own" test_preload_allocated
    library=$own
elif [ -z "$library" ]; then
    echo "skipped: $3 is not here"
    exit 77
fi
for traced in false true; do
    options=()
    [ $traced = false ] || options=(--trace "$root/trace.darshan")
    [ "$library" != "$own" ] || run "$bin/test_preload_allocated_own" 40
    run sh -c "LD_PRELOAD='$library':\$LD_PRELOAD '$bin/test_preload_allocated' 40"
    run sh -c "LD_PRELOAD=\$LD_PRELOAD:'$library' '$bin/test_preload_allocated' 40"
done
