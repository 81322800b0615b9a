/*
 * What a file is besides its bytes: owner, permissions, times; and names that are made with
 * no bytes at all (pipes, devices). They are changed by the chain of the name, after the dirty
 * bytes are flushed: a later flush would change the time again, or be refused.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "core/adapter.h"

/* Managed: its dirty bytes first. */
static bool found_and_flushed(int at, const char *path, struct tb_path *p)
{
    bool found = tb_path_find(at, path, p);
    if (found)
        tb_path_flush(p);
    return found;
}

/* A file that its owner may not write any more: who has it open writes on, to the backing file, for no flush could open that. */
static bool stays_writable(mode_t mode)
{
    return mode & S_IWUSR || geteuid() == 0;
}

static bool found_for_mode(int at, const char *path, mode_t mode, struct tb_path *p)
{
    if (stays_writable(mode))
        return found_and_flushed(at, path, p);
    bool found = tb_path_find(at, path, p);
    if (found)
        tb_path_coherent(p);
    return found;
}

TB_WRAPPER int chmod(const char *path, mode_t mode)
{
    struct tb_path p;
    return found_for_mode(AT_FDCWD, path, mode, &p) ? (int)TB_CALL(p.io, chmod, p.path, mode, 0) : REAL(chmod)(path, mode);
}

TB_WRAPPER int fchmodat(int at, const char *path, mode_t mode, int flags)
{
    struct tb_path p;
    return found_for_mode(at, path, mode, &p) ? (int)TB_CALL(p.io, chmod, p.path, mode, flags) : REAL(fchmodat)(at, path, mode, flags);
}

/* A call on a name, by descriptor of its directory or not: the chain's operation where it is managed, else libc's own. */
#define CHANGE(name, at, parameters, libc, op, ...)                                                             \
    TB_WRAPPER int name parameters                                                                              \
    {                                                                                                           \
        struct tb_path p;                                                                                       \
        return found_and_flushed(at, path, &p) ? (int)TB_CALL(p.io, op, p.path, __VA_ARGS__) : REAL(name) libc; \
    }
CHANGE(chown, AT_FDCWD, (const char *path, uid_t user, gid_t group), (path, user, group), chown, user, group, 0)
CHANGE(lchown, AT_FDCWD, (const char *path, uid_t user, gid_t group), (path, user, group), chown, user, group, AT_SYMLINK_NOFOLLOW)
CHANGE(fchownat, at, (int at, const char *path, uid_t user, gid_t group, int flags), (at, path, user, group, flags), chown, user, group,
       flags)

CHANGE(utimensat, at, (int at, const char *path, const struct timespec times[2], int flags), (at, path, times, flags), utimens, times,
       flags)

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

CHANGE(utime, AT_FDCWD, (const char *path, const struct utimbuf *times), (path, times), utimens,
       of_seconds(times, (struct timespec[2]){{0}}), 0)
CHANGE(utimes, AT_FDCWD, (const char *path, const struct timeval times[2]), (path, times), utimens,
       of_micros(times, (struct timespec[2]){{0}}), 0)
CHANGE(lutimes, AT_FDCWD, (const char *path, const struct timeval times[2]), (path, times), utimens,
       of_micros(times, (struct timespec[2]){{0}}), AT_SYMLINK_NOFOLLOW)
CHANGE(futimesat, at, (int at, const char *path, const struct timeval times[2]), (at, path, times), utimens,
       of_micros(times, (struct timespec[2]){{0}}), 0)

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
    int saved = errno;
    if (stays_writable(mode))
        flush_descriptor(fd);
    else
        tb_fd_coherent(fd);
    errno = saved;
    return REAL(fchmod)(fd, mode);
}
