#!/bin/bash
# What names do where they are not where programs say: scratch mode over a PFS that has files.
# programs/names.py runs on the bare file system and on the managed one; two processes see the same; the PFS stays as it is to
# the bit; a benchmark of names asks the PFS nothing; a process that is killed in a copy leaves the file whole.
#   names.sh BIN
set -u
bin=$(realpath "$1")
here=$(dirname "$(readlink -f "$0")")
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-names.XXXXXX")
trap 'chmod -R u+rwX "$root"; rm -rf "$root"' EXIT
failed=0
check() {
    if "${@:2}" > "$root/out" 2>&1; then echo "ok $1"; else failed=$((failed + 1)); echo "FAILED $1"; tail -5 "$root/out"; fi
}

fill() {
    mkdir -p "$1/in/sub" "$1/in/empty" "$1/locked" "$1/kept"
    for name in attribute cut emptied linked mode named owner times; do echo kept > "$1/kept/$name"; done
    echo one > "$1/in/a"; echo two > "$1/in/b"; echo three > "$1/in/sub/c"; echo four > "$1/locked/d"
    ln -s in/a "$1/relative"; ln -s "$1/in/sub" "$1/absolute"
    chmod 555 "$1/locked"
}
manifest() { (cd "$1" && find . -printf '%p %y %i %m %U %n %s %T@ %l\n' | sort && find . -type f -exec sha256sum {} + | sort); }

mkdir "$root/pfs" "$root/nvme"
fill "$root/bare"; fill "$root/pfs/given"
head -c 50000000 /dev/urandom > "$root/pfs/large"
mkdir -p "$root/pfs/deep/er"; echo "of the PFS" > "$root/pfs/deep/er/file"
cp "$root/pfs/large" "$root/large"
cat > "$root/tiers.yaml" <<YAML
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: scratch
tiers:
  - {name: ram, medium: memory, capacity: 16MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: 64MiB, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
YAML
run() { timeout 100 "$bin/tierctl" run -c "$root/tiers.yaml" -- "$@"; }
manifest "$root/pfs" > "$root/before"

check "the program on the bare file system" python3 "$here/programs/names.py" "$root/bare"
check "the program in scratch mode" run python3 "$here/programs/names.py" "$root/pfs/given"

numbers() {
    run bash -c "mkdir '$root/pfs/numbers' && cd '$root/pfs/numbers' && '$bin/test_preload_numbers' ../given/in/a"
}
check "calls by number" numbers

two() {
    run bash -c "cd '$root/pfs/given' && (echo new > in/a; mkdir in/made; echo x > in/made/x; mv in/b in/made/y; rm in/sub/c) &
        wait; cat '$root/pfs/given/in/a' '$root/pfs/given/in/made/x' '$root/pfs/given/in/made/y' && ls '$root/pfs/given/in' '$root/pfs/given/in/sub'" > "$root/seen"
    diff <(sed '/^tier\|^ram\|^nvme\|^pfs\|^tierctl/d' "$root/seen") - <<WANTED
new
x
two
$root/pfs/given/in:
a
empty
made
sub

$root/pfs/given/in/sub:
WANTED
}
check "what one process changes another one sees" two

# A directory with a stub in it takes the name of one that the process knew as real, without links; others only change places.
moved() {
    run python3 - "$root/pfs" <<'PYTHON'
import os, sys
from pathlib import Path

os.chdir(sys.argv[1])
os.makedirs("tree/d/er")
Path("tree/d/er/file").write_text("old")
os.makedirs("tree/y/er")
Path("tree/y/er/other").write_text("moved")
os.rename("tree/d", "tree/z")
os.rename("tree/y", "tree/d")
assert Path("tree/d/er/other").read_text() == "moved" and Path("tree/z/er/file").read_text() == "old"
assert os.listdir("tree/d/er") == ["other"] and not os.path.exists("tree/y")
os.rename("tree/d", "tree/x")
os.rename("deep", "tree/d")
Path("tree/d/er/file").write_text("new")
assert Path("tree/d/er/file").read_text() == "new" and not os.path.exists("deep")
PYTHON
}
check "directories that take each other's names" moved

# A process that is killed while a file is copied leaves the PFS's or the whole copy.
killed() {
    run bash -c "for i in 1 2 3 4 5 6 7 8; do
        { python3 -c 'import sys; f = open(sys.argv[1], \"r+b\"); f.seek(7); f.write(b\"!\")' '$root/pfs/large' & }; pid=\$!
        sleep 0.0\$i; kill -9 \$pid; wait \$pid 2>/dev/null
        cmp '$root/large' '$root/pfs/large' > '$root/differs' 2>&1; [ \$(wc -l < '$root/differs') -le 1 ] || exit 1
        [ \$(stat -c %s '$root/pfs/large') = 50000000 ] || exit 1
    done"
}
check "a process killed while it copies a file" killed

# Names that scratch made are none of the PFS's business: not one system call has such a path; the shadow is where they are looked up.
traced() {
    run strace -y -f -o "$root/trace" bash -c "mkdir '$root/pfs/bench' && exec '$bin/tb-mdtest' -n 20 -z 1 -b 2 -w 10 -e 10 -d '$root/pfs/bench/t'" || return 1
    grep -q "nvme.*mdtest" "$root/trace" || return 1
    ! grep -hE "^[0-9]+ +(open|stat|lstat|statx|newfstat|access|faccessat|mkdir|rmdir|unlink|rename|link|symlink|readlink|getdents|creat|truncate|chmod|chown|chdir|utime)[a-z0-9]*\(.*\"$root/pfs" "$root/trace"
}
if command -v strace > /dev/null; then check "tb-mdtest makes no system call on the PFS" traced; else echo "SKIPPED: strace is not here"; fi

manifest "$root/pfs" > "$root/after"
check "the PFS is as it was, to the bit" diff "$root/before" "$root/after"
check "nothing is left of the shadow" [ -z "$(ls -A "$root/nvme")" ]
echo "$failed failed"
[ $failed = 0 ]
