/*
 * Find the place of a name, then do the same there, by the place's own chain. In a shadow
 * the texts of symlinks are places too: programs read and write their own names.
 */
#include "namespace/placed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "namespace/resolve.h"
#include "namespace/route.h"
#include "namespace/shadow_copy.h"

static tb_engine *engine_of(struct tb_io *io)
{
    return ((struct tb_engine_io *)io)->engine;
}

static int place_of(struct tb_io *io, const char *path, unsigned use, struct tb_place *out)
{
    const struct tb_route r = tb_route_given(io, path);
    return tb_place_find(engine_of(io), &r, path, use, out);
}

#define PLACED(op, use, parameters, ...)                       \
    int tb_placed_##op parameters                              \
    {                                                          \
        struct tb_place p;                                     \
        int rc = place_of(io, path, use, &p);                  \
        return rc ? rc : TB_IO(p.io, op, p.path, __VA_ARGS__); \
    }

PLACED(access, TB_NAME_LOOK, (struct tb_io * io, const char *path, int mode), mode)
PLACED(chmod, TB_NAME_CHANGE, (struct tb_io * io, const char *path, mode_t mode), mode)
PLACED(chown, TB_NAME_CHANGE | TB_NAME_NOFOLLOW, (struct tb_io * io, const char *path, uid_t user, gid_t group), user, group)
PLACED(utimens, TB_NAME_CHANGE | TB_NAME_NOFOLLOW, (struct tb_io * io, const char *path, const struct timespec times[2]), times)
PLACED(mkfifo, TB_NAME_MAKE, (struct tb_io * io, const char *path, mode_t mode), mode)
PLACED(statx, TB_NAME_LOOK | (flags & AT_SYMLINK_NOFOLLOW ? TB_NAME_NOFOLLOW : 0),
       (struct tb_io * io, const char *path, int flags, unsigned mask, struct statx *out), flags, mask, out)
PLACED(opendir, TB_NAME_ENTER, (struct tb_io * io, const char *path, DIR **out), out)

ssize_t tb_placed_readlink(struct tb_io *io, const char *path, char *text, size_t n)
{
    struct tb_place p;
    char found[PATH_MAX], shown[PATH_MAX];
    int rc = place_of(io, path, TB_NAME_LOOK | TB_NAME_NOFOLLOW, &p);
    ssize_t length = rc ? rc : TB_IO(p.io, readlink, p.path, found, sizeof(found) - 1);
    if (length < 0)
        return length;
    found[length] = 0;
    const char *seen = tb_shadow_shown(engine_of(io), found, shown, sizeof(shown)) ? shown : found;
    size_t whole = strlen(seen);
    memcpy(text, seen, whole < n ? whole : n);
    return (ssize_t)(whole < n ? whole : n);
}

/* Processes forget which directories they found real: the new link may lead past one. */
int tb_placed_symlink(struct tb_io *io, const char *text, const char *path)
{
    struct tb_place p;
    char stored[PATH_MAX];
    if (strlen(text) >= sizeof(stored))
        return -ENAMETOOLONG;
    int rc = place_of(io, path, TB_NAME_MAKE, &p);
    if (rc || !p.scratch)
        return rc ? rc : TB_IO(p.io, symlink, text, p.path);
    tb_shadow_link_text(engine_of(io), text, stored, sizeof(stored));
    rc = TB_IO(p.io, symlink, stored, p.path);
    if (!rc)
        tb_shadow_forget(engine_of(io));
    return rc;
}

int tb_placed_realpath(struct tb_io *io, const char *path, char *out)
{
    struct tb_place p;
    char shown[PATH_MAX];
    int rc = place_of(io, path, TB_NAME_LOOK, &p);
    rc = rc ? rc : TB_IO(p.io, realpath, p.path, out);
    if (!rc && tb_shadow_shown(engine_of(io), out, shown, sizeof(shown)))
        strcpy(out, shown);
    return rc;
}

/* A directory that is open needs no place any more; every chain ends in the same libc. */
int tb_placed_readdir(struct tb_io *io, DIR *directory, struct dirent **out)
{
    return TB_IO(engine_of(io)->pfs, readdir, directory, out);
}

int tb_placed_closedir(struct tb_io *io, DIR *directory)
{
    return TB_IO(engine_of(io)->pfs, closedir, directory);
}
