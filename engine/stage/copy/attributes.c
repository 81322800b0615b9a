/*
 * Attributes go in an order: the owner first, because a change of it clears mode bits, and
 * the times last, because all else changes them.
 *
 * Limits: attributes of security.* and trusted.* belong to the machine and are left out; a
 * file system that knows none of user.* or no ACLs takes none.
 */
#include "stage/copy/attributes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "stage/copy/bytes.h"

static bool is_files_own(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strncmp(name, "system.posix_acl_", 17) == 0;
}

/* 0 also where the destination knows no such attributes. */
static int copy_one(int in, int out, const char *name)
{
    ssize_t n = fgetxattr(in, name, NULL, 0);
    char *value = n < 0 ? NULL : malloc((size_t)n + 1);
    if (n < 0)
        return errno == ENODATA ? 0 : -errno;
    int rc = !value ? -ENOMEM : 0;
    if (!rc && (n = fgetxattr(in, name, value, (size_t)n)) < 0)
        rc = -errno;
    if (!rc && fsetxattr(out, name, value, (size_t)n, 0) && errno != ENOTSUP)
        rc = -errno;
    free(value);
    return rc;
}

static int copy_extended(int in, int out)
{
    ssize_t n = flistxattr(in, NULL, 0);
    if (n <= 0)
        return n == 0 || errno == ENOTSUP ? 0 : -errno;
    char *names = malloc((size_t)n);
    int rc = names ? 0 : -ENOMEM;
    if (!rc && (n = flistxattr(in, names, (size_t)n)) < 0)
        rc = -errno;
    for (const char *name = names; !rc && name < names + n; name += strlen(name) + 1)
        if (is_files_own(name))
            rc = copy_one(in, out, name);
    free(names);
    return rc;
}

bool tb_attributes_has_extended(int fd)
{
    ssize_t n = flistxattr(fd, NULL, 0);
    return n > 0 || (n < 0 && errno != ENOTSUP);
}

/* Most files were made with their mode; a folder's default ACL may have changed it. */
static int copy_mode(int out, const struct stat *st)
{
    struct stat is;
    if (fstat(out, &is))
        return -errno;
    if (is.st_size != st->st_size)
        return TB_BYTES_DIFFER;
    return ((is.st_mode ^ st->st_mode) & 07777) && fchmod(out, st->st_mode & 07777) ? -errno : 0;
}

int tb_attributes_copy(int in, int out, const struct stat *st, bool gives_owner, bool extended)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    if (gives_owner && fchown(out, st->st_uid, st->st_gid) && errno != EPERM)
        return -errno;
    int rc = extended ? copy_extended(in, out) : 0;
    if (!rc)
        rc = copy_mode(out, st);
    return !rc && futimens(out, times) ? -errno : rc;
}
