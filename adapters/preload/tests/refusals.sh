#!/bin/bash
# What can't be served says so in one line, and gives no wrong bytes.
#   refusals.sh BIN
set -u
bin=$(realpath "$1") failed=0
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-refusals.XXXXXX")
name=refusals-$$
trap '"$bin/tierctl" stop -i $name > /dev/null 2>&1; rm -rf "$root"' EXIT
mkdir "$root/pfs" "$root/nvme" && chmod 755 "$root"
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
check "a static program started by a shell" $? 0 "tierbench: .* is statically linked: its I/O passes the tiers by"
[ "$(cat "$root/out")" = $'bytes\nmore' ] || wrong "it reads: $(cat "$root/out")"
run python3 -c "import os; open('$root/pfs/g', 'w').write('by path'); os.execvp('test_preload_unserved', ['s', '$root/pfs/g'])" > "$root/out" 2> "$root/err"
[ "$(grep -c 'No such file' "$root/err")" = 1 ] || wrong "a program that is not on the PATH"
PATH=$PATH:$bin run python3 -c "import os; os.spawnlp(os.P_WAIT, 'true', 'true'); f = open('$root/pfs/g', 'w'); f.write('by path'); f.flush(); os.execvp('test_preload_unserved', ['s', '$root/pfs/g'])" > "$root/out" 2> "$root/err"
check "a static program by PATH, an open file unflushed" $? 0 "its I/O passes the tiers by"
[ "$(cat "$root/out")" = "by path" ] || wrong "it reads: $(cat "$root/out")"

# however it is executed, and for every user
printf '#!%s\n' "$static" > "$root/script" && chmod +x "$root/script"
for how in execl execle execlp execv execve execvp execvpe fexecve execveat execveat-fd posix_spawn posix_spawnp; do
    run "$bin/test_preload_execs" $how "$static" "$root/pfs/$how" > "$root/out" 2> "$root/err"
    check "a static program by $how" $? 0 "is statically linked: its I/O passes the tiers by"
    [ "$(cat "$root/out")" = $how ] || wrong "it reads: $(cat "$root/out")"
done
for how in execve-bare posix_spawn-bare; do
    run "$bin/test_preload_execs" $how /bin/cat "$root/pfs/$how" > "$root/out" 2> "$root/err"
    check "a program without our environment by $how" $? 0 "/bin/cat is started without the adapter's environment: its I/O passes the tiers by"
    [ "$(cat "$root/out")" = $how ] || wrong "it reads: $(cat "$root/out")"
done
run bash -c "printf mine > $root/pfs/env; env -i /bin/cat $root/pfs/env; env -u TIERBENCH_INSTANCE -u TIERBENCH_CONFIG cat $root/pfs/env" > "$root/out" 2> "$root/err"
[ "$(grep -c 'without the adapter' "$root/err")" = 2 ] && [ "$(cat "$root/out")" = minemine ] || wrong "env -i, env -u: $(cat "$root/out" "$root/err")"
run "$root/script" "$root/pfs/f" 2> "$root/err"
check "a script of a static interpreter" $? 2 "statically linked: the adapter cannot serve it"
run "$bin/test_preload_execs" execv "$root/script" "$root/pfs/script" > "$root/out" 2> "$root/err"
check "the same started by a program" $? 0 "$root/script is statically linked: its I/O passes the tiers by"
printf '\177ELF\1\1\1%0100d' 0 > "$root/narrow" && chmod +x "$root/narrow"
run "$root/narrow" 2> "$root/err"
check "a program of 32 bits" $? 2 "is of another word size: the adapter cannot serve it"

if [ "$(id -u)" = 0 ]; then
    # privileged WHAT: of $root/privileged
    privileged() {
        run "$root/privileged" "$root/pfs/f" 2> "$root/err"
        check "a program with $1" $? 2 "runs with another user's rights: the adapter cannot serve it"
        run bash -c "echo again > $root/pfs/f; $root/privileged $root/pfs/f" > "$root/out" 2> "$root/err"
        check "a program with $1 started by a shell" $? 0 "privileged runs with another user's rights: its I/O passes the tiers by"
        [ "$(cat "$root/out")" = again ] || wrong "it reads: $(cat "$root/out")"
    }
        cp /bin/cat "$root/privileged" && chgrp nogroup "$root/privileged" && chmod 2755 "$root/privileged"
    privileged "another group's rights"
    chmod 755 "$root/privileged" && chown nobody:root "$root/privileged" && chmod 4755 "$root/privileged" && chmod 777 "$root/pfs"
    privileged "another user's rights"
    # what root may do anyway gains no other user's rights: as another user
    chown -R nobody "$root/pfs" "$root/nvme" && cp /bin/cat "$root/capable"
    if setcap cap_net_raw+ep "$root/capable" 2> /dev/null; then
        run() { setpriv --reuid=nobody --regid=nogroup --clear-groups "$bin/tierctl" run -c "$root/tiers.yaml" -- "$@"; }
        run "$root/capable" "$root/pfs/f" 2> "$root/err"
        check "a program with capabilities" $? 2 "runs with another user's rights: the adapter cannot serve it"
        run bash -c "echo able > $root/pfs/c; $root/capable $root/pfs/c" > "$root/out" 2> "$root/err"
        check "a program with capabilities started by a shell" $? 0 "capable runs with another user's rights: its I/O passes the tiers by"
        [ "$(cat "$root/out")" = able ] || wrong "it reads: $(cat "$root/out")"
        # a fork that fails leaves nothing
        run python3 -c "
import json, os, resource, subprocess
f = open('$root/pfs/forked', 'w')
f.write('before ')
f.flush()
limits = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (1, limits[1]))
for i in range(300):
    try:
        os._exit(0) if os.fork() == 0 else None
        raise SystemExit('it forked')
    except BlockingIOError:
        pass
resource.setrlimit(resource.RLIMIT_NPROC, limits)
status = json.loads(subprocess.check_output(['$bin/tierctl', 'status', '-i', os.environ['TIERBENCH_INSTANCE'], '--json']))
assert status['clients'] < 10, status
f.write('after')
f.close()
assert open('$root/pfs/forked').read() == 'before after'
" > "$root/out" 2> "$root/err"
        check "300 forks that fail" $? 0 "exit status 0"
        [ "$(cat "$root/pfs/forked")" = "before after" ] || wrong "after forks that failed: $(cat "$root/pfs/forked")"
        grep -q "cannot be used\|passes" "$root/err" && wrong "slots are lost: $(cat "$root/err")"
        run() { "$bin/tierctl" run -c "$root/tiers.yaml" -- "$@"; }
    else
        echo "SKIPPED: capabilities can't be set here"
    fi
    chown -R root "$root/pfs" "$root/nvme"
else
    echo "SKIPPED: a program with other rights needs root to be made"
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
# a program that is still there when the instance is stopped writes through from then on
mkfifo "$root/go"
LD_PRELOAD=$preload TIERBENCH_INSTANCE=$name python3 -c "
import os
f = os.open('$root/pfs/late', os.O_CREAT | os.O_RDWR); os.write(f, b'before ')
open('$root/attached', 'w').close()
open('$root/go').read()
os.write(f, b'after ')
assert os.pread(f, 99, 0) == b'before after '
g = os.open('$root/pfs/later', os.O_CREAT | os.O_RDWR); os.write(g, b'new')
print(open('/proc/self/mounts') and os.popen('env -i cat $root/pfs/late $root/pfs/later').read(), end='')
" > "$root/out" 2> "$root/err" &
until [ -e "$root/attached" ]; do sleep 0.02; done
[ ! -s "$root/pfs/late" ] || wrong "flushed at once"
"$bin/tierctl" stop -i $name > /dev/null || wrong "stop"
echo > "$root/go"
wait $! || wrong "the one that was still there: $(cat "$root/err")"
[ "$(cat "$root/out")" = "before after new" ] && [ "$(cat "$root/pfs/late" "$root/pfs/later")" = "before after new" ] || wrong "written after a stop: $(cat "$root/out" "$root/pfs/late")"

"$bin/tierctl" start -c "$root/tiers.yaml" -i $name > /dev/null || wrong "start"
head -c 12 "$region" > "$root/version"
python3 -c "import sys; f = open(sys.argv[1], 'r+b'); f.seek(8); f.write(b'\\x63')" "$region"
under $name
check "another version" $? 0 "instance $name cannot be used (another version made it)"
dd if="$root/version" of="$region" conv=notrunc status=none
"$bin/tierctl" stop -i $name > /dev/null || wrong "stop"
head -c 100000 /dev/urandom > "$region" && chmod 600 "$region"
under $name
check "a foreign region" $? 0 "instance $name cannot be used"
if [ "$(id -u)" = 0 ]; then
    chown nobody "$region"
    under $name
    check "another user's region" $? 0 "instance $name cannot be used (it is another user's)"
    cmp -s "$root/out" "$root/tiers.yaml" || wrong "it does not pass through"
fi
rm -f "$region"
echo "$failed failed"
[ $failed = 0 ]
