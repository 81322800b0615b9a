/*
 * Find the place of a name, then do the same there, by the place's own chain. In a shadow
 * the texts of symlinks are places too: programs read and write their own names.
 */
#include "namespace/placed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "namespace/deferred.h"
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

#define PLACED_OF(type, op, use, parameters, ...)                \
    type tb_placed_##op parameters                               \
    {                                                            \
        struct tb_place p;                                       \
        type rc;                                                 \
        int looks = 0;                                           \
        do {                                                     \
            rc = place_of(io, path, use, &p);                    \
            rc = rc ? rc : TB_IO(p.io, op, p.path, __VA_ARGS__); \
        } while (tb_place_was_left(&p, rc, &looks));             \
        return rc;                                               \
    }

#define PLACED(op, use, parameters, ...) PLACED_OF(int, op, use, parameters, __VA_ARGS__)
#define LINK_BY(flags) ((flags) & AT_SYMLINK_NOFOLLOW ? TB_NAME_NOFOLLOW : 0)

PLACED(access, TB_NAME_LOOK | LINK_BY(flags), (struct tb_io * io, const char *path, int mode, int flags), mode, flags)
PLACED(chmod, TB_NAME_CHANGE | LINK_BY(flags), (struct tb_io * io, const char *path, mode_t mode, int flags), mode, flags)
PLACED(chown, TB_NAME_CHANGE | LINK_BY(flags), (struct tb_io * io, const char *path, uid_t user, gid_t group, int flags), user, group,
       flags)
PLACED(utimens, TB_NAME_CHANGE | LINK_BY(flags), (struct tb_io * io, const char *path, const struct timespec times[2], int flags), times,
       flags)
PLACED(statx, TB_NAME_LOOK | LINK_BY(flags), (struct tb_io * io, const char *path, int flags, unsigned mask, struct statx *out), flags,
       mask, out)
PLACED(statfs, TB_NAME_ENTER, (struct tb_io * io, const char *path, struct statfs *out), out)
PLACED(statvfs, TB_NAME_ENTER, (struct tb_io * io, const char *path, struct statvfs *out), out)
PLACED(pathconf, TB_NAME_LOOK, (struct tb_io * io, const char *path, int name, long *out), name, out)
PLACED_OF(ssize_t, getxattr, TB_NAME_LOOK | LINK_BY(flags),
          (struct tb_io * io, const char *path, const char *key, void *out, size_t n, int flags), key, out, n, flags)
PLACED_OF(ssize_t, listxattr, TB_NAME_LOOK | LINK_BY(flags), (struct tb_io * io, const char *path, char *out, size_t n, int flags), out, n,
          flags)
PLACED(setxattr, TB_NAME_CHANGE | LINK_BY(flags),
       (struct tb_io * io, const char *path, const char *key, const void *value, size_t n, int how, int flags), key, value, n, how, flags)
PLACED(removexattr, TB_NAME_CHANGE | LINK_BY(flags), (struct tb_io * io, const char *path, const char *key, int flags), key, flags)
PLACED(watch, TB_NAME_ENTER, (struct tb_io * io, const char *path, int fd, uint32_t mask), fd, mask)
PLACED(opendir, TB_NAME_ENTER, (struct tb_io * io, const char *path, DIR **out), out)

static int place_of_new(struct tb_io *io, const char *path, struct tb_place *out)
{
    const struct tb_route r = tb_route_given(io, path);
    return tb_place_find_new(engine_of(io), NULL, &r, path, out);
}

int tb_placed_mknod(struct tb_io *io, const char *path, mode_t mode, dev_t device)
{
    struct tb_place p;
    int rc = place_of_new(io, path, &p);
    return rc ? rc : TB_IO(p.io, mknod, p.path, mode, device);
}

int tb_placed_mkdir(struct tb_io *io, const char *path, mode_t mode)
{
    struct tb_place p;
    int rc = place_of_new(io, path, &p);
    if (!rc)
        rc = TB_IO(p.io, mkdir, p.path, mode);
    if (!rc && p.scratch)
        tb_shadow_note_made(engine_of(io), p.path);
    return rc;
}

/* The text as it is stored. */
static ssize_t read_stored(struct tb_io *io, const char *path, char *out, size_t n)
{
    struct tb_place p;
    ssize_t rc;
    int looks = 0;
    do {
        rc = place_of(io, path, TB_NAME_LOOK | TB_NAME_NOFOLLOW, &p);
        rc = rc ? rc : TB_IO(p.io, readlink, p.path, out, n);
    } while (tb_place_was_left(&p, rc, &looks));
    return rc;
}

ssize_t tb_placed_readlink(struct tb_io *io, const char *path, char *text, size_t n)
{
    char found[PATH_MAX], shown[PATH_MAX];
    ssize_t length = read_stored(io, path, found, sizeof(found) - 1);
    if (length < 0)
        return length;
    found[length] = 0;
    const char *seen = tb_shadow_shown(engine_of(io), found, shown, sizeof(shown)) ? shown : found;
    size_t whole = strlen(seen);
    if (n == 0)
        return -EINVAL; /* as the kernel */
    memcpy(text, seen, whole < n ? whole : n);
    return (ssize_t)(whole < n ? whole : n);
}

/* Processes forget which directories they found real: the new link may lead past one. */
int tb_placed_symlink(struct tb_io *io, const char *text, const char *path)
{
    struct tb_place p;
    char stored[PATH_MAX];
    int rc = place_of_new(io, path, &p);
    if (rc || !p.scratch)
        return rc ? rc : TB_IO(p.io, symlink, text, p.path);
    if (strlen(text) >= sizeof(stored))
        return -ENAMETOOLONG;
    tb_shadow_link_text(engine_of(io), text, stored, sizeof(stored));
    rc = TB_IO(p.io, symlink, stored, p.path);
    if (!rc)
        tb_shadow_forget(engine_of(io));
    return rc;
}

/*
 * In a shadow the walk to the place has followed every link: what the program calls that
 * place is the answer, if something has the name. A place elsewhere was reached by a link
 * that led out of the prefix, and is the PFS's to resolve.
 */
int tb_placed_realpath(struct tb_io *io, const char *path, char *out)
{
    struct tb_place p;
    struct stat st;
    int rc = place_of(io, path, TB_NAME_LOOK | TB_NAME_STUB, &p);
    if (!rc && p.waits)
        rc = TB_IO(p.io, stat, p.path, &st, 0); /* a slash may come after the name */
    if (rc || p.waits)
        return rc ? rc : tb_waiting_shown(engine_of(io), p.path, out, PATH_MAX);
    if (!p.scratch)
        return TB_IO(p.io, realpath, p.path, out);
    rc = TB_IO(p.io, stat, p.path, &st, AT_SYMLINK_NOFOLLOW);
    if (!rc && tb_shadow_shown(engine_of(io), p.path, out, PATH_MAX))
        tb_name_cut_tail(out);
    else if (!rc)
        rc = TB_IO(p.io, realpath, p.path, out);
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
