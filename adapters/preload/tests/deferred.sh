#!/bin/bash
# `namespace: deferred`: a new file has its name for every process of the instance at once, and on the PFS with its bytes.
#   deferred.sh BIN
set -u
bin=$(realpath "$1")
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-deferred.XXXXXX")
name=deferred-$$ failed=0
trap '"$bin/tierctl" stop --force -i $name > /dev/null 2>&1; rm -rf "$root"' EXIT
mkdir "$root/pfs" "$root/nvme"
config() { # POLICY
    cat > "$root/tiers.yaml" <<YAML
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: persistent-async
namespace: deferred
fsync: tier
allow_volatile: true
flush: {policy: $1}
tiers:
  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 16MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
YAML
}
check() {
    if "${@:2}" > "$root/out" 2>&1; then echo "ok $1"; else failed=$((failed + 1)); echo "FAILED $1"; tail -5 "$root/out"; fi
}
is() { [ "$1" = "$2" ] || { echo "'$1', not '$2'"; false; }; }
under() { TIERBENCH_INSTANCE=$name LD_PRELOAD=$bin/../lib/libtierbench_preload.so timeout 60 "$@"; }
inside() { under python3 -c "import os, sys, glob
os.chdir('$root/pfs')
def put(name, text): open(name, 'w').write(text)
def get(name): return open(name).read()
def refused(call, *a):
    try: call(*a)
    except OSError as e: return e.strerror
    return 'done'
$1"; }
outside() { (cd "$root/pfs" && ls -A "$@" | grep -v '^\.tierbench' | tr '\n' ' '); }
start() { "$bin/tierctl" start -c "$root/tiers.yaml" -i $name > /dev/null || exit 1; }
stop() { "$bin/tierctl" stop -i $name; }

config manual
start
names() {
    mkdir "$root/pfs/d" && echo there > "$root/pfs/there" && inside "
put('a', 'first'); put('d/b', 'second'); put('there', 'again')
assert sorted(os.listdir('.')) == ['a', 'd', 'there'] and os.listdir('d') == ['b'] and sorted(glob.glob('*')) == ['a', 'd', 'there']
assert sorted(e.name for e in os.scandir('.') if e.is_file()) == ['a', 'there']
assert refused(os.rmdir, 'd') == 'Directory not empty' and refused(os.mkdir, 'a') == 'File exists'
assert refused(os.open, 'a', os.O_CREAT | os.O_EXCL | os.O_WRONLY) == refused(os.open, 'there', os.O_CREAT | os.O_EXCL | os.O_WRONLY) == 'File exists'
os.symlink('a', 'link'); assert get('link') == 'first' and os.stat('link').st_size == 5
os.rename('d', 'e'); assert get('e/b') == 'second' and os.listdir('e') == ['b'] and not os.path.exists('d/b')
os.truncate('a', 3); assert get('a') == 'fir'
put('gone', 'x'); os.unlink('gone'); assert not os.path.exists('gone') and 'gone' not in os.listdir('.')" &&
    is "$(outside)" "e link there " && is "$(outside e)" "" &&
    inside "assert get('a') == 'fir' and get('e/b') == 'second'; f = open('a', 'r+'); f.seek(3); f.write('st'); f.close()" && is "$(outside)" "e link there " &&
    inside "os.rename('a', 'renamed'); os.link('e/b', 'hard'); assert get('renamed') == 'first' and get('hard') == 'second' and os.stat('hard').st_nlink == 2" &&
    "$bin/tierctl" drain --wait -i $name && is "$(cat "$root/pfs/renamed" "$root/pfs/e/b" "$root/pfs/hard" "$root/pfs/there")" "firstsecondsecondagain" && is "$(outside)" "e hard link renamed there "
}
check "names that wait, and their places after a drain" names
below() ( # what is no directory has no names in it
    mkdir -p "$root/pfs/below/dir" && cd "$root/pfs/below" && echo file > file && ln -s file to-file && ln -s dir to-dir && inside "
os.chdir('below')
make = os.O_CREAT | os.O_WRONLY
for name in 'file/x', 'file/x/y', 'to-file/x':
    assert refused(os.open, name, make) == refused(os.stat, name) == refused(os.unlink, name) == refused(os.mkdir, name) == 'Not a directory', name
put('waits', ''); assert refused(os.open, 'waits/x', make) == refused(os.stat, 'waits/x') == 'Not a directory'
assert refused(os.rmdir, 'file') == 'Not a directory' and refused(os.open, 'none/x', make) == 'No such file or directory'
put('to-dir/x', 'in it'); assert get('dir/x') == 'in it'" && is "$(outside below)" "dir file to-dir to-file " &&
        "$bin/tierctl" drain --wait -i $name && is "$(cat dir/x)" "in it"
)
conflict() {
    inside "put('taken', 'ours')" && echo theirs > "$root/pfs/taken" || return 1
    ! "$bin/tierctl" drain --wait -i $name > "$root/said" 2>&1 && grep -q "$root/pfs/taken: not flushed: File exists" "$root/said" || { cat "$root/said"; return 1; }
    is "$(cat "$root/pfs/taken")" theirs && inside "assert get('taken') == 'ours'" && ! stop > "$root/said" 2>&1 && rm "$root/pfs/taken" &&
        "$bin/tierctl" drain --wait -i $name && is "$(cat "$root/pfs/taken")" ours
}
scripts() { # the kernel has no name of one that waits
    local programs=$(dirname "$(readlink -f "$0")")/programs
    mkdir "$root/bare" "$root/pfs/scripts" && cp "$programs/scripts.py" "$root" || return 1
    (cd "$root/bare" && python3 "$root/scripts.py" | tee "$root/expected" | grep -c deep | grep -qx 5) &&
        (cd "$root/pfs/scripts" && under python3 "$root/scripts.py" | diff "$root/expected" -)
}
check "scripts and interpreters that wait are executed" scripts
check "nothing is made below a file" below
check "a name that another program took stays its own until it is free" conflict
moved() {
    mkdir "$root/pfs/m" && inside "put('m/f', 'bytes'); os.rename('m', 'n'); os.mkdir('m'); put('m/f', 'other')" && "$bin/tierctl" drain --wait -i $name && is "$(cat "$root/pfs/n/f" "$root/pfs/m/f")" bytesother
}
check "a directory that moves takes along what waits in it" moved
check "the instance stops" stop
check "nothing hidden is left" is "$(ls -A "$root/pfs" | grep tierbench)" ""

killed() { # what the node forgets: nothing, or the region
    start
    inside "f = open('k$1', 'w'); f.write('synced'); f.flush(); os.fsync(f.fileno()); put('l$1', 'not'); os.kill(os.getpid(), 9)"
    daemon=$("$bin/tierctl" status --json -i $name | python3 -c 'import json, sys; print(json.load(sys.stdin)["daemon_pid"])')
    kill -9 "$daemon"
    while kill -0 "$daemon" 2> /dev/null; do sleep 0.02; done
    is "$(outside | grep -c "l$1")" 0 || return 1
    [ "$1" = node ] && rm "/dev/shm/tierbench.$(id -u).$name"
    "$bin/tierctl" recover -c "$root/tiers.yaml" && is "$(cat "$root/pfs/k$1")" synced && is "$(ls -A "$root/pfs" | grep tierbench)" "" || return 1
    [ "$1" = node ] || is "$(cat "$root/pfs/l$1")" not
}
check "program and daemon killed: recovered" killed processes
check "the node's memory gone: what was fsynced is recovered, with its name" killed node

config on-close
start
closed() {
    inside "
f = open('c', 'w'); f.write('bytes'); f.flush()
print(os.listdir('.').count('c'), file=open('/dev/stderr', 'w')); os.system('true')" && is "$(cat "$root/pfs/c")" bytes && inside "put('empty', '')" && [ -e "$root/pfs/empty" ]
}
check "close gives the place" closed
many() {
    for i in 1 2 3 4; do inside "
for n in range(200):
    with open('m%d' % n if n % 2 else 'p$i-%d' % n, 'w') as f: f.write('x' * n)" & done
    wait
    is "$(outside | tr ' ' '\n' | grep -c '^p[1-4]-\|^m[0-9]')" 500
}
check "four processes make names, some of them the same" many
check "the instance stops" stop
check "nothing hidden is left" is "$(ls -A "$root/pfs" | grep tierbench)" ""

config "on-close, background: true, threads: 2"
start
given() { # the daemon gives names while the program uses them
    inside "
for n in range(700):
    put('u', 'x'); os.unlink('u'); assert not os.path.lexists('u')
    p = 'v%d' % n
    put(p, 'x'); assert os.access(p, os.R_OK) and os.stat(p).st_size == 1; os.chmod(p, 0o600); assert get(p) == 'x'
    os.rename(p, 'w%d' % n)" && is "$(outside | tr ' ' '\n' | grep -c '^w[0-9]')" 700
}
check "names are used while they are given" given
check "the instance stops" stop
check "nothing hidden is left" is "$(ls -A "$root/pfs" | grep tierbench)" ""

sed -i 's/persistent-async/scratch/' "$root/tiers.yaml"
refused() { ! "$bin/tierctl" check "$root/tiers.yaml" > "$root/said" 2>&1; is "$(cat "$root/said")" "tierctl: $root/tiers.yaml:5: namespace: deferred; allowed in mode persistent-async only: eager"; }
check "deferred in scratch mode is refused" refused
echo "$failed failed"
[ $failed = 0 ]
