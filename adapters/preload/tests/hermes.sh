#!/bin/bash
# The webinar's script as docs/hermes.md shows it, at small size, for its three configurations, in SCRATCH and DEFAULT:
# the bytes are right, on the PFS or nowhere, and the daemon ends with the programs.
#   hermes.sh BIN SOURCE MPIRUN
set -u
bin=$(realpath "$1") source=$2 launcher=$3 failed=0 run=0
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-hermes.XXXXXX")
trap 'for s in $(seq $run); do "$bin/tierctl" stop --force -i "hermes-$$-$s" > /dev/null 2>&1; done; rm -rf "$root"' EXIT
mkdir "$root/pfs" "$root/bb" "$root/local" "$root/path"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
wrong() {
    failed=$((failed + 1))
    echo "FAILED $*"
}
left() { find "$root/$1" -mindepth 1 | sort | tr '\n' ' '; }

# MPICH's words for Open MPI's mpirun, and tb-ior for ior: what the script is not about.
if "$launcher" --version 2>&1 | grep -q "Open MPI\|OpenRTE"; then
    cat > "$root/path/mpirun" <<EOF
#!/bin/bash
words=()
while [ \$# -gt 0 ]; do
    case \$1 in
    -genv) words+=(-x "\$2=\$3"); shift 3 ;;
    -ppn | -hosts) shift 2 ;;
    *) words+=("\$1"); shift ;;
    esac
done
exec "$launcher" "\${words[@]}"
EOF
else
    printf '#!/bin/bash\nexec "%s" "$@"\n' "$launcher" > "$root/path/mpirun"
fi
chmod +x "$root/path/mpirun"
ln -s "$bin/tb-ior" "$root/path/ior"
PATH=$root/path:$PATH

# The mount points and capacities of this machine; 3.4 is 3.3 with some lines written again.
local_conf() {
    cat "${@/#/$source/configs/hermes/}" | sed -e "s,/mnt/nvme/chogan,$root,g" -e 's/{16, 6144}/{8, 64}/' -e 's/{16, 2048, 4096}/{8, 4, 64}/' \
        -e 's/{512, 1536, 4096}/{8, 4, 64}/' > "$conf"
    if grep -q 'mount_points' "$conf" && ! grep -q 'chogan\|6144\|4096}' "$conf"; then return; fi
    wrong "the configuration is not this machine's: $(cat "$conf")"
}
local_script() { # MODE INFO
    sed -n '/^<!-- script -->/,/^```$/p' "$source/docs/hermes.md" | sed -e '1,2d' -e '/^```/d' -e "s,^TIERBENCH_BIN_DIR=.*,TIERBENCH_BIN_DIR=$bin," \
        -e "s,^TIERBENCH_SO=.*,TIERBENCH_SO=$bin/../lib/libtierbench_preload.so," -e "s,^HERMES_CONF_PATH=.*,HERMES_CONF_PATH=$conf," \
        -e "s,^OUTPUT_FILE=.*,OUTPUT_FILE=$root/pfs/ior.out," -e 's/^NPROCS=.*/NPROCS=4/' -e 's/^NUM_NODES=.*/NUM_NODES=1/' \
        -e "s,^sleep 3,until $bin/tierctl status -i $name 2> /dev/null; do sleep 0.05; done," -e "s|ADAPTER_MODE SCRATCH|ADAPTER_MODE $1 $2|" \
        -e 's/-b 128m/-b 3m -k -W -G 7/'
    echo wait
}
# The daemon ended, and nothing of it is left.
gone() {
    [ -z "$(left bb)$(left local)" ] || wrong "$1: left in the tiers: $(left bb)$(left local)"
    ! ls /dev/shm/*."$name"* > /dev/null 2>&1 || wrong "$1: left in /dev/shm"
}
one() { # WHAT MODE FILES...
    local what=$1 mode=$2
    shift 2
    run=$((run + 1)) name=hermes-$$-$run conf=$root/hermes-$$-$run.conf
    local_conf "$@"
    local_script "$mode" "${info:+-genv ADAPTER_MODE_INFO $info}" > "$root/script"
    timeout 60 bash "$root/script" > "$root/out" 2>&1 || wrong "$what $mode: exit status $?: $(cat "$root/out")"
    grep -q '^write,' "$root/out" || wrong "$what $mode: no result: $(cat "$root/out")"
    ! grep -qi 'wrong data\|incorrect\|passes through' "$root/out" || wrong "$what $mode: $(cat "$root/out")"
    gone "$what $mode"
}
absent() { [ -z "$(left pfs)" ] || wrong "$1: on the PFS: $(left pfs)"; }
there() {
    "$root/path/mpirun" -n 4 "$bin/tb-ior" -r -R -G 7 -o "$root/pfs/ior.out" -t 1m -b 3m -F -k > "$root/out" 2>&1 || wrong "$1: $(cat "$root/out")"
    [ "$(stat -c %s "$root"/pfs/ior.out.* | tr '\n' ' ')" = "3145728 3145728 3145728 3145728 " ] || wrong "$1: $(ls -l "$root/pfs")"
    rm -f "$root"/pfs/ior.out.*
}

one "3.2 burst buffer" SCRATCH webinar-3.2-bb.conf
absent "3.2 SCRATCH"
one "3.2 burst buffer" DEFAULT webinar-3.2-bb.conf
there "3.2 DEFAULT"
one "3.3 with NVMe" SCRATCH webinar-3.3-bb-nvme.conf
absent "3.3 SCRATCH"
one "3.3 with NVMe" DEFAULT webinar-3.3-bb-nvme.conf
there "3.3 DEFAULT"
info=$root/pfs one "3.4 with RAM, listed" SCRATCH webinar-3.3-bb-nvme.conf webinar-3.4-bb-nvme-ram.conf
absent "3.4 SCRATCH"
info=/no/such,$root/pfs/ one "3.4 with RAM, listed" DEFAULT webinar-3.3-bb-nvme.conf webinar-3.4-bb-nvme-ram.conf
there "3.4 DEFAULT"

# What the file system has already is read and stays; a bad word is one line, and nothing is lost.
run=$((run + 1)) name=hermes-$$-$run conf=$root/hermes-$$-$run.conf preload=$bin/../lib/libtierbench_preload.so
local_conf webinar-3.2-bb.conf
echo input > "$root/pfs/in"
HERMES_CONF=$conf "$bin/tierd" 2> "$root/daemon" &
until "$bin/tierctl" status -i "$name" > /dev/null 2>&1; do sleep 0.05; done
HERMES_CONF=$conf "$bin/tierd" 2> "$root/err" && grep -q "serves this node already" "$root/err" || wrong "a second daemon: $(cat "$root/err")"
under() { HERMES_CONF=$conf HERMES_STOP_DAEMON=0 LD_PRELOAD=$preload "$@"; }
ADAPTER_MODE=SCRATCH under bash -c "cd $root/pfs; cat in > out; mkdir new; cat out > new/copy; mv in moved; cat new/copy moved" > "$root/out" 2> "$root/err"
[ "$(cat "$root/out" "$root/err")" = $'input\ninput' ] || wrong "a program's input in scratch mode: $(cat "$root/out" "$root/err")"
[ "$(left pfs)" = "$root/pfs/moved " ] || wrong "scratch mode on the PFS: $(left pfs)"
ADAPTER_MODE=scratch under bash -c "echo bytes > $root/pfs/b" 2> "$root/err"
[ "$(cat "$root/err")" = "tierbench: instance $conf cannot be used (ADAPTER_MODE: scratch; allowed: DEFAULT, SCRATCH, BYPASS, WORKFLOW): I/O passes through unbuffered" ] ||
    wrong "a bad mode: $(cat "$root/err")"
[ "$(cat "$root/pfs/b")" = bytes ] || wrong "its bytes"
echo later | ADAPTER_MODE=WORKFLOW under tee "$root/pfs/w" > /dev/null
[ ! -s "$root/pfs/w" ] || wrong "WORKFLOW flushed at close"
# A flush in the background changes nothing that a program can see.
mkdir "$root/pfs/many" && head -c 1000000 /dev/urandom | split -b 10000 - "$root/parts."
ADAPTER_MODE=DEFAULT HERMES_ASYNC_FLUSH=1 under bash -c "cp $root/parts.* $root/pfs/many; stat -c '%n %s %y %b' $root/pfs/many/*; tar --sort=name -cf $root/many.tar -C $root/pfs many" > "$root/before" 2> "$root/err"
[ ! -s "$root/err" ] || wrong "tar: $(cat "$root/err")"
until cat "$root"/pfs/many/* | cmp -s - <(cat "$root"/parts.*); do sleep 0.02; done
ADAPTER_MODE=DEFAULT under bash -c "stat -c '%n %s %y %b' $root/pfs/many/*" > "$root/after"
cmp "$root/before" "$root/after" || wrong "times changed: $(diff "$root/before" "$root/after" | head -4)"
cat "$root"/parts.* | cmp - <(tar xOf "$root/many.tar") || wrong "tar has other bytes"
HERMES_CONF=$conf LD_PRELOAD=$preload /bin/true # and this one lets the daemon end
wait
[ "$(cat "$root/pfs/w")" = later ] || wrong "WORKFLOW is not flushed when the daemon ends"
gone "the end"

# The next job's daemon waits for the last one's, which sees that its programs are gone a second later.
serve() {
    HERMES_CONF=$conf "$bin/tierd" 2>> "$root/daemon" &
    until "$bin/tierctl" status -i "$name" > /dev/null 2>&1; do sleep 0.02; done
}
serve
last=$!
HERMES_CONF=$conf LD_PRELOAD=$preload /bin/true
HERMES_CONF=$conf "$bin/tierd" 2> "$root/err" &
wait $last
until "$bin/tierctl" status -i "$name" > /dev/null 2>&1; do sleep 0.02; done
HERMES_CONF=$conf ADAPTER_MODE=SCRATCH LD_PRELOAD=$preload cp "$root/pfs/b" "$root/pfs/next" || wrong "the next job"
[ ! -e "$root/pfs/next" ] || wrong "the next job has no daemon: $(cat "$root/err")"
wait
gone "the next job"
HERMES_CONF=$root/none.conf "$bin/tierd" 2> "$root/err"
[ $? = 2 ] && grep -q none.conf "$root/err" || wrong "no configuration: $(cat "$root/err")"
echo "$failed failed"
[ $failed = 0 ]
