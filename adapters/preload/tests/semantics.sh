#!/bin/bash
# programs/semantics.c prints under the adapter what it prints outside, and leaves the same files.
#   semantics.sh BIN MODE      MODE: persistent-async, persistent-sync; deferred, scratch: what names do
set -eu
bin=$(realpath "$1") mode=$2 parts= least=80 namespace=eager promise=tier
case $mode in
    deferred) mode=persistent-async parts='names cuts emptied slashes turns' least=150 namespace=deferred ;;
    scratch) parts='names cuts emptied slashes turns' least=150 promise=none ;;
esac
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-semantics.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/pfs/here" "$root/nvme" "$root/out"
cat > "$root/tiers.yaml" <<EOF
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $mode
namespace: $namespace
fsync: $promise
flush: {policy: manual, threads: 2}
tiers:
  - {name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 2MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
EOF
(cd "$root/out" && "$bin/test_preload_semantics" $parts) > "$root/expected"
(cd "$root/pfs/here" && "$bin/tierctl" run -c "$root/tiers.yaml" -- "$bin/test_preload_semantics" $parts) > "$root/got"
[ "$(wc -l < "$root/expected")" -gt $least ]
diff "$root/expected" "$root/got"
[ $mode = scratch ] || diff -r --no-dereference "$root/out" "$root/pfs/here"
