#!/bin/bash
# IOR and mdtest (tb-ior and tb-mdtest, or the real ones where a site has them: IOR=, MDTEST=) check their own data, on
# every configuration of configs/tiers, cut down until the data overflows it; the bytes on the PFS after the drain are
# those of a run without the adapter, and a second instance reads what the first left.
#   TB_TIERS, TB_POLICIES, TB_CASES: some of them only
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need mpirun perl
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
export TMPDIR=$root TB_ROOT=$root
ior=${IOR:-$bin/tb-ior} mdtest=${MDTEST:-$bin/tb-mdtest} ranks=4
mkdir "$root/bb" "$root/out"

# KiB that a tier has for each MiB of the file: 16 MiB of data overflow it, but in scratch, which must hold them all.
declare -A scale=([bb]=2 [bb-nvme]=2 [bb-nvme-ram]=6 [ram]=5 [small]=1)
[ "$mode" = scratch ] && scale=([bb]=64 [bb-nvme]=64 [bb-nvme-ram]=64 [ram]=128)
layouts=${TB_TIERS:-bb-nvme-ram} policies=on-close cases="posix-random posix-strided mpiio-collective hdf5 mmap files"
if [ "$form" = long ]; then
    layouts=${TB_TIERS:-${!scale[*]}}
    policies="on-close" cases=
    [ "$mode" = persistent-async ] && policies="on-close background watermark manual"
fi
policies=${TB_POLICIES:-$policies} cases=${TB_CASES:-$cases}

# IOR's options, except for the file; @ is each library of MPI-IO.  16 MiB at most, four ranks.
declare -A options=(
    [posix-segments]="-a POSIX -b 4m -t 1m"
    [posix-files]="-a POSIX -F -b 4m -t 256k -e"
    [posix-random]="-a POSIX -z --random-offset-seed 5 -b 1m -t 4k -e"
    [posix-random-files]="-a POSIX -F -z --random-offset-seed 5 -b 2m -t 8k -C"
    [posix-strided]="-a POSIX -b 16k -t 4k -s 128 -C"
    [posix-odd]="-a POSIX -b 47008 -t 47008 -s 80 -C"
    [posix-odd-small]="-a POSIX -b 1000 -t 200 -s 300 -C"
    [posix-synced]="-a POSIX -Y -b 1m -t 256k"
    [posix-existing]="-a POSIX -E -i 2 -b 2m -t 128k -Z"
    [posix-direct]="-a POSIX --posix.odirect -b 2m -t 64k"
    [posix-directories]="-a POSIX -F -u -g -b 1m -t 64k -s 2"
    [mpiio@]="-a MPIIO -b 4m -t 512k -C"
    [mpiio-collective@]="-a MPIIO -c -b 64k -t 16k -s 32 -C"
    [mpiio-view@]="-a MPIIO --mpiio.useFileView -b 512k -t 32k -s 4"
    [mpiio-view-collective@]="-a MPIIO -c --mpiio.useFileView -b 256k -t 32k -s 8 -e"
    [mpiio-files@]="-a MPIIO -F -b 2m -t 256k -e"
    [mpiio-preallocated@]="-a MPIIO --mpiio.preallocate -z --random-offset-seed 5 -b 1m -t 16k"
    [hdf5@]="-a HDF5 -b 1m -t 128k -s 2 -C"
    [hdf5-collective@]="-a HDF5 -c -b 512k -t 64k -s 4"
    [hdf5-files@]="-a HDF5 -F -b 1m -t 256k"
    [hdf5-aligned@]="-a HDF5 --hdf5.setAlignment 1m -b 512k -t 64k -s 4 -e"
    [mmap]="-a MMAP -b 1m -t 64k"
    [mmap-files]="-a MMAP -F -b 1m -t 16k -z --random-offset-seed 5 -e"
)
# mdtest's; the trees stay where they are, and a second run under the adapter finds and removes them.
declare -A trees=(
    [files]="-F -n 12 -w 3901 -e 3901"
    [tree]="-I 3 -z 2 -b 3 -w 10000 -e 10000"
    [own-trees]="-u -I 3 -z 1 -b 2 -w 4096 -e 4096"
    [directories]="-D -n 20 -z 1 -b 2"
    [shifted]="-F -n 12 -N 1 -w 70000 -e 70000 -y"
    [shared]="-F -S -n 10"
)

# site_tiers LAYOUT POLICY: that file of configs/tiers as it is, except for its sizes, its models (too slow) and the flush
site_tiers() {
    local background=false policy=$2 fsync=tier
    [ "$policy" = background ] && policy=on-close background=true
    if [ "$1" = small ]; then
        tiers 1700KiB 3MiB "$policy" "$background"
        return
    fi
    [ "$mode" = scratch ] && fsync=none
    [ "$mode" != scratch ] && [ "$1" = ram ] && fsync=pfs
    perl -pe "s/capacity: (\d+)MiB/'capacity: ' . \$1 * ${scale[$1]} . 'KiB'/e; s/, model: [^,}]*//; s/^mode:.*/mode: $mode/;
              s/^fsync:.*/fsync: $fsync/; s/^flush:.*/flush: {policy: $policy, threads: 2, background: $background}/" \
        "$here/../../../../configs/tiers/$1.yaml" > "$root/tiers.yaml"
}

# wanted LIST: "KEY NAME" of those of a list that are asked for, once for each library
wanted() {
    local -n from=$1
    local key libraries="-ompio -romio321"
    [ "$form" = long ] || libraries=-ompio
    for key in "${!from[@]}"; do
        [[ -z $cases || " $cases " == *" ${key%@} "* ]] || continue
        [[ $key = *@ ]] && printf "$key ${key%@}%s\n" $libraries || echo "$key $key"
    done | sort
}

# compare NAME: what is on the PFS is what a run outside wrote
compare() {
    diff -r "$root/out/$1" "$root/pfs" > "$root/differ.out" 2>&1 && return
    tail -n 5 "$root/differ.out"
    return 1
}

ior_case() {
    local key=$1 name=$2 label=$3 mpirun="mpirun -n $ranks" same=compare
    [[ $name = *-ompio || $name = *-romio321 ]] && mpirun="mpirun --mca io ${name##*-} -n $ranks"
    local common="${options[$key]} -G 1234 -k"
    [[ $key = hdf5* ]] && same="outside $mpirun $ior $common -r -R -o $root/pfs/f" # the file holds its times
    if [ ! -d "$root/out/$name" ]; then
        mkdir "$root/out/$name"
        $mpirun "$ior" $common -w -o "$root/out/$name/f" > "$root/outside.out" 2>&1 || bad "$label outside" outside
    fi
    if [ "$mode" = scratch ]; then
        checked $mpirun "$ior" $common -w -W -r -R -o "$root/pfs/f" && ok "$label" || bad "$label" run
        return
    fi
    checked $mpirun "$ior" $common -w -W -r -R -o "$root/pfs/f" && $same "$name" &&
        checked $mpirun "$ior" $common -r -R -o "$root/pfs/f" && $same "$name" && ok "$label" || bad "$label" run
}

says_no_error() { ! grep -iE 'data check error|errors? found|failed comparison|incorrect|error' "$root/$1.out"; }
# checked CMD...: under the tiers, without a word of wrong data; the same outside
checked() { under run "$@" && says_no_error run; }
outside() { timeout 60 "${@:1:$#-1}" > "$root/outside.out" 2>&1 && says_no_error outside; }

mdtest_case() {
    local name=$1 label=$2
    local common="${trees[$name]} -G 55" mpirun="mpirun -n $ranks" verify=
    [[ $common = *-w* ]] && verify=-X
    if [ ! -d "$root/out/$name" ]; then
        mkdir "$root/out/$name"
        $mpirun "$mdtest" $common -C -d "$root/out/$name/t" > "$root/outside.out" 2>&1 || bad "$label outside" outside
    fi
    if [ "$mode" = scratch ]; then
        checked $mpirun "$mdtest" $common $verify -d "$root/pfs/t" && ok "$label" || bad "$label" run
        return
    fi
    checked $mpirun "$mdtest" $common -C -d "$root/pfs/t" && compare "$name" &&
        checked $mpirun "$mdtest" $common $verify -T -E -d "$root/pfs/t" && compare "$name" &&
        checked $mpirun "$mdtest" $common -r -d "$root/pfs/t" && ok "$label" || bad "$label" run
}

clear_pfs() { rm -rf "${root:?}"/pfs/* "${root:?}"/nvme/* "${root:?}"/bb/*; rm -f "$root/differ.out"; }

for layout in $layouts; do
    for policy in $policies; do
        site_tiers "$layout" "$policy"
        while read -r key name; do
            ior_case "$key" "$name" "$layout $policy $name" < /dev/null
            clear_pfs
        done < <(wanted options)
        while read -r key name; do
            mdtest_case "$name" "$layout $policy mdtest $name" < /dev/null
            clear_pfs
        done < <(wanted trees)
    done
done
finish
