# Evidence by programs that others wrote: each PART.sh runs one under `tierctl run`, with tiers that
# are smaller than its data, and looks at what it says and at what is on the PFS after the drain.
#   PART.sh BIN MODE [long]      MODE: persistent-async, persistent-sync
# Exit status: 0 holds, 1 does not, 77 the program is not here (never a pass).
set -u
bin=$(realpath "$1") mode=$2 form=${3:-short}
here=$(dirname "$(readlink -f "$0")")
tools=${TB_TOOLS:-$(realpath "$here/../../../..")/.tools}/bin
root=$(mktemp -d "${TMPDIR:-/tmp}/tierbench-evidence.XXXXXX")
trap 'chmod -R u+rwX "$root" 2>/dev/null; rm -rf "$root"' EXIT
mkdir "$root/pfs" "$root/nvme"
failed=0

# tiers RAM NVME: with metadata for 1024 files, which the RAM tier pays
tiers() {
    cat > "$root/tiers.yaml" <<YAML
version: 1
max_files: 1024
pfs: {path: $root/pfs}
mode: $mode
fsync: tier
flush: {policy: ${3:-on-close}, threads: 2, background: ${4:-true}}
tiers:
  - {name: ram, medium: memory, capacity: $1, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 4, share: 0.5}]}
  - {name: nvme, medium: directory, path: $root/nvme, capacity: $2, block: 4KiB, slabs: [{units: 1, share: 0.5}, {units: 4, share: 0.5}]}
YAML
}

# under NAME CMD...: CMD under the tiers; its output in NAME.out, what the tiers did in NAME.json
under() {
    local name=$1
    shift
    timeout "${TB_LIMIT:-300}" "$bin/tierctl" run -c "$root/tiers.yaml" --stats "$root/$name.json" -- "$@" > "$root/$name.out" 2>&1
}

# spilled NAME: the tiers were too small for what ran, else the evidence is weak
spilled() {
    python3 - "$root/$1.json" <<'PY'
import json, sys
s = json.load(open(sys.argv[1]))
moved = s["spilled"] + sum(t["waits"] + t["moved_in"] for t in s["tiers"])
passed_through = s["pfs"]["bytes_written"] + s["pfs"]["bytes_read"]  # clean bytes are evicted without a sign
full = passed_through > sum(t["capacity"] for t in s["tiers"])
sys.exit(0 if moved or full else f"{sys.argv[1]}: nothing spilled or moved")
PY
}

ok() { echo "ok $mode $*"; }
bad() {
    failed=$((failed + 1))
    echo "FAILED $mode $1"
    [ $# -gt 1 ] && tail -n "${TB_TEST_LINES:-15}" "$root/$2.out" | cut -c1-300
}
need() {
    for program in "$@"; do
        command -v "$program" > /dev/null || { echo "SKIPPED: $program is not here (ci/bootstrap test)"; exit 77; }
    done
}
finish() {
    echo "$failed failed"
    [ $failed = 0 ]
    exit
}
