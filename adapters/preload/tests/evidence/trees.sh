#!/bin/bash
# A source tree packed, unpacked, copied, synchronised and committed: the same bytes, modes and times as outside.
source "$(dirname "$(readlink -f "$0")")/common.sh" "$@"
need tar cp rsync git
tiers 4MiB 1MiB
source_tree=$(realpath "$here/../../../..")
mkdir "$root/tree" "$root/out"
(cd "$source_tree" && tar cf - --exclude-vcs engine adapters docs configs) | tar xf - -C "$root/tree"
[ "$form" = long ] && tar cf - -C /usr include share/doc 2> /dev/null | tar xf - -C "$root/tree" 2> /dev/null
git_quiet="git -c user.name=t -c user.email=t@localhost -c init.defaultBranch=main -c gc.auto=0"

cat > "$root/work.sh" <<SH
set -e
cd "\$1"
tar cf packed.tar -C "$root" --sort=name --mtime=@0 tree
mkdir unpacked && tar xpf packed.tar -C unpacked
tar cpf again.tar -C unpacked --sort=name --warning=no-file-ignored tree
tar xzf <(tar czf - -C unpacked tree) --one-top-level=zipped
cp -a "$root/tree" copied && cp -a copied twice && cp -r --sparse=always copied sparse
rsync -a "$root/tree/" synced/ && echo changed >> synced/docs/configuration.md && rsync -a --checksum "$root/tree/" synced/
rsync -a --inplace --delete copied/engine/ synced/docs/
$git_quiet init -q repository && cp -r "$root/tree/." repository && cd repository
export GIT_COMMITTER_DATE='@0 +0000' GIT_AUTHOR_DATE='@0 +0000'
$git_quiet add -A && $git_quiet commit -qm all && $git_quiet mv engine motor && echo more >> Makefile.more
$git_quiet add -A && $git_quiet commit -qm moved && $git_quiet repack -adq && $git_quiet fsck --strict 2>&1 && $git_quiet status --short
$git_quiet clone -q . ../cloned && $git_quiet rev-parse HEAD && cd .. && rm -rf copied/engine && rm -r repository/.git
SH

# Every name with type, mode, size and time, and every file's bytes.  Folders' times and the clone's .git are of the moment.
describe() {
    (cd "$1" && find . -path ./cloned/.git -prune -o \( -type d -printf '%p %y %m\n' -o -printf '%p %y %m %s %l\n' \) | sort &&
        find synced twice copied unpacked zipped -type f -printf '%p %T@\n' | sort &&
        find . -path ./cloned/.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum)
}

bash "$root/work.sh" "$root/out" > "$root/outside.out" 2>&1 || bad "the work outside" outside
under work bash "$root/work.sh" "$root/pfs" || bad "tar, cp -a, rsync, git" work
spilled work || bad "the tree fits the tiers"
describe "$root/out" > "$root/expected"
describe "$root/pfs" > "$root/got"
if diff "$root/expected" "$root/got" > "$root/difference.out"; then
    ok "tar, cp -a, rsync, git: $(grep -c ' f ' "$root/expected") files"
else
    bad "bytes, modes or times differ" difference
fi
diff <(grep -vE '^(tier|ram|nvme|pfs|tierctl:)' "$root/work.out") "$root/outside.out" > "$root/prints.out" || bad "prints differ" prints
finish
