#!/bin/bash
# Hints by MPI_Info and the events of MPI-IO, by both MPI-IO libraries of Open MPI.
#   hints.sh BIN
source "$(dirname "$(readlink -f "$0")")/../../preload/tests/evidence/common.sh" "$1" persistent-async
need mpirun
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
export TMPDIR=$root
ln -s pfs "$root/alias"
tiers 4MiB 4MiB manual false

# hold LIBRARY WAY HINTS -- LINES: what the program prints, in any order
hold() {
    local library=$1 way=$2 hints=()
    shift 2
    while [ "$1" != -- ]; do
        hints+=("$1")
        shift
    done
    shift
    rm -f "$root/pfs/f"
    under hints mpirun --mca io "$library" -n 2 "$bin/test_mpi_hints" "$root/pfs/f" "$root/alias/f" "$way" "${hints[@]}" ||
        bad "$library $way ${hints[*]}" hints
    printf '%s\n' "$@" | sort > "$root/expected"
    grep -E '^(tierbench|pfs after)' "$root/hints.out" | sed "s|$root/pfs/||" | sort | diff "$root/expected" - > "$root/difference.out" &&
        ok "$library $way ${hints[*]}" || bad "$library $way ${hints[*]}" difference
}

async="tierbench_mode=persistent-async" sync="tierbench_mode=persistent-sync" bypass="tierbench_mode=bypass"
tier="tierbench_fsync=tier" pfs="tierbench_fsync=pfs" normal="tierbench_access=normal"
never=("pfs after write: no" "pfs after sync: no" "pfs after close: no")
always=("pfs after write: yes" "pfs after sync: yes" "pfs after close: yes")
synced=("pfs after write: no" "pfs after sync: yes" "pfs after close: yes")
modes="allowed: persistent-async, persistent-sync, bypass, scratch"
for library in ompio romio321; do
    hold $library open cb_nodes=1 -- $async $tier $normal "${never[@]}"
    hold $library open $sync -- $sync $tier $normal "${always[@]}"
    hold $library info $pfs tierbench_access=sequential -- $async $pfs tierbench_access=sequential "${synced[@]}"
    hold $library view $bypass tierbench_access=write_once -- $bypass $pfs tierbench_access=write_once "${always[@]}"
done
hold ompio open tierbench_mode=fast tierbench_fsync=none tierbench_acces=random -- $async $tier $normal "${never[@]}" \
    "tierbench: f: hint tierbench_mode=fast is ignored: $modes" \
    "tierbench: f: hint tierbench_fsync=none is ignored: it is weaker than what the file has" \
    "tierbench: f: hint tierbench_acces=random is ignored: allowed: tierbench_mode, tierbench_fsync, tierbench_access"
hold ompio open tierbench_mode=scratch -- $async $tier $normal "${never[@]}" \
    "tierbench: f: hint tierbench_mode=scratch is ignored: scratch is of prefixes, not of single files"

# Other configured modes: a file under a prefix that writes through may write to buffers until it is closed.
mode=persistent-sync
tiers 4MiB 4MiB manual false
hold ompio open $async -- $async $tier $normal "pfs after write: no" "pfs after sync: no" "pfs after close: yes"
mode=bypass
tiers 4MiB 4MiB manual false
hold ompio open $sync $pfs -- $bypass $pfs $normal "${always[@]}" \
    "tierbench: f: hint $sync is ignored: it passes through until its last close"

# How a file is used: two passes over 512 KiB that only the PFS has.
mode=persistent-async
tiers 4MiB 4MiB manual false
echo "organizer: {prefetch: 0B}" >> "$root/tiers.yaml"
staged() {
    head -c 524288 /dev/urandom > "$root/pfs/f"
    under read mpirun --mca io ompio -n 1 "$bin/test_mpi_hints" "$root/pfs/f" "$root/alias/f" read "$@" || bad "read $*" read
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["staged"] // 1024)' "$root/read.json"
}
kib=$(staged tierbench_access=keep)
[ "$kib" -ge 512 ] && ok "keep staged $kib KiB" || bad "keep staged $kib KiB"
kib=$(staged tierbench_access=read_once)
[ "$kib" = 0 ] && ok "read_once staged nothing" || bad "read_once staged $kib KiB"

# Events, without tiers and with them.
for library in ompio romio321; do
    LD_PRELOAD=$bin/../lib/libtierbench_mpi.so mpirun --mca io $library -n 2 "$bin/test_mpi_events" "$root/out.f" > "$root/events.out" 2>&1 &&
        ok "events $library" || bad "events $library" events
    under events mpirun --mca io $library -n 2 "$bin/test_mpi_events" "$root/pfs/e" && ok "events under tiers $library" || bad "events under tiers $library" events
done
grep -h "no Fortran" "$root"/events.out

# A program without MPI finds nothing missing, bound at its start or not.
LD_BIND_NOW=1 LD_PRELOAD=$bin/../lib/libtierbench_mpi.so true && ok "without MPI" || bad "without MPI"
finish
