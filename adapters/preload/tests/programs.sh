#!/bin/bash
# Unmodified programs on managed paths: each case runs twice in a fresh folder,
# once on the bare file system and once through the adapter, and both must print
# the same, end the same and (after the drain) leave the same bytes.  Tiers are
# smaller than the data, so that everything spills.
#
#   programs.sh BIN MODE [CASE...]      MODE: persistent-async, persistent-sync, scratch, bypass
set -u
bin=$(realpath "$1") mode=$2
shift 2
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-programs.XXXXXX")
trap 'rm -rf "$root"' EXIT

fsync=tier
[ "$mode" = scratch ] && fsync=none
cat > "$root/tiers.yaml" <<EOF
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $mode
fsync: $fsync
flush: {policy: on-close, threads: 2, background: true}
placement: {policy: max-bandwidth}
tiers:
  - {name: ram, medium: memory, capacity: 4MiB, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 16, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: ${TB_TEST_CAPACITY:-8MiB}, block: 64KiB, slabs: [{units: 1, share: 1.0}]}
EOF
# Scratch never spills to the PFS: there the data must fit.
[ "$mode" = scratch ] && sed -i 's/capacity: 8MiB/capacity: 256MiB/' "$root/tiers.yaml"
mkdir "$root/nvme"

# --- cases: run by bash in their own folder, the input files beside it in ../in ---

declare -A cases
cases[dd]='dd if=../in/big of=a bs=64k status=none && dd if=a of=b bs=4k skip=3 seek=5 status=none &&
  dd if=../in/small of=b bs=1 seek=1000 conv=notrunc status=none && dd if=a of=c bs=1M conv=fsync status=none &&
  dd if=../in/small of=c oflag=append conv=notrunc status=none && sha256sum a b c'
cases[cp]='cp ../in/big a && cp a b && cp --sparse=always a c && cp -p ../in/small d && cp --reflink=auto b e && cmp a b && cmp a c && cat d'
cases[cat]='cat ../in/big > a; cat a ../in/small > b; cat < b | sha256sum; cat b >> a; sha256sum a'
cases[shell]='echo one > f; echo two >> f; { echo three; cat ../in/small; echo four; /bin/echo five; } > g
  for i in 1 2 3; do /bin/echo $i; done > h; exec 5>k; echo a >&5; /bin/echo b >&5; (echo c >&5); exec 5>&-
  while read -r line; do echo "<$line>"; done < g > l; head -2 < g; : > f; wc -c f g h k l'
cases[sha256sum]='cp ../in/big a; sha256sum a ../in/big > sums; sha256sum -c sums'
cases[head-tail]='seq 1 200000 > a; tail -n 3 a; tail -c 50 a; head -n 3 a; head -c -1288880 a; tail -c +1288880 a'
cases[sort]='seq 1 50000 | sort -R --random-source=../in/big > a; sort -n a -o a; sort -n -c a && sort -r a > b; uniq -c b | tail -1; wc a b'
cases[sed]='seq 1 1000 > a; sed -i s/7/seven/ a; sha256sum a; grep -c seven a; tee b < a > /dev/null; cmp a b; split -l 100 a part-; ls'
cases[names]='mkdir -p d/e; echo x > d/e/f; mv d/e/f d/g; ln d/g d/h; mv d k; cat k/g k/h; rm k/g; cat k/h; rmdir k/e; ls k; ln -s k/h s; cat s; readlink s; rm s
  echo y > t; mv t k/h; cat k/h; rm -r k; ls; test -e k/h; echo $?; echo "long line" > u; truncate -s 4 u; cat u; truncate -s 9 u; od -c u; touch v; stat -c %s u v; chmod 600 v; stat -c %a v'
cases[tar]='mkdir t; cp ../in/big t/a; cp ../in/small t/b; sync; tar cf x.tar --mtime=@0 t; tar tvf x.tar | cut -c1-30; mkdir o; tar xf x.tar -C o; diff -r t o/t && echo same; tar czf y.tgz --mtime=@0 t; gzip -dc y.tgz | tar tf -'
cases[find]='mkdir -p a/b; for i in 1 2 3; do echo $i > a/b/$i; done; find . -type f -size -2 | sort; find a -name 2 -delete; du -a --apparent-size a/b/1 | cut -f2; ls -A a/b; cd a/b && cat 1 && echo z > ../z && cat ../z && pwd | grep -c a/b'
cases[python]='python3 ../in/io.py'
cases[python-more]='python3 ../in/more.py'
cases[sqlite]='python3 ../in/sql.py'
cases[known-folder]='cd known && echo x > f && cat f && cd .. && cat known/f && ls known && mkdir known/new && echo y > known/new/g && find known -type f | sort && (cd known/new && cat g && cat ../f && echo z >> "$(realpath ../f)" && cat ../f)'
cases[slices]='python3 ../in/slices.py'
cases[scripts]='python3 ../in/scripts.py'
cases[venv]='python3 -m venv --without-pip v && d=$PWD && v/bin/python -c "import sys; print(sys.prefix[len(\"$d\"):], sys.executable[len(\"$d\"):])" &&
  printf "#!%s/v/bin/python\nimport sys; print(sys.prefix[len(\"$d\"):], sys.argv[0][len(\"$d\"):], sys.argv[1:])\n" "$PWD" > v/bin/tool && chmod +x v/bin/tool && "$PWD/v/bin/tool" a "b c" && echo "pip=v" > v/lib/own.py &&
  PATH=$PWD/v/bin:$PATH tool x; (. v/bin/activate && python -c "import sys; print(sys.prefix[len(\"$d\"):])" && tool y); rm -r v'
cases[stdio]='../in/stdio'

select_cases=("$@")
[ ${#select_cases[@]} = 0 ] && select_cases=("${!cases[@]}")

# --- inputs ---

mkdir "$root/out" "$root/pfs"
for where in out pfs; do mkdir "$root/$where/in"; done
head -c 20000003 /dev/urandom > "$root/out/in/big"
printf 'a small file\nof two lines\n' > "$root/out/in/small"
here=$(dirname "$(readlink -f "$0")")
cp "$here"/programs/*.py "$root/out/in/"
cp "$bin/test_preload_stdio" "$root/out/in/stdio"
cp -a "$root/out/in/." "$root/pfs/in/"

failed=0
for name in "${select_cases[@]}"; do
    body=${cases[$name]}
    mkdir -p "$root/out/$name"
    # A folder that the PFS has before.
    [ "$name" = known-folder ] && mkdir -p "$root/out/$name/known" "$root/pfs/$name/known"
    (cd "$root/out/$name" && timeout 60 bash -c "$body") > "$root/expected" 2>&1
    expected=$?
    timeout 120 "$bin/tierctl" run -c "$root/tiers.yaml" -- \
        bash -c "mkdir -p '$root/pfs/$name' && cd '$root/pfs/$name' && { $body
        }" > "$root/got" 2> "$root/got.err"
    got=$?
    grep -v -e '^tier ' -e '^ram ' -e '^nvme ' -e '^pfs ' -e '^tierctl: program' "$root/got.err" >> "$root/got"
    why=
    [ $got = $expected ] || why="exit status $got, not $expected"
    cmp -s "$root/expected" "$root/got" || why="$why; prints differ"
    if [ "$mode" = scratch ]; then
        [ -n "$(find "$root/pfs" -newer "$root/expected")" ] && why="$why; scratch changed the PFS"
        diff -r "$root/out/in" "$root/pfs/in" > /dev/null || why="$why; scratch changed the PFS's files"
    else
        diff -r "$root/out/$name" "$root/pfs/$name" > "$root/difference" 2>&1 || why="$why; bytes differ"
    fi
    ls "$root/nvme" | grep -q . && why="$why; the tier directory keeps something"
    if [ -n "$why" ]; then
        failed=$((failed + 1))
        echo "FAILED $mode $name: ${why#; }"
        diff "$root/expected" "$root/got" | head -${TB_TEST_LINES:-10}
        [ "$mode" = scratch ] || head -5 "$root/difference"
    else
        echo "ok $mode $name"
    fi
done
echo "$failed failed"
[ $failed = 0 ]
