#!/bin/bash
# Every call by name goes through the chain of its place: the fault layer, which is there as traces and models are, can make each
# one fail. Without a fault all of them succeed. And what can't be flushed isn't handed on.
#   layers.sh BIN MODE     MODE: persistent-async, scratch, bypass, deferred
set -u
bin=$(realpath "$1") mode=$2
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-layers.XXXXXX")
name=layers-$$ failed=0
trap '"$bin/tierctl" stop --force -i $name > /dev/null 2>&1; rm -rf "$root"' EXIT
mkdir "$root/pfs" "$root/nvme"
namespace=eager write_mode=$mode
[ "$mode" != deferred ] || namespace=deferred write_mode=persistent-async
cat > "$root/tiers.yaml" <<YAML
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $write_mode
namespace: $namespace
tiers:
  - {name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 4MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
YAML
"$bin/tierctl" start -c "$root/tiers.yaml" -i $name > /dev/null || exit 1
under() { TIERBENCH_INSTANCE=$name LD_PRELOAD=$bin/../lib/libtierbench_preload.so timeout 60 "$@"; }
layers() { (cd "$root/pfs" && under "$bin/test_preload_layers" "$@") || failed=1; }

under python3 -c "open('$root/pfs/f', 'w').write('bytes')"
layers all 0
under ln -s f "$root/pfs/link"
for operation in open stat statx access truncate chmod chown utimens statfs statvfs pathconf setxattr getxattr listxattr removexattr watch symlink readlink realpath link rename mkdir opendir mknod unlink; do
    asked=$operation
    [ $mode-$operation != scratch-realpath ] || asked=readlink # the engine walks a shadow itself
    TB_FAULT="op=$asked,errno=EDQUOT,count=0" layers $operation 122
done
# What can't be flushed goes to no number that libc's streams use past every wrapper, and to no other process.
handed_on() {
    TB_FAULT="op=pwrite,errno=EDQUOT,count=2,path=$root/pfs" under python3 - "$root/pfs/handed-on" <<'PYTHON'
import errno, os, socket, sys

fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"bytes")
here, there = socket.socketpair()
for call in (lambda: os.dup2(fd, 0), lambda: socket.send_fds(here, [b"x"], [fd])):
    try:
        call()
    except OSError as e:
        assert e.errno == errno.EDQUOT, e
    else:
        sys.exit("a file went on that could not be flushed")
PYTHON
}
[ $mode != persistent-async ] || handed_on || failed=1
"$bin/tierctl" stop --force -i $name > /dev/null 2>&1 || failed=1
exit $failed
