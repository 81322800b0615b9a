#!/bin/bash
# sqlite in each journal mode: killed in the middle of transactions, again and again, and asked each time whether
# the data base is whole and holds every transaction that was reported as done.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need python3
tiers 1556KiB 256KiB
kills=4
[ "$form" = long ] && kills=40
for journal in delete persist truncate wal; do
    name=$journal
    if under "$name" python3 "$here/programs/sqlite_killed.py" "$root/pfs/$name.db" "$journal" "$kills" && spilled "$name"; then
        ok "sqlite, journal $journal, $kills kills: $(grep rows "$root/$name.out")"
    else
        bad "sqlite, journal $journal" "$name"
    fi
    bare=$(python3 "$here/programs/sqlite_killed.py" "$root/pfs/$name.db" look)
    [ "$bare" = "$(grep rows "$root/$name.out")" ] || bad "sqlite, journal $journal: after the drain the PFS has $bare" "$name"
done
finish
