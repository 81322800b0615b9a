#!/bin/bash
# MPI-IO and parallel HDF5 by both MPI-IO libraries of Open MPI; the bytes on the PFS after the drain are those of a
# run without the adapter.  Short: 2 ranks; long: 1 to 5, several times.
source "$(dirname "$(readlink -f "$0")")/../../preload/tests/evidence/common.sh" "$@"
need mpirun
tiers 1556KiB 512KiB
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
export TMPDIR=$root
mkdir "$root/out"

# both NAME PROGRAM ARGUMENT: outside and under the tiers; ARGUMENT is in the folder that each run has
both() {
    local name=$1 program=$2 argument=$3
    rm -rf "${root:?}/out" "${root:?}/pfs"
    mkdir "$root/out" "$root/pfs"
    $mpirun "$bin/$program" "$root/out/$argument" > "$root/outside.out" 2>&1 || bad "$name outside" outside
    under "$name" $mpirun "$bin/$program" "$root/pfs/$argument" && spilled "$name" || bad "$name" "$name"
    [ "$(ls -A "$root/out")" = "$(ls -A "$root/pfs")" ] || bad "$name: other files: $(ls -A "$root/pfs")"
    for file in "$root"/out/*; do
        if [ "${file##*/}" = shared ]; then # records in any order
            [ "$(stat -c %s "$file")" = "$(stat -c %s "$root/pfs/shared")" ] || bad "$name: shared differs"
        else
            cmp "$file" "$root/pfs/${file##*/}" || bad "$name: ${file##*/} differs"
        fi
    done
    echo "ran $mode $name, $ranks ranks $(grep -h refused "$root/$name.out" | sort -u)"
}

numbers=2 rounds=1
[ "$form" = long ] && numbers="1 2 3 4 5" rounds=5
for library in ompio romio321; do
    for ((round = 1; round <= rounds; round++)); do
        for ranks in $numbers; do
            mpirun="mpirun --mca io $library -n $ranks"
            both mpiio-$library test_mpi_mpiio ""
            both ways-$library test_mpi_mpiio_ways ""
            both hdf5-$library test_mpi_phdf5 p.h5
        done
    done
done
finish
