/*
 * Calls by name that are no chain operation: libc's, on the name where the file really
 * lies. Times and permissions are changed after the dirty bytes are flushed: a later flush
 * would change the time again, or be refused.
 */
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "core/adapter.h"

/* Its dirty bytes first. */
static bool flushed(int *at, const char **path, unsigned use, struct tb_path *p)
{
    if (!tb_path_find(*at, *path, p))
        return true;
    tb_path_flush(p);
    return tb_path_real_of(at, path, use, p);
}

#define WRAP(type, name, parameters, resolved, ...)               \
    TB_WRAPPER type name parameters                               \
    {                                                             \
        struct tb_path p;                                         \
        return (resolved) ? REAL(name)(__VA_ARGS__) : (type) - 1; \
    }
#define HERE(use) tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_##use, &p)
#define HERE_ITSELF(use) tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_##use | TB_NAME_NOFOLLOW, &p)
#define AT(use) tb_path_real(&at, &path, TB_NAME_##use, &p)
#define HERE_FLUSHED(follow) flushed(&(int){AT_FDCWD}, &path, TB_NAME_CHANGE | (follow), &p)
#define AT_FLUSHED(follow) flushed(&at, &path, TB_NAME_CHANGE | (follow), &p)
#define FOLLOW 0
#define ITSELF TB_NAME_NOFOLLOW
#define BY_FLAGS (flags & AT_SYMLINK_NOFOLLOW ? ITSELF : FOLLOW)

WRAP(int, chmod, (const char *path, mode_t mode), HERE_FLUSHED(FOLLOW), path, mode)
WRAP(int, fchmodat, (int at, const char *path, mode_t mode, int flags), AT_FLUSHED(BY_FLAGS), at, path, mode, flags)
WRAP(int, chown, (const char *path, uid_t user, gid_t group), HERE_FLUSHED(FOLLOW), path, user, group)
WRAP(int, lchown, (const char *path, uid_t user, gid_t group), HERE_FLUSHED(ITSELF), path, user, group)
WRAP(int, fchownat, (int at, const char *path, uid_t user, gid_t group, int flags), AT_FLUSHED(BY_FLAGS), at, path, user, group, flags)
WRAP(int, utime, (const char *path, const struct utimbuf *times), HERE_FLUSHED(FOLLOW), path, times)
WRAP(int, utimes, (const char *path, const struct timeval times[2]), HERE_FLUSHED(FOLLOW), path, times)
WRAP(int, lutimes, (const char *path, const struct timeval times[2]), HERE_FLUSHED(ITSELF), path, times)
WRAP(int, futimesat, (int at, const char *path, const struct timeval times[2]), AT_FLUSHED(FOLLOW), at, path, times)
WRAP(int, utimensat, (int at, const char *path, const struct timespec times[2], int flags), AT_FLUSHED(BY_FLAGS), at, path, times, flags)

WRAP(int, statfs, (const char *path, struct statfs *out), HERE(ENTER), path, out)
WRAP(int, statfs64, (const char *path, struct statfs64 *out), HERE(ENTER), path, out)
WRAP(int, statvfs, (const char *path, struct statvfs *out), HERE(ENTER), path, out)
WRAP(int, statvfs64, (const char *path, struct statvfs64 *out), HERE(ENTER), path, out)
WRAP(long, pathconf, (const char *path, int name), HERE(LOOK), path, name)
WRAP(int, mkfifo, (const char *path, mode_t mode), HERE(MAKE), path, mode)
WRAP(int, mkfifoat, (int at, const char *path, mode_t mode), AT(MAKE), at, path, mode)
WRAP(int, mknod, (const char *path, mode_t mode, dev_t device), HERE(MAKE), path, mode, device)
WRAP(int, mknodat, (int at, const char *path, mode_t mode, dev_t device), AT(MAKE), at, path, mode, device)
WRAP(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), HERE(ENTER), fd, path, mask)
WRAP(ssize_t, getxattr, (const char *path, const char *key, void *out, size_t n), HERE(LOOK), path, key, out, n)
WRAP(ssize_t, lgetxattr, (const char *path, const char *key, void *out, size_t n), HERE_ITSELF(LOOK), path, key, out, n)
WRAP(ssize_t, listxattr, (const char *path, char *out, size_t n), HERE(LOOK), path, out, n)
WRAP(ssize_t, llistxattr, (const char *path, char *out, size_t n), HERE_ITSELF(LOOK), path, out, n)
WRAP(int, setxattr, (const char *path, const char *key, const void *value, size_t n, int flags), HERE(CHANGE), path, key, value, n, flags)
WRAP(int, lsetxattr, (const char *path, const char *key, const void *value, size_t n, int flags), HERE_ITSELF(CHANGE), path, key, value, n,
     flags)
WRAP(int, removexattr, (const char *path, const char *key), HERE(CHANGE), path, key)
WRAP(int, lremovexattr, (const char *path, const char *key), HERE_ITSELF(CHANGE), path, key)

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
