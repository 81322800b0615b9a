/*
 * What a file is besides its bytes: owner, permissions, times, extended attributes; and names that are made with
 * no bytes at all (pipes, devices). They are changed by the chain of the name, after the dirty
 * bytes are flushed: a later flush would change the time again, or be refused.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "core/adapter.h"

/* A later flush would set the time again. Its error shows at the next fsync or close; this call keeps its own errno. */
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

static void make_coherent(int fd)
{
    int saved = errno;
    tb_fd_coherent(fd);
    errno = saved;
}

/* A file that its owner may not write any more: who has it open writes on, to the backing file, for no flush could open that. */
static bool stays_writable(mode_t mode)
{
    return mode & S_IWUSR || geteuid() == 0;
}

/* Its dirty bytes first. True: the chain's operation on the name in `p`; false: libc's call. */
static bool found_file(int fd, bool stays, struct tb_path *p)
{
    bool place = tb_path_of_place(fd, p);
    if (place)
        stays ? tb_path_flush(p) : tb_path_coherent(p);
    else
        stays ? flush_descriptor(fd) : make_coherent(fd);
    return tb_path_of_pfs(fd, p);
}

/* The same of a name, or of the descriptor that it means. */
static bool found_name(int at, const char *path, int flags, bool stays, struct tb_path *p)
{
    int fd = tb_path_meant(at, path, flags);
    if (fd >= 0)
        return found_file(fd, stays, p);
    bool found = tb_path_find(at, path, p);
    if (found)
        stays ? tb_path_flush(p) : tb_path_coherent(p);
    return found;
}

TB_WRAPPER int fchmodat(int at, const char *path, mode_t mode, int flags)
{
    struct tb_path p;
    return found_name(at, path, flags, stays_writable(mode), &p) ? (int)TB_CALL(p.io, chmod, p.path, mode, flags)
                                                                 : REAL(fchmodat)(at, path, mode, flags);
}

/* libc's own would use the name past the wrapper. */
TB_WRAPPER int lchmod(const char *path, mode_t mode)
{
    return fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW);
}

/* A call on a name, by descriptor of its directory or not: the chain's operation where it is managed, else libc's own. */
#define CHANGE(name, at, flags, stays, parameters, libc, op, ...)                                                             \
    TB_WRAPPER int name parameters                                                                                            \
    {                                                                                                                         \
        struct tb_path p;                                                                                                     \
        return found_name(at, path, flags, stays, &p) ? (int)TB_CALL(p.io, op, p.path, __VA_ARGS__, flags) : REAL(name) libc; \
    }
#define ITSELF AT_SYMLINK_NOFOLLOW
CHANGE(chmod, AT_FDCWD, 0, stays_writable(mode), (const char *path, mode_t mode), (path, mode), chmod, mode)
CHANGE(chown, AT_FDCWD, 0, true, (const char *path, uid_t user, gid_t group), (path, user, group), chown, user, group)
CHANGE(lchown, AT_FDCWD, ITSELF, true, (const char *path, uid_t user, gid_t group), (path, user, group), chown, user, group)
CHANGE(fchownat, at, flags, true, (int at, const char *path, uid_t user, gid_t group, int flags), (at, path, user, group, flags), chown,
       user, group)
CHANGE(utimensat, at, flags, true, (int at, const char *path, const struct timespec times[2], int flags), (at, path, times, flags), utimens,
       times)

/* NULL is the current time.  What is out of range stays so, for the kernel to refuse. */
static const struct timespec *of_seconds(const struct utimbuf *t, struct timespec out[2])
{
    if (!t)
        return NULL;
    out[0] = (struct timespec){.tv_sec = t->actime};
    out[1] = (struct timespec){.tv_sec = t->modtime};
    return out;
}

/* As for of_seconds. Microseconds out of range become nanoseconds out of range. */
static const struct timespec *of_micros(const struct timeval t[2], struct timespec out[2])
{
    for (int i = 0; t && i < 2; i++) {
        bool valid = t[i].tv_usec >= 0 && t[i].tv_usec < 1000000;
        out[i] = (struct timespec){.tv_sec = t[i].tv_sec, .tv_nsec = valid ? t[i].tv_usec * 1000 : -1};
    }
    return t ? out : NULL;
}

CHANGE(utime, AT_FDCWD, 0, true, (const char *path, const struct utimbuf *times), (path, times), utimens,
       of_seconds(times, (struct timespec[2]){{0}}))
CHANGE(utimes, AT_FDCWD, 0, true, (const char *path, const struct timeval times[2]), (path, times), utimens,
       of_micros(times, (struct timespec[2]){{0}}))
CHANGE(lutimes, AT_FDCWD, ITSELF, true, (const char *path, const struct timeval times[2]), (path, times), utimens,
       of_micros(times, (struct timespec[2]){{0}}))

/* The kernel takes a program's capabilities away when its bytes change. */
CHANGE(setxattr, AT_FDCWD, 0, true, (const char *path, const char *key, const void *value, size_t n, int how), (path, key, value, n, how),
       setxattr, key, value, n, how)
CHANGE(lsetxattr, AT_FDCWD, ITSELF, true, (const char *path, const char *key, const void *value, size_t n, int how),
       (path, key, value, n, how), setxattr, key, value, n, how)
CHANGE(removexattr, AT_FDCWD, 0, true, (const char *path, const char *key), (path, key), removexattr, key)
CHANGE(lremovexattr, AT_FDCWD, ITSELF, true, (const char *path, const char *key), (path, key), removexattr, key)

/* Without a name the descriptor itself is meant. */
TB_WRAPPER int futimesat(int at, const char *path, const struct timeval times[2])
{
    struct tb_path p;
    struct timespec room[2];
    bool found = path ? found_name(at, path, 0, true, &p) : found_file(at, true, &p);
    return found ? (int)TB_CALL(p.io, utimens, p.path, of_micros(times, room), 0) : REAL(futimesat)(at, path, times);
}

/* A name with a slash at the end is no new file's: the kernel has the error for it. */
TB_WRAPPER int mknodat(int at, const char *path, mode_t mode, dev_t device)
{
    struct tb_path p;
    if (!tb_path_find(at, path, &p))
        return REAL(mknodat)(at, path, mode, device);
    if (!tb_path_is_directory(path))
        return (int)TB_CALL(p.io, mknod, p.path, mode, device);
    return tb_path_real_of(&at, &path, TB_NAME_MAKE, &p) ? REAL(mknodat)(at, path, mode, device) : -1;
}

/* The directory form does the work, so that both follow one rule. */
TB_WRAPPER int mknod(const char *path, mode_t mode, dev_t device)
{
    return mknodat(AT_FDCWD, path, mode, device);
}
/* A pipe has no bytes in tiers: only its name is the engine's. */
TB_WRAPPER int mkfifoat(int at, const char *path, mode_t mode)
{
    return mknodat(at, path, (mode & ~(mode_t)S_IFMT) | S_IFIFO, 0);
}
TB_WRAPPER int mkfifo(const char *path, mode_t mode)
{
    return mkfifoat(AT_FDCWD, path, mode);
}

/* A call on a descriptor. */
#define CHANGE_OF(name, stays, parameters, libc, op, ...)                                                    \
    TB_WRAPPER int name parameters                                                                           \
    {                                                                                                        \
        struct tb_path p;                                                                                    \
        return found_file(fd, stays, &p) ? (int)TB_CALL(p.io, op, p.path, __VA_ARGS__, 0) : REAL(name) libc; \
    }
CHANGE_OF(fchmod, stays_writable(mode), (int fd, mode_t mode), (fd, mode), chmod, mode)
CHANGE_OF(fchown, true, (int fd, uid_t user, gid_t group), (fd, user, group), chown, user, group)
CHANGE_OF(futimens, true, (int fd, const struct timespec times[2]), (fd, times), utimens, times)
CHANGE_OF(futimes, true, (int fd, const struct timeval times[2]), (fd, times), utimens, of_micros(times, (struct timespec[2]){{0}}))
CHANGE_OF(fsetxattr, true, (int fd, const char *key, const void *value, size_t n, int how), (fd, key, value, n, how), setxattr, key, value,
          n, how)
CHANGE_OF(fremovexattr, true, (int fd, const char *key), (fd, key), removexattr, key)
