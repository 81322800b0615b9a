#!/bin/bash
# programs/append.c under the adapter: a log that several append to, and that is followed, cut, and left by killed writers.
#   append.sh BIN MODE [ROUNDS]      MODE: persistent-async, persistent-sync, scratch, nodes (several), full (tiers that overflow)
set -eu
bin=$(realpath "$1") mode=$2 rounds=${3:-2} nodes=
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-append.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/pfs" "$root/nvme"
ram=64MiB nvme=16MiB fsync=tier policy=manual
case $mode in
  nodes) mode=persistent-async nodes='nodes: several' fsync=pfs policy=on-close ;;
  full) mode=persistent-async ram=2MiB nvme=1MiB ;;
  scratch) fsync=none ram=256MiB nvme=256MiB ;;
esac
cat > "$root/tiers.yaml" <<EOT
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $mode
fsync: $fsync
$nodes
flush: {policy: $policy, threads: 2}
tiers:
  - {name: ram, medium: memory, capacity: $ram, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: $nvme, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
EOT
cd "$root/pfs"
exec_status=0
"$bin/tierctl" run -c "$root/tiers.yaml" -- "$bin/test_preload_append" "$rounds" || exec_status=$?
exit $exec_status
