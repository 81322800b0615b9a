#!/bin/bash
# programs/locks/ prints under the adapter what it prints outside: after every call the locks are the kernel's.
#   locks.sh BIN MODE [ACTION]     MODE: tier, pfs (what an fsync promises, write-back), sync (write-through), scratch, deferred
set -u
bin=$(realpath "$1") mode=$2 action=${3:-}
program=$bin/test_preload_locks
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-locks.XXXXXX")
name=locks-$$ failed=0
trap '"$bin/tierctl" stop --force -i $name > /dev/null 2>&1; rm -rf "$root"' EXIT
mkdir -p "$root/pfs/here" "$root/nvme" "$root/out"

write_mode=persistent-async fsync=tier namespace=eager capacity=16MiB
case $mode in
    tier) ;;
    pfs) fsync=pfs ;;
    sync) write_mode=persistent-sync ;;
    scratch) write_mode=scratch fsync=none capacity=512MiB ;; # what does not fit its tiers is refused there
    deferred) namespace=deferred ;;
    *) echo "locks.sh: $mode: allowed: tier, pfs, sync, scratch, deferred"; exit 2 ;;
esac
cat > "$root/tiers.yaml" <<YAML
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $write_mode
namespace: $namespace
fsync: $fsync
allow_volatile: true
flush: {policy: manual, threads: 2}
tiers:
  - {name: ram, medium: memory, capacity: 6MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: $capacity, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
YAML

ulimit -Sn 1024
under() { TIERBENCH_INSTANCE=$name LD_PRELOAD=$bin/../lib/libtierbench_preload.so TB_DRAIN="$bin/tierctl drain --wait -i $name > /dev/null" timeout 280 "$@"; }
bare() { (cd "$root/out" && "$program" "$@"); }
inside() { (cd "$root/pfs/here" && under "$program" "$@"); }
is_same() { # WHICH
    bare "$1" $action > "$root/expected"
    inside "$1" $action > "$root/got" 2> "$root/err"
    [ -s "$root/expected" ] && diff "$root/expected" "$root/got" > "$root/diff" && [ ! -s "$root/err" ] && echo "ok $mode, $1 files: $(wc -l < "$root/got") cases" && return
    echo "FAILED $mode, $1 files: < the kernel's, > under the adapter"
    cat "$root/diff" "$root/err"
    failed=1
}

bare prepare $action
(cd "$root/pfs/here" && "$program" prepare $action)
"$bin/tierctl" start -c "$root/tiers.yaml" -i $name > /dev/null || exit 1
is_same new
is_same old
if [ -z "$action" ]; then
    for descriptors in 1024 256; do
        (ulimit -n $descriptors && inside race) > "$root/race" 2>&1
        echo "$descriptors descriptors allowed: $(cat "$root/race")"
        grep -q 'asked 150 times, lost 0$' "$root/race" || failed=1
    done
fi
"$bin/tierctl" stop -i $name > "$root/stopped" 2>&1 || { failed=1; cat "$root/stopped"; }
exit $failed
