#!/bin/bash
# fsx: random operations on one file against a model of it, mappings and kernel copies among them or not.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need "$tools/fsx"
tiers 1556KiB 256KiB watermark
common='
[opsize]
max = 65536
[weights]
read = 10
write = 10
truncate = 1
fsync = 1
fdatasync = 0.5
posix_fadvise = 1'
plain="$common
close_open = 0.3
mapread = 0
mapwrite = 0"
# What makes the file coherent ends when it is unmapped and closed: often, so that buffers serve most of the time.
mapped="$common
close_open = 5
mapread = 0
mapwrite = 0.5
posix_fallocate = 0.3
punch_hole = 0.3
sendfile = 0.3
copy_file_range = 0.3"
# fsx never unmaps what it read: the file stays coherent from the first time on.
all="$mapped"
all=${all/mapread = 0/mapread = 0.5}
ops=4000 seeds="1 2"
[ "$form" = long ] && ops=200000 seeds="11 12 13"
for kind in plain mapped all; do
    printf 'flen = 1048576%s\n' "${!kind}" > "$root/$kind.toml"
    for seed in $seeds; do
        name=$kind-$seed
        if under "$name" "$tools/fsx" -q -f "$root/$kind.toml" -N "$ops" -S "$seed" -P "$root" "$root/pfs/$name" && { [ $kind = all ] || spilled "$name"; }; then
            ok "fsx $kind, $ops operations, seed $seed"
        else
            bad "fsx $kind, $ops operations, seed $seed" "$name"
        fi
    done
done
finish
