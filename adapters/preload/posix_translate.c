/*
 * Calls by name that are no chain operation: libc's, on the name where the file
 * really stands.  What changes times or permissions comes after the dirty bytes,
 * whose flush would change the time again or be refused.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "adapter.h"

/* The name as libc shall see it: the caller's own, except in scratch mode.  `*at` follows. */
static const char *stands_at(const char *path, const struct tb_path *p, int *at)
{
    if (p->mode != TB_MODE_SCRATCH)
        return path;
    *at = AT_FDCWD;
    return p->real;
}

/* A scratch prefix shows the PFS's directories: asking for one through the chain makes its shadow. */
static const char *real_name(const char *path, struct tb_path *p, int *at)
{
    struct stat st;
    int saved = errno;
    if (!tb_path_find(*at, path, p))
        return path;
    if (p->mode == TB_MODE_SCRATCH)
        TB_CALL(p->io, stat, p->path, &st, 0);
    errno = saved;
    return stands_at(path, p, at);
}

static const char *flushed_name(const char *path, struct tb_path *p, int *at)
{
    if (!tb_path_find(*at, path, p))
        return path;
    tb_path_flush(p);
    return stands_at(path, p, at);
}

#define WRAP(type, name, parameters, resolve, ...)                                                                               \
    TB_WRAPPER type name parameters                                                                                              \
    {                                                                                                                            \
        struct tb_path p;                                                                                                        \
        resolve;                                                                                                                 \
        return REAL(name)(__VA_ARGS__);                                                                                          \
    }
#define HERE path = real_name(path, &p, &(int){AT_FDCWD})
#define HERE_FLUSHED path = flushed_name(path, &p, &(int){AT_FDCWD})
#define AT path = real_name(path, &p, &at)
#define AT_FLUSHED path = flushed_name(path, &p, &at)

WRAP(int, chmod, (const char *path, mode_t mode), HERE_FLUSHED, path, mode)
WRAP(int, fchmodat, (int at, const char *path, mode_t mode, int flags), AT_FLUSHED, at, path, mode, flags)
WRAP(int, chown, (const char *path, uid_t user, gid_t group), HERE_FLUSHED, path, user, group)
WRAP(int, lchown, (const char *path, uid_t user, gid_t group), HERE_FLUSHED, path, user, group)
WRAP(int, fchownat, (int at, const char *path, uid_t user, gid_t group, int flags), AT_FLUSHED, at, path, user, group, flags)
WRAP(int, utime, (const char *path, const struct utimbuf *times), HERE_FLUSHED, path, times)
WRAP(int, utimes, (const char *path, const struct timeval times[2]), HERE_FLUSHED, path, times)
WRAP(int, lutimes, (const char *path, const struct timeval times[2]), HERE_FLUSHED, path, times)
WRAP(int, futimesat, (int at, const char *path, const struct timeval times[2]), AT_FLUSHED, at, path, times)

WRAP(DIR *, opendir, (const char *path), HERE, path)
WRAP(int, chdir, (const char *path), HERE, path)
WRAP(int, statfs, (const char *path, struct statfs *out), HERE, path, out)
WRAP(int, statfs64, (const char *path, struct statfs64 *out), HERE, path, out)
WRAP(int, statvfs, (const char *path, struct statvfs *out), HERE, path, out)
WRAP(int, statvfs64, (const char *path, struct statvfs64 *out), HERE, path, out)
WRAP(long, pathconf, (const char *path, int name), HERE, path, name)
WRAP(char *, realpath, (const char *path, char *out), HERE, path, out)
WRAP(char *, canonicalize_file_name, (const char *path), HERE, path)
WRAP(ssize_t, readlink, (const char *path, char *out, size_t n), HERE, path, out, n)
WRAP(ssize_t, readlinkat, (int at, const char *path, char *out, size_t n), AT, at, path, out, n)
WRAP(int, symlink, (const char *target, const char *path), HERE, target, path)
WRAP(int, symlinkat, (const char *target, int at, const char *path), AT, target, at, path)
WRAP(int, mkfifo, (const char *path, mode_t mode), HERE, path, mode)
WRAP(int, mkfifoat, (int at, const char *path, mode_t mode), AT, at, path, mode)
WRAP(int, mknod, (const char *path, mode_t mode, dev_t device), HERE, path, mode, device)
WRAP(int, mknodat, (int at, const char *path, mode_t mode, dev_t device), AT, at, path, mode, device)
WRAP(ssize_t, getxattr, (const char *path, const char *key, void *out, size_t n), HERE, path, key, out, n)
WRAP(ssize_t, lgetxattr, (const char *path, const char *key, void *out, size_t n), HERE, path, key, out, n)
WRAP(ssize_t, listxattr, (const char *path, char *out, size_t n), HERE, path, out, n)
WRAP(ssize_t, llistxattr, (const char *path, char *out, size_t n), HERE, path, out, n)
WRAP(int, setxattr, (const char *path, const char *key, const void *value, size_t n, int flags), HERE, path, key, value, n, flags)
WRAP(int, lsetxattr, (const char *path, const char *key, const void *value, size_t n, int flags), HERE, path, key, value, n, flags)
WRAP(int, removexattr, (const char *path, const char *key), HERE, path, key)
WRAP(int, lremovexattr, (const char *path, const char *key), HERE, path, key)
WRAP(int, scandir, (const char *path, struct dirent ***list, int (*select)(const struct dirent *),
                    int (*compare)(const struct dirent **, const struct dirent **)), HERE, path, list, select, compare)
WRAP(int, scandir64, (const char *path, struct dirent64 ***list, int (*select)(const struct dirent64 *),
                      int (*compare)(const struct dirent64 **, const struct dirent64 **)), HERE, path, list, select, compare)
WRAP(int, ftw, (const char *path, __ftw_func_t visit, int n), HERE, path, visit, n)
WRAP(int, ftw64, (const char *path, __ftw64_func_t visit, int n), HERE, path, visit, n)
WRAP(int, nftw, (const char *path, __nftw_func_t visit, int n, int flags), HERE, path, visit, n, flags)
WRAP(int, nftw64, (const char *path, __nftw64_func_t visit, int n, int flags), HERE, path, visit, n, flags)
WRAP(int, glob, (const char *path, int flags, int (*error)(const char *, int), glob_t *out), HERE, path, flags, error, out)
WRAP(int, glob64, (const char *path, int flags, int (*error)(const char *, int), glob64_t *out), HERE, path, flags, error, out)

char *__realpath_chk(const char *path, char *out, size_t room);
ssize_t __readlink_chk(const char *path, char *out, size_t n, size_t room);
ssize_t __readlinkat_chk(int at, const char *path, char *out, size_t n, size_t room);
WRAP(char *, __realpath_chk, (const char *path, char *out, size_t room), HERE, path, out, room)
WRAP(ssize_t, __readlink_chk, (const char *path, char *out, size_t n, size_t room), HERE, path, out, n, room)
WRAP(ssize_t, __readlinkat_chk, (int at, const char *path, char *out, size_t n, size_t room), AT, at, path, out, n, room)

static void flush_descriptor(int fd)
{
    int saved = errno;
    tb_engine *e = tb_fd_io(fd) ? tb_adapter_engine() : NULL;
    if (e) {
        tb_enter();
        tb_engine_flush(e, fd);
        tb_leave();
    }
    errno = saved;
}

WRAP(int, utimensat, (int at, const char *path, const struct timespec times[2], int flags), AT_FLUSHED, at, path, times, flags)

TB_WRAPPER int futimens(int fd, const struct timespec times[2])
{
    flush_descriptor(fd);
    return REAL(futimens)(fd, times);
}

TB_WRAPPER int futimes(int fd, const struct timeval times[2])
{
    flush_descriptor(fd);
    return REAL(futimes)(fd, times);
}

TB_WRAPPER int fchmod(int fd, mode_t mode)
{
    flush_descriptor(fd);
    return REAL(fchmod)(fd, mode);
}

/* libc closes a directory's descriptor past close: it is unmanaged from here on. */
TB_WRAPPER DIR *fdopendir(int fd)
{
    DIR *directory = REAL(fdopendir)(fd);
    if (directory)
        tb_fd_set(fd, NULL);
    return directory;
}
