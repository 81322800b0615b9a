/*
 * Files and directories that only this user may use: made, opened and checked by
 * descriptor, so that another user cannot put something else in their place.
 */
#include "base/private_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* In a directory with the sticky bit, other users can add names but cannot change ours. */
static bool others_change_names(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_mode & 022 && !(st->st_mode & S_ISVTX);
}

/* Closes what is refused. */
static int checked(int fd, mode_t type)
{
    struct stat st;
    if (fd < 0)
        return -errno;
    int rc = fstat(fd, &st) ? -errno : 0;
    if (!rc && ((st.st_mode & S_IFMT) != type || st.st_uid != getuid() || others_change_names(&st)))
        rc = -EPERM;
    if (rc)
        close(fd);
    return rc ? rc : fd;
}

/* Opened first and checked by descriptor, so it cannot be exchanged in between. A link is refused: it may lead elsewhere a moment later. */
int tb_private_directory(const char *path)
{
    return checked(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), S_IFDIR);
}

/* O_NONBLOCK: a fifo that another user put there must not stop the caller. */
int tb_private_file(int directory, const char *name, int flags)
{
    assert(*name && !strchr(name, '/')); /* a name in that directory, and no path out of it */
    int fd = checked(openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600), S_IFREG);
    if (fd >= 0)
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return fd;
}

/* O_EXCL: what exists already may be another's, or hold promised bytes. */
int tb_private_make(int directory, const char *name, uint64_t bytes)
{
    int fd = tb_private_file(directory, name, O_RDWR | O_CREAT | O_EXCL);
    int rc = fd >= 0 && bytes && ftruncate(fd, (off_t)bytes) ? -errno : 0;
    if (rc)
        close(fd);
    return rc ? rc : fd;
}

/* The mode is the user's umask's: others may be meant to read the file. */
FILE *tb_part_open(const char *file, char *part, size_t size)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
        return NULL;
    if ((size_t)snprintf(part, size, "%s.%016llx.part", file, (unsigned long long)bits) >= size)
        return errno = ENAMETOOLONG, NULL;
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

/* A lock on a file without a name says nothing: another process removed the file, and a new one may have its name. */
bool tb_file_is_linked(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}
