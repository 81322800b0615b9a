/*
 * Removing a directory tree by descriptors: no symbolic link is followed and no other file
 * system is entered, so that another user cannot lead it to other files.
 */
#include "base/remove_tree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_entry(int directory, const char *name, const struct stat *above);

/*
 * What is in it, except for `last`, which goes when all else has gone: an instance's lease says
 * that there is something to remove, and must outlive it. Takes the descriptor. After an
 * error the rest is tried all the same, and the first error is told.
 */
static int remove_entries(int fd, const char *last)
{
    struct stat st;
    DIR *entries = fstat(fd, &st) ? NULL : fdopendir(fd);
    int error = entries ? 0 : -errno;
    for (struct dirent *d; entries && (d = readdir(entries));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 || (last && strcmp(d->d_name, last) == 0))
            continue;
        int rc = remove_entry(fd, d->d_name, &st);
        error = error ? error : rc;
    }
    if (!error && last && unlinkat(fd, last, 0) && errno != ENOENT)
        error = -errno;
    if (entries)
        closedir(entries);
    else
        close(fd);
    return error;
}

/* What is on another file system is left alone, so a mount in the tree survives. An entry that another process removed is no error. */
static int remove_entry(int directory, const char *name, const struct stat *above)
{
    struct stat st;
    assert(!strchr(name, '/') && strcmp(name, "..") != 0); /* nothing outside the tree */
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : -errno;
    if (st.st_dev != above->st_dev)
        return -EXDEV;
    if (!S_ISDIR(st.st_mode))
        return unlinkat(directory, name, 0) ? -errno : 0;
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 ? -errno : remove_entries(fd, NULL);
    return rc ? rc : unlinkat(directory, name, AT_REMOVEDIR) ? -errno : 0;
}

int tb_remove_tree(const char *path, const char *last)
{
    assert(!last || !strchr(last, '/'));
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &st) || st.st_uid != getuid()) {
        close(fd);
        return -EPERM;
    }
    int rc = remove_entries(fd, last);
    return rc ? rc : rmdir(path) ? -errno : 0;
}
