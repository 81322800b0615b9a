#!/bin/bash
# programs/unwritable.c as a user who is not root, for whom permissions count: after the drain the PFS has all bytes.
#   unwritable.sh BIN MODE      MODE: persistent-async, persistent-sync, deferred
set -eu
bin=$(realpath "$1") mode=$2
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-unwritable.XXXXXX")
trap 'chmod -R u+rwX "$root"; rm -rf "$root"' EXIT
mkdir "$root/pfs"
cat > "$root/tiers.yaml" <<EOF
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: ${mode/deferred/persistent-async}
namespace: $([ "$mode" = deferred ] && echo deferred || echo eager)
fsync: pfs
flush: {policy: manual}
tiers:
  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}
EOF
as_user=()
if [ "$(id -u)" = 0 ]; then
    chown -R 65534:65534 "$root"
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
cd "$root/pfs"
HOME=$root "${as_user[@]}" "$bin/tierctl" run -c "$root/tiers.yaml" -- "$bin/test_preload_unwritable"
cd /
for file in "$root"/pfs/*; do
    [ "$(cat "$file")" = "first second" ] || { echo "$file: $(cat "$file")"; exit 1; }
done
[ "$(ls "$root/pfs" | wc -l)" = 5 ]
