#!/bin/bash
# pjdfstest: what calls on names must do and refuse; nothing may fail that holds on the bare file system.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need "$tools/pjdfstest"
[ "$(id -u)" = 0 ] || { echo "SKIPPED: pjdfstest needs root, to act as other users"; exit 77; }
tiers 4MiB 1MiB
# What scratch mode and deferred names do not do, with the reasons in docs/compatibility.md.
case $mode in
scratch) left='::enametoolong_path |^rmdir::ebusy |^utimensat::follow_symlink ' change='s/^fsync: tier/fsync: none/' ;;
deferred) left='^open::changed_time_fields_success |^open::exists_no_update |^unlink::update_mtime_ctime_success_folder::regular |^rename::write_access_required_subdir ' change='s/^mode: .*/namespace: deferred/' ;;
*) left=none change= ;;
esac
sed -i "$change" "$root/tiers.yaml"
cat > "$root/pjdfstest.toml" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]
TOML
mkdir "$root/bare" "$root/pfs/managed"
chmod 777 "$root" "$root/bare" "$root/pfs" "$root/pfs/managed"
run="$tools/pjdfstest -c $root/pjdfstest.toml -p"
$run "$root/bare" > "$root/bare.out" 2>&1
under managed $run "$root/pfs/managed"
for where in bare managed; do grep -aE ' (ok|FAILED|skipped)$' "$root/$where.out" | tr -s ' ' | grep -vE "$left" | sort > "$root/$where.list"; done
n=$(grep -c ' ok$' "$root/bare.list")
if [ "$n" -gt 300 ] && diff "$root/bare.list" "$root/managed.list" > "$root/difference.out"; then
    ok "pjdfstest, $n cases as on the bare file system"
else
    bad "pjdfstest, $n cases hold on the bare file system" difference
fi
finish
