#!/bin/bash
# What can't be served says so in one line, and gives no wrong bytes.
#   refusals.sh BIN
set -u
bin=$(realpath "$1") failed=0
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-refusals.XXXXXX")
name=refusals-$$
trap '"$bin/tierctl" stop -i $name > /dev/null 2>&1; rm -rf "$root"' EXIT
mkdir "$root/pfs" "$root/nvme"
cat > "$root/tiers.yaml" <<EOF
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: persistent-async
fsync: tier
flush: {policy: manual}
tiers:
  - {name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 4MiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}
EOF
run() { "$bin/tierctl" run -c "$root/tiers.yaml" -- "$@"; }
wrong() {
    failed=$((failed + 1))
    echo "FAILED $*"
}
# check WHAT STATUS EXPECTED_STATUS LINE: one line of $root/err says LINE
check() {
    if [ "$2" = "$3" ] && [ "$(grep -c "$4" "$root/err")" = 1 ]; then
        echo "ok $1"
    else
        wrong "$1: status $2, not $3, or not once '$4':"
        cat "$root/err"
    fi
}

static=$bin/test_preload_unserved
run "$static" "$root/pfs/x" 2> "$root/err"
check "a static program" $? 2 "statically linked: the adapter cannot serve it"
run bash -c "echo bytes > $root/pfs/f; printf more >> $root/pfs/f; exec $static $root/pfs/f" > "$root/out" 2> "$root/err"
check "a static program behind a shell" $? 0 "tierbench: .* is statically linked: its I/O passes the tiers by"
[ "$(cat "$root/out")" = $'bytes\nmore' ] || wrong "it reads: $(cat "$root/out")"
run python3 -c "import os; open('$root/pfs/g', 'w').write('by path'); os.execvp('test_preload_unserved', ['s', '$root/pfs/g'])" > "$root/out" 2> "$root/err"
[ "$(grep -c 'No such file' "$root/err")" = 1 ] || wrong "a program that is not on the PATH"
PATH=$PATH:$bin run python3 -c "import os; os.spawnlp(os.P_WAIT, 'true', 'true'); f = open('$root/pfs/g', 'w'); f.write('by path'); f.flush(); os.execvp('test_preload_unserved', ['s', '$root/pfs/g'])" > "$root/out" 2> "$root/err"
check "a static program by PATH, an open file unflushed" $? 0 "its I/O passes the tiers by"
[ "$(cat "$root/out")" = "by path" ] || wrong "it reads: $(cat "$root/out")"

if [ "$(id -u)" = 0 ]; then
    cp /bin/cat "$root/setgid" && chgrp nogroup "$root/setgid" && chmod 2755 "$root/setgid"
    run "$root/setgid" "$root/pfs/f" 2> "$root/err"
    check "a program with another group's rights" $? 2 "runs with another user's rights: the adapter cannot serve it"
    run bash -c "echo again > $root/pfs/f; $root/setgid $root/pfs/f" > "$root/out" 2> "$root/err"
    check "the same behind a shell" $? 0 "its I/O passes the tiers by"
    [ "$(cat "$root/out")" = again ] || wrong "it reads: $(cat "$root/out")"
else
    echo "SKIPPED: a program with another group's rights needs root to be made"
fi

preload=$(realpath "$bin/../lib/libtierbench_preload.so")
under() { LD_PRELOAD=$preload TIERBENCH_INSTANCE=$1 cat "$root/tiers.yaml" > "$root/out" 2> "$root/err"; }
under absent-$$
check "no such instance" $? 0 "instance absent-$$ cannot be used (no such instance runs): I/O passes through unbuffered"
cmp -s "$root/out" "$root/tiers.yaml" || wrong "it does not pass through"
"$bin/tierctl" start -c "$root/tiers.yaml" -i $name > /dev/null || wrong "start"
region=$(ls /dev/shm/tierbench.*".$name" | head -1)
under $name
[ -s "$root/err" ] && wrong "it speaks of nothing: $(cat "$root/err")"
sleep 0.01
touch "$root/tiers.yaml"
under $name
check "a changed configuration" $? 0 "the configuration changed after instance $name had started"
"$bin/tierctl" stop -i $name > /dev/null || wrong "stop"
head -c 100000 /dev/urandom > "$region" && chmod 600 "$region"
under $name
check "a foreign region" $? 0 "instance $name cannot be used"
rm -f "$region"
echo "$failed failed"
[ $failed = 0 ]
