#!/bin/bash
# Python's own libraries and h5py: prints and files as on the bare file system.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need python3
python=$(realpath "$here/../../../..")/.venv/bin/python
"$python" -c 'import h5py' 2> /dev/null || { echo "SKIPPED: h5py is not in .venv (ci/bootstrap)"; exit 77; }
tiers 1556KiB 512KiB
rounds=1
[ "$form" = long ] && rounds=10
for program in libraries hdf5; do
    for ((round = 1; round <= rounds; round++)); do
        mkdir -p "$root/out/$program" "$root/pfs/$program"
        (cd "$root/out/$program" && "$python" "$here/programs/$program.py" "$round") > "$root/expected" 2>&1 || bad "$program outside"
        under $program bash -c "cd '$root/pfs/$program' && '$python' '$here/programs/$program.py' $round" || bad "$program" $program
        spilled $program || bad "$program fits the tiers"
        grep -vE '^(tier|ram|nvme|pfs|tierctl:)' "$root/$program.out" | diff "$root/expected" - > "$root/difference.out" ||
            bad "$program: prints differ" difference
        diff -r "$root/out/$program" "$root/pfs/$program" > "$root/difference.out" && ok "$program $round" || bad "$program: files differ" difference
        rm -rf "${root:?}/out/$program" "${root:?}/pfs/$program"
    done
done
finish
