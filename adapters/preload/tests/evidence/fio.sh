#!/bin/bash
# fio writes blocks with checksums and verifies them, in several jobs, by every way into the kernel; a
# second run under another instance verifies again what the first left on the PFS.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need fio
tiers 4MiB 1MiB
engines="psync vsync libaio mmap io_uring" size=3m jobs=2
[ "$form" = long ] && engines="$engines sync pvsync pvsync2 posixaio splice" size=48m jobs=4
for engine in $engines; do
    for order in write randwrite; do
        name=$engine-$order
        job="--name=j --directory=$root/pfs --ioengine=$engine --rw=$order --bs=4k --size=$size --numjobs=$jobs --iodepth=8
             --verify=crc32c --verify_fatal=1 --fallocate=none --group_reporting --randseed=7 --verify_state_save=0"
        under "$name" fio $job && under "$name-again" fio $job --verify_only && ok "fio $engine $order" || bad "fio $engine $order" "$name"
        rm -f "$root"/pfs/j.*
    done
done
[ "$mode" = persistent-sync ] || spilled psync-randwrite || bad "fio's data fit the tiers"
finish
