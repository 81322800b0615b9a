/*
 * Listing a directory: readdir gives NULL both at the end and on an error, and some file
 * systems leave the type out. What is removed or renamed by listings must meet neither.
 */
#include "io/directory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* *type stays DT_UNKNOWN where the entry has gone since. */
static int find_type(struct tb_io *io, const char *directory, const char *name, unsigned char *type)
{
    char path[PATH_MAX];
    struct stat st;
    if (*type != DT_UNKNOWN)
        return 0;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
        return -ENAMETOOLONG;
    int rc = TB_IO(io, stat, path, &st, AT_SYMLINK_NOFOLLOW);
    if (!rc)
        *type = IFTODT(st.st_mode);
    return rc == -ENOENT ? 0 : rc;
}

static int each(struct tb_io *io, const char *path, DIR *directory, tb_io_entry *act, void *arg)
{
    struct dirent *d;
    int rc;
    while ((rc = TB_IO(io, readdir, directory, &d)) == 0 && d != NULL) {
        unsigned char type = d->d_type;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        rc = find_type(io, path, d->d_name, &type);
        if (!rc && type != DT_UNKNOWN)
            rc = act(arg, d->d_name, type);
        if (rc)
            break;
    }
    return rc;
}

int tb_io_each_entry(struct tb_io *io, const char *path, tb_io_entry *act, void *arg)
{
    DIR *directory = NULL;
    int rc = TB_IO(io, opendir, path, &directory);
    if (rc)
        return rc;
    assert(directory != NULL);
    rc = each(io, path, directory, act, arg);
    int closed = TB_IO(io, closedir, directory);
    return rc ? rc : closed;
}
