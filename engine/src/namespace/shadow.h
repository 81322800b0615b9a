/*
 * The shadow: what the programs of a scratch prefix see, and all they change.
 *
 * It is a lazy copy of the prefix. What no program has touched is a symlink to the PFS, a
 * stub. A directory is made real, with a stub for each of its entries, when something in
 * it is first asked for; a file is copied before it is changed. From this follows the
 * rest:
 *   - a directory that is real is complete, so below one that scratch made, or
 *     looked into, the PFS is never asked again, and listings need no merging;
 *   - what is removed is gone without a mark, and renaming a stub takes along
 *     what it shows; nothing on the PFS is ever changed;
 *   - a process that follows a stub past the adapter (exec, dlopen, a static
 *     program) finds the bytes of the PFS, never wrong ones.
 * The kernel would follow a stub to the PFS in the middle of a path, so names are walked
 * here. Directories found real are remembered until a symlink is made, or something is renamed
 * that is one or may hold one: a name in one costs no look.
 *
 * Limits: a directory of the PFS is seen as it was when it was first looked into, and must
 * be readable for that. A process that had a file open to read before another one began to
 * write it goes on with the PFS's bytes. Hard links of the PFS part when one of them is
 * written.
 */
#ifndef TB_SHADOW_H
#define TB_SHADOW_H

#include <limits.h>

#include "region/handle.h"

enum tb_shadow_kind {
    TB_SHADOW_UNKNOWN, /* its directory is real; the name itself was not looked at */
    TB_SHADOW_NONE,
    TB_SHADOW_DIRECTORY,
    TB_SHADOW_LINK, /* the program's own symlink */
    TB_SHADOW_STUB_FILE,
    TB_SHADOW_STUB_DIRECTORY,
    TB_SHADOW_OTHER,   /* a file of any other kind that scratch made */
    TB_SHADOW_OUTSIDE, /* the walk left the prefix: `path` is the program's name of where it leads */
};

struct tb_shadow_name {
    enum tb_shadow_kind kind;
    char path[PATH_MAX];  /* where the name is */
    char lower[PATH_MAX]; /* of a stub: what it shows */
};

/*
 * Where `rest` is: a name below the prefix with number `prefix`, as the program gave it,
 * dots and slashes included. `use` is an enum tb_name_use with flags. 0; -ENOENT,
 * -ENOTDIR, -ELOOP, -EACCES ... as the kernel says of a path.
 */
int tb_shadow_find(tb_engine *e, uint32_t prefix, const char *rest, unsigned use, struct tb_shadow_name *out);

/* The place of a name in a directory that is known to be real, without a look; false: find it. */
bool tb_shadow_known(tb_engine *e, uint32_t prefix, const char *rest, struct tb_shadow_name *out);

/*
 * A directory that this process made holds links, stubs among them, only where one was made in
 * it or renamed into it, at any depth, and then all is forgotten: where it is known that there
 * is none in the directory of `path` and below, removing or moving a name costs fewer looks.
 */
void tb_shadow_note_made(tb_engine *e, const char *path);
bool tb_shadow_has_no_stubs(tb_engine *e, const char *path);

/* A symlink was made, or something renamed that is or may hold one: what was known of directories is void. */
void tb_shadow_forget(tb_engine *e);

#endif
