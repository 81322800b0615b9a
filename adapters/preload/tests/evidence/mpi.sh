#!/bin/bash
# MPI-IO and parallel HDF5 by both MPI-IO libraries of Open MPI; the bytes on the PFS behind the drain are those of a
# run without the adapter, and a second run reads what the first left.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need mpirun
tiers 1216KiB 512KiB
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
export TMPDIR=$root
ranks=2 rounds=1
[ "$form" = long ] && ranks=5 rounds=10
mkdir "$root/out"
for library in ompio romio321; do
    for ((round = 1; round <= rounds; round++)); do
        mpirun="mpirun --mca io $library -n $ranks"
        rm -rf "${root:?}"/out/* "${root:?}"/pfs/*
        name=mpiio-$library
        $mpirun "$bin/test_preload_mpiio" "$root/out" > "$root/outside.out" 2>&1 || bad "$name outside" outside
        under "$name" $mpirun "$bin/test_preload_mpiio" "$root/pfs" && spilled "$name" || bad "$name" "$name"
        for file in independent collective views atomic; do
            cmp "$root/out/$file" "$root/pfs/$file" || bad "$name: $file differs"
        done
        [ "$(stat -c %s "$root/out/shared")" = "$(stat -c %s "$root/pfs/shared")" ] || bad "$name: shared differs"
        [ "$(ls "$root/out")" = "$(ls "$root/pfs")" ] || bad "$name: other files: $(ls "$root/pfs")"
        echo "ran $mode $name, $ranks ranks $(grep -h refused "$root/$name.out" | sort -u)"
        name=hdf5-$library
        under "$name" $mpirun "$bin/test_preload_phdf5" "$root/pfs/p.h5" && spilled "$name" || bad "$name" "$name"
        $mpirun "$bin/test_preload_phdf5" "$root/out/p.h5" > "$root/outside.out" 2>&1 || bad "$name outside" outside
        cmp "$root/out/p.h5" "$root/pfs/p.h5" || bad "$name: the file differs"
        echo "ran $mode $name, $ranks ranks"
    done
done
finish
