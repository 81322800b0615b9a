#!/bin/bash
# sqlite with four writers at once, in each of its journal modes: the data base stays whole, and no call fails.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need python3
tiers 6MiB 16MiB manual
seconds=3
[ "$form" = long ] && seconds=60
for journal in truncate delete persist wal; do
    name=$journal database=$root/pfs/$journal.db
    if under "$name" python3 "$here/programs/sqlite_writers.py" "$database" "$journal" 4 "$seconds"; then
        ok "sqlite, journal $journal, 4 writers: $(grep transactions "$root/$name.out")"
        after=$(python3 "$here/programs/sqlite_writers.py" "$database" look)
        [ "$after" = "$(grep transactions "$root/$name.out")" ] || bad "sqlite, journal $journal: after the drain the PFS has $after" "$name"
    else
        bad "sqlite, journal $journal, 4 writers" "$name"
    fi
done
finish
