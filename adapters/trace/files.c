/*
 * Descriptors and names as the program uses them: opened, copied, closed, renamed, looked at.
 * Each call goes on as it is; the record follows it and counts only what succeeded, as
 * Darshan's does. The name of a file is the one by which it was opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter.h"

/* The name as seen from the working directory: `out`, of PATH_MAX bytes, or `path`; NULL where it can't be said. */
static const char *name_at(int dirfd, const char *path, char *out)
{
    char link[64];
    if (!path || path[0] == '/' || dirfd == AT_FDCWD)
        return path;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    int saved = errno;
    ssize_t n = REAL(readlink)(link, out, PATH_MAX - 1);
    errno = saved;
    if (n <= 0 || n + strlen(path) + 2 > PATH_MAX)
        return NULL;
    out[n] = '/';
    strcpy(out + n + 1, path);
    return out;
}

/* A number that no name can be said of is forgotten: it may have been another file's before. */
static void opened(int fd, int dirfd, const char *path, mode_t mode, struct tb_trace_time t)
{
    char buf[PATH_MAX];
    const char *name = name_at(dirfd, path, buf);
    if (name)
        tb_trace_open(tb_application(), fd, name, mode, t);
    else
        tb_trace_forget(tb_application(), (unsigned)fd, (unsigned)fd);
}

#define OPEN(call, dirfd, path, mode) TB_TRACED(int, call, result >= 0, opened(result, dirfd, path, mode, t))

TB_WRAPPER int open(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    OPEN(REAL(open)(path, flags, mode), AT_FDCWD, path, mode);
}

TB_WRAPPER int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    OPEN(REAL(open64)(path, flags, mode), AT_FDCWD, path, mode);
}

TB_WRAPPER int openat(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    OPEN(REAL(openat)(dirfd, path, flags, mode), dirfd, path, mode);
}

TB_WRAPPER int openat64(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    OPEN(REAL(openat64)(dirfd, path, flags, mode), dirfd, path, mode);
}

/* What glibc's headers call in programs built with _FORTIFY_SOURCE, where the flags need no mode. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
/* clang-format off: one line each */
TB_WRAPPER int __open_2(const char *path, int flags)
{
    OPEN(REAL(__open_2)(path, flags), AT_FDCWD, path, 0);
}
TB_WRAPPER int __open64_2(const char *path, int flags)
{
    OPEN(REAL(__open64_2)(path, flags), AT_FDCWD, path, 0);
}
TB_WRAPPER int __openat_2(int dirfd, const char *path, int flags)
{
    OPEN(REAL(__openat_2)(dirfd, path, flags), dirfd, path, 0);
}
TB_WRAPPER int __openat64_2(int dirfd, const char *path, int flags)
{
    OPEN(REAL(__openat64_2)(dirfd, path, flags), dirfd, path, 0);
}
TB_WRAPPER int creat(const char *path, mode_t mode)
{
    OPEN(REAL(creat)(path, mode), AT_FDCWD, path, mode);
}
TB_WRAPPER int creat64(const char *path, mode_t mode)
{
    OPEN(REAL(creat64)(path, mode), AT_FDCWD, path, mode);
}
/* These replace the X's of `path`: the record is made after the call and so holds the final name. */
TB_WRAPPER int mkstemp(char *path)
{
    OPEN(REAL(mkstemp)(path), AT_FDCWD, path, 0);
}
TB_WRAPPER int mkstemp64(char *path)
{
    OPEN(REAL(mkstemp64)(path), AT_FDCWD, path, 0);
}
TB_WRAPPER int mkostemp(char *path, int flags)
{
    OPEN(REAL(mkostemp)(path, flags), AT_FDCWD, path, 0);
}
TB_WRAPPER int mkostemp64(char *path, int flags)
{
    OPEN(REAL(mkostemp64)(path, flags), AT_FDCWD, path, 0);
}
TB_WRAPPER int mkstemps(char *path, int suffix)
{
    OPEN(REAL(mkstemps)(path, suffix), AT_FDCWD, path, 0);
}
TB_WRAPPER int mkstemps64(char *path, int suffix)
{
    OPEN(REAL(mkstemps64)(path, suffix), AT_FDCWD, path, 0);
}
TB_WRAPPER int mkostemps(char *path, int suffix, int flags)
{
    OPEN(REAL(mkostemps)(path, suffix, flags), AT_FDCWD, path, 0);
}
TB_WRAPPER int mkostemps64(char *path, int suffix, int flags)
{
    OPEN(REAL(mkostemps64)(path, suffix, flags), AT_FDCWD, path, 0);
}
/* clang-format on */

/* dup2 of a number onto itself succeeds and makes no copy: there is nothing to record. */
#define DUP(call, fd) TB_TRACED(int, call, result >= 0 && result != (fd), tb_trace_dup(tb_application(), fd, result, t))

/* clang-format off: one line each */
TB_WRAPPER int dup(int fd)
{
    DUP(REAL(dup)(fd), fd);
}
TB_WRAPPER int dup2(int fd, int made)
{
    DUP(REAL(dup2)(fd, made), fd);
}
TB_WRAPPER int dup3(int fd, int made, int flags)
{
    DUP(REAL(dup3)(fd, made, flags), fd);
}
/* clang-format on */

/* Other commands of fcntl make no descriptor. */
static bool duplicates(int command)
{
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC;
}

/* The third argument is read whatever the command takes; a command without one ignores it. */
#define FCNTL(name)                                                                                                                      \
    TB_WRAPPER int name(int fd, int command, ...)                                                                                        \
    {                                                                                                                                    \
        va_list args;                                                                                                                    \
        va_start(args, command);                                                                                                         \
        void *arg = va_arg(args, void *);                                                                                                \
        va_end(args);                                                                                                                    \
        TB_TRACED(int, REAL(name)(fd, command, arg), result >= 0 && duplicates(command), tb_trace_dup(tb_application(), fd, result, t)); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

/*
 * Announced before, while the number still means this file; another thread may be given it the
 * moment after.
 */
TB_WRAPPER int close(int fd)
{
    int closing = tb_trace_closing(tb_application(), fd);
    TB_TRACED(int, REAL(close)(fd), closing >= 0, tb_trace_close(tb_application(), closing, t));
}

/* Forgotten first, for the same reason. */
TB_WRAPPER int close_range(unsigned first, unsigned last, int flags)
{
    if (!(flags & CLOSE_RANGE_CLOEXEC))
        tb_trace_forget(tb_application(), first, last);
    return REAL(close_range)(first, last, flags);
}

/* It reports no failure. A number below 0 means all descriptors, as in glibc. */
TB_WRAPPER void closefrom(int first)
{
    tb_trace_forget(tb_application(), first < 0 ? 0 : (unsigned)first, UINT_MAX);
    REAL(closefrom)(first);
}

/* A name that can't be said is no file of a record. */
static void renamed(int from_dir, const char *from, int to_dir, const char *to, struct tb_trace_time t)
{
    char from_buf[PATH_MAX], to_buf[PATH_MAX];
    from = name_at(from_dir, from, from_buf);
    to = name_at(to_dir, to, to_buf);
    if (from && to)
        tb_trace_rename(tb_application(), from, to, t);
}

TB_WRAPPER int rename(const char *from, const char *to)
{
    TB_TRACED(int, REAL(rename)(from, to), result == 0, renamed(AT_FDCWD, from, AT_FDCWD, to, t));
}

TB_WRAPPER int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    TB_TRACED(int, REAL(renameat)(from_dir, from, to_dir, to), result == 0, renamed(from_dir, from, to_dir, to, t));
}

TB_WRAPPER int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    TB_TRACED(int, REAL(renameat2)(from_dir, from, to_dir, to, flags), result == 0, renamed(from_dir, from, to_dir, to, t));
}

static void removed(int dirfd, const char *path, struct tb_trace_time t)
{
    char buf[PATH_MAX];
    const char *name = name_at(dirfd, path, buf);
    if (name)
        tb_trace_remove(tb_application(), name, t);
}

/* unlinkat with AT_REMOVEDIR removes a directory, which is no file of a record. */
#define REMOVE(call, is_file, dirfd, path) TB_TRACED(int, call, result == 0 && (is_file), removed(dirfd, path, t))

/* clang-format off: one line each */
TB_WRAPPER int unlink(const char *path)
{
    REMOVE(REAL(unlink)(path), true, AT_FDCWD, path);
}
TB_WRAPPER int unlinkat(int dirfd, const char *path, int flags)
{
    REMOVE(REAL(unlinkat)(dirfd, path, flags), !(flags & AT_REMOVEDIR), dirfd, path);
}
TB_WRAPPER int remove(const char *path)
{
    REMOVE(REAL(remove)(path), true, AT_FDCWD, path);
}
/* clang-format on */

/* A look by descriptor is counted for the file that it was opened as. */
static void looked(int dirfd, const char *path, int flags, struct tb_trace_time t)
{
    char buf[PATH_MAX];
    const char *name = name_at(dirfd, path, buf);
    if ((flags & AT_EMPTY_PATH) && path && !*path)
        tb_trace_stat(tb_application(), dirfd, NULL, t);
    else if (name)
        tb_trace_stat(tb_application(), -1, name, t);
}

#define STAT(call, dirfd, path, flags) TB_TRACED(int, call, result == 0, looked(dirfd, path, flags, t))
#define FSTAT(call, fd) TB_TRACED(int, call, result == 0, tb_trace_stat(tb_application(), fd, NULL, t))

/* clang-format off: one line each */
TB_WRAPPER int stat(const char *path, struct stat *st)
{
    STAT(REAL(stat)(path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int stat64(const char *path, struct stat64 *st)
{
    STAT(REAL(stat64)(path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int lstat(const char *path, struct stat *st)
{
    STAT(REAL(lstat)(path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int lstat64(const char *path, struct stat64 *st)
{
    STAT(REAL(lstat64)(path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int fstat(int fd, struct stat *st)
{
    FSTAT(REAL(fstat)(fd, st), fd);
}
TB_WRAPPER int fstat64(int fd, struct stat64 *st)
{
    FSTAT(REAL(fstat64)(fd, st), fd);
}
/* clang-format on */
TB_WRAPPER int fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
    STAT(REAL(fstatat)(dirfd, path, st, flags), dirfd, path, flags);
}
TB_WRAPPER int fstatat64(int dirfd, const char *path, struct stat64 *st, int flags)
{
    STAT(REAL(fstatat64)(dirfd, path, st, flags), dirfd, path, flags);
}
TB_WRAPPER int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *x)
{
    STAT(REAL(statx)(dirfd, path, flags, mask, x), dirfd, path, flags);
}

/* What programs built before glibc 2.33 call. */
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstat(int version, int fd, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat64(int version, int fd, struct stat64 *st);
/* clang-format off: one line each */
TB_WRAPPER int __xstat(int v, const char *path, struct stat *st)
{
    STAT(REAL(__xstat)(v, path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int __lxstat(int v, const char *path, struct stat *st)
{
    STAT(REAL(__lxstat)(v, path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int __fxstat(int v, int fd, struct stat *st)
{
    FSTAT(REAL(__fxstat)(v, fd, st), fd);
}
TB_WRAPPER int __xstat64(int v, const char *path, struct stat64 *st)
{
    STAT(REAL(__xstat64)(v, path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int __lxstat64(int v, const char *path, struct stat64 *st)
{
    STAT(REAL(__lxstat64)(v, path, st), AT_FDCWD, path, 0);
}
TB_WRAPPER int __fxstat64(int v, int fd, struct stat64 *st)
{
    FSTAT(REAL(__fxstat64)(v, fd, st), fd);
}
/* clang-format on */
